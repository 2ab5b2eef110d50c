package publishing

import (
	"slices"

	"tidings/overlay"
	"tidings/sim"
)

// partition separates every other member from the others for some time. Publishers write on both
// sides.
func (w *world) partition(r *Result) error {
	if err := w.advance(faultMargin); err != nil {
		return err
	}
	during, after := w.newGroup(groupPartitioned, 0), w.newGroup(groupHealed, w.scenario.Limit)
	var side []*sim.Host
	for i, p := range w.Peers() {
		if i%2 == 0 {
			side = append(side, p.Host)
		}
	}
	was := w.tracker.groupOf
	w.tracker.groupOf = func(*sim.Peer, *trackedFeed) *Group { return during }
	w.Partition(side)
	if err := w.advance(w.scenario.Partitioned); err != nil {
		return err
	}
	w.Heal()
	w.tracker.groupOf = was
	r.Missed = w.tracker.restartPending(after)
	return w.advance(faultMargin)
}

// absence stops the nodes of the readers with most feeds for some time; half of them silently.
func (w *world) absence(r *Result) error {
	if err := w.advance(faultMargin); err != nil {
		return err
	}
	of := make([]*sim.Peer, 0, len(w.tracker.readers))
	for _, p := range w.Peers() {
		if len(w.tracker.readers[p]) > 0 {
			of = append(of, p)
		}
	}
	slices.SortStableFunc(of, func(a, b *sim.Peer) int { return len(w.tracker.readers[b]) - len(w.tracker.readers[a]) })
	of = of[:min(w.scenario.Away, len(of))]
	for i, p := range of {
		p.Kill(i%2 == 0)
	}
	if err := w.advance(w.scenario.Absence); err != nil {
		return err
	}
	for _, p := range of {
		p.Start()
	}
	r.Missed = w.lateGroup.Expected
	return w.advance(faultMargin)
}

// shadowGroup returns the group of a feed's shadow tree.
func shadowGroup(key overlay.ID) overlay.ID {
	key[0] ^= 0x80
	return key
}

// dropForwards makes some of the members that have children in a tree drop what they should pass
// on. Readers with a path to the root on which no member does, in either of the feed's trees, are
// counted apart. Owners and publishers are honest, and droppers do not count as readers.
func (w *world) dropForwards(r *Result) error {
	clean, unclean := w.newGroup(groupHonest, honestLimit), w.newGroup(groupDropped, w.scenario.Limit)
	var may []*sim.Peer
	for _, p := range w.Live() {
		n := p.Layers()
		interior, honest := false, w.publishers[p] != nil
		for _, f := range w.feeds {
			key := w.Key(f.url)
			main, _ := n.Scribe.Place(key)
			second, _ := n.Scribe.Place(shadowGroup(key))
			interior = interior || len(main.Children)+len(second.Children) > 0
			v, owns := n.Owners.View(key)
			honest = honest || owns && v.Owns
			if second.Own > 0 {
				r.Shadowed++
			}
		}
		if interior {
			r.Interior++
			if !honest {
				may = append(may, p)
			}
		}
	}
	w.rng.Shuffle(len(may), func(i, j int) { may[i], may[j] = may[j], may[i] })
	r.Droppers = min(int(w.scenario.Droppers*float64(r.Interior)+0.5), len(may))
	for _, p := range may[:r.Droppers] {
		p.DropForwards()
		w.tracker.removePeer(p)
	}
	w.tracker.groupOf = func(p *sim.Peer, f *trackedFeed) *Group {
		if key := w.Key(f.url); w.HonestPath(p, key) || w.HonestPath(p, shadowGroup(key)) {
			return clean
		}
		return unclean
	}
	return w.advance(w.scenario.Length)
}
