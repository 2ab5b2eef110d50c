package owner

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

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

// load reads the replicas and logs that a former run has stored. Unreadable records are dropped; they are
// pulled from other nodes again.
func (d *storage) load(verify wire.Verifier, now time.Time) error {
	err := d.store.Range([]byte(replicaPrefix), func(key, value []byte) bool {
		s, err := openReplica(verify, key, value)
		if err != nil {
			d.stats.Damaged++
			d.log.Warn("log of a feed is unreadable and is pulled from the network again", "err", err)
			return true
		}
		s.lastHeard = now
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
		e, err := OpenEntry(verify, value)
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
	for _, s := range d.replicas.all() {
		d.drop(d.deleteOps(s.log.assemble(s.epoch, s.owned)))
		// A follower keeps committed entries only. An owner must hear again whether its last entry is committed.
		if s.epoch == nil || !s.owned || s.epoch.AfterHash == s.log.headHash() {
			s.log.committed = s.log.headHash()
		}
		s.log.visible = s.log.chain[:s.log.visibleLen(nil)]
	}
	return nil
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

// openReplica decodes a replica's record.
func openReplica(verify wire.Verifier, key, value []byte) (*replica, error) {
	m := new(ownerpb.Replica)
	if err := proto.Unmarshal(value, m); err != nil {
		return nil, err
	}
	if len(key) != len(replicaPrefix)+len(overlay.ID{}) {
		return nil, ErrEpoch
	}
	s := &replica{
		key:     overlay.ID(key[len(replicaPrefix):]),
		url:     m.Url,
		follow:  m.Follow,
		ballot:  ballot{promised: votesFrom(m.Promised), signed: votesFrom(m.Signed)},
		note:    m.Note,
		version: m.Version,
	}
	var err error
	if m.Epoch != nil {
		if s.epoch, err = openEpoch(verify, m.Epoch); err != nil {
			return nil, err
		}
	}
	s.undecided, err = openEpochs(verify, m.Undecided)
	return s, err
}
