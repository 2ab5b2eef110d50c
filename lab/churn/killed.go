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

// Killed is a run in which a share of all members die silently at one moment.
//
// A lookup by a live member counts as right if the live member nearest to the key acknowledges its
// first attempt.
type Killed struct {
	Name  string
	Seed  uint64
	Nodes int
	Share float64 // of the members
	Keys  int     // channels with owners and logs
	Rate  int     // lookups per second
}

// A KilledResult is the outcome.
type KilledResult struct {
	Scenario   string  `json:"scenario"`
	Nodes      int     `json:"nodes"`
	Killed     int     `json:"killed"`
	Seed       uint64  `json:"seed"`
	Lookups    int     `json:"lookups"`
	MostRightS float64 `json:"most_right_s"` // time after which 99.9 % of the lookups of every second were right
	AllRightS  float64 `json:"all_right_s"`  // time after which all lookups were right
	// Right is the share of lookups that were right, by second since the deaths.
	Right []float64 `json:"right"`

	Keys      int `json:"keys"`
	Damaged   int `json:"keys_hurt"`      // keys that lost owners, but no quorum
	NoQuorum  int `json:"keys_headless"`  // keys that lost a quorum, so the other owners wait for a lease
	Ownerless int `json:"keys_ownerless"` // keys that lost all owners
	// CompleteS and NoQuorumS are the longest times, of damaged keys and of those without a quorum,
	// from the detection of the last dead owner until there were n live owners with one head.
	CompleteS  float64 `json:"owners_whole_s"`
	NoQuorumS  float64 `json:"headless_whole_s"`
	Incomplete int     `json:"keys_broken"` // keys that were not complete at the end
}

// Interval between two checks of the owners; how long they are checked (longer than a lease); how
// long lookups are made.
const (
	killPollInterval = time.Second
	killRecoveryTime = 15 * time.Minute
	killLookupTime   = 3 * time.Minute
)

// Run makes the run.
func (c Killed) Run(ctx context.Context, progress func(float64)) (KilledResult, error) {
	grow := time.Duration(c.Nodes)*growInterval + 2*settleTime
	w := newWorld(ctx, c.Seed, grow+settleTime+killRecoveryTime, progress)
	r := KilledResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed, Keys: c.Keys}
	w.Grow(c.Nodes, growInterval)
	if err := w.advance(grow); err != nil {
		return r, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x417))
	keys := w.serveFeeds(c.Keys, settleTime-time.Minute, rng)
	if err := w.advance(settleTime); err != nil {
		return r, err
	}

	var lost []*damagedKey
	owners := w.keyStates(keys)
	live := w.Live()
	rng.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	dead := live[:int(c.Share*float64(len(live)))]
	for i, key := range keys {
		if h := newDamagedKey(key, owners[i].owners, dead); h != nil {
			lost = append(lost, h)
		}
	}
	for _, p := range dead {
		p.Kill(false)
	}
	r.Killed = len(dead)
	n := min(len(live)-len(dead), ownersPerKey)
	lookups := w.startLookups(c.Rate, killLookupTime, rng)
	for passed := time.Duration(0); passed < killRecoveryTime; passed += killPollInterval {
		if err := w.advance(killPollInterval); err != nil {
			return r, err
		}
		left := slices.DeleteFunc(slices.Clone(lost), func(h *damagedKey) bool { return !h.completeAt.IsZero() })
		var of []overlay.ID
		for _, h := range left {
			of = append(of, h.key)
		}
		for i, k := range w.keyStates(of) {
			left[i].update(w, &k, n)
		}
		if len(left) == 0 && passed >= killLookupTime+ackTimeout {
			break
		}
	}
	r.MostRightS, r.AllRightS, r.Right = lookups.rightAfter(0.001), lookups.rightAfter(0), lookups.rightShares()
	for _, n := range lookups.sent {
		r.Lookups += n
	}
	for _, h := range lost {
		took := h.completeAt.Sub(h.detectedAt).Seconds()
		switch {
		case h.lost == h.owners:
			r.Ownerless++
			continue
		case h.lost > (h.owners-1)/2:
			r.NoQuorum++
			r.NoQuorumS = max(r.NoQuorumS, took)
		default:
			r.Damaged++
			r.CompleteS = max(r.CompleteS, took)
		}
		if h.completeAt.IsZero() {
			r.Incomplete++
		}
	}
	return r, nil
}

// ownersPerKey is the number of owners of a key in these networks.
const ownersPerKey = 5

// A damagedKey is a key that has lost owners.
type damagedKey struct {
	key          overlay.ID
	owners, lost int
	dead         []*sim.Peer
	detectedAt   time.Time // when the deaths of all of them were detected
	completeAt   time.Time
}

// newDamagedKey returns nil if a key has lost no owner.
func newDamagedKey(key overlay.ID, owners, dead []*sim.Peer) *damagedKey {
	h := &damagedKey{key: key, owners: len(owners)}
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

// update notes the progress of the key.
func (h *damagedKey) update(w *world, k *keyState, n int) {
	h.dead = slices.DeleteFunc(h.dead, func(d *sim.Peer) bool { return w.deathDetected(d.OverlayID()) })
	if h.detectedAt.IsZero() && len(h.dead) == 0 {
		h.detectedAt = w.Now()
	}
	if !h.detectedAt.IsZero() && h.completeAt.IsZero() && k.complete(n) {
		h.completeAt = w.Now()
	}
}

// deathDetected reports whether the watchers of a dead member, the two live members nearest to it,
// no longer have it in their leaves.
func (w *world) deathDetected(id overlay.ID) bool {
	for _, p := range w.Nearest(id, 2) {
		if p.Layers().Overlay.Leaf().Has(id) != nil {
			return false
		}
	}
	return true
}

// Describe implements Report.
func (r *KilledResult) Describe() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *KilledResult) Marks(*Result) []mark.Mark {
	return []mark.Mark{
		mark.AtMost("99.9 % of lookups right after", "s", r.MostRightS, 60),
		mark.AtMost("all right after", "s", r.AllRightS, 120),
		mark.AtMost("owner sets complete after detection", "s", r.CompleteS, 30),
		mark.Zero("owner sets not complete at the end", r.Incomplete),
		mark.Info("owner sets that lost a quorum", "", float64(r.NoQuorum)),
		mark.Info("of these complete after detection", "s", r.NoQuorumS),
		mark.Info("owner sets that lost all owners", "", float64(r.Ownerless)),
	}
}
