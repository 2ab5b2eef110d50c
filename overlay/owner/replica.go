package owner

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

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

	log   chain // entries kept, oldest first; replaced only by setLog
	items int   // items in the entries of log
	size  int   // total size of the bodies of log, in bytes

	committed Hash  // last entry known to be stored by a quorum
	visible   chain // prefix of the log that readers may see
	orphaned  chain // entries shown to readers and then lost to a switch of branch, until Release; at most maxOrphaned

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

// Prefixes of store keys: one record per replica, and one per entry and per body of its log.
const (
	replicaPrefix = "owner/seat/"
	entryPrefix   = "owner/entry/"
	bodyPrefix    = "owner/body/"
)

func replicaKey(key overlay.ID) []byte { return append([]byte(replicaPrefix), key[:]...) }

// entryKey returns the store key of an entry. Keys of one log sort by the entries' numbers.
func entryKey(e *Entry) []byte {
	k := append([]byte(entryPrefix), e.Key[:]...)
	k = binary.BigEndian.AppendUint64(k, e.At.Seq)
	return append(k, e.Hash[:8]...)
}

func bodyKey(e *Entry) []byte {
	return append(append([]byte(bodyPrefix), e.Key[:]...), e.Hash[:]...)
}

// storeOp returns the operation that stores a replica's record.
func (s *replica) storeOp() env.Op {
	m := &ownerpb.Replica{
		Url:       s.url,
		Follow:    s.follow,
		Epoch:     s.epoch.proto(),
		Undecided: epochsProto(s.undecided),
		Promised:  s.promised.proto(),
		Signed:    s.signed.proto(),
		Note:      s.note,
		Version:   s.version,
	}
	return env.Op{Key: replicaKey(s.key), Value: marshal(m)}
}

// saveReplica makes a replica's record durable, together with other operations of the same change, and then
// calls then. If the disk refuses, then is not called, so nothing is promised that is not stored.
func (o *Owners) saveReplica(s *replica, then func(), ops ...env.Op) {
	o.store.Commit(append(ops, s.storeOp()), func(err error) {
		if err != nil {
			o.stats.StoreErrors++
			o.log.Debug("log of a feed could not be stored", "url", s.url, "err", err)
			return
		}
		if then != nil {
			then()
		}
	})
}

// load reads the replicas and logs that a former run has stored. Unreadable records are dropped; they are
// pulled from other nodes again.
func (o *Owners) load() error {
	err := o.store.Range([]byte(replicaPrefix), func(key, value []byte) bool {
		s, err := o.loadReplica(key, value)
		if err != nil {
			o.stats.Damaged++
			o.log.Warn("log of a feed is unreadable and is pulled from the network again", "err", err)
			return true
		}
		if s.epoch == nil && !s.follow {
			o.replicas.retired[s.key] = s
		} else {
			o.replicas.add(s)
		}
		return true
	})
	if err := o.skipDamaged(err); err != nil {
		return fmt.Errorf("read replicas: %w", err)
	}
	err = o.store.Range([]byte(entryPrefix), func(key, value []byte) bool {
		if err := o.loadEntry(value); err != nil {
			o.stats.Damaged++
			url := ""
			if k := key[len(entryPrefix):]; len(k) > len(overlay.ID{}) {
				if s := o.replicas.byKey[overlay.ID(k[:len(overlay.ID{})])]; s != nil {
					url = s.url
				}
			}
			o.log.Warn("entry of a log is unreadable and is pulled from the network again", "url", url, "err", err)
		}
		return true
	})
	if err := o.skipDamaged(err); err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	for _, s := range o.replicas.all() {
		if left := s.buildChain(s.owned); len(left) > 0 {
			o.store.Commit(o.deleteOps(left), func(error) {})
		}
		// A follower keeps committed entries only. An owner must hear again whether its last entry is committed.
		if s.epoch == nil || !s.owned || s.epoch.AfterHash == s.log.headHash() {
			s.committed = s.log.headHash()
		}
		s.visible = s.log[:s.visibleLen(nil)]
	}
	return nil
}

// skipDamaged turns a store's report of damaged records into a warning: they are pulled again.
func (o *Owners) skipDamaged(err error) error {
	if errors.Is(err, env.ErrDamaged) {
		o.stats.Damaged++
		o.log.Warn("logs are damaged, and missing entries are pulled from the network again", "err", err)
		return nil
	}
	return err
}

func (o *Owners) loadReplica(key, value []byte) (*replica, error) {
	m := new(ownerpb.Replica)
	if err := proto.Unmarshal(value, m); err != nil {
		return nil, err
	}
	if len(key) != len(replicaPrefix)+len(overlay.ID{}) {
		return nil, ErrEpoch
	}
	s := &replica{
		key:       overlay.ID(key[len(replicaPrefix):]),
		url:       m.Url,
		follow:    m.Follow,
		promised:  votesFrom(m.Promised),
		signed:    votesFrom(m.Signed),
		note:      m.Note,
		version:   m.Version,
		lastHeard: o.clock.Now(),
	}
	var err error
	if m.Epoch != nil {
		if s.epoch, err = openEpoch(o.epochs.verify, m.Epoch); err != nil {
			return nil, err
		}
	}
	for _, raw := range m.Undecided {
		e, err := openEpoch(o.epochs.verify, raw)
		if err != nil {
			return nil, err
		}
		s.undecided = append(s.undecided, e)
	}
	return s, nil
}

// loadEntry adds a stored entry to the log of its replica.
func (o *Owners) loadEntry(value []byte) error {
	e, err := OpenEntry(o.epochs.verify, value)
	if err != nil {
		return err
	}
	if s := o.replicas.byKey[e.Key]; s != nil { // nil: the replica was forgotten between two commits
		s.log = append(s.log, e)
	}
	return nil
}

// buildChain orders the entries that were found in the store into one chain and returns the others. Others
// exist when the disk could not delete an entry, or wrote one in spite of reporting an error.
// If an entry in the middle is missing, an owner keeps what came after it, because it has acknowledged those
// entries. A follower drops everything and pulls the log again.
func (s *replica) buildChain(owns bool) (left []*Entry) {
	if len(s.log) == 0 {
		return nil
	}
	by, followed := map[Hash]*Entry{}, map[Hash]bool{}
	for _, e := range s.log {
		by[e.Hash] = e
		followed[e.Prev] = true
	}
	var tip *Entry
	for _, e := range s.log {
		if !followed[e.Hash] && (tip == nil || s.laterHead(e, tip)) {
			tip = e
		}
	}
	var log chain
	for e := tip; e != nil; e = by[e.Prev] {
		log = append(log, e)
		delete(by, e.Hash)
	}
	slices.Reverse(log)
	hole := false
	for _, e := range s.log {
		if by[e.Hash] != nil {
			left = append(left, e)
			hole = hole || e.At.Seq < log[0].At.Seq
		}
	}
	if hole && !owns {
		left, log = s.log, nil
	}
	s.setLog(log)
	return left
}

// laterHead reports whether the chain that ends in a continued longer than the one that ends in b.
func (s *replica) laterHead(a, b *Entry) bool {
	if s.epoch != nil && a.At.Branch != b.At.Branch {
		return a.At.Branch == s.epoch.Branch
	}
	return cmp.Or(cmp.Compare(a.At.Epoch, b.At.Epoch), cmp.Compare(a.At.Seq, b.At.Seq)) > 0
}

// forget drops a replica and its log. Its votes stay in the store, because a forgotten vote could be given
// twice.
func (o *Owners) forget(s *replica) {
	ops := append(o.deleteOps(s.log), o.deleteOps(s.orphaned)...)
	o.releaseSlot(s.candidacy)
	s.candidacy = nil
	o.replicas.remove(s)
	if s.pull != nil { // no retry will find the pull any more
		o.endPull(s, false)
	}
	if len(s.promised)+len(s.signed) == 0 {
		o.store.Commit(append(ops, env.Op{Key: replicaKey(s.key)}), func(error) {})
		return
	}
	locks := &replica{key: s.key, url: s.url, promised: s.promised, signed: s.signed}
	o.replicas.retired[s.key] = locks
	o.saveReplica(locks, nil, ops...)
}

// deleteOps returns the operations that delete entries and their bodies.
func (o *Owners) deleteOps(of chain) (ops []env.Op) {
	for _, e := range of {
		ops = append(ops, env.Op{Key: entryKey(e)}, env.Op{Key: bodyKey(e)})
		o.bodies.drop(e.Hash)
	}
	return ops
}

// putOps returns the operations that store entries and their bodies.
func putOps(of []*Entry, bodies [][]byte) (ops []env.Op) {
	for i, e := range of {
		ops = append(ops, env.Op{Key: entryKey(e), Value: e.Raw}, env.Op{Key: bodyKey(e), Value: bodies[i], Body: true})
	}
	return ops
}

// extend appends entries to a replica's log, or replaces the log with them if anew is set. It returns the
// operations that delete the entries that are kept no longer.
func (o *Owners) extend(s *replica, fresh []*Entry, bodies [][]byte, anew bool) (ops []env.Op) {
	old := s.log
	if anew {
		s.setLog(nil)
	}
	for i, e := range fresh {
		s.log = append(s.log, e)
		s.items += e.Items
		s.size += e.Size
		o.bodies.put(e.Hash, bodies[i])
	}
	if anew {
		ops = o.orphanOrDelete(s, slices.DeleteFunc(slices.Clone(old), func(e *Entry) bool { return s.log.find(e.Hash) >= 0 }))
	}
	if n := s.firstKept(s.log.headTime(), 0, 0); n > 0 {
		ops = append(ops, o.deleteOps(s.log[:n])...)
		for _, e := range s.log[:n] {
			s.items -= e.Items
			s.size -= e.Size
		}
		s.log = slices.Clone(s.log[n:])
	}
	return ops
}

// truncate drops the entries after the one that a new epoch continues from. They were not committed.
func (o *Owners) truncate(s *replica, after Hash) (ops []env.Op) {
	i := s.log.find(after)
	if i == len(s.log)-1 || i < 0 && after != (Hash{}) {
		return nil
	}
	ops = o.orphanOrDelete(s, s.log[i+1:])
	s.setLog(slices.Clone(s.log[:i+1]))
	return ops
}
