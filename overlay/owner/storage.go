package owner

import (
	"encoding/binary"
	"log/slog"
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
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
	// visibleChanged is called when the entries that readers may see have changed.
	visibleChanged func(key overlay.ID)
}

func newStorage(e env.Env, stats *Stats, r *replicas, visibleChanged func(key overlay.ID)) *storage {
	d := &storage{
		store: e.Store, worker: e.Worker, log: e.Log, stats: stats, replicas: r,
		bodies: bodyCache{byEntry: map[Hash][]byte{}}, volatile: map[Hash]bool{}, visibleChanged: visibleChanged,
	}
	d.bodies.pinned = func(h Hash) bool { return d.volatile[h] }
	return d
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

// durable reports whether an entry of a log here is stored.
func (d *storage) durable(h Hash) bool { return !d.volatile[h] }

// putOps returns the operations that store entries and their bodies.
func putOps(of []*Entry, bodies [][]byte) (ops []env.Op) {
	for i, e := range of {
		ops = append(ops, env.Op{Key: entryKey(e), Value: e.Raw}, env.Op{Key: bodyKey(e), Value: bodies[i], Body: true})
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

// append appends verified entries to the log. When they are durable it calls then with true; if they are not
// to be in the log, with false.
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
				d.store.Commit(d.deleteOps(s.log.chain[i:]), func(error) {}) // later entries may have been stored
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
	d.visibleChanged(s.key)
}
