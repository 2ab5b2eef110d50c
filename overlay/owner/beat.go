package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

const (
	maxList = 512
	// weightChange is how much the root's count of clients moves before it says
	// so out of turn: 1/weightChange of it.
	weightChange = 33
	// leaveTime is how long a node keeps the log of a key it owns no longer: the
	// new owners may still ask.
	leaveTime = time.Minute
)

// beat compares, with each owner, what this node leads; reports the weights of
// trees it is the root of; and forgets what it has left.
func (o *Owners) beat(now time.Time) {
	if o.node.State() != overlay.Active {
		return
	}
	shared := map[env.PeerID][]*seat{}
	for _, s := range o.sorted() {
		switch {
		case s.epoch == nil:
			// Somebody spoke of it, and nothing came of that; or what was signed here
			// is in force, then its sequencer's next beat says so.
			if quiet := now.Sub(s.heard); o.idle(s) && (quiet > leaveTime && len(s.open) == 0 || quiet > o.cfg.Lease) {
				o.forget(s)
			}
			continue
		case s.lead != nil && o.unread(s, now):
			o.retire(s)
			continue
		case s.lead != nil:
			o.keepOwners(s) // whatever was missed
			if o.elsewhere(s.key) {
				// Owners in the key's own leaf would have taken over by now: those there
				// know nothing of this lineage, and it knows nothing of theirs. One that
				// has nothing to tell them ends: nobody would come to pull it.
				o.Want(s.key, s.url, func(ok bool) {
					if ok && s.lead != nil && len(s.log) == 0 && o.elsewhere(s.key) && o.seats[s.key] == s {
						o.retire(s)
					}
				})
			}
			for _, p := range s.epoch.Owners {
				if p != o.self {
					shared[p] = append(shared[p], s)
				}
			}
		case o.owns(s) && !s.left.IsZero() && o.idle(s) && now.Sub(s.left) > leaveTime:
			o.forget(s)
			continue
		case o.owns(s):
			o.suspectLead(s, now)
		case o.idle(s) && s.left.IsZero():
			s.left = now // in an earlier life
		case o.idle(s) && now.Sub(s.left) > leaveTime:
			o.forget(s)
			continue
		}
		o.report(s, now)
	}
	for p := range o.beats {
		if !o.alive(p) {
			delete(o.beats, p)
		}
	}
	for p := range o.lists { // also of those whose beats never matched
		if !o.alive(p) {
			delete(o.lists, p)
		}
	}
	for _, p := range sortedPeers(shared) {
		count, digest := digestOf(shared[p])
		o.nonce++
		o.send(p, &ownerpb.Message{Body: &ownerpb.Message_Beat{Beat: &ownerpb.Beat{Nonce: o.nonce, Count: count, Digest: digest}}})
	}
}

// idle says that nothing is under way at a seat, and nobody here follows the key.
func (o *Owners) idle(s *seat) bool {
	return !s.follow && s.bid == nil && s.bidAt.IsZero() && !s.inLine && s.pull == nil
}

func sortedPeers[V any](m map[env.PeerID]V) []env.PeerID {
	of := make([]env.PeerID, 0, len(m))
	for p := range m {
		of = append(of, p)
	}
	slices.Sort(of)
	return of
}

// suspectLead looks after a key whose sequencer lives, but has not spoken of it
// for long: it may have left the key to others, and this node missed it.
func (o *Owners) suspectLead(s *seat, now time.Time) {
	switch quiet := now.Sub(o.heard(s)); {
	case quiet > o.cfg.Lease && !s.follow && !o.node.Leaf().Covers(s.key):
		// The key is another leaf's, and nobody there counts on this node, as when its
		// lineage has ended. The root hears of the key before this node forgets it.
		if s.left.IsZero() {
			o.Want(s.key, s.url, func(ok bool) {
				if ok && s.left.IsZero() {
					s.left = o.clock.Now()
				}
			})
		}
	case !o.alive(s.epoch.Sequencer):
		o.bidIn(s, time.Duration(o.rank(s))*rankTime)
	case quiet > o.cfg.Lease:
		o.bidIn(s, time.Duration(o.rank(s))*rankTime)
	case quiet > 3*o.cfg.BeatInterval && s.pull == nil:
		o.startPull(s, o.peer(s.epoch.Sequencer), nil)
	}
}

// retireAfter is how long a log is kept that nobody reads.
const retireAfter = 24 * time.Hour

// unread says whether a key this node leads has had no clients for long.
func (o *Owners) unread(s *seat, now time.Time) bool {
	if s.weight > 0 || s.follow {
		s.read = now
	}
	return now.Sub(s.read) > retireAfter
}

// retire ends a log: for its owners, then here. Who wants the key later founds it
// anew.
func (o *Owners) retire(s *seat) {
	m := &ownerpb.Message{Body: &ownerpb.Message_Retire{Retire: &ownerpb.Retire{
		Key: s.key[:], Lineage: s.epoch.Lineage, Number: s.epoch.Number,
	}}}
	for _, p := range s.epoch.Owners {
		if p != o.self {
			o.send(p, m)
		}
	}
	o.dropLead(s)
	o.forget(s)
}

// onRetire forgets a log by its sequencer's word. Who misses it takes over, and
// comes to the same end.
func (o *Owners) onRetire(from env.PeerID, m *ownerpb.Retire) {
	s := o.at(m.Key)
	if s == nil || s.epoch == nil || s.epoch.Sequencer != from || s.epoch.Lineage != m.Lineage || s.epoch.Number != m.Number || s.follow {
		return
	}
	o.forget(s)
}

// report tells the sequencer how many clients the tree has, if this node is its
// root.
func (o *Owners) report(s *seat, now time.Time) {
	weight, ok := o.app.Weight(s.key)
	if !ok && !o.node.IsRoot(s.key) || s.epoch == nil {
		return // the root of no tree counts nobody: all have left
	}
	if s.lead != nil {
		s.weight, s.weighed = weight, now
		return
	}
	lately := now.Sub(s.weighed) < o.cfg.Lease/2
	if change := weight - s.reported; lately && change*weightChange <= s.reported && -change*weightChange <= s.reported {
		return
	}
	s.reported, s.weighed = weight, now
	o.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Report{Report: &ownerpb.Report{Key: s.key[:], Weight: uint32(weight)}}})
}

// onReport takes the root's count. Only members that own a key can be its root.
func (o *Owners) onReport(from env.PeerID, m *ownerpb.Report) {
	s := o.at(m.Key)
	if s == nil || s.lead == nil || !o.alive(from) {
		return
	}
	s.weight, s.weighed = int(m.Weight), o.clock.Now()
}

// digestOf is equal for two who know the same of the same keys.
func digestOf(of []*seat) (count uint32, digest uint64) {
	for _, s := range of {
		count++
		digest ^= s.digest()
	}
	return count, digest
}

// digest mixes what is compared of one key.
func (s *seat) digest() uint64 {
	h := s.log.headHash().short()
	for _, v := range []uint64{idHead(s.key), s.epoch.Lineage, uint64(s.epoch.Number), s.version} {
		if !s.sure() {
			v++
		}
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

func idHead(id overlay.ID) uint64 { return Hash(id).short() }

// onBeat compares.
func (o *Owners) onBeat(from env.PeerID, m *ownerpb.Beat) {
	if !o.alive(from) {
		return // who leads a key that is owned here is in the leaf
	}
	count, digest := digestOf(o.led(from))
	match := count == m.Count && digest == m.Digest
	if match {
		o.beats[from] = o.clock.Now()
	} else {
		o.lists[from] = map[overlay.ID]bool{}
	}
	o.send(from, &ownerpb.Message{Body: &ownerpb.Message_BeatAck{BeatAck: &ownerpb.BeatAck{Nonce: m.Nonce, Match: match}}})
}

// onBeatAck spells out what did not match.
func (o *Owners) onBeatAck(from env.PeerID, m *ownerpb.BeatAck) {
	if m.Match {
		return
	}
	var states []*ownerpb.State
	for _, s := range o.sorted() {
		if s.lead != nil && s.epoch.owns(from) {
			states = append(states, &ownerpb.State{
				Key: s.key[:], Lineage: s.epoch.Lineage, Number: s.epoch.Number, Head: s.log.headHash().short(), Version: s.version,
			})
		}
	}
	for {
		n := min(len(states), maxList)
		o.send(from, &ownerpb.Message{Body: &ownerpb.Message_List{List: &ownerpb.List{States: states[:n], Last: n == len(states), Nonce: m.Nonce}}})
		if states = states[n:]; len(states) == 0 {
			return
		}
	}
}

// onList gets what this owner lacks, key by key.
func (o *Owners) onList(from env.PeerID, m *ownerpb.List) {
	listed := o.lists[from]
	if listed == nil {
		return
	}
	for _, st := range m.States {
		key := overlay.ID(st.Key)
		if len(listed) >= maxSeats {
			return
		}
		listed[key] = true
		s := o.seats[key]
		if s == nil {
			if len(o.seats) >= maxSeats || !slices.Contains(o.nearest(key), o.self) {
				continue
			}
			s = o.seat(key, "")
		}
		switch {
		case s.epoch != nil && s.epoch.Lineage != st.Lineage && s.epoch.owns(o.self) && s.epoch.Sequencer != from:
			o.sendInstall(from, s) // two lineages: the sequencers sort it out
		case s.epoch == nil || s.epoch.Number != st.Number || s.log.headHash().short() != st.Head || s.version != st.Version || !s.sure() || s.epoch.Lineage != st.Lineage:
			o.startPull(s, o.peer(from), nil)
		default:
			s.heard = o.clock.Now()
		}
	}
	if !m.Last {
		return
	}
	delete(o.lists, from)
	for _, s := range slices.Clone(o.led(from)) {
		if !listed[s.key] {
			o.startPull(s, o.peer(from), nil) // it says who leads, if it does not
		}
	}
}
