package churn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/lab/mark"
	"tidings/overlay"
	"tidings/sim"
)

// A Way is how a sequencer ends.
type Way string

// Ways are all of them: in good order; so that its connections are seen to close; so that
// nobody hears of it.
var Ways = []Way{Leaves, Closes, Dies}

// The ways.
const (
	Leaves Way = "leaves"
	Closes Way = "closes"
	Dies   Way = "dies"
)

// An Ending is a run in which sequencers end, one in a leaf at a time, until so many keys
// have lost theirs.
type Ending struct {
	Name   string
	Seed   uint64
	Nodes  int
	Way    Way
	Keys   int
	Trials int
}

// An EndingResult is what it has shown: how long keys had no sequencer.
type EndingResult struct {
	Scenario string  `json:"scenario"`
	Nodes    int     `json:"nodes"`
	Seed     uint64  `json:"seed"`
	Way      Way     `json:"way"`
	Trials   int     `json:"trials"`
	Without  int     `json:"without"` // keys that had none after two minutes
	MedianS  float64 `json:"median_s"`
	P99S     float64 `json:"p99_s"`
	MostS    float64 `json:"most_s"`
	// Took are the times in seconds, the shortest first.
	Took []float64 `json:"took_s"`
}

const (
	endingLook  = 100 * time.Millisecond
	endingLimit = 2 * time.Minute
	endingPause = 3 * time.Minute
	// maxEmpty is how many rounds in a row may find no sequencer to end.
	maxEmpty = 3
)

// Run does a run.
func (c Ending) Run(ctx context.Context, progress func(float64)) (EndingResult, error) {
	grow := time.Duration(c.Nodes)*growPause + 2*settle
	r := EndingResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed, Way: c.Way}
	w := newWorld(ctx, c.Seed, grow+settle, func(float64) {})
	w.Grow(c.Nodes, growPause)
	if err := w.pass(grow); err != nil {
		return r, err
	}
	dice := rand.New(rand.NewPCG(c.Seed, 0x5e9))
	keys := w.serve(c.Keys, settle-time.Minute, dice)
	if err := w.pass(settle); err != nil {
		return r, err
	}
	for empty := 0; len(r.Took)+r.Without < c.Trials; {
		before := len(r.Took) + r.Without
		progress(float64(before) / float64(c.Trials))
		if err := c.round(w, keys, dice, &r); err != nil {
			return r, err
		}
		if len(r.Took)+r.Without > before {
			empty = 0
		} else if empty++; empty == maxEmpty {
			return r, fmt.Errorf("end sequencers: none of %d keys had one in %d rounds", len(keys), empty)
		}
	}
	r.Trials = len(r.Took) + r.Without
	slices.Sort(r.Took)
	r.MedianS, r.P99S, r.MostS = quantile(r.Took, 0.5), quantile(r.Took, 0.99), quantile(r.Took, 1)
	return r, nil
}

// round ends the sequencers of some keys, no two of which have a leaf in common, and
// waits until all keys that they led have others. Then those who ended come again.
func (c Ending) round(w *world, keys []overlay.ID, dice *rand.Rand, r *EndingResult) error {
	dice.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keeps := w.keeps(keys)
	var ended []*sim.Peer
	for i := range keys {
		p := keeps[i].leader
		if p == nil || slices.ContainsFunc(ended, func(q *sim.Peer) bool { return near(p, q) }) {
			continue
		}
		ended = append(ended, p)
	}
	var without []overlay.ID
	for i, key := range keys {
		if slices.Contains(ended, keeps[i].leader) {
			without = append(without, key)
		}
	}
	for _, p := range ended {
		w.end(p, c.Way)
	}
	for began := w.Now(); len(without) > 0 && w.Now().Sub(began) < endingLimit; {
		if err := w.pass(endingLook); err != nil {
			return err
		}
		without = slices.DeleteFunc(without, func(key overlay.ID) bool {
			led := slices.ContainsFunc(w.Nearest(key, 2*ownersOf), func(p *sim.Peer) bool {
				v, ok := p.Layers().Owners.View(key)
				return ok && v.Leads && !slices.Contains(ended, p)
			})
			if led {
				r.Took = append(r.Took, w.Now().Sub(began).Seconds())
			}
			return led
		})
	}
	r.Without += len(without)
	for slices.ContainsFunc(ended, (*sim.Peer).Up) {
		if err := w.pass(endingLook); err != nil {
			return err
		}
	}
	for _, p := range ended {
		p.Start()
	}
	return w.pass(endingPause)
}

// near says whether one of two members is in the other's leaf.
func near(p, q *sim.Peer) bool {
	return p.Layers().Overlay.Leaf().Covers(q.OverlayID()) || q.Layers().Overlay.Leaf().Covers(p.OverlayID())
}

// end ends a member. Who leaves hands over first, as a daemon does that is told to stop.
func (w *world) end(p *sim.Peer, way Way) {
	if way != Leaves {
		p.Kill(way == Closes)
		return
	}
	n := p.Layers()
	p.Do(func() { n.Leave(func() {}) })
	w.until(func() bool { return n.Overlay.State() == overlay.Left }, func() { p.Kill(true) })
}

// quantile is the value below which a part of sorted values lies; 0 if there is none.
func quantile(of []float64, part float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return of[min(int(part*float64(len(of))), len(of)-1)]
}

// Of implements Report.
func (r *EndingResult) Of() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *EndingResult) Marks(*Result) []mark.Mark {
	most := 15.0
	if r.Way == Dies {
		most = 45
	}
	return []mark.Mark{
		mark.AtMost("a new sequencer after", "s", r.MostS, most),
		mark.None("keys without one in the end", r.Without),
		mark.Fact("median", "s", r.MedianS),
		mark.Fact("p99", "s", r.P99S),
		mark.Fact("keys that lost theirs", "", float64(r.Trials)),
	}
}
