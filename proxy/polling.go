package proxy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
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

// formatSeconds formats the phase of a poll or a delay in up to two units.
func formatSeconds(seconds float64) string {
	if !(seconds >= 0 && seconds < math.MaxInt64/float64(time.Second)) {
		return "an unknown time"
	}
	switch d := time.Duration(seconds * float64(time.Second)).Round(time.Second); {
	case seconds < 10:
		return strconv.FormatFloat(math.Round(10*seconds)/10, 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second), " 0 s")
	default:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute), " 0 min")
	}
}
