package owner

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

const (
	// weightChange is the inverse of the relative change of the weight that the root reports at once: 1/33.
	weightChange = 33
	// forgetDelay is how long a former owner keeps a log, which the new owners may still pull.
	forgetDelay = time.Minute
	// retireAfter is how long a log without readers is kept.
	retireAfter = 24 * time.Hour
)

// A readers is what is known of the readers of a key.
type readers struct {
	weight   int       // clients of the key's tree, as its root counts them
	weightAt time.Time // time of the last weight received, or reported
	reported int       // last weight that this node, as the root, has reported
	lastRead time.Time // last time the sequencer knew of a client
}

// Follow makes this node keep the log of a key.
func (k *keeper) Follow(key overlay.ID, url string) {
	s := k.replicas.ensure(key, url, k.clock.Now())
	if !s.follow {
		s.follow = true
		k.storage.save(s, nil)
	}
}

// Unfollow ends a Follow. The log is forgotten unless this node is an owner.
func (k *keeper) Unfollow(key overlay.ID) {
	s := k.replicas.byKey[key]
	if s == nil || !s.follow {
		return
	}
	s.follow = false
	k.storage.Release(key, Hash{})
	if !s.owned {
		k.forget(s)
		return
	}
	k.storage.save(s, nil)
}

// unread reports whether a key that this node leads has had no clients for retireAfter.
func (k *keeper) unread(s *replica, now time.Time) bool {
	if s.readers.weight > 0 || s.follow {
		s.readers.lastRead = now
	}
	return now.Sub(s.readers.lastRead) > retireAfter
}

// retire ends a log at all of its owners. A later subscriber founds it anew.
func (k *keeper) retire(s *replica) {
	k.sendOthers(s.epoch.Owners, &ownerpb.Message{Body: &ownerpb.Message_Retire{Retire: &ownerpb.Retire{
		Key: s.key[:], Branch: s.epoch.Branch, Number: s.epoch.Number,
	}}})
	k.sequencer.stepDown(s)
	k.forget(s)
}

// onRetire forgets a log that its sequencer has ended. An owner that misses the message takes over and retires the
// log later.
func (k *keeper) onRetire(from env.PeerID, m *ownerpb.Retire) {
	s := k.replicas.of(m.Key)
	if s == nil || s.epoch == nil || s.epoch.Sequencer != from || s.epoch.Branch != m.Branch || s.epoch.Number != m.Number || s.follow {
		return
	}
	k.forget(s)
}

// reportWeight tells the sequencer how many clients the key's tree has, if this node is its root.
func (k *keeper) reportWeight(s *replica, now time.Time) {
	weight, ok := k.weight(s.key)
	if !ok && !k.node.IsRoot(s.key) || s.epoch == nil {
		return // not the root. A root without a tree reports 0 clients
	}
	if s.leader != nil {
		s.readers.weight, s.readers.weightAt = weight, now
		return
	}
	lately := now.Sub(s.readers.weightAt) < k.liveness.lease/2
	if change := weight - s.readers.reported; lately && change*weightChange <= s.readers.reported && -change*weightChange <= s.readers.reported {
		return
	}
	s.readers.reported, s.readers.weightAt = weight, now
	k.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_WeightReport{WeightReport: &ownerpb.WeightReport{Key: s.key[:], Weight: uint32(weight)}}})
}

// onWeightReport takes the root's count. It is accepted from members of the leaf only, which include the root.
func (k *keeper) onWeightReport(from env.PeerID, m *ownerpb.WeightReport) {
	s := k.replicas.of(m.Key)
	if s == nil || s.leader == nil || !k.alive(from) {
		return
	}
	s.readers.weight, s.readers.weightAt = int(m.Weight), k.clock.Now()
}

// forget drops a replica and its log. Its votes stay in the store, because a forgotten vote could be given
// twice.
func (k *keeper) forget(s *replica) {
	ops := append(k.storage.deleteOps(s.log.chain), k.storage.deleteOps(s.log.orphaned)...)
	k.proposer.releaseSlot(s.candidacy)
	s.candidacy = nil
	k.replicas.remove(s)
	if s.pull != nil { // no retry will find the pull any more
		k.puller.end(s, false)
	}
	if len(s.promised)+len(s.signed) == 0 {
		k.storage.store.Commit(append(ops, env.Op{Key: replicaKey(s.key)}), func(error) {})
		return
	}
	locks := &replica{key: s.key, url: s.url, ballot: ballot{promised: s.promised, signed: s.signed}}
	k.replicas.retired[s.key] = locks
	k.storage.save(locks, nil, ops...)
}

// idle reports whether nothing is under way for a key and nobody here follows it.
func (k *keeper) idle(s *replica) bool {
	return !s.follow && s.candidacy == nil && s.campaign.at.IsZero() && !s.campaign.waiting && s.pull == nil
}
