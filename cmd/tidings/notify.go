package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"tidings/proxy"
)

// A notifyCommand is "tidings notify".
type notifyCommand struct {
	Add    notifyAddCommand    `cmd:"" help:"Add a target, and print its id."`
	List   notifyListCommand   `cmd:"" help:"List targets and their state."`
	Remove notifyRemoveCommand `cmd:"" help:"Remove targets."`
	Test   notifyTestCommand   `cmd:"" help:"Send a message to a target at once."`
	Dead   notifyDeadCommand   `cmd:"" help:"List what a target did not take."`
}

// A notifyAddCommand is "tidings notify add".
type notifyAddCommand struct {
	client     `embed:""`
	Feed       []string      `placeholder:"URL" sep:"none" help:"Tell of new items of a feed or page that the node follows. May be repeated."`
	Watch      []string      `placeholder:"QUERY" sep:"none" help:"Tell of new articles of a search, as \"tidings watches\" shows it. May be repeated."`
	Health     bool          `help:"Tell if a feed cannot be read for a day, is gone or has moved, or if its publisher's key changes."`
	To         string        `required:"" placeholder:"ADDRESS" help:"Where the messages go: https://… for a webhook, or the address of a service, such as ntfy://ntfy.sh/TOPIC, matrix://…, telegram://…, slack://…, discord://…, or smtp://USER:PASSWORD@HOST:587/?from=ADDRESS&to=ADDRESS for e-mail."`
	QuietHours string        `placeholder:"HOURS" help:"Send nothing in these hours of the node's local time, such as 22:00-07:00, and what has come meanwhile afterwards."`
	Digest     string        `placeholder:"WHEN" help:"Collect what comes, and send it daily or weekly, at 8 o'clock of the node's local time. Not for webhooks."`
	Pause      time.Duration `placeholder:"TIME" help:"Shortest time between two messages, such as 1m."`
	JSON       bool          `name:"json" help:"Print one JSON object."`
}

// Validate checks what the node could only say in its own words.
func (c *notifyAddCommand) Validate() error {
	switch {
	case len(c.Feed)+len(c.Watch) == 0 && !c.Health:
		return fmt.Errorf("say what the target is told: --feed URL, --watch QUERY or --health")
	case c.Pause < 0 || c.Pause%time.Second != 0:
		return fmt.Errorf("--pause %v: give whole seconds", c.Pause)
	}
	return nil
}

// Run adds a target. Standard output gets its id alone, and for a webhook its secret on a second line.
func (c *notifyAddCommand) Run(ctx context.Context, s streams) error {
	raw, err := call[json.RawMessage](ctx, c.client, "notify", proxy.NotifyTarget{
		To: c.To, Feeds: c.Feed, Queries: c.Watch, Health: c.Health, QuietHours: c.QuietHours, Digest: c.Digest, PauseS: int64(c.Pause / time.Second),
	})
	if err != nil || c.JSON {
		return printAnswer(s, raw, err)
	}
	answer, err := decode[proxy.NotifyResponse](c.client, raw)
	for _, t := range answer.Targets {
		if err != nil {
			break
		}
		if _, err = fmt.Fprintln(s.out, t.ID); err == nil && t.Secret != "" {
			if _, err = fmt.Fprintln(s.out, t.Secret); err == nil {
				_, err = fmt.Fprint(s.notes(), "The second line is the secret by which the receiver checks the signatures of messages. It is not shown again.\n")
			}
		}
		if err == nil {
			_, err = fmt.Fprintf(s.notes(), "Try it: tidings notify test %s\n", t.ID)
		}
	}
	return err
}

func printAnswer(s streams, raw []byte, err error) error {
	if err != nil {
		return err
	}
	return printRaw(s.out, raw)
}

// A notifyListCommand is "tidings notify list".
type notifyListCommand struct {
	client `embed:""`
	JSON   bool `name:"json" help:"Print one JSON object."`
}

// Run prints the targets.
func (c *notifyListCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := getAnswer[proxy.NotifyResponse](ctx, c.client, "notify")
	switch {
	case err != nil || c.JSON:
		return printAnswer(s, raw, err)
	case len(answer.Targets) == 0:
		_, err = fmt.Fprintln(s.notes(), "No targets yet: tidings notify add --feed URL --to https://…")
		return err
	}
	_, err = fmt.Fprint(s.out, targetsTable(answer.Targets, terminalOf(s.out), time.Now()))
	return err
}

// targetsTable formats targets for people.
func targetsTable(targets []proxy.NotifyTarget, t terminal, now time.Time) string {
	table := table{terminal: t, columns: []column{{head: "ID"}, {head: "TO", elastic: 1}, {head: "SENT", right: true}, {head: "LAST"}, {head: "STATE", wrap: true}}}
	for _, target := range targets {
		state, paint := targetState(target, now)
		table.row(cell{target.ID, bold}, cell{text: target.To}, cell{text: fmt.Sprint(target.Sent)}, cell{text: ago(target.LastSent, now)}, cell{state, paint})
		for _, feed := range target.Feeds {
			table.note("feed: "+feed, faint)
		}
		for _, query := range target.Queries {
			table.note("search: "+query, faint)
		}
		if target.Health {
			table.note("health of all feeds", faint)
		}
		if target.QuietHours != "" {
			table.note("quiet hours: "+target.QuietHours, faint)
		}
		if target.PauseS > 0 {
			table.note("at least "+(time.Duration(target.PauseS)*time.Second).String()+" between two messages", faint)
		}
		if target.Digest != "" {
			table.note(target.Digest+" digest", faint)
		}
		if target.Error != "" {
			table.note(strings.Join(nonempty(target.Error, since(target.Failing, now)), ", "), yellow)
		}
		if target.Dead > 0 {
			table.note("→ tidings notify dead "+target.ID, faint)
		}
	}
	return table.String()
}

// targetState describes in a few words how the deliveries to a target go.
func targetState(t proxy.NotifyTarget, now time.Time) (text string, c colour) {
	var words []string
	switch {
	case t.Ended != nil:
		words = append(words, "ended by the receiver")
	case t.Failing != nil && t.Next != nil:
		words = append(words, "failing, next attempt "+until(t.Next, now))
	case t.Failing != nil:
		words = append(words, "failing")
	}
	if t.Dead > 0 {
		words = append(words, proxy.Plural(t.Dead, "dead letter", "dead letters"))
	}
	if t.Missed {
		words = append(words, "has missed events")
	}
	if words == nil {
		return "ok", green
	}
	return strings.Join(words, ", "), yellow
}

// A notifyRemoveCommand is "tidings notify remove".
type notifyRemoveCommand struct {
	client `embed:""`
	IDs    []string `arg:"" name:"id" help:"Ids of targets, as \"tidings notify list\" shows them."`
}

// Run removes targets.
func (c *notifyRemoveCommand) Run(ctx context.Context, s streams) error {
	return forEachAddress("remove", c.IDs, oneLine, func(id string) error {
		_, err := call[proxy.NotifyResponse](ctx, c.client, "notify/remove", proxy.NotifyTarget{ID: id})
		if err == nil {
			_, err = fmt.Fprintln(s.out, id)
		}
		return err
	})
}

// A notifyTestCommand is "tidings notify test".
type notifyTestCommand struct {
	client `embed:""`
	ID     string `arg:"" name:"id" help:"Id of a target, as \"tidings notify list\" shows it."`
}

// Run sends a message to a target.
func (c *notifyTestCommand) Run(ctx context.Context, s streams) error {
	if _, err := call[proxy.NotifyResponse](ctx, c.client, "notify/test", proxy.NotifyTarget{ID: c.ID}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.out, "The target has taken the message.")
	return err
}

// A notifyDeadCommand is "tidings notify dead".
type notifyDeadCommand struct {
	client `embed:""`
	ID     string `arg:"" name:"id" help:"Id of a target, as \"tidings notify list\" shows it."`
	JSON   bool   `name:"json" help:"Print one JSON object, with the events."`
}

// Run prints what a target did not take.
func (c *notifyDeadCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := getAnswer[proxy.DeadResponse](ctx, c.client, "notify/dead?id="+url.QueryEscape(c.ID))
	switch {
	case err != nil || c.JSON:
		return printAnswer(s, raw, err)
	case len(answer.Dead) == 0:
		_, err = fmt.Fprintln(s.notes(), "The target has taken everything.")
		return err
	}
	table := table{terminal: terminalOf(s.out), columns: []column{{head: "WHEN"}, {head: "WHAT", elastic: 2}, {head: "WHY", elastic: 3}}}
	for _, l := range answer.Dead {
		table.row(cell{text: ago(&l.Time, time.Now())}, cell{text: cmp.Or(l.What(), "(unreadable)")}, cell{text: l.Error})
	}
	_, err = fmt.Fprint(s.out, table.String())
	return err
}
