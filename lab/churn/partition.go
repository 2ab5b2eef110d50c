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

// Partition is a run in which a partition separates every other member from the rest for some time.
// Both halves reach the origins, which gain items until the end of the partition, so the logs of
// both halves grow.
type Partition struct {
	Name     string
	Seed     uint64
	Nodes    int
	Duration time.Duration
	Keys     int
	Rate     int // lookups per second after the partition
}

// A PartitionResult is the outcome. Times count from the end of the partition.
type PartitionResult struct {
	Scenario   string  `json:"scenario"`
	Nodes      int     `json:"nodes"`
	Seed       uint64  `json:"seed"`
	PartitionS float64 `json:"parted_s"`
	Keys       int     `json:"keys"`
	Forked     int     `json:"keys_forked"` // keys whose log grew in two branches
	Lookups    int     `json:"lookups"`
	RootsS     float64 `json:"one_root_s"` // time after which only the true root of each key considered itself its root
	RightS     float64 `json:"right_s"`    // time after which all lookups were right
	HeadsS     float64 `json:"one_head_s"` // time after which each key had n owners in one epoch, with one head that all followers had, too
	NotHealed  int     `json:"unhealed"`   // keys with several roots or heads at the end
	// SeveralRoots and SeveralHeads count such keys by second. A key counts in SeveralHeads only if
	// it had several heads a second before, too, because an entry in transit also gives two heads
	// for a moment.
	SeveralRoots []int `json:"several_roots"`
	SeveralHeads []int `json:"several_heads"`
}

// healWatch is how long the network is observed after the partition.
const healWatch = 5 * time.Minute

// Run makes the run.
func (c Partition) Run(ctx context.Context, progress func(float64)) (PartitionResult, error) {
	grow := time.Duration(c.Nodes)*growInterval + 2*settleTime
	w := newWorld(ctx, c.Seed, grow+settleTime+c.Duration+healWatch, progress)
	r := PartitionResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed, PartitionS: c.Duration.Seconds(), Keys: c.Keys}
	w.Grow(c.Nodes, growInterval)
	if err := w.advance(grow); err != nil {
		return r, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x9a7))
	keys := w.serveFeeds(c.Keys, settleTime+c.Duration, rng)
	if err := w.advance(settleTime); err != nil {
		return r, err
	}
	var side []*sim.Host
	for i, p := range w.Peers() {
		if i%2 == 0 {
			side = append(side, p.Host)
		}
	}
	w.Partition(side)
	if err := w.advance(c.Duration); err != nil {
		return r, err
	}
	for _, k := range w.keyStates(keys) {
		if len(k.branches) > 1 {
			r.Forked++
		}
	}
	w.Heal()
	lookups := w.startLookups(c.Rate, healWatch, rng)
	apart := make([]bool, c.Keys) // at the last check
	for i := range apart {
		apart[i] = true
	}
	for range int(healWatch / time.Second) {
		if err := w.advance(time.Second); err != nil {
			return r, err
		}
		live := w.Live()
		roots, heads := make([]bool, len(keys)), make([]bool, len(keys))
		for i, k := range w.keyStates(keys) {
			was := apart[i]
			apart[i] = !k.complete(ownersPerKey) || k.staleFollowers > 0
			roots[i], heads[i] = w.severalRoots(keys[i], live), was && apart[i]
		}
		r.record(roots, heads)
	}
	if err := w.advance(ackTimeout); err != nil {
		return r, err
	}
	r.RightS = lookups.rightAfter(0)
	for _, n := range lookups.sent {
		r.Lookups += n
	}
	return r, nil
}

// record adds one second: which keys had several roots, and several heads.
func (r *PartitionResult) record(roots, heads []bool) {
	var severalRoots, severalHeads int
	r.NotHealed = 0
	for i := range roots {
		if roots[i] {
			severalRoots++
		}
		if heads[i] {
			severalHeads++
		}
		if roots[i] || heads[i] {
			r.NotHealed++
		}
	}
	r.SeveralRoots, r.SeveralHeads = append(r.SeveralRoots, severalRoots), append(r.SeveralHeads, severalHeads)
	if severalRoots > 0 {
		r.RootsS = float64(len(r.SeveralRoots))
	}
	if severalHeads > 0 {
		r.HeadsS = float64(len(r.SeveralHeads))
	}
}

// severalRoots reports whether a member whose leaf covers a key disagrees with the truth about
// being its root.
func (w *world) severalRoots(key overlay.ID, live []*sim.Peer) bool {
	root := w.Root(key)
	return slices.ContainsFunc(live, func(p *sim.Peer) bool {
		o := p.Layers().Overlay
		return o.Leaf().Covers(key) && o.IsRoot(key) != (p == root)
	})
}

// Describe implements Report.
func (r *PartitionResult) Describe() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *PartitionResult) Marks(*Result) []mark.Mark {
	return []mark.Mark{
		mark.AtMost("one root per key after", "s", r.RootsS, 120),
		mark.AtMost("lookups right after", "s", r.RightS, 120),
		mark.AtMost("one head per log after", "s", r.HeadsS, 120),
		mark.Zero("keys with several roots or heads at the end", r.NotHealed),
		mark.Info("logs that had branched", "", float64(r.Forked)),
	}
}
