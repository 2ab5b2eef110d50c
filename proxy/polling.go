package proxy

import (
	"fmt"
	"math"
	"strings"
	"time"

	"tidings/internal/locale"
)

// PollingFacts describes for people how a channel is polled: by how many nodes, when by this one, how many keep its
// log, and how soon new items are found. Unknown facts are left out.
func (c Channel) PollingFacts() (facts []string) {
	add := func(format string, a ...any) { facts = append(facts, fmt.Sprintf(format, a...)) }
	alone := c.Polls && c.Pollers == 1
	if c.Rank != nil && c.Pollers > 0 && *c.Rank >= c.Pollers { // of an order that is being replaced
		c.Rank, c.PhaseS = nil, nil
	}
	if c.PushedBy != "" {
		add("pushed by %s", c.PushedBy)
	}
	if c.Pollers > 0 && !alone {
		budget := ""
		if c.Budget != nil {
			budget = fmt.Sprintf(" (at most %d)", *c.Budget)
		}
		add("%s%s", Plural(c.Pollers, "node polls it", "nodes poll it"), budget)
	}
	if alone {
		add("only this node polls it")
	} else if c.Polls {
		own, behind := "this node polls it", " into each interval"
		if c.Rank != nil {
			own, behind = fmt.Sprintf("this node is number %d of them", *c.Rank+1), " after the first"
		}
		if c.PhaseS != nil && (c.Rank == nil || *c.Rank > 0) {
			own += ", " + formatSeconds(*c.PhaseS) + behind
		}
		add("%s", own)
	}
	if c.Owners > 0 {
		add("%s", Plural(c.Owners, "node keeps its log", "nodes keep its log"))
	}
	var delays []string
	for _, d := range []struct {
		seconds *float64
		kind    string
	}{{c.DetectionExpectedS, "expected"}, {c.DetectionObservedS, "observed"}} {
		if d.seconds != nil {
			delays = append(delays, formatSeconds(*d.seconds)+" "+d.kind)
		}
	}
	if delays != nil {
		add("average delay of new items: %s", strings.Join(delays, ", "))
	}
	return facts
}

// spanOf returns the phase of a poll or a delay, in seconds, for people: in up to two units.
func spanOf(seconds float64) locale.Text {
	if !(seconds >= 0 && seconds < math.MaxInt64/float64(time.Second)) {
		return locale.Say("an unknown time")
	}
	switch d := time.Duration(seconds * float64(time.Second)).Round(time.Second); {
	case seconds < 10:
		return locale.Say("%v s", math.Round(10*seconds)/10)
	case d < 2*time.Minute:
		return locale.Say("%d s", d/time.Second)
	case d < 2*time.Hour && d%time.Minute == 0:
		return locale.Say("%d min", d/time.Minute)
	case d < 2*time.Hour:
		return locale.Say("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d%time.Hour < time.Minute:
		return locale.Say("%d h", d/time.Hour)
	default:
		return locale.Say("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
}

// formatSeconds is spanOf in English.
func formatSeconds(seconds float64) string { return spanOf(seconds).String() }
