package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"tidings/proxy"
)

// A watchCommand is "tidings watch".
type watchCommand struct {
	client `embed:""`
	Format string   `enum:"atom,rss,json" default:"atom" help:"Format of the feed: atom, rss or json (${default})."`
	Query  []string `arg:"" help:"Search query, such as (solar AND battery) NOT advert, \"two words\", solar*, title:solar, feed:URL, site:example.org, lang:de. Put a query that begins with - behind --."`
}

// Run watches, and prints the address to give to a reader. What else there is to say goes to standard error if
// standard output is no terminal: the address may go into a file.
func (c *watchCommand) Run(ctx context.Context, s streams) error {
	answer, err := c.say(ctx, "watch", strings.Join(c.Query, " "))
	if err != nil {
		return err
	}
	for _, w := range answer.Watches {
		if _, err = fmt.Fprintln(s.out, inFormat(w.ReadURL, c.Format)); err != nil {
			return err
		}
	}
	for _, of := range cautions(answer) {
		if _, err := fmt.Fprintln(s.err, "tidings: "+of); err != nil {
			return err
		}
	}
	said := fmt.Sprintf("The feed has the newest %d matching articles of %s. Anybody who knows its address can read it.\n", answer.MaxArticles, answer.Scope)
	if t := answer.Preview; t != nil && !answer.ScopeEmpty {
		said += fmt.Sprintf("Recently, %s.\n", t.Summary)
	}
	_, err = fmt.Fprint(s.people(), said)
	return err
}

// inFormat returns the address of a search's feed in a format. The node gives the address of the Atom feed.
func inFormat(address, format string) string { return strings.TrimSuffix(address, "atom") + format }

// cautions are what who watches should know.
func cautions(answer proxy.WatchResponse) (of []string) {
	if t := answer.Preview; t != nil {
		of = append(of, t.Hints...)
		if t.Warning != "" {
			of = append(of, t.Warning)
		}
	}
	return append(of, shortcomings(answer)...)
}

// shortcomings are why keyword subscriptions have less than they should.
func shortcomings(answer proxy.WatchResponse) (of []string) {
	if answer.ScopeEmpty {
		of = append(of, "nothing can match yet, because this node has no subscriptions: tidings subscribe URL")
	}
	if answer.Shortage != "" {
		of = append(of, "for now, "+answer.Shortage)
	}
	return of
}

// An unwatchCommand is "tidings unwatch".
type unwatchCommand struct {
	client `embed:""`
	Query  []string `arg:"" help:"Query as \"tidings watches\" shows it, or the address of its feed."`
}

// Run ends a keyword subscription, and says so.
func (c *unwatchCommand) Run(ctx context.Context, s streams) error {
	answer, err := c.say(ctx, "unwatch", strings.Join(c.Query, " "))
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

// say tells the node something about a query.
func (c client) say(ctx context.Context, what, query string) (proxy.WatchResponse, error) {
	body, err := json.Marshal(proxy.Watch{Query: query})
	if err != nil {
		return proxy.WatchResponse{}, err
	}
	raw, err := c.post(ctx, what, "application/json", body)
	if err != nil {
		return proxy.WatchResponse{}, err
	}
	return read[proxy.WatchResponse](c, raw)
}

// A watchesCommand is "tidings watches".
type watchesCommand struct {
	client `embed:""`
	Format string `enum:"atom,rss,json" default:"atom" help:"Format of the feeds at the addresses: atom, rss or json (${default}). Not for --json."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run prints the keyword subscriptions.
func (c *watchesCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := ask[proxy.WatchResponse](ctx, c.client, "watches")
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printRaw(s.out, raw)
	}
	if len(answer.Watches) == 0 {
		_, err = fmt.Fprintln(s.people(), "No searches yet: tidings watch 'QUERY'")
	} else {
		_, err = fmt.Fprint(s.out, watching(answer, c.Format, terminalOf(s.out), time.Now()))
	}
	if err != nil {
		return err
	}
	for _, of := range shortcomings(answer) {
		if _, err := fmt.Fprintln(s.err, "tidings: "+of); err != nil {
			return err
		}
	}
	return nil
}

// watching is the list of keyword subscriptions for people, with the addresses of their feeds in a format.
func watching(answer proxy.WatchResponse, format string, t terminal, now time.Time) string {
	table := table{terminal: t, columns: []column{{head: "QUERY", elastic: 3}, {head: "SINCE"}, {head: "ADDRESS"}}}
	for _, w := range answer.Watches {
		table.row(cell{oneLine(w.Query), bold}, cell{text: ago(&w.Since, now)}, cell{text: inFormat(w.ReadURL, format)})
	}
	return table.String()
}
