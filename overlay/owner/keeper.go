package owner

import (
	"iter"
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

const (
	maxListed  = 512    // entries of a LogList message
	maxSettled = 10_000 // records that one heartbeat stores because the last entry has settled, which takes the loop about 50 ms; later ones wait
)

// A keeper compares what this node and other owners know of the keys that they share, and decides which logs are kept.
type keeper struct {
	*membership
	storage   *storage
	puller    *puller
	liveness  *liveness
	sequencer *sequencer
	proposer  *proposer
	interval  time.Duration                      // average time between two heartbeats
	listed    map[env.PeerID]map[overlay.ID]bool // keys listed so far by sequencers whose heartbeat did not match
	// weight returns the number of clients in a key's tree; ok is false if this node is not the tree's root.
	weight func(key overlay.ID) (weight int, ok bool)
}

// heartbeat sends heartbeats and plans the next ones.
func (k *keeper) heartbeat(now time.Time) {
	k.sendHeartbeats(now)
	k.after(env.Jitter(k.rand, k.interval), task{kind: taskHeartbeat})
}

// sendHeartbeats sends each owner a digest of the keys that this node leads with it, reports weights as a root,
// and forgets logs that are needed no longer.
func (k *keeper) sendHeartbeats(now time.Time) {
	if k.node.State() != overlay.Active {
		return
	}
	shared := map[env.PeerID][]*replica{}
	var settled []*replica
	for _, s := range k.replicas.all() {
		if len(settled) < maxSettled && k.storage.countBeat(s) {
			settled = append(settled, s)
		}
		switch {
		case s.epoch == nil:
			// No epoch came of a message about this key. If an epoch signed here is in force, its
			// sequencer's next heartbeat says so.
			if quiet := now.Sub(s.lastHeard.Time()); k.idle(s) && (quiet > forgetDelay && len(s.undecided) == 0 || quiet > k.liveness.lease) {
				k.forget(s)
			}
			continue
		case s.leader != nil && k.unread(s, now):
			k.retire(s)
			continue
		case s.leader != nil:
			k.sequencer.checkAcks(s, k.liveness.lease)
			k.checkOwners(s) // in case a change was missed
			k.askWeight(s, now)
			if k.outsideLeaf(s.key) {
				// The owners in the key's own leaf would have taken over by now if they knew of this branch.
				// An empty log has nothing to merge, so it ends. The root hears of any other log.
				k.proposer.RequestOwners(s.key, s.url, func(ok bool) {
					if ok && s.leader != nil && len(s.log.chain) == 0 && k.outsideLeaf(s.key) && k.replicas.byKey[s.key] == s {
						k.retire(s)
					}
				})
			}
			for _, p := range s.epoch.Owners {
				if p != k.self {
					shared[p] = append(shared[p], s)
				}
			}
		case s.notOwnerSince != env.Never && k.idle(s) && now.Sub(s.notOwnerSince.Time()) > forgetDelay:
			k.forget(s)
			continue
		case s.ledBy(k.self): // since a former run; this one is about to lead it again
		case s.owned:
			k.suspectSequencer(s, now)
		case s.notOwnerSince == env.Never && k.idle(s):
			s.notOwnerSince = env.MomentOf(now) // ownership ended in a former run
		}
		k.reportWeight(s, now)
	}
	k.storage.saveSettled(slices.DeleteFunc(settled, func(s *replica) bool { return k.replicas.byKey[s.key] != s }))
	maps.DeleteFunc(k.liveness.matched, func(p env.PeerID, _ time.Time) bool { return !k.alive(p) })
	maps.DeleteFunc(k.ahead, func(p env.PeerID, _ time.Duration) bool { return !k.alive(p) })
	maps.DeleteFunc(k.listed, func(p env.PeerID, _ map[overlay.ID]bool) bool { return !k.alive(p) })
	for _, p := range slices.Sorted(maps.Keys(shared)) {
		count, digest := digestOf(slices.Values(shared[p]))
		k.send(p, &ownerpb.Message{Body: &ownerpb.Message_Heartbeat{Heartbeat: &ownerpb.Heartbeat{Nonce: k.nextNonce(), Count: count, Digest: digest, ClockMs: k.clockMillis()}}})
	}
}

// suspectSequencer handles a sequencer that is dead, or has not mentioned the key for long: it may have ceased to
// be the sequencer without this node's knowledge.
func (k *keeper) suspectSequencer(s *replica, now time.Time) {
	switch quiet := now.Sub(k.liveness.lastHeard(s)); {
	case quiet > k.liveness.lease && !s.follow && !k.node.Leaf().Covers(s.key):
		// The key lies outside the leaf, and the owners there do not count on this node, for example because
		// its branch has ended. The root hears of the key before this node forgets it.
		if s.notOwnerSince == env.Never {
			k.proposer.RequestOwners(s.key, s.url, func(ok bool) {
				if ok && s.notOwnerSince == env.Never {
					s.notOwnerSince = env.MomentOf(k.clock.Now())
				}
			})
		}
	case !k.alive(s.epoch.Sequencer), quiet > k.liveness.lease, k.liveness.stalled(s):
		k.campaignIn(s, k.turn(s))
	case quiet > 3*k.interval && s.pull == nil:
		k.puller.pullFrom(s, s.epoch.Sequencer)
	}
}

// digestOf returns the number of replicas and the xor of their digests. Two nodes that know the same about the same
// keys get the same values.
func digestOf(of iter.Seq[*replica]) (count uint32, digest uint64) {
	for s := range of {
		count++
		digest ^= s.digest()
	}
	return count, digest
}

// digest returns a hash of the key, its epoch, head, note version, and whether the head is committed.
func (s *replica) digest() uint64 {
	h := s.log.headHash().short()
	for _, v := range []uint64{Hash(s.key).short(), s.epoch.Branch, uint64(s.epoch.Number), s.version} {
		if !s.log.headCommitted() {
			v++
		}
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// onHeartbeat compares the sequencer's digest with this node's, and answers whether they match.
func (k *keeper) onHeartbeat(from env.PeerID, m *ownerpb.Heartbeat) {
	if !k.alive(from) {
		return // the sequencers of owned keys are in the leaf
	}
	k.heardClock(from, m.ClockMs)
	count, digest := digestOf(maps.Keys(k.replicas.ledBy[from]))
	match := count == m.Count && digest == m.Digest
	if match {
		k.liveness.matched[from] = k.clock.Now()
	} else {
		k.listed[from] = map[overlay.ID]bool{}
	}
	k.send(from, &ownerpb.Message{Body: &ownerpb.Message_HeartbeatAck{HeartbeatAck: &ownerpb.HeartbeatAck{Nonce: m.Nonce, Match: match, ClockMs: k.clockMillis()}}})
}

// onHeartbeatAck sends the list of all shared keys to an owner whose digest did not match.
func (k *keeper) onHeartbeatAck(from env.PeerID, m *ownerpb.HeartbeatAck) {
	if !k.alive(from) {
		return // no owner of a key that this node leads
	}
	k.heardClock(from, m.ClockMs)
	if m.Match {
		return
	}
	var states []*ownerpb.LogState
	for _, s := range k.replicas.all() {
		if s.leader != nil && s.epoch.owns(from) {
			states = append(states, &ownerpb.LogState{
				Key: s.key[:], Branch: s.epoch.Branch, Number: s.epoch.Number, Head: s.log.headHash().short(), Version: s.version,
			})
		}
	}
	for {
		n := min(len(states), maxListed)
		k.send(from, &ownerpb.Message{Body: &ownerpb.Message_LogList{LogList: &ownerpb.LogList{States: states[:n], Last: n == len(states), Nonce: m.Nonce}}})
		if states = states[n:]; len(states) == 0 {
			return
		}
	}
}

// onList pulls the logs that differ from the sequencer's list.
func (k *keeper) onList(from env.PeerID, m *ownerpb.LogList) {
	listed := k.listed[from]
	if listed == nil {
		return
	}
	for _, st := range m.States {
		key := overlay.ID(st.Key)
		if len(listed) >= maxReplicas {
			return
		}
		listed[key] = true
		s := k.replicas.byKey[key]
		if s == nil {
			if k.replicas.full() || !slices.Contains(k.nearest(key, nil), k.self) {
				continue
			}
			s = k.replicas.ensure(key, "", k.clock.Now())
		}
		switch {
		case s.epoch != nil && s.epoch.Branch != st.Branch && s.epoch.owns(k.self) && s.epoch.Sequencer != from:
			k.sendCommit(from, s) // two branches: the sequencers resolve it
		case s.epoch == nil || s.epoch.Number != st.Number || s.log.headHash().short() != st.Head || s.version != st.Version || !s.log.headCommitted() || s.epoch.Branch != st.Branch:
			k.puller.pullFrom(s, from)
		default:
			k.liveness.heard(s)
		}
	}
	if !m.Last {
		return
	}
	delete(k.listed, from)
	for _, s := range sortedByKey(maps.Keys(k.replicas.ledBy[from])) {
		if !listed[s.key] {
			k.puller.pullFrom(s, from) // the sequencer does not list the key any more, and answers with the epoch
		}
	}
}

const (
	// A root reports its weight at once if it has changed by more than 1/weightChange.
	weightChange = 33
	// forgetDelay is how long a former owner keeps a log, which the new owners may still pull.
	forgetDelay = time.Minute
	// retireAfter is how long a log without readers is kept.
	retireAfter = 24 * time.Hour
)

// readers is what is known of the readers of a key.
type readers struct {
	weight   int        // clients of the key's tree, as its root counts them
	weightAt env.Moment // time of the last weight received, or reported
	reported int        // last weight that this node, as the root, has reported
	lastRead env.Moment // last time the sequencer knew of a client
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
		s.readers.lastRead = env.MomentOf(now)
	}
	return now.Sub(s.readers.lastRead.Time()) > retireAfter
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
		s.readers.weight, s.readers.weightAt = weight, env.MomentOf(now)
		return
	}
	lately := now.Sub(s.readers.weightAt.Time()) < k.liveness.lease/2
	if change := weight - s.readers.reported; lately && change*weightChange <= s.readers.reported && -change*weightChange <= s.readers.reported {
		return
	}
	s.readers.reported, s.readers.weightAt = weight, env.MomentOf(now)
	k.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_WeightReport{WeightReport: &ownerpb.WeightReport{Key: s.key[:], Weight: uint32(weight)}}})
}

// onWeightReport takes the root's count. It is accepted from members of the leaf only, which include the root.
func (k *keeper) onWeightReport(from env.PeerID, m *ownerpb.WeightReport) {
	s := k.replicas.of(m.Key)
	if s == nil || s.leader == nil || !k.alive(from) {
		return
	}
	s.readers.weight, s.readers.weightAt = int(m.Weight), env.MomentOf(k.clock.Now())
}

// askWeight asks the root of a key's tree how many clients that has, if it has not said so for most of a lease. A root that is
// left out of the owners keeps no replica, and would not say it by itself.
func (k *keeper) askWeight(s *replica, now time.Time) {
	if now.Sub(s.readers.weightAt.Time()) < k.liveness.lease*3/4 || k.node.IsRoot(s.key) {
		return
	}
	if near := k.node.Leaf().NearestN(s.key, 1); len(near) > 0 {
		k.send(near[0].Peer.ID, &ownerpb.Message{Body: &ownerpb.Message_WeightRequest{WeightRequest: &ownerpb.WeightRequest{Key: s.key[:]}}})
	}
}

func (k *keeper) onWeightRequest(from env.PeerID, m *ownerpb.WeightRequest) {
	key := overlay.ID(m.Key)
	if weight, ok := k.weight(key); k.alive(from) && (ok || k.node.IsRoot(key)) {
		k.send(from, &ownerpb.Message{Body: &ownerpb.Message_WeightReport{WeightReport: &ownerpb.WeightReport{Key: m.Key, Weight: uint32(weight)}}})
	}
}

// forget drops a replica and its log. Its votes stay in the store, because a forgotten vote could be given
// twice.
func (k *keeper) forget(s *replica) {
	ops := append(k.storage.deleteOps(s.log.chain), k.storage.deleteOps(s.log.orphaned)...)
	k.proposer.end(s)
	k.replicas.remove(s)
	if s.pull != nil { // no retry will find the pull any more
		k.puller.end(s, false)
	}
	if len(s.promised)+len(s.signed) == 0 {
		k.storage.drop(append(ops, env.Op{Key: replicaKey(s.key)}))
		return
	}
	locks := &replica{key: s.key, url: s.url, ballot: ballot{promised: s.promised, signed: s.signed}}
	k.replicas.retired[s.key] = locks
	k.storage.save(locks, nil, ops...)
}

// idle reports whether nothing is under way for a key and nobody here follows it.
func (k *keeper) idle(s *replica) bool {
	return !s.follow && s.candidacy == nil && s.campaign.at == env.Never && !s.campaign.waiting && s.pull == nil
}
