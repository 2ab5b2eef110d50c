package churn

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/lab/mark"
	"tidings/overlay"
	"tidings/sim"
)

// Killed is a run in which a part of all members die at one moment, and nobody hears of
// it.
//
// A look-up made some time after that, by a live member, is right if the live member
// nearest the key acknowledges its first attempt.
type Killed struct {
	Name  string
	Seed  uint64
	Nodes int
	Part  float64 // of the members
	Keys  int     // channels with owners and logs
	Rate  int     // look-ups a second
}

// A KilledResult is what it has shown.
type KilledResult struct {
	Scenario string  `json:"scenario"`
	Nodes    int     `json:"nodes"`
	Killed   int     `json:"killed"`
	Seed     uint64  `json:"seed"`
	Lookups  int     `json:"lookups"`
	MostS    float64 `json:"most_right_s"` // after so long 99.9 % of the look-ups of every second were right
	AllS     float64 `json:"all_right_s"`  // after so long all were
	// Right is the part of the look-ups that was right, by second since the kill.
	Right []float64 `json:"right"`

	Keys      int `json:"keys"`
	Hurt      int `json:"keys_hurt"`      // that lost owners, but no quorum of them
	Headless  int `json:"keys_headless"`  // that lost a quorum: the others wait for a lease
	Ownerless int `json:"keys_ownerless"` // that lost all owners
	// Of the keys that are hurt, and of the headless ones: the longest time from when
	// the watchers of the last dead owner had buried it until there were n living
	// owners again, who all had the head.
	WholeS    float64 `json:"owners_whole_s"`
	HeadlessS float64 `json:"headless_whole_s"`
	Broken    int     `json:"keys_broken"` // not whole in the end
}

// The looks at the owners after a kill, and how long they go on: for a lease and a while.
const (
	killLook   = time.Second
	killSettle = 15 * time.Minute
	killWatch  = 3 * time.Minute
)

// Run does a run.
func (c Killed) Run(ctx context.Context, progress func(float64)) (KilledResult, error) {
	grow := time.Duration(c.Nodes)*growPause + 2*settle
	w := newWorld(ctx, c.Seed, grow+settle+killSettle, progress)
	r := KilledResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed, Keys: c.Keys}
	w.Grow(c.Nodes, growPause)
	if err := w.pass(grow); err != nil {
		return r, err
	}
	dice := rand.New(rand.NewPCG(c.Seed, 0x417))
	keys := w.serve(c.Keys, settle-time.Minute, dice)
	if err := w.pass(settle); err != nil {
		return r, err
	}

	var lost []*hurt
	owners := w.keeps(keys)
	live := w.Live()
	dice.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	dead := live[:int(c.Part*float64(len(live)))]
	for i, key := range keys {
		if h := newHurt(key, owners[i].owners, dead); h != nil {
			lost = append(lost, h)
		}
	}
	for _, p := range dead {
		p.Kill(false)
	}
	r.Killed = len(dead)
	n := min(len(live)-len(dead), ownersOf)
	looks := w.look(c.Rate, killWatch, dice)
	for passed := time.Duration(0); passed < killSettle; passed += killLook {
		if err := w.pass(killLook); err != nil {
			return r, err
		}
		left := slices.DeleteFunc(slices.Clone(lost), func(h *hurt) bool { return !h.whole.IsZero() })
		var of []overlay.ID
		for _, h := range left {
			of = append(of, h.key)
		}
		for i, k := range w.keeps(of) {
			left[i].look(w, &k, n)
		}
		if len(left) == 0 && passed >= killWatch+receiptLimit {
			break
		}
	}
	r.MostS, r.AllS, r.Right = looks.since(0.001), looks.since(0), looks.curve()
	for _, n := range looks.sent {
		r.Lookups += n
	}
	for _, h := range lost {
		took := h.whole.Sub(h.known).Seconds()
		switch {
		case h.lost == h.of:
			r.Ownerless++
			continue
		case h.lost > (h.of-1)/2:
			r.Headless++
			r.HeadlessS = max(r.HeadlessS, took)
		default:
			r.Hurt++
			r.WholeS = max(r.WholeS, took)
		}
		if h.whole.IsZero() {
			r.Broken++
		}
	}
	return r, nil
}

// ownersOf is n, the number of owners of a key in these networks.
const ownersOf = 5

// A hurt is a key that has lost owners.
type hurt struct {
	key      overlay.ID
	of, lost int
	dead     []*sim.Peer
	known    time.Time // when the watchers had buried the last of them
	whole    time.Time
}

// newHurt returns nil if a key has lost nobody.
func newHurt(key overlay.ID, owners, dead []*sim.Peer) *hurt {
	h := &hurt{key: key, of: len(owners)}
	for _, p := range owners {
		if slices.Contains(dead, p) {
			h.dead = append(h.dead, p)
		}
	}
	if h.lost = len(h.dead); h.lost == 0 {
		return nil
	}
	return h
}

// look looks how far it has come.
func (h *hurt) look(w *world, k *keep, n int) {
	h.dead = slices.DeleteFunc(h.dead, func(d *sim.Peer) bool { return w.buried(d.OverlayID()) })
	if h.known.IsZero() && len(h.dead) == 0 {
		h.known = w.Now()
	}
	if !h.known.IsZero() && h.whole.IsZero() && k.whole(n) {
		h.whole = w.Now()
	}
}

// buried says whether the watchers of a dead member, the two live ones nearest to it,
// have it in their leaves no longer.
func (w *world) buried(id overlay.ID) bool {
	for _, p := range w.Nearest(id, 2) {
		if p.Layers().Overlay.Leaf().Has(id) != nil {
			return false
		}
	}
	return true
}

// Of implements Report.
func (r *KilledResult) Of() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *KilledResult) Marks(*Result) []mark.Mark {
	return []mark.Mark{
		mark.AtMost("99.9 % of look-ups right after", "s", r.MostS, 60),
		mark.AtMost("all right after", "s", r.AllS, 120),
		mark.AtMost("owner sets whole after detection", "s", r.WholeS, 30),
		mark.None("owner sets not whole in the end", r.Broken),
		mark.Fact("owner sets that lost a quorum", "", float64(r.Headless)),
		mark.Fact("of these whole after detection", "s", r.HeadlessS),
		mark.Fact("owner sets that lost everybody", "", float64(r.Ownerless)),
	}
}
