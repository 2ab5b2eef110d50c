package churn

import (
	"context"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/lab/mark"
	"tidings/overlay"
	"tidings/sim"
)

// LiarRun is a run in which some members lie and collude.
//
// Half of the lookups are checked: they use disjoint routes (overlay's Lookup). A checked lookup is
// right if it names the live member nearest to the key first and calls its result plausible. The
// others are messages that are routed; they are right if the nearest member acknowledges them. If it is
// honest, it must have got them.
type LiarRun struct {
	Name    string
	Seed    uint64
	Nodes   int
	Share   float64 // of the members that lie
	Lies    sim.Lies
	Lookups int
	Length  time.Duration // virtual time in which the lookups are made
}

// A LiarResult is the outcome. All figures are those of honest members.
type LiarResult struct {
	Scenario           string  `json:"scenario"`
	Nodes              int     `json:"nodes"`
	Liars              int     `json:"liars"` // number of liars among the members
	Seed               uint64  `json:"seed"`
	Checked            int     `json:"checked"`
	CheckedWrong       int     `json:"checked_wrong"`  // named another member first, and called the result plausible
	CheckedImplausible int     `json:"checked_doubts"` // called the result implausible
	SetsWrong          int     `json:"sets_wrong"`     // did not name exactly the owners
	Routed             int     `json:"routed"`
	RoutedWrong        int     `json:"routed_wrong"`      // acknowledged by another member
	RoutedLost         int     `json:"routed_lost"`       // not acknowledged
	HonestRoots        int     `json:"honest_roots"`      // routed to keys whose nearest member is honest
	Delivered          int     `json:"delivered"`         // of these, those that reached it
	RoutedMeanS        float64 `json:"routed_mean_s"`     // until the acknowledgement
	MsgsPerRoute       float64 `json:"msgs_per_route"`    // messages that carried or acknowledged them, by honest members
	LookupsPerRoute    float64 `json:"lookups_per_route"` // that checked or replaced a route
	MsgsPerNodeS       float64 `json:"msgs_per_node_s"`
	BytesPerNodeS      float64 `json:"bytes_per_node_s"`
	LookupMeanS        float64 `json:"lookup_mean_s"` // of checked lookups
	LookupMaxS         float64 `json:"lookup_most_s"`
	LeavesWrong        int     `json:"leaves_wrong"` // members whose leaf is not the set of live members in it
	CountsWrong        int     `json:"counts_wrong"` // members whose count of all members is off by more than a tenth
}

// Run makes the run.
func (c LiarRun) Run(ctx context.Context, progress func(float64)) (LiarResult, error) {
	grow := time.Duration(c.Nodes)*growInterval + 2*settleTime
	w := newWorld(ctx, c.Seed, grow+2*c.Length+2*time.Minute, progress)
	r := LiarResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed}
	l := liarRun{world: w, liars: w.GrowWithLiars(c.Nodes, growInterval, c.Share, c.Lies), rng: rand.New(rand.NewPCG(c.Seed, 0x11a))}
	if err := w.advance(grow); err != nil {
		return r, err
	}

	before := l.controlTraffic() // measured without lookups, which are not control traffic
	if err := w.advance(c.Length); err != nil {
		return r, err
	}
	idle := l.controlTraffic()
	per := c.Length.Seconds() * float64(idle.live)
	r.MsgsPerNodeS, r.BytesPerNodeS = float64(idle.msgs-before.msgs)/per, float64(idle.bytes-before.bytes)/per

	got := map[overlay.ID]map[overlay.ID]bool{}
	for _, p := range w.Live() {
		if !l.liars.Has(p) {
			p.Layers().Overlay.Handle(lookupLayer, sink{p.OverlayID(), got})
		}
	}
	var took, routed time.Duration
	for i := range c.Lookups {
		w.After(time.Duration(l.rng.Int64N(int64(c.Length))), func() {
			if i%2 == 0 {
				r.Routed++
				r.RoutedLost++
				l.route(got, &r, func(d time.Duration) { routed += d })
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
	if err := w.advance(c.Length + 2*time.Minute); err != nil { // two more minutes for the last acknowledgements
		return r, err
	}
	r.LookupMeanS = took.Seconds() / float64(max(r.Checked, 1))
	r.RoutedMeanS = routed.Seconds() / float64(max(r.Routed-r.RoutedLost, 1))
	end := l.controlTraffic()
	r.MsgsPerRoute, r.LookupsPerRoute = float64(end.carrying-idle.carrying)/float64(r.Routed), float64(end.lookups-idle.lookups)/float64(r.Routed)
	r.checkMembers(w.Live(), l.liars)
	return r, nil
}

// A liarRun is a LiarRun in progress.
type liarRun struct {
	*world
	liars *sim.Liars
	rng   *rand.Rand
}

// randomHonest returns a random honest member.
func (l *liarRun) randomHonest() *sim.Peer {
	for {
		if p := l.RandomMember(l.rng); !l.liars.Has(p) {
			return p
		}
	}
}

// A sink receives routed messages at a member.
type sink struct {
	id  overlay.ID
	got map[overlay.ID]map[overlay.ID]bool // by key: the members that it has reached
}

func (sink) Forward(*overlay.Message) bool { return false }
func (sink) PeerGone(env.PeerID)           {}
func (sink) LeafChanged()                  {}

func (k sink) Deliver(m *overlay.Message) {
	if at := k.got[m.Key]; at != nil {
		at[k.id] = true
	}
}

// route routes a message and counts what becomes of it within a minute. took gets the time until it is acknowledged.
func (l *liarRun) route(got map[overlay.ID]map[overlay.ID]bool, r *LiarResult, took func(time.Duration)) {
	from, key := l.randomHonest(), randomKey(l.rng)
	root := l.Root(key)
	got[key] = map[overlay.ID]bool{}
	l.world.route(from, key, func(of overlay.Receipt, d time.Duration) {
		r.RoutedLost--
		took(d)
		if of.Root != root.OverlayID() {
			r.RoutedWrong++
		}
	})
	if l.liars.Has(root) {
		return
	}
	r.HonestRoots++
	l.After(time.Minute+time.Second, func() {
		if got[key][root.OverlayID()] {
			r.Delivered++
		}
	})
}

// check makes a checked lookup and reports whether it named the nearest member first, and all
// owners in order.
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

// controlTraffic is what the overlays of honest members have sent to maintain the network.
type controlTraffic struct {
	msgs, bytes uint64
	carrying    uint64 // messages of routes
	lookups     uint64 // that checked or replaced a route
	live        int
}

func (l *liarRun) controlTraffic() (of controlTraffic) {
	for _, p := range l.Live() {
		if !l.liars.Has(p) {
			st := p.Layers().Overlay.Stats()
			of.msgs += st.Sent - st.Carrying
			of.bytes += st.Bytes - st.CarryingBytes
			of.carrying += st.Carrying
			of.lookups += st.Checked
			of.live++
		}
	}
	return of
}

// checkMembers checks the leaves and counts of honest members.
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
				there = len(live) // one is missing, so the leaf is wrong
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

// Describe implements Report.
func (r *LiarResult) Describe() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *LiarResult) Marks(calm *Result) []mark.Mark {
	part := func(n, of int) float64 { return float64(n) / float64(of) }
	marks := []mark.Mark{mark.AtMost("share of checked lookups not right", "", part(r.CheckedWrong+r.CheckedImplausible, r.Checked), 0.001)}
	marks = append(marks, relativeToCalm(calm, r.Nodes, r.MsgsPerNodeS, r.BytesPerNodeS, 2)...)
	return append(marks,
		mark.Info("share of owner sets not right", "", part(r.SetsWrong, r.Checked)),
		mark.AtLeast("messages that reached an honest root", "%", 100*part(r.Delivered, r.HonestRoots), 90),
		mark.AtMost("false receipts that a member believed", "", part(r.RoutedWrong, r.Nodes-r.Liars), 3),
		mark.Info("messages acknowledged by another member, or by none", "%", 100*part(r.RoutedWrong+r.RoutedLost, r.Routed)),
		mark.Info("mean time until a message was acknowledged", "s", r.RoutedMeanS),
		mark.Info("lookups for a routed message", "", r.LookupsPerRoute),
		mark.Info("slowest checked lookup", "s", r.LookupMaxS),
		mark.Info("members with a wrong leaf", "", float64(r.LeavesWrong)),
		mark.Info("members with a wrong count", "", float64(r.CountsWrong)))
}
