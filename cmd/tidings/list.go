package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/proxy"
)

// A listCommand is "tidings list".
type listCommand struct {
	client  `embed:""`
	Verbose bool   `short:"v" help:"Show all that is known of each feed."`
	Failing bool   `help:"Show only feeds with problems."`
	Tag     string `placeholder:"NAME" help:"Show only feeds with this tag, or with one below it: News/Local is below News."`
	Filter  string `placeholder:"TEXT" help:"Show only feeds whose address, title or tags contain this text, in capital or small letters."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

// listPart is how many subscriptions are asked for at a time.
const listPart = 1000

// Run prints the subscriptions.
func (c *listCommand) Run(ctx context.Context, s streams) error {
	if c.JSON {
		all, err := listed(ctx, c, func(c *rawChannel) *proxy.Channel { return &c.Channel })
		if err != nil {
			return err
		}
		shown := []json.RawMessage{}
		for i := range all {
			if c.shows(&all[i].Channel) {
				shown = append(shown, all[i].raw)
			}
		}
		return printJSON(s.out, map[string]any{"channels": shown})
	}
	channels, err := listed(ctx, c, func(c *proxy.Channel) *proxy.Channel { return c })
	if err != nil {
		return err
	}
	if none := c.emptyMessage(channels); none != "" {
		_, err := fmt.Fprintln(s.notes(), none)
		return err
	}
	_, err = fmt.Fprint(s.out, c.listTable(channels, terminalOf(s.out), time.Now()))
	return err
}

// listed returns all subscriptions that contain the text of the filter, in the order of their titles.
func listed[T any](ctx context.Context, c *listCommand, channelOf func(*T) *proxy.Channel) (all []T, err error) {
	if err = eachListPart(ctx, c.client, c.Filter, func(part []T) { all = append(all, part...) }); err != nil {
		return nil, err
	}
	proxy.SortByTitle(all, channelOf)
	return all, nil
}

// A rawChannel is a channel, and how the node sent it.
type rawChannel struct {
	proxy.Channel
	raw json.RawMessage
}

// UnmarshalJSON reads a channel.
func (c *rawChannel) UnmarshalJSON(b []byte) error {
	c.raw = bytes.Clone(b)
	return json.Unmarshal(b, &c.Channel)
}

// eachListPart calls each with the subscriptions that contain a text, part by part, as a type that holds what is needed of them. A
// node of an earlier version sends all at once.
func eachListPart[T any](ctx context.Context, c client, filter string, each func([]T)) error {
	q := url.Values{"limit": {strconv.Itoa(listPart)}}
	if filter != "" {
		q.Set("filter", filter)
	}
	for {
		_, part, err := getAnswer[struct {
			Channels []T    `json:"channels"`
			Next     string `json:"next"`
		}](ctx, c, "list?"+q.Encode())
		if err != nil {
			return err
		}
		if each(part.Channels); part.Next == "" {
			return nil
		}
		q.Set("from", part.Next)
	}
}

// emptyMessage says why the list is empty, or returns "" if it is not.
func (c *listCommand) emptyMessage(channels []proxy.Channel) string {
	tagged := 0
	for i := range channels {
		switch channel := &channels[i]; {
		case c.shows(channel):
			return ""
		case c.tagged(channel):
			tagged++
		}
	}
	switch {
	case len(channels) == 0 && c.Filter != "":
		return fmt.Sprintf("No feeds that contain %q.", c.Filter)
	case len(channels) == 0:
		return "No subscriptions yet: tidings subscribe URL"
	case tagged == 0:
		return fmt.Sprintf("No feeds with the tag %q.", c.Tag)
	}
	return fmt.Sprintf("No problems in %s.", proxy.Plural(tagged, "feed", "feeds"))
}

// shows reports whether the flags select a channel.
func (c *listCommand) shows(channel *proxy.Channel) bool {
	return c.tagged(channel) && (!c.Failing || channel.Failing())
}

func (c *listCommand) tagged(channel *proxy.Channel) bool {
	return c.Tag == "" || slices.ContainsFunc(channel.Tags, func(tag string) bool {
		return tag == c.Tag || strings.HasPrefix(tag, c.Tag+"/")
	})
}

// listTable formats the subscriptions for people: one line for each, with details below it if --verbose is given.
func (c *listCommand) listTable(channels []proxy.Channel, t terminal, now time.Time) string {
	table := table{terminal: t, columns: []column{
		{head: "STATE"},
		{head: "FEED", elastic: 3},
		{head: "ITEMS", right: true},
		{head: "LAST NEW"},
		{head: "ADDRESS", elastic: 4},
	}}
	tagged, failing := 0, 0
	for i := range channels {
		channel := &channels[i]
		if c.tagged(channel) {
			tagged++
			if channel.Failing() {
				failing++
			}
		}
		if !c.shows(channel) {
			continue
		}
		table.row(
			cell{channel.State, stateColour(channel.State)},
			cell{text: title(*channel), colour: bold},
			cell{text: strconv.Itoa(channel.Items)},
			cell{text: ago(channel.Newest, now)},
			cell{text: channel.URL},
		)
		if c.Verbose {
			addDetails(&table, *channel, now)
		}
	}
	if t.width > 0 && failing > 0 && !(c.Failing && c.Verbose) {
		return fmt.Sprintf("%s%s, %d with problems: tidings list --failing -v\n", table.String(), proxy.Plural(tagged, "feed", "feeds"), failing)
	}
	return table.String()
}

// addDetails adds the details of a channel below its line.
func addDetails(table *table, c proxy.Channel, now time.Time) {
	if c.Error != "" {
		table.note(strings.Join(nonempty(c.Error, since(c.Since, now)), ", "), stateColour(c.State))
	}
	if c.Do != "" {
		table.note("→ "+c.Do, faint)
	}
	if c.Private {
		table.note("private: no other node learns its address", faint)
	}
	if c.Quiet {
		table.note("quiet: no member knows both this node and the feed", faint)
	}
	if len(c.Tags) > 0 {
		table.note("tags: "+strings.Join(c.Tags, ", "), faint)
	}
	if c.Moved != "" {
		table.note("the web server says that the feed is now at "+c.Moved, faint)
	}
	if facts := publishingFacts(c, now); facts != "" {
		table.note(facts, faint)
	}
	if c.KeyChange != "" {
		table.note(c.KeyChange+" ("+ago(c.PublisherSince, now)+")", keyChangeColour(c))
	}
	table.note(pollingFacts(c, now), faint)
	if c.HubFault != "" {
		table.note("polled, because its hub is not relied on: "+c.HubFault, faint)
	}
	table.note("address for readers: "+c.ReadURL, faint)
}

// publishingFacts describes the publisher of a channel.
func publishingFacts(c proxy.Channel, now time.Time) string {
	var facts []string
	if c.Publisher != "" {
		facts = nonempty("signed by "+c.Publisher, since(c.PublisherSince, now))
	}
	if what := minProvenanceText(c.MinProvenance); what != "" {
		facts = append(facts, "shows only items that "+what+" (--least any shows all)")
	}
	if c.Waiting > 0 {
		facts = append(facts, proxy.Plural(c.Waiting, "item waits", "items wait")+" for witnesses")
	}
	return strings.Join(facts, " · ")
}

// keyChangeColour returns the colour of the text about a changed key. A revoked key stands out.
func keyChangeColour(c proxy.Channel) colour {
	if len(c.FormerKeys) > 0 && c.FormerKeys[0].Revoked {
		return yellow
	}
	return faint
}

// pollingFacts describes the readers of a channel, its last and next poll, and the rule that set the next poll.
func pollingFacts(c proxy.Channel, now time.Time) string {
	facts := []string{proxy.Plural(c.Subscribers, "reader", "readers")}
	if c.LastPoll != nil {
		facts = append(facts, "polled "+ago(c.LastPoll, now))
	}
	if c.NextPoll != nil {
		facts = append(facts, strings.Join(nonempty("next poll "+until(c.NextPoll, now), c.Why), ": "))
	}
	for _, fact := range c.PollingFacts() {
		facts = append(facts, fact.String())
	}
	return strings.Join(facts, " · ")
}

func title(c proxy.Channel) string {
	if strings.TrimSpace(c.Title) == "" {
		return "(untitled)"
	}
	return c.Title
}

func stateColour(state string) colour {
	switch state {
	case proxy.StateOK:
		return green
	case proxy.StateNew:
		return faint
	}
	return yellow
}

func nonempty(words ...string) []string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}
