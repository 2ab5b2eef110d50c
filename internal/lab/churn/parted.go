package churn

import (
	"context"
	"math/rand/v2"
	"time"

	"tidings/overlay"
	"tidings/sim"
)

// Parted is a run in which every other member is parted from the others, and after a
// while the network is whole again. Origins are reached from both halves, and gain
// items until the healing, so both halves' logs go on.
type Parted struct {
	Name  string
	Seed  uint64
	Nodes int
	For   time.Duration
	Keys  int
	Rate  int // look-ups a second after the healing
}

// A PartedResult is what it has shown. Times are counted from the healing.
type PartedResult struct {
	Scenario string  `json:"scenario"`
	Nodes    int     `json:"nodes"`
	Seed     uint64  `json:"seed"`
	PartedS  float64 `json:"parted_s"`
	Keys     int     `json:"keys"`
	Forked   int     `json:"keys_forked"` // whose log had gone on in two lineages
	Lookups  int     `json:"lookups"`
	RootsS   float64 `json:"one_root_s"` // since then the true root of each key, and nobody else, took itself for its root
	RightS   float64 `json:"right_s"`    // since then all look-ups were right
	HeadsS   float64 `json:"one_head_s"` // since then each key had n owners in one epoch, and they and all followers one head
	Unhealed int     `json:"unhealed"`   // keys with several roots or heads in the end
	// Roots and Heads are how many keys had several, by second since the healing. Heads
	// counts a key that had them a second before too: a log whose next entry is on its way
	// has two for less.
	Roots []int `json:"several_roots"`
	Heads []int `json:"several_heads"`
}

// healWatch is how long a healed network is looked at.
const healWatch = 5 * time.Minute

// Run does a run.
func (c Parted) Run(ctx context.Context, progress func(float64)) (PartedResult, error) {
	grow := time.Duration(c.Nodes)*growPause + 2*settle
	w := newWorld(ctx, c.Seed, grow+settle+c.For+healWatch, progress)
	r := PartedResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed, PartedS: c.For.Seconds(), Keys: c.Keys}
	w.Grow(c.Nodes, growPause)
	if err := w.pass(grow); err != nil {
		return r, err
	}
	dice := rand.New(rand.NewPCG(c.Seed, 0x9a7))
	keys := w.serve(c.Keys, settle+c.For, dice)
	if err := w.pass(settle); err != nil {
		return r, err
	}
	var side []*sim.Host
	for i, p := range w.Peers() {
		if i%2 == 0 {
			side = append(side, p.Host)
		}
	}
	w.Partition(side)
	if err := w.pass(c.For); err != nil {
		return r, err
	}
	for _, k := range w.keeps(keys) {
		if len(k.lines) > 1 {
			r.Forked++
		}
	}
	w.Heal()
	looks := w.look(c.Rate, healWatch, dice)
	apart := make([]bool, c.Keys) // a second ago
	for i := range apart {
		apart[i] = true
	}
	for second := 1; second <= int(healWatch/time.Second); second++ {
		if err := w.pass(time.Second); err != nil {
			return r, err
		}
		r.Roots = append(r.Roots, w.severalRoots(keys))
		heads := 0
		for i, k := range w.keeps(keys) {
			now := !k.whole(ownersOf) || k.behind > 0
			if now && apart[i] {
				heads++
			}
			apart[i] = now
		}
		r.Heads = append(r.Heads, heads)
		if r.Unhealed = r.Roots[second-1] + heads; r.Roots[second-1] > 0 {
			r.RootsS = float64(second)
		}
		if heads > 0 {
			r.HeadsS = float64(second)
		}
	}
	if err := w.pass(firstTry); err != nil {
		return r, err
	}
	r.RightS = looks.since(0)
	for _, n := range looks.sent {
		r.Lookups += n
	}
	return r, nil
}

// severalRoots is how many of some keys have another root, in the eyes of a member in
// whose leaf they lie, than the live member nearest to them.
func (w *world) severalRoots(keys []overlay.ID) (n int) {
	live := w.Live()
	for _, key := range keys {
		root := w.Root(key)
		for _, p := range live {
			if o := p.Layers().Overlay; o.Leaf().Covers(key) && o.IsRoot(key) != (p == root) {
				n++
				break
			}
		}
	}
	return n
}

// Of implements Report.
func (r *PartedResult) Of() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *PartedResult) Marks(*Result) []Mark {
	return []Mark{
		{"one root per key after s", r.RootsS, 120},
		{"look-ups right after s", r.RightS, 120},
		{"one head per log after s", r.HeadsS, 120},
		{"keys not healed in the end", float64(r.Unhealed), 0},
		fact("logs that had forked", float64(r.Forked)),
	}
}
