package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/proxy"
)

// A candidatesCommand is "tidings candidates".
type candidatesCommand struct {
	List    candidatesListCommand    `cmd:"" help:"List the feeds, the best first."`
	Dismiss candidatesDismissCommand `cmd:"" help:"Let feeds not be proposed any more."`
}

// A candidatesListCommand is "tidings candidates list".
type candidatesListCommand struct {
	client `embed:""`
	Least  int  `placeholder:"N" help:"Only feeds to whose hosts at least so many other sites link."`
	Limit  int  `default:"1000" placeholder:"N" help:"At most so many feeds, up to 10000 (${default})."`
	OPML   bool `name:"opml" xor:"form" help:"Print OPML."`
	JSON   bool `name:"json" xor:"form" help:"Print one JSON object."`
}

// Run prints the candidates.
func (c *candidatesListCommand) Run(ctx context.Context, s streams) error {
	q := url.Values{"least": {strconv.Itoa(c.Least)}, "limit": {strconv.Itoa(c.Limit)}}
	raw, answer, err := getAnswer[proxy.CandidatesResponse](ctx, c.client, "candidates?"+q.Encode())
	switch {
	case err != nil || c.JSON:
		return printAnswer(s, raw, err)
	case c.OPML:
		var outlines []feed.Outline
		for _, f := range answer.Candidates {
			title := cmp.Or(oneLine(f.Title), f.URL)
			outlines = append(outlines, feed.Outline{Text: title, Title: title, Type: "rss", XMLURL: f.URL})
		}
		_, err = s.out.Write(feed.AppendOPML(nil, "Candidates", outlines))
		return err
	case len(answer.Candidates) == 0:
		_, err = fmt.Fprintln(s.notes(), noCandidates(answer.Discovery))
		return err
	}
	var b strings.Builder
	for _, f := range answer.Candidates {
		fmt.Fprintf(&b, "# %s\n%s\n", candidateText(f), f.URL)
	}
	_, err = fmt.Fprint(s.out, b.String())
	return err
}

// candidateText describes a candidate in one line.
func candidateText(f proxy.Candidate) string {
	kind := cmp.Or(f.Format, "not read yet")
	return fmt.Sprintf("%s (%s): %s of %s link to its host, since %s, last %s", cmp.Or(oneLine(f.Title), "(untitled)"), kind,
		proxy.Plural(int(f.Times), "article", "articles"), proxy.Plural(f.Sites, "other site", "other sites"), f.First.UTC().Format(time.DateOnly), f.Last.UTC().Format(time.DateOnly))
}

// noCandidates says why there is nothing to list.
func noCandidates(d proxy.Discovery) string {
	switch {
	case d.Budget == 0 && d.Candidates == 0:
		return "This crawler does not look for feeds: start it with --discover N."
	case d.Candidates > 0:
		return fmt.Sprintf("So many sites link to none of the %s.", proxy.Plural(d.Candidates, "candidate", "candidates"))
	}
	return fmt.Sprintf("No candidates yet. Articles have named %s, which the crawler looks at with at most %d requests an hour.", proxy.Plural(d.Hosts, "host", "hosts"), d.Budget)
}

// A candidatesDismissCommand is "tidings candidates dismiss".
type candidatesDismissCommand struct {
	client `embed:""`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds, as \"tidings candidates list\" shows them."`
}

// Run dismisses candidates.
func (c *candidatesDismissCommand) Run(ctx context.Context, s streams) error {
	return forEachAddress("dismiss", c.URLs, oneLine, func(address string) error {
		_, err := call[proxy.CandidatesResponse](ctx, c.client, "candidates/dismiss", proxy.AddressRequest{URL: address})
		if err == nil {
			_, err = fmt.Fprintln(s.out, address)
		}
		return err
	})
}
