package trust

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/overlay"
	"tidings/sim"
)

// A StallResult is the outcome of a run in which liars hold logs up (decision 023). Its fields are its JSON.
type StallResult struct {
	Seed     uint64  `json:"seed"`
	Members  int     `json:"nodes"`
	Liars    int     `json:"liars"`
	Share    float64 `json:"liar_share"`
	Deaths   int     `json:"deaths"` // of honest members, in the measured time
	Channels int     `json:"channels"`
	Captured int     `json:"captured"` // channels most of whose owners were liars at some time
	LeftOut  uint64  `json:"left_out"` // owners that were left out
	// Seen are the channels that an honest owner polls. In Unseen ones only liars poll, and no other node
	// knows what is missing.
	Seen   Waits    `json:"seen"`
	Unseen Waits    `json:"unseen"`
	Wrong  []string `json:"wrong"`
}

// Waits are the waits of items: from the publication at the origin until the first honest reader is shown
// the item, less the polling interval that detection may take anyway.
type Waits struct {
	Channels int     `json:"channels"`
	Items    int     `json:"items"`
	P99      float64 `json:"p99"`     // in leases
	Longest  float64 `json:"longest"` // in leases
	Never    int     `json:"never"`   // items that no honest reader was shown
}

// deathShare is the share of the honest members that die, each at a random time, so that epochs change.
const deathShare = 0.1

// RunStalling makes a run in which liars refuse, campaign, stall and claim false heads as owners.
func (c Config) RunStalling(ctx context.Context, progress func(float64)) (r StallResult, err error) {
	w := newWorld(ctx, c, progress)
	r = StallResult{Seed: c.Seed, Members: c.Members, Share: c.Liars, Channels: c.Channels}
	var campaigners []*sim.OwnerLiar
	w.corrupt = func() {
		rng := rand.New(rand.NewPCG(c.Seed, 0x57a11))
		lies := []sim.OwnerLies{{Refuse: true, Campaign: true}, {Stall: true}, {Heads: true}, {Stall: true, Refuse: true}}
		for _, p := range w.Peers()[1:] { // the founder is whom others are told of when they join
			switch {
			case w.liars[p.ID()]:
				campaigners = append(campaigners, p.LieAsOwner(lies[len(campaigners)%len(lies)]))
			case rng.Float64() < deathShare:
				r.Deaths++
				w.After(time.Duration(rng.Int64N(int64(c.Length)*int64(c.Interval))), func() { p.Kill(false) })
			}
		}
	}
	w.step = func() {
		for _, l := range campaigners {
			l.Prepare()
		}
	}
	if err := w.run(); err != nil {
		return r, err
	}
	r.Liars = len(w.liars)
	w.countWaits(&r)
	for _, p := range w.Peers() {
		if p.Active() {
			r.LeftOut += p.Layers().Owners.Stats().LeftOut
		}
	}
	for _, v := range w.Violations() {
		if len(r.Wrong) < maxViolations {
			r.Wrong = append(r.Wrong, v.String())
		}
	}
	return r, nil
}

// countWaits counts how long items of channels without a bad majority waited.
func (w *world) countWaits(r *StallResult) {
	var seen, unseen []time.Duration
	for _, ch := range w.channels {
		first, readers := map[*item]time.Time{}, false
		for key, s := range ch.showings {
			if w.liars[key.by] {
				continue
			}
			if at, ok := first[s.item]; !ok || s.shownAt.Before(at) {
				first[s.item] = s.shownAt
			}
		}
		for _, p := range ch.readers {
			readers = readers || p.Active() && !w.liars[p.ID()]
		}
		switch {
		case ch.captured:
			r.Captured++
			continue
		case !readers:
			continue
		}
		g, waits := &r.Seen, &seen
		if !w.honestPoll(ch) {
			g, waits = &r.Unseen, &unseen
		}
		g.Channels++
		for _, it := range ch.items {
			if !w.old(it) {
				continue
			}
			g.Items++
			if at, ok := first[it]; !ok {
				g.Never++
			} else {
				*waits = append(*waits, max(0, at.Sub(it.at)-w.config.Interval))
			}
		}
	}
	for _, g := range []struct {
		*Waits
		of []time.Duration
	}{{&r.Seen, seen}, {&r.Unseen, unseen}} {
		if n := len(g.of); n > 0 {
			slices.Sort(g.of)
			g.P99 = g.of[n*99/100].Seconds() / w.config.Interval.Seconds()
			g.Longest = g.of[n-1].Seconds() / w.config.Interval.Seconds()
		}
	}
}

// honestPoll reports whether an honest owner is among the pollers of a channel: the members nearest to its key.
func (w *world) honestPoll(ch *channel) bool {
	near := slices.DeleteFunc(slices.Clone(w.Peers()), func(p *sim.Peer) bool { return !p.Active() })
	slices.SortFunc(near, func(a, b *sim.Peer) int {
		if overlay.Nearer(ch.key, a.Layers().Overlay.ID(), b.Layers().Overlay.ID()) {
			return -1
		}
		return 1
	})
	for _, p := range near[:min(len(near), w.owners, max(1, ch.pollers))] {
		if !w.liars[p.ID()] {
			return true
		}
	}
	return false
}
