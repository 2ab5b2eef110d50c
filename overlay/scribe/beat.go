package scribe

import (
	"bytes"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// beatAttempts is how many Beats a parent may leave unanswered before the overlay
// is asked whether it lives.
const beatAttempts = 2

// startBeat begins to renew the edges to a parent.
func (s *Scribe) startBeat(l *link) {
	if !l.beating {
		l.beating = true
		s.planBeat(l)
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

// planBeat sets the time of the next Beat; there is only one.
func (s *Scribe) planBeat(l *link) {
	at := s.together(s.clock.Now().Add(s.spread(s.cfg.BeatInterval)), s.cfg.BeatInterval/beatsTogether)
	l.beatAt = momentOf(at)
	s.cal.Add(at, task{kind: taskBeat, link: l})
}

// beat renews all edges to a parent at once.
func (s *Scribe) beat(l *link, now time.Time) {
	if !l.beating || momentOf(now) < l.beatAt {
		return
	}
	if len(l.up.of) == 0 {
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
	l.beatTries++
	s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Beat{Beat: &scribepb.Beat{
		Nonce: l.beatNonce, Count: uint32(len(l.up.of)), Digest: l.up.digest,
	}}})
	s.cal.Add(s.together(now.Add(s.node.RTO(l.contact.Peer.ID)), time.Second), task{kind: taskBeatUp, link: l})
}

// beatMissed goes on when a parent left a Beat unanswered.
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

func (s *Scribe) onBeat(from env.PeerID, l *link, m *scribepb.Beat) {
	match := l != nil && len(l.down.of) == int(m.Count) && l.down.digest == m.Digest
	to := env.Peer{ID: from}
	if l != nil {
		to = l.contact.Peer
		l.renewed = s.now()
		l.listFor = 0
		if !match {
			l.listFor, l.listAsked = m.Nonce, s.now()
		}
	} else {
		match = m.Count == 0
	}
	s.send(to, &scribepb.Message{Body: &scribepb.Message_BeatAck{BeatAck: &scribepb.BeatAck{Nonce: m.Nonce, Match: match}}})
}

// onBeatAck spells the edges out if the parent knows others.
func (s *Scribe) onBeatAck(l *link, m *scribepb.BeatAck) {
	if l == nil || m.Nonce != l.beatNonce || l.beatNonce == 0 {
		return
	}
	l.beatNonce = 0
	if m.Match || len(l.up.of) == 0 {
		return
	}
	all := make([]*scribepb.Edge, 0, len(l.up.of))
	for _, g := range l.up.of {
		e := &scribepb.Edge{Group: g.id[:]}
		if g.parents[0].link == l {
			e.Weight = g.sent
		}
		all = append(all, e)
	}
	// The parts cover the whole range of ids, so that the parent learns of
	// edges that are no longer.
	first := overlay.ID{}
	for len(all) > 0 {
		part := all[:min(len(all), maxList)]
		all = all[len(part):]
		last := overlay.ID(part[len(part)-1].Group)
		if len(all) == 0 {
			last = overlay.ID(bytes.Repeat([]byte{0xff}, len(last)))
		}
		s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_List{List: &scribepb.List{
			First: bytes.Clone(first[:]), Last: bytes.Clone(last[:]), Edges: part, Nonce: m.Nonce,
		}}})
		first = next(last)
	}
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
	if !m.Partial && l != nil && (m.Nonce == 0 || m.Nonce != l.listFor) {
		return // late: the edges may be others by now
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
	for _, g := range slices.Clone(l.down.between(m.First, m.Last)) {
		if c := g.child(l); !named[g.id] && c != nil && l.listAsked.sub(c.since) > joinPatience {
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
