package owner

import (
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

	ballot      // set by an acceptor, and epoch by replicas.setEpoch
	owned  bool // this node is one of the owners in epoch

	log keyLog

	note    []byte // replicated note, after the hash of the entry that it refers to
	version uint64 // version of note; rises by one with each change

	readers       readers
	lastHeard     time.Time // the sequencer's last sign of life about this key
	notOwnerSince time.Time // time this node ceased to be an owner, or that the others ceased to count on it; zero: it is one

	leader    *leaderState // non-nil while this node is the sequencer
	candidacy *candidacy   // non-nil while this node is a candidate
	pull      *pull        // non-nil while entries are pulled

	lookup   lookup
	campaign campaign
	rival    rival

	noQuorumSince time.Time // start of the time without answers from a quorum; zero: a quorum answers
}

// commit returns the message that tells of the epoch in force.
func (s *replica) commit() *ownerpb.Commit {
	return &ownerpb.Commit{Epoch: s.epoch.proto(), Note: s.note, Version: s.version}
}

// ledBy reports whether a peer is the sequencer of the epoch in force.
func (s *replica) ledBy(p env.PeerID) bool { return s.epoch != nil && s.epoch.Sequencer == p }
