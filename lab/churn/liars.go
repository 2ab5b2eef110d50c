package churn

import (
	"context"
	"math/rand/v2"
	"time"

	"tidings/lab/mark"
	"tidings/overlay"
	"tidings/sim"
)

// Lying is a run in which some of the members lie, and know one another.
//
// A checked look-up is one by disjoint routes (overlay's Lookup). It is right if it names
// the live member nearest to the key first, and calls what it found plausible. Half of
// the look-ups are routed only, for comparison: those are right if the nearest has
// acknowledged them.
type LiarRun struct {
	Name    string
	Seed    uint64
	Nodes   int
	Every   int // so manieth member lies
	Lies    sim.Lies
	Lookups int
	Length  time.Duration // in which these are made; virtual
}

// A LyingResult is what it has shown. All figures are those of honest members.
type LiarResult struct {
	Scenario           string  `json:"scenario"`
	Nodes              int     `json:"nodes"`
	Liars              int     `json:"liars"` // of these members
	Seed               uint64  `json:"seed"`
	Checked            int     `json:"checked"`
	CheckedWrong       int     `json:"checked_wrong"`  // named another first, and called that plausible
	CheckedImplausible int     `json:"checked_doubts"` // called implausible what they found
	SetsWrong          int     `json:"sets_wrong"`     // did not name all owners, or others
	Routed             int     `json:"routed"`
	RoutedWrong        int     `json:"routed_wrong"` // acknowledged by another
	RoutedLost         int     `json:"routed_lost"`  // not acknowledged
	MsgsPerNodeS       float64 `json:"msgs_per_node_s"`
	BytesPerNodeS      float64 `json:"bytes_per_node_s"`
	LookupMeanS        float64 `json:"lookup_mean_s"` // checked
	LookupMaxS         float64 `json:"lookup_most_s"`
	LeavesWrong        int     `json:"leaves_wrong"` // members whose leaf is not those who live there
	CountsWrong        int     `json:"counts_wrong"` // members whose count of all is off by more than a tenth
}

// Run does a run.
func (c LiarRun) Run(ctx context.Context, progress func(float64)) (LiarResult, error) {
	grow := time.Duration(c.Nodes)*growInterval + 2*settleTime
	w := newWorld(ctx, c.Seed, grow+2*c.Length+2*time.Minute, progress)
	r := LiarResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed}
	l := liarRun{world: w, liars: w.GrowWithLiars(c.Nodes, growInterval, c.Every, c.Lies), rng: rand.New(rand.NewPCG(c.Seed, 0x11a))}
	if err := w.advance(grow); err != nil {
		return r, err
	}

	before := l.controlTraffic() // without look-ups: they are not what keeps the network in order
	if err := w.advance(c.Length); err != nil {
		return r, err
	}
	idle := l.controlTraffic()
	per := c.Length.Seconds() * float64(idle.live)
	r.MsgsPerNodeS, r.BytesPerNodeS = float64(idle.msgs-before.msgs)/per, float64(idle.bytes-before.bytes)/per

	var took time.Duration
	for i := range c.Lookups {
		w.After(time.Duration(l.rng.Int64N(int64(c.Length))), func() {
			if i%2 == 0 {
				r.Routed++
				r.RoutedLost++
				l.route(func(right bool) {
					r.RoutedLost--
					if !right {
						r.RoutedWrong++
					}
				})
				return
			}
			r.Checked++
			r.CheckedImplausible++
			l.check(func(first, all, plausible bool, d time.Duration) {
				took += d
				r.LookupMaxS = max(r.LookupMaxS, d.Seconds())
				switch {
				case plausible && !first:
					r.CheckedWrong++
					fallthrough
				case plausible:
					r.CheckedImplausible--
				}
				if !all {
					r.SetsWrong++
				}
			})
		})
	}
	if err := w.advance(c.Length + 2*time.Minute); err != nil { // two for the last answers
		return r, err
	}
	r.LookupMeanS = took.Seconds() / float64(max(r.Checked, 1))
	r.checkMembers(w.Live(), l.liars)
	return r, nil
}

// lying is such a run under way.
type liarRun struct {
	*world
	liars *sim.Liars
	rng   *rand.Rand
}

// honest returns an honest member by the dice.
func (l *liarRun) randomHonest() *sim.Peer {
	for {
		if p := l.RandomMember(l.rng); !l.liars.Has(p) {
			return p
		}
	}
}

// route routes a message, and tells whether the root has acknowledged it, or somebody else.
func (l *liarRun) route(then func(right bool)) {
	from, key := l.randomHonest(), randomKey(l.rng)
	root := l.Root(key)
	l.world.route(from, key, func(of overlay.Receipt, _ time.Duration) { then(of.Root == root.OverlayID()) })
}

// check makes a checked look-up, and tells whether it has named the nearest first, and all
// owners in their order.
func (l *liarRun) check(then func(first, all, plausible bool, took time.Duration)) {
	from, key := l.randomHonest(), randomKey(l.rng)
	want := l.Nearest(key, ownersPerKey)
	sent := l.Now()
	from.Do(func() {
		from.Layers().Overlay.Lookup(key, ownersPerKey, func(found overlay.Lookup) {
			all := len(found.Nearest) == len(want)
			for i, c := range found.Nearest {
				all = all && c.ID == want[i].OverlayID()
			}
			first := len(found.Nearest) > 0 && found.Nearest[0].ID == want[0].OverlayID()
			then(first, all, found.Plausible, l.Now().Sub(sent))
		})
	})
}

// spending is what the overlays of honest members have sent to keep order.
type controlTraffic struct {
	msgs, bytes uint64
	live        int
}

func (l *liarRun) controlTraffic() (of controlTraffic) {
	for _, p := range l.Live() {
		if !l.liars.Has(p) {
			st := p.Layers().Overlay.Stats()
			of.msgs += st.Sent - st.Carrying
			of.bytes += st.Bytes - st.CarryingBytes
			of.live++
		}
	}
	return of
}

// state looks what honest members know of the network.
func (r *LiarResult) checkMembers(live []*sim.Peer, liars *sim.Liars) {
	for _, p := range live {
		if liars.Has(p) {
			r.Liars++
			continue
		}
		n := p.Layers().Overlay
		there := 0
		for _, q := range live {
			if n.Leaf().Covers(q.OverlayID()) && n.Leaf().Has(q.OverlayID()) != nil {
				there++
			} else if n.Leaf().Covers(q.OverlayID()) {
				there = len(live) // one is missing, and none is too many
			}
		}
		if there != n.Leaf().Len() {
			r.LeavesWrong++
		}
		if d := n.Count(0) - len(live); max(d, -d) > len(live)/10 {
			r.CountsWrong++
		}
	}
}

// Of implements Report.
func (r *LiarResult) Describe() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *LiarResult) Marks(calm *Result) []mark.Mark {
	part := func(n, of int) float64 { return float64(n) / float64(of) }
	marks := []mark.Mark{mark.AtMost("part of checked look-ups not right", "", part(r.CheckedWrong+r.CheckedImplausible, r.Checked), 0.001)}
	marks = append(marks, relativeToCalm(calm, r.Nodes, r.MsgsPerNodeS, r.BytesPerNodeS, 2)...)
	return append(marks,
		mark.Info("part of owner sets not right", "", part(r.SetsWrong, r.Checked)),
		mark.Info("part of routed look-ups not right", "", part(r.RoutedWrong+r.RoutedLost, r.Routed)),
		mark.Info("slowest checked look-up", "s", r.LookupMaxS),
		mark.Info("members with a wrong leaf", "", float64(r.LeavesWrong)),
		mark.Info("members with a wrong count", "", float64(r.CountsWrong)))
}
