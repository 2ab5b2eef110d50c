package scribe

import (
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// A link is all that this node shares with one peer: edges of many groups, the
// Downs between them, and what is told in batches.
type link struct {
	peer    env.Peer
	contact *overlay.Contact
	made    time.Time

	up, down edges     // up: the peer is the parent
	renewed  time.Time // the peer's last Beat for the edges down

	beating   bool
	beatAt    time.Time
	beatNonce uint64 // of the Beat that is out; 0: none
	beatTries int
	listFor   uint64    // the peer's Beat that its List is to answer; 0: none
	listAsked time.Time // when that came

	out   []sent // Downs not acknowledged, the oldest first
	queue []sent // Downs that wait for the window
	timed bool   // a look at out is due

	got     []uint64            // Downs to acknowledge
	weights map[overlay.ID]bool // groups whose weight changed
	flushAt time.Time           // zero: nothing waits
}

// A sent is a Down on its way to a child.
type sent struct {
	group overlay.ID
	id    uint64
	frame []byte
	at    time.Time
	tries int
}

// link returns the link to a node, making it if there is none.
func (s *Scribe) link(c *overlay.Contact) *link {
	l := s.links[c.Peer.ID]
	if l == nil {
		l = &link{made: s.clock.Now()}
		s.links[c.Peer.ID] = l
		s.node.Watch(c)
	}
	if l.contact == nil || c.Issued > l.contact.Issued {
		l.peer, l.contact = c.Peer, c
	}
	return l
}

// dropIdle ends a link without edges, once it has stood long enough for those
// to come for which it was made.
func (s *Scribe) dropIdle(l *link) {
	if len(l.up.of) > 0 || len(l.down.of) > 0 || s.clock.Now().Sub(l.made) < 2*joinPatience {
		return
	}
	delete(s.links, l.peer.ID)
	s.node.Unwatch(l.peer.ID)
}

func (s *Scribe) send(to env.Peer, m *scribepb.Message) {
	s.stats.Control++
	s.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Scribe, m))
}

func (s *Scribe) sendPart(to env.Peer, id overlay.ID, edge uint64) {
	s.send(to, &scribepb.Message{Body: &scribepb.Message_Part{Part: &scribepb.Part{Group: id[:], Edge: edge}}})
}

func (s *Scribe) sendDrop(to env.Peer, ids ...overlay.ID) {
	m := &scribepb.Drop{}
	for i := range ids {
		m.Groups = append(m.Groups, ids[i][:])
	}
	s.send(to, &scribepb.Message{Body: &scribepb.Message_Drop{Drop: m}})
}

// sendDown sends one message to a child, or lets it wait while too many are
// unacknowledged.
func (s *Scribe) sendDown(l *link, id overlay.ID, msg uint64, frame []byte) {
	if plant.SilentDrop && msg%50 == 0 {
		return
	}
	d := sent{group: id, id: msg, frame: frame}
	if len(l.out) >= window {
		if len(l.queue) >= maxQueue {
			l.queue = slices.Delete(l.queue, 0, 1)
			s.stats.Lost++
		}
		l.queue = append(l.queue, d)
		return
	}
	s.sendOut(l, d)
}

func (s *Scribe) sendOut(l *link, d sent) {
	d.at = s.clock.Now()
	l.out = append(l.out, d)
	s.stats.Sent++
	s.net.Send(l.peer, env.Bulk, d.frame)
	s.timeResend(l)
}

// downRTO is how long a Down may stay unacknowledged.
func (s *Scribe) downRTO(l *link, tries int) time.Duration {
	return (s.node.RTO(l.peer.ID) + 2*gotDelay) << min(tries, 3)
}

func (s *Scribe) timeResend(l *link) {
	if l.timed || len(l.out) == 0 {
		return
	}
	l.timed = true
	first := l.out[0]
	s.cal.Add(first.at.Add(s.downRTO(l, first.tries)), task{kind: taskResend, peer: l.peer.ID})
}

// resend repeats the Downs that were not acknowledged in time.
func (s *Scribe) resend(l *link, now time.Time) {
	if l == nil {
		return
	}
	l.timed = false
	var late []sent
	l.out = slices.DeleteFunc(l.out, func(d sent) bool {
		over := !now.Before(d.at.Add(s.downRTO(l, d.tries)))
		if over {
			late = append(late, d)
		}
		return over
	})
	for _, d := range late {
		g := s.groups[d.group]
		if g == nil || g.child(l) == nil {
			continue // no child any longer
		}
		if d.tries++; d.tries > resends {
			s.stats.Lost++
			continue
		}
		if d.tries == 2 {
			s.node.Suspect(l.peer.ID)
		}
		s.stats.Resent++
		s.sendOut(l, d)
	}
	s.refill(l)
	s.timeResend(l)
}

// refill sends what waited for the window.
func (s *Scribe) refill(l *link) {
	for len(l.queue) > 0 && len(l.out) < window {
		d := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		s.sendOut(l, d)
	}
}

func (s *Scribe) onGot(l *link, m *scribepb.Got) {
	if l == nil {
		return
	}
	l.out = slices.DeleteFunc(l.out, func(d sent) bool { return slices.Contains(m.Ids, d.id) })
	s.refill(l)
}

// onDown takes a message from a parent: acknowledges it, passes it on, and tells
// one that is no parent any longer. A parent just left may still bring something
// new, and while a parent is sought the first Down can overtake the Accept; but
// what comes from below, or from a stranger, is no message of the group's.
func (s *Scribe) onDown(from env.PeerID, m *scribepb.Down, frame []byte) {
	id := overlay.ID(m.Group)
	s.stats.Received++
	g, l := s.groups[id], s.links[from]
	if l != nil {
		l.got = append(l.got, m.Id)
		s.flushSoon(l, gotDelay)
	} else {
		s.send(env.Peer{ID: from}, &scribepb.Message{Body: &scribepb.Message_Got{Got: &scribepb.Got{Ids: []uint64{m.Id}}}})
	}
	parent := g != nil && (g.seeking || g.target == from || g.parent(l) != nil)
	if !parent {
		s.sendPart(env.Peer{ID: from}, id, 0)
	}
	if parent || g != nil && l != nil && overlay.Nearer(id, l.contact.ID, s.node.ID()) {
		s.pass(g, l, m.Id, m.Payload, frame, time.Duration(m.AgeMs)*time.Millisecond)
	}
}

// flushSoon makes sure that what waits on a link goes within d.
func (s *Scribe) flushSoon(l *link, d time.Duration) {
	at := s.clock.Now().Add(d)
	if len(l.got) >= maxGot {
		at = s.clock.Now()
	}
	if l.flushAt.IsZero() || at.Before(l.flushAt) {
		l.flushAt = at
		s.cal.Add(at, task{kind: taskFlush, peer: l.peer.ID})
	}
}

// flush sends acknowledgements and changed weights.
func (s *Scribe) flush(l *link, now time.Time) {
	if l == nil || l.flushAt.IsZero() || now.Before(l.flushAt) {
		return
	}
	l.flushAt = time.Time{}
	for len(l.got) > 0 {
		k := min(len(l.got), maxGot)
		s.send(l.peer, &scribepb.Message{Body: &scribepb.Message_Got{Got: &scribepb.Got{Ids: l.got[:k]}}})
		l.got = l.got[k:]
	}
	l.got = nil
	s.flushWeights(l)
}

// weigh tells the parent soon when the weight of a group has changed.
func (s *Scribe) weigh(g *group) {
	if len(g.parents) == 0 || g.weight() == g.sent || plant.StaleWeight {
		return
	}
	l := g.parents[0].link
	if l.weights == nil {
		l.weights = map[overlay.ID]bool{}
	}
	l.weights[g.id] = true
	s.flushSoon(l, weightDelay)
}

func (s *Scribe) flushWeights(l *link) {
	var changed []*scribepb.Edge
	of := slices.SortedFunc(maps.Keys(l.weights), func(a, b overlay.ID) int { return slices.Compare(a[:], b[:]) })
	for _, id := range of {
		g := s.groups[id]
		if g == nil || len(g.parents) == 0 || g.parents[0].link != l || g.weight() == g.sent {
			continue
		}
		l.up.change(g, g.sent, g.weight())
		g.sent = g.weight()
		changed = append(changed, &scribepb.Edge{Group: g.id[:], Weight: g.sent})
	}
	l.weights = nil
	for part := range slices.Chunk(changed, maxList) {
		s.sendList(l, part, true)
	}
}

func (s *Scribe) sendList(l *link, part []*scribepb.Edge, partial bool) {
	s.send(l.peer, &scribepb.Message{Body: &scribepb.Message_List{List: &scribepb.List{
		First: part[0].Group, Last: part[len(part)-1].Group, Edges: part, Partial: partial,
	}}})
}
