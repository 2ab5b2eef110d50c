package owner

import (
	"bytes"
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
)

// A replicaSet holds replicas sorted by key. Unlike a map it has a fixed order, so that messages and simulations do
// not depend on a random one.
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

// sorted returns all replicas, sorted by key.
func (o *Owners) sorted() []*replica { return slices.Clone(o.sortedReplicas) }

// led returns the replicas of owned keys that a peer leads.
func (o *Owners) led(by env.PeerID) replicaSet { return o.ledBy[by] }

// addReplica and removeReplica change the set of replicas.
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

// setEpoch puts an epoch in force at a replica.
func (o *Owners) setEpoch(s *replica, e *Epoch) {
	o.unlistReplica(s)
	s.epoch, s.owned = e, e != nil && e.owns(o.self)
	if s.owned && o.replicas[s.key] == s {
		o.ledBy[e.Sequencer] = o.ledBy[e.Sequencer].add(s)
	}
}

// unlistReplica removes a replica from the set of its sequencer.
func (o *Owners) unlistReplica(s *replica) {
	if !s.owned {
		return
	}
	by := s.epoch.Sequencer
	if o.ledBy[by] = o.ledBy[by].remove(s); len(o.ledBy[by]) == 0 {
		delete(o.ledBy, by)
	}
}
