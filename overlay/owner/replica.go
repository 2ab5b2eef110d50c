package owner

import (
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

	epoch     *Epoch   // epoch in force, as far as this node knows; nil: none; set only by setEpoch
	owned     bool     // this node is one of the owners in epoch
	undecided []*Epoch // epochs signed here whose outcome is unknown; at most maxUndecided

	log keyLog

	// Votes. They are durable before this node acts on them.
	promised votes // per branch, the highest epoch number promised; entries of lower epochs are no longer accepted
	signed   votes // per branch, the last epoch signed

	promisedElsewhere uint32 // highest epoch number that an owner has promised to another candidate; 0: none known

	note    []byte // replicated note, after the hash of the entry that it refers to
	version uint64 // version of note; rises by one with each change

	weight         int       // clients of the key's tree, as its root counts them
	weightAt       time.Time // time of the last weight received, or reported
	lastRead       time.Time // last time the sequencer knew of a client
	reportedWeight int       // last weight that this node, as the root, has reported
	lastHeard      time.Time // the sequencer's last sign of life about this key
	notOwnerSince  time.Time // time this node ceased to be an owner, or that the others ceased to count on it; zero: it is one

	leader    *leaderState // non-nil while this node is the sequencer
	candidacy *candidacy   // non-nil while this node is a candidate
	pull      *pull        // non-nil while entries are pulled

	nearKey   *keyLookup // members found near a key outside the leaf; nil: not looked up yet
	informant env.PeerID // peer that named owners the lookup did not find; pulled from after the next lookup; "": none

	campaignAt     time.Time                // time of the next campaign; zero: none planned
	waiting        bool                     // the campaign waits for one of maxCandidacies slots
	noQuorumSince  time.Time                // start of the time without answers from a quorum; zero: a quorum answers
	rival          *Epoch                   // epoch of another live branch; nil: none known
	rivalSeen      time.Time                // last message about rival
	rivalGaveWay   time.Time                // last time the rival asked this branch to continue in its place
	rivalContacted bool                     // a message about the rival was sent less than contactPause ago
	abandoned      map[Hash]bool            // own proposals that were given up; at most maxAbandoned
	excluded       map[env.PeerID]time.Time // peers not to become owners (they own the key in another branch, or are leaving), by time of their message
	merge          *branchMerge             // non-nil while entries of another branch are appended here
}

// A vote is a promise to a candidate, or a signature under its epoch. A node gives one vote of each kind
// per branch and number.
type vote struct {
	branch    uint64
	number    uint32
	candidate env.PeerID // peer that the vote was given to
	hash      Hash       // hash of the signed statement; zero for a promise
	durable   bool       // signatures only: stored, so it may be sent
}

// votes holds the last vote of each branch. Only the latest maxVotes branches are remembered: a key rarely
// has more than two.
type votes []vote

const maxVotes = 8

// in returns the vote in a branch; the zero vote if there is none.
func (v votes) in(lineage uint64) vote {
	for _, w := range v {
		if w.branch == lineage {
			return w
		}
	}
	return vote{}
}

// set records a vote in place of the earlier one of its branch.
func (v *votes) set(w vote) {
	*v = slices.DeleteFunc(*v, func(old vote) bool { return old.branch == w.branch })
	*v = append(*v, w)
	if len(*v) > maxVotes {
		*v = slices.Clone((*v)[1:])
	}
}

func (v votes) proto() (of []*ownerpb.Vote) {
	for _, w := range v {
		of = append(of, &ownerpb.Vote{Branch: w.branch, Number: w.number, Candidate: []byte(w.candidate), Hash: w.hash.bytes()})
	}
	return of
}

func votesFrom(of []*ownerpb.Vote) (v votes) {
	for _, m := range of {
		h, _ := hashFrom(m.GetHash())
		v = append(v, vote{m.GetBranch(), m.GetNumber(), env.PeerID(m.GetCandidate()), h, true})
	}
	return v
}

// commit returns the message that tells of the epoch in force.
func (s *replica) commit() *ownerpb.Commit {
	return &ownerpb.Commit{Epoch: s.epoch.proto(), Note: s.note, Version: s.version}
}

// ledBy reports whether a peer is the sequencer of the epoch in force.
func (s *replica) ledBy(p env.PeerID) bool { return s.epoch != nil && s.epoch.Sequencer == p }
