package owner

import (
	"bytes"
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
)

// A roster holds seats in the order of their keys: no map's order may reach a message.
type roster []*seat

func (r roster) find(key *overlay.ID) (int, bool) {
	return slices.BinarySearchFunc(r, key, func(s *seat, key *overlay.ID) int { return bytes.Compare(s.key[:], key[:]) })
}

func (r roster) add(s *seat) roster {
	i, ok := r.find(&s.key)
	if ok {
		return r
	}
	return slices.Insert(r, i, s)
}

func (r roster) remove(s *seat) roster {
	if i, ok := r.find(&s.key); ok && r[i] == s {
		return slices.Delete(r, i, i+1)
	}
	return r
}

// sorted returns all seats.
func (o *Owners) sorted() []*seat { return slices.Clone(o.order) }

// led are the keys that are owned here and a peer leads.
func (o *Owners) led(by env.PeerID) roster { return o.ledBy[by] }

// enter notes a seat that the node has from now on, and leave that it has it no more.
func (o *Owners) enter(s *seat) {
	o.seats[s.key] = s
	o.order = o.order.add(s)
	o.setEpoch(s, s.epoch)
}

func (o *Owners) leave(s *seat) {
	o.strike(s)
	o.order = o.order.remove(s)
	delete(o.seats, s.key)
}

// setEpoch puts an epoch in force at a seat.
func (o *Owners) setEpoch(s *seat, e *Epoch) {
	o.strike(s)
	s.epoch, s.owned = e, e != nil && e.owns(o.self)
	if s.owned && o.seats[s.key] == s {
		o.ledBy[e.Sequencer] = o.ledBy[e.Sequencer].add(s)
	}
}

// strike takes a seat off the list of its sequencer's.
func (o *Owners) strike(s *seat) {
	if !s.owned {
		return
	}
	by := s.epoch.Sequencer
	if o.ledBy[by] = o.ledBy[by].remove(s); len(o.ledBy[by]) == 0 {
		delete(o.ledBy, by)
	}
}
