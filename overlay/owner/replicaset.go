package owner

import (
	"bytes"
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
)

// A roster holds seats in the order of their keys: no map's order may reach a message.
type replicaSet []*replica

func (r replicaSet) find(key *overlay.ID) (int, bool) {
	return slices.BinarySearchFunc(r, key, func(s *replica, key *overlay.ID) int { return bytes.Compare(s.key[:], key[:]) })
}

func (r replicaSet) add(s *replica) replicaSet {
	i, ok := r.find(&s.key)
	if ok {
		return r
	}
	return slices.Insert(r, i, s)
}

func (r replicaSet) remove(s *replica) replicaSet {
	if i, ok := r.find(&s.key); ok && r[i] == s {
		return slices.Delete(r, i, i+1)
	}
	return r
}

// sorted returns all seats.
func (o *Owners) sorted() []*replica { return slices.Clone(o.sortedReplicas) }

// led are the keys that are owned here and a peer leads.
func (o *Owners) led(by env.PeerID) replicaSet { return o.ledBy[by] }

// enter notes a seat that the node has from now on, and leave that it has it no more.
func (o *Owners) addReplica(s *replica) {
	o.replicas[s.key] = s
	o.sortedReplicas = o.sortedReplicas.add(s)
	o.setEpoch(s, s.epoch)
}

func (o *Owners) removeReplica(s *replica) {
	o.unlistReplica(s)
	o.sortedReplicas = o.sortedReplicas.remove(s)
	delete(o.replicas, s.key)
}

// setEpoch puts an epoch in force at a seat.
func (o *Owners) setEpoch(s *replica, e *Epoch) {
	o.unlistReplica(s)
	s.epoch, s.owned = e, e != nil && e.owns(o.self)
	if s.owned && o.replicas[s.key] == s {
		o.ledBy[e.Sequencer] = o.ledBy[e.Sequencer].add(s)
	}
}

// strike takes a seat off the list of its sequencer's.
func (o *Owners) unlistReplica(s *replica) {
	if !s.owned {
		return
	}
	by := s.epoch.Sequencer
	if o.ledBy[by] = o.ledBy[by].remove(s); len(o.ledBy[by]) == 0 {
		delete(o.ledBy, by)
	}
}
