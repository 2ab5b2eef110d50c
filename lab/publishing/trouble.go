package publishing

import (
	"slices"

	"tidings/overlay"
	"tidings/sim"
)

// part parts every other member from the others for a while. Publishers write on both sides.
func (w *world) part(r *Result) error {
	if err := w.pass(before); err != nil {
		return err
	}
	apart, healed := w.newPart(partApart, 0), w.newPart(partHealed, w.is.Limit)
	var side []*sim.Host
	for i, p := range w.Peers() {
		if i%2 == 0 {
			side = append(side, p.Host)
		}
	}
	was := w.ledger.part
	w.ledger.part = func(*sim.Peer, *followed) *Part { return apart }
	w.Partition(side)
	if err := w.pass(w.is.Parted); err != nil {
		return err
	}
	w.Heal()
	w.ledger.part = was
	r.Behind = w.ledger.anew(healed)
	return w.pass(before)
}

// absent has the nodes of some readers down for a while, those who follow most. Half of them are
// seen to end.
func (w *world) absent(r *Result) error {
	if err := w.pass(before); err != nil {
		return err
	}
	of := make([]*sim.Peer, 0, len(w.ledger.readers))
	for _, p := range w.Peers() {
		if len(w.ledger.readers[p]) > 0 {
			of = append(of, p)
		}
	}
	slices.SortStableFunc(of, func(a, b *sim.Peer) int { return len(w.ledger.readers[b]) - len(w.ledger.readers[a]) })
	of = of[:min(w.is.Away, len(of))]
	for i, p := range of {
		p.Kill(i%2 == 0)
	}
	if err := w.pass(w.is.Absence); err != nil {
		return err
	}
	for _, p := range of {
		p.Start()
	}
	r.Behind = w.late.Wanted
	return w.pass(before)
}

// shadow is the group of the second tree of a feed, by which heads come.
func shadow(key overlay.ID) overlay.ID {
	key[0] ^= 0x80
	return key
}

// poison has a part of the members that have children in a tree swallow what they should pass on, and
// counts apart those readers that have a way to the root, by one of a feed's trees, on which nobody
// does. Owners and publishers of feeds are honest; and who swallows is no reader that counts.
func (w *world) poison(r *Result) error {
	clean, unclean := w.newPart(partClean, cleanLimit), w.newPart(partUnclean, w.is.Limit)
	var may []*sim.Peer
	for _, p := range w.Live() {
		n := p.Layers()
		interior, honest := false, w.desks[p] != nil
		for _, f := range w.feeds {
			key := w.Key(f.url)
			main, _ := n.Scribe.Place(key)
			second, _ := n.Scribe.Place(shadow(key))
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
	w.dice.Shuffle(len(may), func(i, j int) { may[i], may[j] = may[j], may[i] })
	r.Swallow = min(int(w.is.Swallows*float64(r.Interior)+0.5), len(may))
	for _, p := range may[:r.Swallow] {
		p.DropForwards()
		w.ledger.forget(p)
	}
	w.ledger.part = func(p *sim.Peer, f *followed) *Part {
		if key := w.Key(f.url); w.HonestPath(p, key) || w.HonestPath(p, shadow(key)) {
			return clean
		}
		return unclean
	}
	return w.pass(w.is.Length)
}
