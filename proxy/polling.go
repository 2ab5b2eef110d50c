package proxy

import (
	"math"
	"time"

	"tidings/internal/locale"
)

// PollingFacts describes for people how a channel is polled: by how many nodes, when by this one, how many keep its
// log, and how soon new items are found. Unknown facts are left out.
func (c Channel) PollingFacts() (facts []locale.Text) {
	add := func(text locale.Text) { facts = append(facts, text) }
	alone := c.Polls && c.Pollers == 1
	if c.Rank != nil && c.Pollers > 0 && *c.Rank >= c.Pollers { // of an order that is being replaced
		c.Rank, c.PhaseS = nil, nil
	}
	if c.PushedBy != "" {
		add(locale.Say("pushed by %s", c.PushedBy))
	}
	switch {
	case c.Pollers == 0 || alone:
	case c.Budget != nil:
		add(locale.Say("%d nodes poll it (at most %d)", c.Pollers, *c.Budget))
	default:
		add(locale.Say("%d nodes poll it", c.Pollers))
	}
	switch {
	case alone:
		add(locale.Say("only this node polls it"))
	case !c.Polls:
	case c.Rank == nil && c.PhaseS == nil:
		add(locale.Say("this node polls it"))
	case c.Rank == nil:
		add(locale.Say("this node polls it, %s into each interval", spanOf(*c.PhaseS)))
	case c.PhaseS == nil || *c.Rank == 0:
		add(locale.Say("this node is number %d of them", *c.Rank+1))
	default:
		add(locale.Say("this node is number %d of them, %s after the first", *c.Rank+1, spanOf(*c.PhaseS)))
	}
	if c.Owners > 0 {
		add(locale.Say("%d nodes keep its log", c.Owners))
	}
	switch expected, observed := c.DetectionExpectedS, c.DetectionObservedS; {
	case expected != nil && observed != nil:
		add(locale.Say("average delay of new items: %s expected, %s observed", spanOf(*expected), spanOf(*observed)))
	case expected != nil:
		add(locale.Say("average delay of new items: %s expected", spanOf(*expected)))
	case observed != nil:
		add(locale.Say("average delay of new items: %s observed", spanOf(*observed)))
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
