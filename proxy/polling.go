package proxy

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Polling says for people how a channel is polled: by how many, what this node's part is, who
// keeps it, and how soon news is found. What is not known is left out.
func (c Channel) Polling() (facts []string) {
	add := func(format string, a ...any) { facts = append(facts, fmt.Sprintf(format, a...)) }
	if c.Pollers > 0 {
		budget := ""
		if c.Budget != nil {
			budget = fmt.Sprintf(" (at most %d)", *c.Budget)
		}
		add("%s%s", plural(c.Pollers, "poller", "pollers"), budget)
	}
	if c.Polls {
		own := "polled by this node"
		if c.Rank != nil {
			own = fmt.Sprintf("polled by this node with rank %d", *c.Rank)
		}
		if c.PhaseS != nil {
			own += ", phase " + exact(*c.PhaseS)
		}
		add("%s", own)
	}
	if c.Level != nil {
		add("level %s", strconv.FormatFloat(*c.Level, 'f', -1, 64))
	}
	if c.Owners > 0 {
		add("%s", plural(c.Owners, "owner", "owners"))
	}
	if c.DetectionExpectedS != nil {
		add("expected delay %s", exact(*c.DetectionExpectedS))
	}
	if c.DetectionObservedS != nil {
		add("last delay %s", exact(*c.DetectionObservedS))
	}
	return facts
}

// exact is a number of seconds in two units, that of a poll's turn and of a delay.
func exact(seconds float64) string {
	if !(seconds >= 0 && seconds < math.MaxInt64/float64(time.Second)) {
		return "an unknown time"
	}
	switch d := time.Duration(seconds * float64(time.Second)).Round(time.Second); {
	case seconds < 10:
		return strconv.FormatFloat(math.Round(10*seconds)/10, 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
}
