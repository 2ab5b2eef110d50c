package main

import (
	"context"
	"errors"
	"fmt"

	"tidings/proxy"
)

// A doctorCommand is "tidings doctor".
type doctorCommand struct {
	client `embed:""`
	JSON   bool `name:"json" help:"Print one JSON object."`
}

// Run prints the doctor's findings. It fails if there is a problem, so that a script can monitor a node.
func (c *doctorCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := getAnswer[proxy.DoctorResponse](ctx, c.client, "doctor")
	switch {
	case err != nil:
		return err
	case c.JSON:
		err = printRaw(s.out, raw)
	default:
		_, err = fmt.Fprint(s.out, findingsTable(answer.Findings, terminalOf(s.out)))
	}
	return errors.Join(err, problemsError(answer.Findings))
}

// findingsTable formats findings for people, each with the action to take below it.
func findingsTable(findings []proxy.Finding, t terminal) string {
	table := table{terminal: t, columns: []column{{}, {elastic: 1, wrap: true}}}
	for _, f := range findings {
		table.row(cell{f.Level, levelColour(f.Level)}, cell{text: f.What.String()})
		if len(f.Do) > 0 {
			table.row(cell{}, cell{text: "→ " + f.Do.String(), colour: bold})
		}
	}
	return table.String()
}

// problemLevel is the level of findings that keep a node from working.
const problemLevel = "problem"

func levelColour(level string) colour {
	switch level {
	case "ok":
		return green
	case problemLevel:
		return red
	}
	return yellow
}

// problemsError returns an error if there are problems.
func problemsError(findings []proxy.Finding) error {
	n := 0
	for _, f := range findings {
		if f.Level == problemLevel {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return errors.New(proxy.Plural(n, "problem", "problems") + " found")
}
