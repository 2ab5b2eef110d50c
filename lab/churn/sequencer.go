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

// An ExitMode is how a sequencer ends.
type ExitMode string

// ExitModes are all modes: leaving in good order; with a hint, because its connections close;
// silently.
var ExitModes = []ExitMode{Leaves, Closes, Dies}

// The modes.
const (
	Leaves ExitMode = "leaves"
	Closes ExitMode = "closes"
	Dies   ExitMode = "dies"
)

// A SequencerExit is a run in which sequencers end, at most one per leaf at a time, until Trials
// keys have lost theirs.
type SequencerExit struct {
	Name   string
	Seed   uint64
	Nodes  int
	Mode   ExitMode
	Keys   int
	Trials int
}

// A SequencerExitResult says how long keys had no sequencer.
type SequencerExitResult struct {
	Scenario         string   `json:"scenario"`
	Nodes            int      `json:"nodes"`
	Seed             uint64   `json:"seed"`
	Mode             ExitMode `json:"way"`
	Trials           int      `json:"trials"`
	WithoutSequencer int      `json:"without"` // keys that had none after two minutes
	MedianS          float64  `json:"median_s"`
	P99S             float64  `json:"p99_s"`
	MaxS             float64  `json:"most_s"`
	// Took has the times in seconds, sorted.
	Took []float64 `json:"took_s"`
}

const (
	exitPollInterval = 100 * time.Millisecond
	exitTimeout      = 2 * time.Minute
	exitPause        = 3 * time.Minute
	// maxEmptyRounds is how many rounds in a row may find no sequencer to end.
	maxEmptyRounds = 3
)

// Run makes the run.
func (c SequencerExit) Run(ctx context.Context, progress func(float64)) (SequencerExitResult, error) {
	grow := time.Duration(c.Nodes)*growInterval + 2*settleTime
	r := SequencerExitResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed, Mode: c.Mode}
	w := newWorld(ctx, c.Seed, grow+settleTime, func(float64) {})
	w.Grow(c.Nodes, growInterval)
	if err := w.advance(grow); err != nil {
		return r, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x5e9))
	keys := w.serveFeeds(c.Keys, settleTime-time.Minute, rng)
	if err := w.advance(settleTime); err != nil {
		return r, err
	}
	for empty := 0; len(r.Took)+r.WithoutSequencer < c.Trials; {
		before := len(r.Took) + r.WithoutSequencer
		progress(float64(before) / float64(c.Trials))
		if err := c.round(w, keys, rng, &r); err != nil {
			return r, err
		}
		if len(r.Took)+r.WithoutSequencer > before {
			empty = 0
		} else if empty++; empty == maxEmptyRounds {
			return r, fmt.Errorf("end sequencers: none of %d keys had a sequencer in %d rounds", len(keys), empty)
		}
	}
	r.Trials = len(r.Took) + r.WithoutSequencer
	slices.Sort(r.Took)
	r.MedianS, r.P99S, r.MaxS = quantile(r.Took, 0.5), quantile(r.Took, 0.99), quantile(r.Took, 1)
	return r, nil
}

// round ends the sequencers of some keys, no two of which are in one leaf, and waits until all
// their keys have new ones. Then it restarts them.
func (c SequencerExit) round(w *world, keys []overlay.ID, rng *rand.Rand, r *SequencerExitResult) error {
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	states := w.keyStates(keys)
	var ended []*sim.Peer
	for i := range keys {
		p := states[i].leader
		if p == nil || slices.ContainsFunc(ended, func(q *sim.Peer) bool { return sharesLeaf(p, q) }) {
			continue
		}
		ended = append(ended, p)
	}
	var without []overlay.ID
	for i, key := range keys {
		if slices.Contains(ended, states[i].leader) {
			without = append(without, key)
		}
	}
	for _, p := range ended {
		w.exit(p, c.Mode)
	}
	for began := w.Now(); len(without) > 0 && w.Now().Sub(began) < exitTimeout; {
		if err := w.advance(exitPollInterval); err != nil {
			return err
		}
		without = slices.DeleteFunc(without, func(key overlay.ID) bool {
			led := slices.ContainsFunc(w.Nearest(key, 2*ownersPerKey), func(p *sim.Peer) bool {
				v, ok := p.Layers().Owners.View(key)
				return ok && v.Leads && !slices.Contains(ended, p)
			})
			if led {
				r.Took = append(r.Took, w.Now().Sub(began).Seconds())
			}
			return led
		})
	}
	r.WithoutSequencer += len(without)
	for slices.ContainsFunc(ended, (*sim.Peer).Up) {
		if err := w.advance(exitPollInterval); err != nil {
			return err
		}
	}
	for _, p := range ended {
		p.Start()
	}
	return w.advance(exitPause)
}

// sharesLeaf reports whether one of two members is in the other's leaf.
func sharesLeaf(p, q *sim.Peer) bool {
	return p.Layers().Overlay.Leaf().Covers(q.OverlayID()) || q.Layers().Overlay.Leaf().Covers(p.OverlayID())
}

// exit ends a member. A member that leaves hands over first, as a daemon does when it is stopped.
func (w *world) exit(p *sim.Peer, way ExitMode) {
	if way != Leaves {
		p.Kill(way == Closes)
		return
	}
	n := p.Layers()
	p.Do(func() { n.Leave(func() {}) })
	w.until(func() bool { return n.Overlay.State() == overlay.Left }, func() { p.Kill(true) })
}

// quantile returns a quantile of sorted values; 0 if there are none.
func quantile(of []float64, part float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return of[min(int(part*float64(len(of))), len(of)-1)]
}

// Describe implements Report.
func (r *SequencerExitResult) Describe() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *SequencerExitResult) Marks(*Result) []mark.Mark {
	most := 15.0
	if r.Mode == Dies {
		most = 45
	}
	return []mark.Mark{
		mark.AtMost("a new sequencer after", "s", r.MaxS, most),
		mark.Zero("keys without a sequencer at the end", r.WithoutSequencer),
		mark.Info("median", "s", r.MedianS),
		mark.Info("p99", "s", r.P99S),
		mark.Info("keys that lost their sequencer", "", float64(r.Trials)),
	}
}
