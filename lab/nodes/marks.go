package nodes

import (
	"math"
	"time"

	"tidings/lab/mark"
)

// Default lists the runs in the docs, over one transport: many nodes join, a third of them dies,
// and a feed loses its sequencer. The last one runs over QUIC and over TCP separately.
func Default(nodes, killed int, transport string, pause, rest time.Duration) []Scenario {
	base := Scenario{Transport: transport, Nodes: nodes, Pause: pause}
	with := func(phase string, change func(*Scenario)) Scenario {
		c := base
		c.Phase = phase
		change(&c)
		return c
	}
	runs := []Scenario{with(Join, func(c *Scenario) { c.Rest = rest })}
	for _, phase := range []string{Silent, Closed} {
		runs = append(runs, with(phase, func(c *Scenario) { c.Killed = killed }))
	}
	for _, t := range []string{QUIC, TCP} {
		if transport == t || transport == Both {
			runs = append(runs, with(Sequencer, func(c *Scenario) { c.Transport, c.Nodes, c.Killed = t, sequencerNodes, sequencerEnds }))
		}
	}
	return runs
}

// sequencerEnds is how often a feed's sequencer ends in each mode, in a network of sequencerNodes;
// at the end there are still more nodes than a key has owners.
const sequencerEnds, sequencerNodes = 3, 15

// Judge returns the figures of a run that have a target.
func Judge(r Result) (of []mark.Mark) {
	switch r.Phase {
	case Join:
		of = append(of, mark.AtMost("tables right after the last start", "s", r.RightS, 20))
		for _, c := range []struct {
			what string
			cost *Cost
		}{{"joined", r.Busy}, {"rested", r.Idle}} {
			if c.cost == nil {
				continue
			}
			resident := mark.AtMost("resident memory per node, "+c.what, "MB", float64(c.cost.RSSBytes)/1e6, 12)
			if c.cost.RSSBytes == 0 {
				resident = resident.Skipped("not available on this system")
			}
			of = append(of, resident)
		}
	case Silent, Closed:
		of = append(of, mark.AtMost("tables right after the death", "s", r.RightS, 60))
	case Sequencer:
		for _, way := range []string{Leave, Closed, Silent} {
			most := 15.0
			if way == Silent || way == Closed && r.Transport == QUIC { // with QUIC the kernel closes nothing
				most = 45
			}
			longest := math.NaN()
			for _, e := range r.SequencerExits {
				if e.Mode == way && !(longest > e.SequencerS) {
					longest = e.SequencerS
				}
			}
			of = append(of, mark.AtMost("new sequencer, mode "+way, "s", longest, most))
		}
	}
	return mark.ForRun(r.Phase+", "+r.Transport, of...)
}
