package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidings/proxy"
)

// A listCommand is "tidings list".
type listCommand struct {
	client `embed:""`
	JSON   bool `name:"json" help:"Print one JSON object."`
}

// Run prints the subscriptions.
func (c *listCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := ask[proxy.Listed](ctx, c.client, "list")
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printRaw(s.out, raw)
	}
	_, err = fmt.Fprint(s.out, listing(answer.Channels, terminalOf(s.out), time.Now()))
	return err
}

// listing is the list of subscriptions for people. What is wrong with one stands
// below it.
func listing(channels []proxy.Channel, t terminal, now time.Time) string {
	if len(channels) == 0 && t.width > 0 {
		return "No subscriptions yet: tidings subscribe URL\n"
	}
	table := table{terminal: t, columns: []column{
		{head: "STATE"},
		{head: "FEED", elastic: 3},
		{head: "ITEMS", right: true},
		{head: "POLLED"},
		{head: "NEXT"},
		{head: "READERS", right: true},
		{head: "ADDRESS", elastic: 4},
	}}
	for _, c := range channels {
		table.row(
			cell{c.State, stateColour(c.State)},
			cell{text: title(c), colour: bold},
			cell{text: strconv.Itoa(c.Items)},
			cell{text: ago(c.LastPoll, now)},
			cell{text: until(c.NextPoll, now)},
			cell{text: strconv.Itoa(c.Subscribers)},
			cell{text: c.URL},
		)
		if c.Error != "" {
			table.note(strings.Join(nonempty(c.Error, since(c.Since, now)), ", "), stateColour(c.State))
		}
		if c.Do != "" {
			table.note("→ "+c.Do, faint)
		}
		if facts := publishing(c, now); facts != "" {
			table.note(facts, faint)
		}
		if c.KeyChange != "" {
			table.note(c.KeyChange+" ("+ago(c.PublisherSince, now)+")", keyColour(c))
		}
		if facts := polling(c); facts != "" {
			table.note(facts, faint)
		}
		if c.Moved != "" {
			table.note("its origin says that it is now at "+c.Moved, faint)
		}
	}
	return table.String()
}

// publishing says who publishes a channel.
func publishing(c proxy.Channel, now time.Time) string {
	if c.Publisher == "" {
		return ""
	}
	facts := nonempty("published by "+c.Publisher, since(c.PublisherSince, now))
	if c.Least != "" {
		facts = append(facts, "only items that are signed are shown")
	}
	return strings.Join(facts, " · ")
}

// keyColour is that of the words on a key that was changed: louder if it was taken back.
func keyColour(c proxy.Channel) colour {
	if len(c.Former) > 0 && c.Former[0].Revoked {
		return yellow
	}
	return faint
}

// polling says how a channel is polled, and which rule has set when it is polled next.
func polling(c proxy.Channel) string {
	facts := c.Polling()
	if c.Why != "" && c.NextPoll != nil {
		facts = append(facts, "next poll: "+c.Why)
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
