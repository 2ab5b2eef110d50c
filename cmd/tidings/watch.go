package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidings/proxy"
)

// A watchCommand is "tidings watch".
type watchCommand struct {
	client `embed:""`
	Format string   `enum:"atom,rss,json" default:"atom" help:"Format of the feed: atom, rss or json (${default})."`
	Once   bool     `help:"Show a story of several feeds once, as it came first, and list the other feeds below it."`
	Query  []string `arg:"" help:"Search query, such as (solar AND battery) NOT advert, \"two words\", solar*, title:solar, feed:URL, site:example.org, lang:de. Put a query that begins with - behind --."`
}

// Run subscribes to a query, and prints the address to give to a feed reader. Other messages go to standard error
// if standard output is not a terminal, because the address may be redirected to a file.
func (c *watchCommand) Run(ctx context.Context, s streams) error {
	answer, err := call[proxy.WatchResponse](ctx, c.client, "watch", proxy.Watch{Query: strings.Join(c.Query, " "), Once: c.Once})
	if err != nil {
		return err
	}
	for _, w := range answer.Watches {
		if _, err = fmt.Fprintln(s.out, inFormat(w.ReadURL, c.Format)); err != nil {
			return err
		}
	}
	for _, warning := range watchWarnings(answer) {
		if _, err := fmt.Fprintln(s.err, "tidings: "+warning); err != nil {
			return err
		}
	}
	notes := fmt.Sprintf("The feed has the newest %d matching articles of %s. Anybody who knows its address can read it.\n", answer.MaxArticles, answer.Scope)
	if t := answer.Preview; t != nil && !answer.ScopeEmpty {
		notes += fmt.Sprintf("Recently, %s.\n", t.Summary)
	}
	_, err = fmt.Fprint(s.notes(), notes)
	return err
}

// inFormat returns the address of a search's feed in a format. The node returns the address of the Atom feed.
func inFormat(address, format string) string { return strings.TrimSuffix(address, "atom") + format }

// watchWarnings returns warnings about a new search.
func watchWarnings(answer proxy.WatchResponse) (warnings []string) {
	if t := answer.Preview; t != nil {
		warnings = append(warnings, t.Hints...)
		if len(t.Warning) > 0 {
			warnings = append(warnings, t.Warning.String())
		}
	}
	return append(warnings, coverageWarnings(answer)...)
}

// coverageWarnings says why keyword feeds are less complete than they should be.
func coverageWarnings(answer proxy.WatchResponse) (warnings []string) {
	if answer.ScopeEmpty {
		warnings = append(warnings, "nothing can match yet, because this node has no subscriptions: tidings subscribe URL")
	}
	if len(answer.Shortage) > 0 {
		warnings = append(warnings, "for now, "+answer.Shortage.String())
	}
	return warnings
}

// An unwatchCommand is "tidings unwatch".
type unwatchCommand struct {
	client `embed:""`
	Query  []string `arg:"" help:"Query as \"tidings watches\" shows it, or the address of its feed."`
}

// Run ends a search, and confirms it.
func (c *unwatchCommand) Run(ctx context.Context, s streams) error {
	answer, err := call[proxy.WatchResponse](ctx, c.client, "unwatch", proxy.Watch{Query: strings.Join(c.Query, " ")})
	if err != nil {
		return err
	}
	for _, w := range answer.Watches {
		if _, err = fmt.Fprintf(s.out, "The search %s has ended, and the address of its feed is no longer valid.\n", oneLine(w.Query)); err != nil {
			return err
		}
	}
	return nil
}

// A watchesCommand is "tidings watches".
type watchesCommand struct {
	client `embed:""`
	Format string `enum:"atom,rss,json" default:"atom" help:"Format of the feeds at the addresses: atom, rss or json (${default}). Not for --json."`
	Filter string `placeholder:"TEXT" help:"Show only searches that contain this text, in capital or small letters."`
	Limit  int    `placeholder:"N" help:"Show at most this many searches. Default: all."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// maxPageSize bounds the searches that are asked for at a time, as in proxy.
const maxPageSize = 10_000

// Validate is called by kong after parsing the flags.
func (c *watchesCommand) Validate() error {
	if c.Limit < 0 {
		return usagef("--limit %d: give a positive number", c.Limit)
	}
	return nil
}

// Run prints the searches. A long list is printed part by part, as the node sends it.
func (c *watchesCommand) Run(ctx context.Context, s streams) error {
	shown := 0
	var raw []byte // the last answer
	var all []proxy.Watch
	show := func(part []byte, page proxy.WatchResponse) error {
		first := shown == 0
		shown += len(page.Watches)
		switch {
		case c.JSON:
			raw, all = part, append(all, page.Watches...)
			return nil
		case len(page.Watches) == 0:
			return nil
		}
		_, err := fmt.Fprint(s.out, watchesTable(page, c.Format, first, terminalOf(s.out), time.Now()))
		return err
	}
	last, err := c.pages(ctx, show)
	switch {
	case err != nil:
		return err
	case c.JSON && len(all) == len(last.Watches) && last.Next == 0:
		return printRaw(s.out, raw) // as the node sent it
	case c.JSON:
		last.Watches, last.Next = all, 0
		return printJSON(s.out, last)
	case shown == 0 && last.Total > 0:
		_, err = fmt.Fprintf(s.notes(), "None of the %d searches contains %s.\n", last.Total, oneLine(c.Filter))
	case shown == 0:
		_, err = fmt.Fprintln(s.notes(), "No searches yet: tidings watch 'QUERY'")
	case shown < last.Total && c.Filter == "":
		_, err = fmt.Fprintf(s.notes(), "%d of %d searches.\n", shown, last.Total)
	}
	if err != nil {
		return err
	}
	for _, warning := range coverageWarnings(last) {
		if _, err := fmt.Fprintln(s.err, "tidings: "+warning); err != nil {
			return err
		}
	}
	return nil
}

// pages asks for the list part by part, calls each with every part, and returns the last one.
func (c *watchesCommand) pages(ctx context.Context, each func(raw []byte, page proxy.WatchResponse) error) (page proxy.WatchResponse, err error) {
	left := c.Limit
	q := url.Values{}
	if c.Filter != "" {
		q.Set("filter", c.Filter)
	}
	for {
		if q.Del("limit"); c.Limit > 0 && left < maxPageSize {
			q.Set("limit", strconv.Itoa(left))
		}
		path := "watches"
		if len(q) > 0 {
			path += "?" + q.Encode()
		}
		var raw []byte
		if raw, page, err = getAnswer[proxy.WatchResponse](ctx, c.client, path); err != nil {
			return page, err
		}
		if err := each(raw, page); err != nil {
			return page, err
		}
		left -= len(page.Watches)
		if page.Next == 0 || c.Limit > 0 && left <= 0 {
			return page, nil
		}
		q.Set("from", strconv.Itoa(page.Next))
	}
}

// watchesTable formats searches for people, with the addresses of their feeds in a format. first says that they are the
// beginning of a list.
func watchesTable(answer proxy.WatchResponse, format string, first bool, t terminal, now time.Time) string {
	table := table{terminal: t, columns: []column{{head: "QUERY", elastic: 3}, {head: "SINCE"}, {head: "ADDRESS"}}}
	if !first {
		table.columns = []column{{elastic: 3}, {}, {}}
	}
	for _, w := range answer.Watches {
		table.row(cell{oneLine(w.Query), bold}, cell{text: ago(&w.Since, now)}, cell{text: inFormat(w.ReadURL, format)})
		if w.Token != "" {
			table.note("made with the token "+w.Token, faint)
		}
	}
	return table.String()
}
