package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

const (
	maxListed = 512 // entries of a LogList message
	// weightChange is the inverse of the relative change of the weight that the root reports at once: 1/33.
	weightChange = 33
	// forgetDelay is how long a former owner keeps a log, which the new owners may still pull.
	forgetDelay = time.Minute
)

// heartbeat sends each owner a digest of the keys that this node leads with it, reports weights as a root,
// and forgets logs that are needed no longer.
func (o *Owners) heartbeat(now time.Time) {
	if o.node.State() != overlay.Active {
		return
	}
	shared := map[env.PeerID][]*replica{}
	for _, s := range o.replicas.all() {
		switch {
		case s.epoch == nil:
			// No epoch came of a message about this key. If an epoch signed here is in force, its
			// sequencer's next heartbeat says so.
			if quiet := now.Sub(s.lastHeard); o.idle(s) && (quiet > forgetDelay && len(s.undecided) == 0 || quiet > o.cfg.Lease) {
				o.forget(s)
			}
			continue
		case s.leader != nil && o.unread(s, now):
			o.retire(s)
			continue
		case s.leader != nil:
			o.checkOwners(s) // in case a change was missed
			if o.outsideLeaf(s.key) {
				// The owners in the key's own leaf would have taken over by now if they knew of this branch.
				// An empty log has nothing to merge, so it ends. The root hears of any other log.
				o.RequestOwners(s.key, s.url, func(ok bool) {
					if ok && s.leader != nil && len(s.log.chain) == 0 && o.outsideLeaf(s.key) && o.replicas.byKey[s.key] == s {
						o.retire(s)
					}
				})
			}
			for _, p := range s.epoch.Owners {
				if p != o.self {
					shared[p] = append(shared[p], s)
				}
			}
		case s.owned && !s.notOwnerSince.IsZero() && o.idle(s) && now.Sub(s.notOwnerSince) > forgetDelay:
			o.forget(s)
			continue
		case s.owned:
			o.suspectSequencer(s, now)
		case o.idle(s) && s.notOwnerSince.IsZero():
			s.notOwnerSince = now // ownership ended in a former run
		case o.idle(s) && now.Sub(s.notOwnerSince) > forgetDelay:
			o.forget(s)
			continue
		}
		o.reportWeight(s, now)
	}
	for p := range o.matched {
		if !o.alive(p) {
			delete(o.matched, p)
		}
	}
	for p := range o.listed { // includes peers whose heartbeats never matched
		if !o.alive(p) {
			delete(o.listed, p)
		}
	}
	for _, p := range sortedPeers(shared) {
		count, digest := digestOf(shared[p])
		o.send(p, &ownerpb.Message{Body: &ownerpb.Message_Heartbeat{Heartbeat: &ownerpb.Heartbeat{Nonce: o.nextNonce(), Count: count, Digest: digest}}})
	}
}

// idle reports whether nothing is under way for a key and nobody here follows it.
func (o *Owners) idle(s *replica) bool {
	return !s.follow && s.candidacy == nil && s.campaign.at.IsZero() && !s.campaign.waiting && s.pull == nil
}

func sortedPeers[V any](m map[env.PeerID]V) []env.PeerID {
	of := make([]env.PeerID, 0, len(m))
	for p := range m {
		of = append(of, p)
	}
	slices.Sort(of)
	return of
}

// suspectSequencer handles a sequencer that is dead, or has not mentioned the key for long: it may have ceased to
// be the sequencer without this node's knowledge.
func (o *Owners) suspectSequencer(s *replica, now time.Time) {
	switch quiet := now.Sub(o.lastHeard(s)); {
	case quiet > o.cfg.Lease && !s.follow && !o.node.Leaf().Covers(s.key):
		// The key lies outside the leaf, and the owners there do not count on this node, for example because
		// its branch has ended. The root hears of the key before this node forgets it.
		if s.notOwnerSince.IsZero() {
			o.RequestOwners(s.key, s.url, func(ok bool) {
				if ok && s.notOwnerSince.IsZero() {
					s.notOwnerSince = o.clock.Now()
				}
			})
		}
	case !o.alive(s.epoch.Sequencer):
		o.campaignIn(s, o.turn(s))
	case quiet > o.cfg.Lease:
		o.campaignIn(s, o.turn(s))
	case quiet > 3*o.cfg.HeartbeatInterval && s.pull == nil:
		o.pullFrom(s, s.epoch.Sequencer)
	}
}

// A readers is what is known of the readers of a key.
type readers struct {
	weight   int       // clients of the key's tree, as its root counts them
	weightAt time.Time // time of the last weight received, or reported
	reported int       // last weight that this node, as the root, has reported
	lastRead time.Time // last time the sequencer knew of a client
}

// retireAfter is how long a log without readers is kept.
const retireAfter = 24 * time.Hour

// unread reports whether a key that this node leads has had no clients for retireAfter.
func (o *Owners) unread(s *replica, now time.Time) bool {
	if s.readers.weight > 0 || s.follow {
		s.readers.lastRead = now
	}
	return now.Sub(s.readers.lastRead) > retireAfter
}

// retire ends a log at all of its owners. A later subscriber founds it anew.
func (o *Owners) retire(s *replica) {
	o.sendOthers(s.epoch.Owners, &ownerpb.Message{Body: &ownerpb.Message_Retire{Retire: &ownerpb.Retire{
		Key: s.key[:], Branch: s.epoch.Branch, Number: s.epoch.Number,
	}}})
	o.stepDown(s)
	o.forget(s)
}

// onRetire forgets a log that its sequencer has ended. An owner that misses the message takes over and retires the
// log later.
func (o *Owners) onRetire(from env.PeerID, m *ownerpb.Retire) {
	s := o.replicas.of(m.Key)
	if s == nil || s.epoch == nil || s.epoch.Sequencer != from || s.epoch.Branch != m.Branch || s.epoch.Number != m.Number || s.follow {
		return
	}
	o.forget(s)
}

// reportWeight tells the sequencer how many clients the key's tree has, if this node is its root.
func (o *Owners) reportWeight(s *replica, now time.Time) {
	weight, ok := o.app.Weight(s.key)
	if !ok && !o.node.IsRoot(s.key) || s.epoch == nil {
		return // not the root. A root without a tree reports 0 clients
	}
	if s.leader != nil {
		s.readers.weight, s.readers.weightAt = weight, now
		return
	}
	lately := now.Sub(s.readers.weightAt) < o.cfg.Lease/2
	if change := weight - s.readers.reported; lately && change*weightChange <= s.readers.reported && -change*weightChange <= s.readers.reported {
		return
	}
	s.readers.reported, s.readers.weightAt = weight, now
	o.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_WeightReport{WeightReport: &ownerpb.WeightReport{Key: s.key[:], Weight: uint32(weight)}}})
}

// onWeightReport takes the root's count. It is accepted from members of the leaf only, which include the root.
func (o *Owners) onWeightReport(from env.PeerID, m *ownerpb.WeightReport) {
	s := o.replicas.of(m.Key)
	if s == nil || s.leader == nil || !o.alive(from) {
		return
	}
	s.readers.weight, s.readers.weightAt = int(m.Weight), o.clock.Now()
}

// digestOf returns the number of replicas and the xor of their digests. Two nodes that know the same about the same
// keys get the same values.
func digestOf(of []*replica) (count uint32, digest uint64) {
	for _, s := range of {
		count++
		digest ^= s.digest()
	}
	return count, digest
}

// digest returns a hash of the key, its epoch, head, note version, and whether the head is committed.
func (s *replica) digest() uint64 {
	h := s.log.headHash().short()
	for _, v := range []uint64{idHead(s.key), s.epoch.Branch, uint64(s.epoch.Number), s.version} {
		if !s.log.headCommitted() {
			v++
		}
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

func idHead(id overlay.ID) uint64 { return Hash(id).short() }

// onHeartbeat compares the sequencer's digest with this node's, and answers whether they match.
func (o *Owners) onHeartbeat(from env.PeerID, m *ownerpb.Heartbeat) {
	if !o.alive(from) {
		return // the sequencers of owned keys are in the leaf
	}
	count, digest := digestOf(o.replicas.ledBy[from])
	match := count == m.Count && digest == m.Digest
	if match {
		o.matched[from] = o.clock.Now()
	} else {
		o.listed[from] = map[overlay.ID]bool{}
	}
	o.send(from, &ownerpb.Message{Body: &ownerpb.Message_HeartbeatAck{HeartbeatAck: &ownerpb.HeartbeatAck{Nonce: m.Nonce, Match: match}}})
}

// onHeartbeatAck sends the list of all shared keys to an owner whose digest did not match.
func (o *Owners) onHeartbeatAck(from env.PeerID, m *ownerpb.HeartbeatAck) {
	if m.Match {
		return
	}
	var states []*ownerpb.LogState
	for _, s := range o.replicas.all() {
		if s.leader != nil && s.epoch.owns(from) {
			states = append(states, &ownerpb.LogState{
				Key: s.key[:], Branch: s.epoch.Branch, Number: s.epoch.Number, Head: s.log.headHash().short(), Version: s.version,
			})
		}
	}
	for {
		n := min(len(states), maxListed)
		o.send(from, &ownerpb.Message{Body: &ownerpb.Message_LogList{LogList: &ownerpb.LogList{States: states[:n], Last: n == len(states), Nonce: m.Nonce}}})
		if states = states[n:]; len(states) == 0 {
			return
		}
	}
}

// onList pulls the logs that differ from the sequencer's list.
func (o *Owners) onList(from env.PeerID, m *ownerpb.LogList) {
	listed := o.listed[from]
	if listed == nil {
		return
	}
	for _, st := range m.States {
		key := overlay.ID(st.Key)
		if len(listed) >= maxReplicas {
			return
		}
		listed[key] = true
		s := o.replicas.byKey[key]
		if s == nil {
			if o.replicas.full() || !slices.Contains(o.nearest(key, nil), o.self) {
				continue
			}
			s = o.replicas.ensure(key, "", o.clock.Now())
		}
		switch {
		case s.epoch != nil && s.epoch.Branch != st.Branch && s.epoch.owns(o.self) && s.epoch.Sequencer != from:
			o.sendCommit(from, s) // two branches: the sequencers resolve it
		case s.epoch == nil || s.epoch.Number != st.Number || s.log.headHash().short() != st.Head || s.version != st.Version || !s.log.headCommitted() || s.epoch.Branch != st.Branch:
			o.pullFrom(s, from)
		default:
			o.heard(s)
		}
	}
	if !m.Last {
		return
	}
	delete(o.listed, from)
	for _, s := range slices.Clone(o.replicas.ledBy[from]) {
		if !listed[s.key] {
			o.pullFrom(s, from) // the sequencer does not list the key any more, and answers with the epoch
		}
	}
}

// forget drops a replica and its log. Its votes stay in the store, because a forgotten vote could be given
// twice.
func (o *Owners) forget(s *replica) {
	ops := append(o.deleteOps(s.log.chain), o.deleteOps(s.log.orphaned)...)
	o.releaseSlot(s.candidacy)
	s.candidacy = nil
	o.replicas.remove(s)
	if s.pull != nil { // no retry will find the pull any more
		o.puller.end(s, false)
	}
	if len(s.promised)+len(s.signed) == 0 {
		o.store.Commit(append(ops, env.Op{Key: replicaKey(s.key)}), func(error) {})
		return
	}
	locks := &replica{key: s.key, url: s.url, ballot: ballot{promised: s.promised, signed: s.signed}}
	o.replicas.retired[s.key] = locks
	o.save(locks, nil, ops...)
}
