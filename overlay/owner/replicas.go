package owner

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A replica is a node's part in one key's log: as an owner, as a follower, or as both.
type replica struct {
	key    overlay.ID
	url    string // address of the feed whose key this is
	follow bool   // this node keeps the log without being an owner, or also if it ceases to be one
	owned  bool   // this node is one of the owners in epoch

	ballot // set by an acceptor, and epoch by replicas.setEpoch

	log keyLog

	note    []byte // replicated note, after the hash of the entry that it refers to
	version uint64 // version of note; rises by one with each change

	readers       readers
	lastHeard     env.Moment // the sequencer's last sign of life about this key
	notOwnerSince env.Moment // time this node ceased to be an owner, or that the others ceased to count on it; Never: it is one

	leader    *leaderState // non-nil while this node is the sequencer
	candidacy *candidacy   // non-nil while this node is a candidate
	pull      *pull        // non-nil while entries are pulled

	lookup   lookup
	campaign campaign
	rival    rival

	noQuorumSince env.Moment // start of the time without answers from a quorum; Never: a quorum answers

	conduct  conduct
	progress progress
}

// commit returns the message that tells of the epoch in force.
func (s *replica) commit() *ownerpb.Commit {
	return &ownerpb.Commit{Epoch: s.epoch.proto(), Note: s.note, Version: s.version}
}

// ledBy reports whether a peer is the sequencer of the epoch in force.
func (s *replica) ledBy(p env.PeerID) bool { return s.epoch != nil && s.epoch.Sequencer == p }

// A replicas holds the replicas of a node.
type replicas struct {
	self    env.PeerID
	byKey   map[overlay.ID]*replica
	sorted  []*replica                       // the same replicas by key, so that messages and simulations do not depend on a random order; nil: they have changed
	ledBy   map[env.PeerID]map[*replica]bool // replicas of owned keys, by sequencer
	retired map[overlay.ID]*replica          // votes for keys that were forgotten
}

// maxReplicas bounds the keys in which one node takes part. At the bound requests for owners are dropped; a later
// request may reach a node with room.
const maxReplicas = 200_000

func newReplicas(self env.PeerID) replicas {
	return replicas{
		self: self, byKey: map[overlay.ID]*replica{}, ledBy: map[env.PeerID]map[*replica]bool{}, retired: map[overlay.ID]*replica{},
	}
}

// of returns the replica of a key; nil if there is none.
func (r *replicas) of(key []byte) *replica { return r.byKey[overlay.ID(key)] }

// log returns what is kept of a key's log.
func (r *replicas) log(key overlay.ID) *keyLog {
	if s := r.byKey[key]; s != nil {
		return &s.log
	}
	return &keyLog{}
}

func (r *replicas) full() bool { return len(r.byKey) >= maxReplicas }

// all returns all replicas, sorted by key. They may be removed while the caller walks through them.
func (r *replicas) all() []*replica {
	if r.sorted == nil {
		r.sorted = sortedByKey(maps.Values(r.byKey))
	}
	return r.sorted
}

func sortedByKey(of iter.Seq[*replica]) []*replica {
	return slices.SortedFunc(of, func(a, b *replica) int { return bytes.Compare(a.key[:], b.key[:]) })
}

// ensure returns the replica of a key, which it makes if there is none.
func (r *replicas) ensure(key overlay.ID, url string, now time.Time) *replica {
	s := r.byKey[key]
	if s == nil {
		s = &replica{key: key, url: url, lastHeard: env.MomentOf(now)}
		if locks := r.retired[key]; locks != nil {
			s.promised, s.signed = locks.promised, locks.signed
			delete(r.retired, key)
		}
		r.add(s)
	}
	return s
}

func (r *replicas) add(s *replica) {
	r.byKey[s.key] = s
	r.sorted = nil
	r.setEpoch(s, s.epoch)
}

func (r *replicas) remove(s *replica) {
	r.unlist(s)
	r.sorted = nil
	delete(r.byKey, s.key)
}

// setEpoch puts an epoch in force at a replica.
func (r *replicas) setEpoch(s *replica, e *Epoch) {
	r.unlist(s)
	s.epoch, s.owned = e, e != nil && e.owns(r.self)
	if s.owned && r.byKey[s.key] == s {
		if r.ledBy[e.Sequencer] == nil {
			r.ledBy[e.Sequencer] = map[*replica]bool{}
		}
		r.ledBy[e.Sequencer][s] = true
	}
}

// unlist removes a replica from the set of its sequencer.
func (r *replicas) unlist(s *replica) {
	if !s.owned {
		return
	}
	by := s.epoch.Sequencer
	if delete(r.ledBy[by], s); len(r.ledBy[by]) == 0 {
		delete(r.ledBy, by)
	}
}
