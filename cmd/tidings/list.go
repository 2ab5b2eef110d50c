package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

// Run prints the subscriptions.
func (c *listCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := ask[proxy.ListResponse](ctx, c.client, "list")
	if err != nil {
		return err
	}
	if c.JSON {
		if raw, err = only(raw, answer.Channels, c.shows); err != nil {
			return err
		}
		return printRaw(s.out, raw)
	}
	if none := c.none(answer.Channels); none != "" {
		_, err = fmt.Fprintln(s.people(), none)
		return err
	}
	_, err = fmt.Fprint(s.out, c.listing(answer.Channels, terminalOf(s.out), time.Now()))
	return err
}

// none says why there is nothing to be listed; "" if there is something.
func (c *listCommand) none(channels []proxy.Channel) string {
	tagged := 0
	for _, of := range channels {
		switch {
		case c.shows(of):
			return ""
		case c.tagged(of):
			tagged++
		}
	}
	switch {
	case len(channels) == 0:
		return "No subscriptions yet: tidings subscribe URL"
	case tagged == 0:
		return fmt.Sprintf("No feeds with the tag %q.", c.Tag)
	}
	return fmt.Sprintf("No problems in %s.", proxy.Plural(tagged, "feed", "feeds"))
}

// shows reports whether a channel is among those that the flags ask for.
func (c *listCommand) shows(of proxy.Channel) bool {
	return c.tagged(of) && (!c.Failing || of.Failing())
}

func (c *listCommand) tagged(of proxy.Channel) bool {
	return c.Tag == "" || slices.ContainsFunc(of.Tags, func(tag string) bool {
		return tag == c.Tag || strings.HasPrefix(tag, c.Tag+"/")
	})
}

// only is the answer of list with only those channels that shows approves. Each channel stays as the node wrote it.
func only(raw []byte, channels []proxy.Channel, shows func(proxy.Channel) bool) ([]byte, error) {
	var answer struct {
		Channels []json.RawMessage `json:"channels"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	i := 0
	answer.Channels = slices.DeleteFunc(answer.Channels, func(json.RawMessage) bool {
		i++
		return !shows(channels[i-1])
	})
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(answer)
	return b.Bytes(), err
}

// listing is the list of subscriptions for people: one line for each, and with --verbose details below it.
func (c *listCommand) listing(channels []proxy.Channel, t terminal, now time.Time) string {
	table := table{terminal: t, columns: []column{
		{head: "STATE"},
		{head: "FEED", elastic: 3},
		{head: "ITEMS", right: true},
		{head: "LAST NEW"},
		{head: "ADDRESS", elastic: 4},
	}}
	tagged, failing := 0, 0
	for _, of := range channels {
		if c.tagged(of) {
			tagged++
			if of.Failing() {
				failing++
			}
		}
		if !c.shows(of) {
			continue
		}
		table.row(
			cell{of.State, stateColour(of.State)},
			cell{text: title(of), colour: bold},
			cell{text: strconv.Itoa(of.Items)},
			cell{text: ago(of.Newest, now)},
			cell{text: of.URL},
		)
		if c.Verbose {
			details(&table, of, now)
		}
	}
	if t.width > 0 && failing > 0 && !(c.Failing && c.Verbose) {
		return fmt.Sprintf("%s%s, %d with problems: tidings list --failing -v\n", table.String(), proxy.Plural(tagged, "feed", "feeds"), failing)
	}
	return table.String()
}

// details adds what is known of a channel below its line.
func details(table *table, c proxy.Channel, now time.Time) {
	if c.Error != "" {
		table.note(strings.Join(nonempty(c.Error, since(c.Since, now)), ", "), stateColour(c.State))
	}
	if c.Do != "" {
		table.note("→ "+c.Do, faint)
	}
	if len(c.Tags) > 0 {
		table.note("tags: "+strings.Join(c.Tags, ", "), faint)
	}
	if c.Moved != "" {
		table.note("the web server says that the feed is now at "+c.Moved, faint)
	}
	if facts := publishing(c, now); facts != "" {
		table.note(facts, faint)
	}
	if c.KeyChange != "" {
		table.note(c.KeyChange+" ("+ago(c.PublisherSince, now)+")", keyColour(c))
	}
	table.note(polling(c, now), faint)
	table.note("address for readers: "+c.ReadURL, faint)
}

// publishing says who publishes a channel.
func publishing(c proxy.Channel, now time.Time) string {
	var facts []string
	if c.Publisher != "" {
		facts = nonempty("signed by "+c.Publisher, since(c.PublisherSince, now))
	}
	if c.MinProvenance != "" {
		facts = append(facts, "shows only items that the publisher has signed (--least any shows all)")
	}
	return strings.Join(facts, " · ")
}

// keyColour is that of the words on a key that was changed: louder if it was taken back.
func keyColour(c proxy.Channel) colour {
	if len(c.FormerKeys) > 0 && c.FormerKeys[0].Revoked {
		return yellow
	}
	return faint
}

// polling says how many read a channel, when it is polled, and which rule has set when it is polled next.
func polling(c proxy.Channel, now time.Time) string {
	facts := []string{proxy.Plural(c.Subscribers, "reader", "readers")}
	if c.LastPoll != nil {
		facts = append(facts, "polled "+ago(c.LastPoll, now))
	}
	if c.NextPoll != nil {
		facts = append(facts, strings.Join(nonempty("next poll "+until(c.NextPoll, now), c.Why), ": "))
	}
	return strings.Join(append(facts, c.PollingFacts()...), " · ")
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
