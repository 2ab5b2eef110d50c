package owner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A storage keeps the logs of a node on disk, and tells which of their entries readers may see. Readers see entries that
// are durable here and committed, so that no death of a node takes them back. Only the last entry of a log may be
// uncommitted, because the sequencer makes the next one after the commit.
type storage struct {
	store    env.Store
	worker   env.Worker
	log      *slog.Logger
	stats    *Stats
	replicas *replicas
	bodies   bodyCache
	volatile map[Hash]bool // entries of logs that are not durable yet
	emit     func(Event)
}

func newStorage(e env.Env, stats *Stats, r *replicas, emit func(Event)) *storage {
	volatile := map[Hash]bool{}
	return &storage{
		store: e.Store, worker: e.Worker, log: e.Log, stats: stats, replicas: r, volatile: volatile,
		bodies: bodyCache{byEntry: map[Hash][]byte{}, pinned: volatile}, emit: emit,
	}
}

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

// save makes a replica's record durable, together with other operations of the same change, and then
// calls then. If the disk refuses, then is not called, so nothing is promised that is not stored.
func (d *storage) save(s *replica, then func(), ops ...env.Op) {
	d.store.Commit(append(ops, s.storeOp()), func(err error) {
		if err != nil {
			d.stats.StoreErrors++
			d.log.Debug("log of a feed could not be stored", "url", s.url, "err", err)
			return
		}
		if then != nil {
			then()
		}
	})
}

// countBeat counts a heartbeat of an owner's log towards noting that its last entry is committed, and reports whether that is due.
func (d *storage) countBeat(s *replica) (due bool) {
	switch head := s.log.headHash(); {
	case s.log.unsettled == 0, !s.owned, len(s.log.chain) == 0, !s.log.headCommitted(), !d.durable(head), s.follow && !s.log.read:
		return false
	}
	s.log.unsettled--
	return s.log.unsettled == 0
}

// saveSettled stores the records of replicas whose last entries have been committed for a while. If the disk refuses, the next start
// takes these entries for news.
func (d *storage) saveSettled(of []*replica) {
	if len(of) == 0 {
		return
	}
	var ops []env.Op
	for _, s := range of {
		ops = append(ops, s.storeOp())
	}
	d.store.Commit(ops, func(err error) {
		if err != nil {
			d.stats.StoreErrors++
			d.log.Debug("committed entries could not be noted", "err", err)
		}
	})
}

// durable reports whether an entry of a log here is stored.
func (d *storage) durable(h Hash) bool { return !d.volatile[h] }

// putOps returns the operations that store entries and their bodies.
func putOps(of []*Entry, bodies [][]byte) (ops []env.Op) {
	for i, e := range of {
		ops = append(ops, env.Op{Key: entryKey(e), Value: e.Raw()}, env.Op{Key: bodyKey(e), Value: bodies[i], Body: true})
	}
	return ops
}

// deleteOps returns the operations that delete entries and their bodies.
func (d *storage) deleteOps(of chain) (ops []env.Op) {
	for _, e := range of {
		ops = append(ops, env.Op{Key: entryKey(e)}, env.Op{Key: bodyKey(e)})
		d.bodies.drop(e.Hash)
	}
	return ops
}

// drop executes operations that delete. If the disk refuses, assemble drops the entries at the next start.
func (d *storage) drop(ops []env.Op) {
	if len(ops) > 0 {
		d.store.Commit(ops, func(error) {})
	}
}

// extend appends entries to a replica's log, or replaces the log with them if anew is set. It returns the
// operations that delete the entries that are kept no longer.
func (d *storage) extend(s *replica, fresh []*Entry, bodies [][]byte, anew bool) (ops []env.Op) {
	old := s.log.chain
	if anew {
		s.log.set(nil)
	}
	for i, e := range fresh {
		s.log.add(e)
		d.bodies.put(e.Hash, bodies[i])
	}
	if anew {
		ops = d.orphanOrDelete(s, slices.DeleteFunc(slices.Clone(old), func(e *Entry) bool { return s.log.find(e.Hash) >= 0 }))
	}
	return append(ops, d.deleteOps(s.log.prune())...)
}

// cut drops the entries that an epoch does not continue; they were not committed. It returns the operations that delete
// them.
func (d *storage) cut(s *replica, e *Epoch) (ops []env.Op) {
	old := s.log.cut(e)
	d.stats.Truncated += uint64(len(old))
	return d.orphanOrDelete(s, old)
}

// append appends verified entries to the log. When they are durable it calls then with true; if the disk refused
// them, or the log was cut meanwhile, with false.
func (d *storage) append(s *replica, fresh []*Entry, bodies [][]byte, anew bool, then func(ok bool)) {
	for _, e := range fresh {
		d.volatile[e.Hash] = true
	}
	old := s.log.chain
	ops := append(putOps(fresh, bodies), d.extend(s, fresh, bodies, anew)...)
	d.stats.Replicated += uint64(len(fresh))
	d.store.Commit(ops, func(err error) {
		for _, e := range fresh {
			delete(d.volatile, e.Hash)
		}
		if err != nil {
			d.stats.StoreErrors++
			d.log.Debug("log entries could not be stored", "url", s.url, "err", err)
			// Entries that are not durable must not be acknowledged, nor be followed by durable ones. They are
			// dropped and requested again.
			switch i := s.log.find(fresh[0].Hash); {
			case i >= 0 && anew:
				s.log.set(old)
			case i >= 0:
				d.drop(d.deleteOps(s.log.chain[i:])) // later entries may have been stored
				s.log.set(slices.Clone(s.log.chain[:i]))
			}
			s.log.committed = s.log.visible.headHash()
			then(false)
			return
		}
		if s.log.find(fresh[len(fresh)-1].Hash) < 0 {
			then(false) // an earlier entry was not stored, or the log was truncated
			return
		}
		d.updateVisible(s)
		then(true)
	})
}

// markCommitted records that an entry is committed, if it is the last one here.
func (d *storage) markCommitted(s *replica, h Hash) {
	if h == s.log.headHash() {
		s.log.committed = h
		d.updateVisible(s)
	}
}

// updateVisible shows readers the entries that have become durable and committed.
func (d *storage) updateVisible(s *replica) {
	if head := s.log.head(); head != nil && s.log.visible.has(head) {
		s.log.committed = head.Hash // known from when the log was longer, or another one
	}
	n := s.log.visibleLen(d.volatile)
	if n == 0 && len(s.log.chain) > 0 {
		return // the log was replaced by one that is not durable yet; readers keep seeing the old one
	}
	if len(s.log.visible) == n && (n == 0 || s.log.visible[0] == s.log.chain[0] && s.log.visible[n-1] == s.log.chain[n-1]) {
		return
	}
	s.log.visible = s.log.chain[:n:n]
	d.emit(VisibleChanged{s.key})
}

// A follower that switches to another branch drops entries that its readers were shown, before the two branches are
// merged. These orphaned entries stay readable until the application has copied what it needs; otherwise it would
// have to take the items back.

// maxOrphaned bounds the orphaned entries of one key. At the bound further ones are deleted at once. Entries stay until
// the application has read them.
const maxOrphaned = 4096

// Orphaned returns the entries up to the one with the hash last that readers were shown and that this node's log lacks
// after a switch of branch, oldest first. Their bodies can be read until Release.
func (d *storage) Orphaned(key overlay.ID, last Hash) (of []*Entry) {
	log := d.replicas.log(key)
	for at := log.orphaned.find(last); at >= 0; at = log.orphaned.find(log.orphaned[at].Prev) {
		if e := log.orphaned[at]; log.find(e.Hash) < 0 {
			of = append(of, e)
		}
	}
	slices.Reverse(of)
	return of
}

// Release tells that the application has read the log of a key up to the entry with the hash last. It deletes the orphaned entries,
// except for those that Orphaned returns for last.
func (d *storage) Release(key overlay.ID, last Hash) {
	log := d.replicas.log(key)
	log.read = log.read || last == log.headHash()
	kept := d.Orphaned(key, last)
	log.orphaned = slices.DeleteFunc(log.orphaned, func(e *Entry) bool { return slices.Contains(kept, e) || log.find(e.Hash) >= 0 })
	ops := d.deleteOps(log.orphaned)
	log.orphaned = kept
	d.drop(ops)
}

// orphanOrDelete handles entries that leave the log: those that readers were shown become orphaned. It returns the
// operations that delete the others.
func (d *storage) orphanOrDelete(s *replica, of chain) (ops []env.Op) {
	for _, e := range of {
		switch {
		case s.log.orphaned.find(e.Hash) >= 0:
		case s.follow && s.log.visible.find(e.Hash) >= 0 && len(s.log.orphaned) < maxOrphaned:
			s.log.orphaned = append(s.log.orphaned, e)
		default:
			ops = append(ops, d.deleteOps(chain{e})...)
		}
	}
	return ops
}

// A bodyCache holds recent bodies in memory: those that are not durable yet, and those that several owners
// and followers will soon ask for. All other bodies are read from the store.
type bodyCache struct {
	byEntry map[Hash][]byte // bodies by the hashes of their entries
	order   []Hash          // entries in the order of insertion; may name dropped bodies
	size    int             // total size of the bodies, in bytes; about maxCachedBytes at most
	pinned  map[Hash]bool   // entries whose bodies are stored nowhere else yet, and must stay
}

// maxCachedBytes bounds the cache: several seconds of entries even at a busy node.
const maxCachedBytes = 8 << 20

func (b *bodyCache) put(h Hash, body []byte) {
	if _, known := b.byEntry[h]; known {
		return
	}
	b.byEntry[h] = body
	b.order = append(b.order, h)
	b.size += len(body)
	for b.size > maxCachedBytes && len(b.order) > 1 && !b.pinned[b.order[0]] {
		b.drop(b.order[0])
		b.order = b.order[1:]
	}
	if len(b.order) > 2*len(b.byEntry)+64 { // most of order names dropped bodies
		b.order = slices.DeleteFunc(b.order, func(h Hash) bool { _, kept := b.byEntry[h]; return !kept })
	}
}

// drop removes a body. Its hash stays in order and is skipped there.
func (b *bodyCache) drop(h Hash) {
	b.size -= len(b.byEntry[h])
	delete(b.byEntry, h)
}

// Body reads the body of an entry and passes it to then; nil if it is lost.
func (d *storage) Body(e *Entry, then func(body []byte)) {
	d.Bodies([]*Entry{e}, func(bodies [][]byte) { then(bodies[0]) })
}

// Bodies reads the bodies of several entries and passes them to then, with nil for those that are lost. If all
// are cached, then is called before Bodies returns.
func (d *storage) Bodies(of []*Entry, then func(bodies [][]byte)) {
	got := make([][]byte, len(of))
	var missing []int
	for i, e := range of {
		if body, ok := d.bodies.byEntry[e.Hash]; ok {
			got[i] = body
		} else {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		then(got)
		return
	}
	store, lost := d.store, 0
	d.worker.Do(func() {
		for _, i := range missing {
			body, err := store.Get(bodyKey(of[i]))
			if err != nil || HashOf(body) != of[i].Body {
				lost++
				continue
			}
			got[i] = body
		}
	}, func() {
		d.stats.Lost += uint64(lost)
		then(got)
	})
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
		Barred:    barsProto(s.campaign.barred),
		Settled:   s.log.settledHead(),
	}
	return env.Op{Key: replicaKey(s.key), Value: wire.Encode(m)}
}

// load reads the replicas and logs that a former run has stored, which had verified their signatures. Unreadable records are
// dropped; they are pulled from other nodes again.
func (d *storage) load(now time.Time) error {
	settled := map[overlay.ID]Hash{} // last entries, by key
	err := d.store.Range([]byte(replicaPrefix), func(key, value []byte) bool {
		s, last, err := openReplica(wire.Reopener, key, value)
		if err != nil {
			d.stats.Damaged++
			d.log.Warn("log of a feed is unreadable and is pulled from the network again", "err", err)
			return true
		}
		s.lastHeard = env.MomentOf(now)
		s.campaign.shorten(now)
		settled[s.key] = last
		if s.epoch == nil && !s.follow {
			d.replicas.retired[s.key] = s
		} else {
			d.replicas.add(s)
		}
		return true
	})
	if err := d.skipDamaged(err); err != nil {
		return fmt.Errorf("read replicas: %w", err)
	}
	err = d.store.Range([]byte(entryPrefix), func(key, value []byte) bool {
		e, err := OpenEntry(wire.Reopener, value)
		if err == nil {
			if s := d.replicas.byKey[e.Key]; s != nil { // nil: the replica was forgotten between two commits
				s.log.chain = append(s.log.chain, e)
			}
			return true
		}
		d.stats.Damaged++
		url := ""
		if k := key[len(entryPrefix):]; len(k) > len(overlay.ID{}) {
			if s := d.replicas.of(k[:len(overlay.ID{})]); s != nil {
				url = s.url
			}
		}
		d.log.Warn("entry of a log is unreadable and is pulled from the network again", "url", url, "err", err)
		return true
	})
	if err := d.skipDamaged(err); err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	names := map[env.PeerID]env.PeerID{}
	for _, s := range d.replicas.all() {
		d.drop(d.deleteOps(s.log.assemble(s.epoch, s.owned)))
		s.share(names)
		// A follower keeps committed entries only. An owner must hear again whether its last entry is committed, unless it is noted.
		switch head := s.log.headHash(); {
		case s.owned && settled[s.key] == head:
			s.log.committed, s.log.unsettled = head, 0
		case s.epoch == nil || !s.owned || s.epoch.AfterHash == head:
			s.log.committed = head
		}
		s.log.visible = s.log.chain[:s.log.visibleLen(nil)]
	}
	return nil
}

// share gives a replica the same strings as the others. A node keeps the logs of many keys, and knows few peers.
func (s *replica) share(names map[env.PeerID]env.PeerID) {
	share := func(p *env.PeerID) {
		if known, ok := names[*p]; ok {
			*p = known
		} else {
			names[*p] = *p
		}
	}
	for _, e := range append([]*Epoch{s.epoch}, s.undecided...) {
		if e == nil {
			continue
		}
		if e.URL == s.url { // equal text becomes the same text
			e.URL = s.url
		}
		share(&e.Sequencer)
		for i := range e.Owners {
			share(&e.Owners[i])
		}
		for i := range e.signers {
			share(&e.signers[i])
		}
	}
	for _, of := range []votes{s.promised, s.signed} {
		for i := range of {
			share(&of[i].candidate)
		}
	}
	for _, e := range s.log.chain {
		share(&e.Signer)
	}
}

// skipDamaged turns a store's report of damaged records into a warning: they are pulled again.
func (d *storage) skipDamaged(err error) error {
	if errors.Is(err, env.ErrDamaged) {
		d.stats.Damaged++
		d.log.Warn("logs are damaged, and missing entries are pulled from the network again", "err", err)
		return nil
	}
	return err
}

// openReplica decodes a replica's record. settled is the last entry of the log that the record is for, if that was noted to be
// committed.
func openReplica(verify wire.Verifier, key, value []byte) (s *replica, settled Hash, err error) {
	m := new(ownerpb.Replica)
	if err := proto.Unmarshal(value, m); err != nil {
		return nil, settled, err
	}
	if len(key) != len(replicaPrefix)+len(overlay.ID{}) || len(m.Settled) != 0 && len(m.Settled) != len(settled) {
		return nil, settled, ErrEpoch
	}
	copy(settled[:], m.Settled)
	s = &replica{
		key:     overlay.ID(key[len(replicaPrefix):]),
		url:     m.Url,
		follow:  m.Follow,
		ballot:  ballot{promised: votesFrom(m.Promised), signed: votesFrom(m.Signed)},
		note:    m.Note,
		version: m.Version,
	}
	s.campaign.barred = barsFrom(m.Barred)
	if m.Epoch != nil {
		if s.epoch, err = openEpoch(verify, m.Epoch); err != nil {
			return nil, settled, err
		}
		if s.epoch.URL == s.url {
			s.url = s.epoch.URL // the same string
		}
	}
	s.undecided, err = openEpochs(verify, m.Undecided)
	return s, settled, err
}
