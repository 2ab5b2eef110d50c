package trust

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
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
	// Seen are the items of channels that an honest owner polled all the time until they were shown. The others are
	// Unseen: only liars polled for some time, and no other node knew what was missing.
	Seen   Waits    `json:"seen"`
	Unseen Waits    `json:"unseen"`
	Missed []string `json:"missed"` // what is known of some of the Seen items that no honest reader was shown
	Wrong  []string `json:"wrong"`
}

// Waits are the waits of items: from the publication at the origin until the first honest reader is shown
// the item, less the polling interval that detection may take anyway.
type Waits struct {
	Items   int     `json:"items"`
	P99     float64 `json:"p99"`     // in leases
	Longest float64 `json:"longest"` // in leases
	Never   int     `json:"never"`   // items that no honest reader was shown
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
		for _, it := range ch.items {
			if !w.old(it) {
				continue
			}
			at, shown := first[it]
			if !shown {
				at = w.until
			}
			g, waits := &r.Seen, &seen
			if slices.ContainsFunc(ch.unseen, func(t time.Time) bool { return !t.Before(it.at) && !t.After(at) }) {
				g, waits = &r.Unseen, &unseen
			}
			g.Items++
			switch {
			case shown:
				*waits = append(*waits, max(0, at.Sub(it.at)-w.config.Interval))
			default:
				g.Never++
				if g == &r.Seen && len(r.Missed) < maxViolations {
					r.Missed = append(r.Missed, w.missed(ch, it))
				}
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
	var near []*sim.Peer
	for _, p := range w.Peers() {
		if !p.Active() {
			continue
		}
		at := sort.Search(len(near), func(i int) bool { return overlay.Nearer(ch.key, p.OverlayID(), near[i].OverlayID()) })
		if at < w.owners {
			near = slices.Insert(near[:min(len(near), w.owners-1)], at, p)
		}
	}
	for _, p := range near[:min(len(near), max(1, ch.pollers))] {
		if !w.liars[p.ID()] {
			return true
		}
	}
	return false
}

// missed tells what is known of an item that no honest reader was shown.
func (w *world) missed(ch *channel, it *item) string {
	in := func(t time.Time) float64 { return t.Sub(w.since).Seconds() / w.config.Interval.Seconds() }
	later, readers := 0, 0
	for key, s := range ch.showings {
		if !w.liars[key.by] && s.item.at.After(it.at) {
			later++
		}
	}
	for _, p := range ch.readers {
		if p.Active() && !w.liars[p.ID()] {
			readers++
		}
	}
	text := fmt.Sprintf("%s, published at %.2f of %.2f intervals; polled by %d nodes; %d honest readers, who were shown %d later items; sequencers",
		ch.url, in(it.at), in(w.until), ch.pollers, readers, later)
	for _, e := range ch.epochs {
		text += fmt.Sprintf(" %d", e.number)
		if w.liars[e.sequencer] {
			text += " (a liar)"
		}
		text += fmt.Sprintf(" from %.2f", in(e.from))
	}
	return text
}
