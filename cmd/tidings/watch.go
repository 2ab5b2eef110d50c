package main

import (
	"context"
	"fmt"
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
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run prints the searches.
func (c *watchesCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := getAnswer[proxy.WatchResponse](ctx, c.client, "watches")
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printRaw(s.out, raw)
	}
	if len(answer.Watches) == 0 {
		_, err = fmt.Fprintln(s.notes(), "No searches yet: tidings watch 'QUERY'")
	} else {
		_, err = fmt.Fprint(s.out, watchesTable(answer, c.Format, terminalOf(s.out), time.Now()))
	}
	if err != nil {
		return err
	}
	for _, warning := range coverageWarnings(answer) {
		if _, err := fmt.Fprintln(s.err, "tidings: "+warning); err != nil {
			return err
		}
	}
	return nil
}

// watchesTable formats the searches for people, with the addresses of their feeds in a format.
func watchesTable(answer proxy.WatchResponse, format string, t terminal, now time.Time) string {
	table := table{terminal: t, columns: []column{{head: "QUERY", elastic: 3}, {head: "SINCE"}, {head: "ADDRESS"}}}
	for _, w := range answer.Watches {
		table.row(cell{oneLine(w.Query), bold}, cell{text: ago(&w.Since, now)}, cell{text: inFormat(w.ReadURL, format)})
	}
	return table.String()
}
