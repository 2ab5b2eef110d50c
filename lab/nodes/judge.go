package nodes

import "time"

// Default lists the runs that the docs name, over some transport: many nodes join, a
// third of them dies, and a feed loses its sequencer. That last one is run over QUIC
// and over TCP by itself.
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

// sequencerEnds is how many sequencers of a feed end in each of the three ways, one
// after the other, of so many nodes: in the end there are still more than a key's owners.
const sequencerEnds, sequencerNodes = 3, 15

// A Mark is a figure beside what was asked for.
type Mark struct {
	What      string
	Got, Most float64
}

// Met says whether the figure is as good as was asked for.
func (m Mark) Met() bool { return m.Got <= m.Most }

// Judge returns the figures of a run that have a target.
func Judge(r Result) (of []Mark) {
	switch r.Phase {
	case Join:
		of = append(of, Mark{"tables right, s after the last start", r.RightS, 20})
		for _, c := range []struct {
			what string
			cost *Cost
		}{{"joined", r.Busy}, {"rested", r.Idle}} {
			if c.cost != nil && c.cost.RSSBytes > 0 {
				of = append(of, Mark{"MB resident a node, " + c.what, float64(c.cost.RSSBytes) / 1e6, 12})
			}
		}
	case Silent, Closed:
		of = append(of, Mark{"tables right, s after the death", r.RightS, 60})
	case Sequencer:
		for _, way := range []string{Leave, Closed, Silent} {
			most := 15.0
			if way == Silent || way == Closed && r.Transport == QUIC { // which has nothing that the kernel would close
				most = 45
			}
			m := Mark{"another sequencer, s, " + way, 0, most}
			for _, e := range r.Ends {
				if e.Way == way {
					m.Got = max(m.Got, e.SequencerS)
				}
			}
			of = append(of, m)
		}
	}
	return of
}
