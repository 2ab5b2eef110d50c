package scribe

import (
	"bytes"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// beatAttempts is how many Beats a peer may leave unanswered before the overlay
// is asked whether it lives.
const beatAttempts = 2

// stir has the edges of a link compared within a BeatInterval: some came or went, and of that the other
// end may have missed something.
func (s *Scribe) stir(l *link) {
	if !l.beating || l.beatAt.sub(s.now()) > s.cfg.BeatInterval*5/4 {
		l.beating = true
		s.beatIn(l, s.spread(s.cfg.BeatInterval))
	}
}

// beatsTogether is how many times in an interval a node sends Beats: each time those that
// are due, so that a thousand links do not wake it a thousand times.
const beatsTogether = 32

// together puts off what is to be done at a time until the node's next stroke of a clock
// with such a pause. Each node's clock strikes at other times.
func (s *Scribe) together(at time.Time, pause time.Duration) time.Time {
	last := at.Add(-s.phase).Truncate(pause).Add(s.phase)
	if last.Before(at) {
		return last.Add(pause)
	}
	return last
}

// pause is the time between two Beats on one link. With many links it is longer, so that all of them
// together cost a node at rest no more than beatShare says.
func (s *Scribe) pause() time.Duration {
	return max(s.cfg.BeatInterval, min(time.Duration(len(s.links))*beatShare, maxPause))
}

// pauseS is the pause as it is told to peers, in seconds: 0 is the usual one.
func (s *Scribe) pauseS() uint32 {
	if pause := s.pause(); pause > s.cfg.BeatInterval {
		return uint32((pause + time.Second - 1) / time.Second)
	}
	return 0
}

// planBeat sets the time of the next Beat; an earlier plan is void.
func (s *Scribe) planBeat(l *link) {
	s.beatIn(l, s.spread(s.pause()))
}

func (s *Scribe) beatIn(l *link, d time.Duration) {
	at := s.together(s.clock.Now().Add(d), s.cfg.BeatInterval/beatsTogether)
	l.beatAt = momentOf(at)
	s.beatLook(l)
}

// beatLook has a link looked at when its Beat is due, or sooner: a peer that beats all the time puts this
// node's Beat off all the time, and each plan is not to be an entry of the calendar.
func (s *Scribe) beatLook(l *link) {
	if l.beatDue == never || l.beatAt < l.beatDue {
		l.beatDue = l.beatAt
		s.cal.Add(time.Unix(0, int64(l.beatAt)), task{kind: taskBeat, of: uint32(l.number)})
	}
}

// PeerDown takes a hint that the connection with a peer broke: if it has started anew, it knows of no
// edges, and a Beat soon says so.
func (s *Scribe) PeerDown(id env.PeerID) {
	if l := s.links[id]; l != nil && l.beating {
		s.beatIn(l, s.spread(downPause))
	}
}

// beat renews all edges of a link at once.
func (s *Scribe) beat(l *link, now time.Time) {
	if l.beatDue == never || momentOf(now) < l.beatDue {
		return
	}
	l.beatDue = never
	if !l.beating {
		return
	}
	if momentOf(now) < l.beatAt { // it was put off
		s.beatLook(l)
		return
	}
	if len(l.up.of)+len(l.down.of) == 0 {
		l.beating = false
		return
	}
	s.planBeat(l)
	s.flushWeights(l)
	l.beatTries = 0
	s.sendBeat(l, now)
}

func (s *Scribe) sendBeat(l *link, now time.Time) {
	l.beatNonce = s.rand.Uint64() | 1
	l.mine = ask{l.beatNonce, momentOf(now)}
	l.beatTries++
	s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Beat{Beat: &scribepb.Beat{
		Nonce: l.beatNonce, Count: uint32(len(l.up.of)), Digest: l.up.digest, PauseS: s.pauseS(),
		HeldCount: uint32(len(l.down.of)), HeldDigest: l.down.digest,
	}}})
	s.cal.Add(s.together(now.Add(s.node.RTO(l.contact.Peer.ID)), time.Second), task{kind: taskBeatUp, of: uint32(l.number)})
}

// beatMissed goes on when a peer left a Beat unanswered.
func (s *Scribe) beatMissed(l *link, now time.Time) {
	if l.beatNonce == 0 {
		return
	}
	if l.beatTries < beatAttempts {
		s.sendBeat(l, now)
		return
	}
	l.beatNonce = 0
	s.node.Suspect(l.contact.Peer.ID)
}

// onBeat compares the edges in both directions. One Beat does for both: this node's own is put off.
func (s *Scribe) onBeat(from env.PeerID, l *link, m *scribepb.Beat) {
	ack := &scribepb.BeatAck{Nonce: m.Nonce, Match: l == nil && m.Count == 0, PauseS: s.pauseS()}
	to := env.Peer{ID: from}
	if l != nil {
		to = l.contact.Peer
		s.renew(l, m.PauseS)
		l.its = ask{}
		if ack.Match = len(l.down.of) == int(m.Count) && l.down.digest == m.Digest; !ack.Match {
			l.its = ask{m.Nonce, s.now()}
		}
	}
	s.send(to, &scribepb.Message{Body: &scribepb.Message_BeatAck{BeatAck: ack}})
	switch {
	case l == nil && m.HeldCount > 0:
		s.spell(to, nil, m.Nonce)
	case l != nil && (len(l.up.of) != int(m.HeldCount) || l.up.digest != m.HeldDigest) && s.now() >= l.spellAt:
		l.spellAt = momentOf(s.clock.Now().Add(time.Duration(len(l.up.of)) * spellTime))
		s.spell(to, l, m.Nonce)
	}
	if l != nil && l.beating && l.beatNonce == 0 {
		s.planBeat(l)
	}
}

// renew begins the lease of the edges down on a link anew.
func (s *Scribe) renew(l *link, pause uint32) {
	l.renewed, l.pause = s.now(), uint16(min(pause, uint32(maxPause/time.Second)))
}

// onBeatAck spells the edges out if the peer knows others: also where there is none, since this Beat has put
// off the peer's own, in which that would say so itself.
func (s *Scribe) onBeatAck(l *link, m *scribepb.BeatAck) {
	if l == nil || m.Nonce != l.beatNonce || l.beatNonce == 0 {
		return
	}
	l.beatNonce = 0
	s.renew(l, m.PauseS)
	if !m.Match {
		s.spell(l.contact.Peer, l, m.Nonce)
	}
}

// spell lists the edges up to a peer; l is nil if there is no link, and so no edge.
func (s *Scribe) spell(to env.Peer, l *link, nonce uint64) {
	var all []*scribepb.Edge
	if l != nil {
		all = s.named(l)
	}
	// The parts cover the whole range of ids, so that the parent learns of
	// edges that are no longer.
	first := overlay.ID{}
	for more := true; more; more = len(all) > 0 {
		part := all[:min(len(all), maxList)]
		all = all[len(part):]
		last := overlay.ID(bytes.Repeat([]byte{0xff}, len(first)))
		if len(all) > 0 {
			last = overlay.ID(part[len(part)-1].Group)
		}
		s.send(to, &scribepb.Message{Body: &scribepb.Message_List{List: &scribepb.List{
			First: bytes.Clone(first[:]), Last: bytes.Clone(last[:]), Edges: part, Nonce: nonce,
		}}})
		first = next(last)
	}
}

// named are the edges up on a link, as a List names them.
func (s *Scribe) named(l *link) []*scribepb.Edge {
	all := make([]*scribepb.Edge, 0, len(l.up.of))
	for _, number := range l.up.of {
		g := s.groups.At(number)
		e := &scribepb.Edge{Group: g.id[:]}
		if g.parents[0].link == l.number {
			e.Weight = g.sent
		}
		all = append(all, e)
	}
	return all
}

// next returns the id after id, as a number.
func next(id overlay.ID) overlay.ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// onList takes the edges as the child knows them: weights, and, unless the list
// is partial, which there are.
func (s *Scribe) onList(from env.PeerID, l *link, m *scribepb.List) {
	var asked moment
	if !m.Partial && l != nil {
		switch {
		case m.Nonce == 0:
			return
		case m.Nonce == l.mine.nonce:
			asked = l.mine.at
		case m.Nonce == l.its.nonce:
			asked = l.its.at
		default:
			return // late: the edges may be others by now
		}
	}
	var strange []overlay.ID
	named := make(map[overlay.ID]bool, len(m.Edges))
	for _, e := range m.Edges {
		id := overlay.ID(e.Group)
		named[id] = true
		g := s.groups.Get(id)
		if l == nil || g == nil || g.child(l) == nil {
			strange = append(strange, id)
			continue
		}
		c := g.child(l)
		weight := s.clamp(e.Weight)
		l.down.change(g, c.weight, weight)
		c.weight = weight
		s.weigh(g)
	}
	if len(strange) > 0 {
		s.sendDrop(env.Peer{ID: from}, strange...)
	}
	if m.Partial || l == nil {
		return
	}
	for _, number := range slices.Clone(l.down.between(s.groups, m.First, m.Last)) {
		g := s.groups.At(number)
		if c := g.child(l); !named[g.id] && c != nil && asked.sub(c.since) > joinPatience {
			s.forgetChild(g, l)
			s.prune(g)
		}
	}
}

// onDrop looks for another parent in a group in which this one knows nothing of
// the edge.
func (s *Scribe) onDrop(from env.PeerID, l *link, id overlay.ID) {
	g := s.groups.Get(id)
	if l == nil || g == nil {
		return
	}
	if g.parent(l) != nil {
		s.forgetParent(g, l)
		s.seek(g)
	} else if g.seeking() && g.sought.target == from {
		s.seekNow(g) // the parent asked by name is not in the tree
	}
}
