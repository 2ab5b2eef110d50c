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
// Downs between them, and what is told in batches. A node has hundreds.
type link struct {
	contact *overlay.Contact // nil: it is no link any more
	number  linkNumber
	made    moment
	lookAt  moment // when a lease may be over, or the link of no use; never: no look is due

	up, down edges  // up: the peer is the parent
	renewed  moment // when the peer last said which edges down there are
	pause    uint16 // seconds until its next Beat, as it says; 0: as usual

	beating   bool
	beatTries int8
	beatAt    moment
	beatDue   moment // when it is looked whether a Beat is due; never: there is no plan
	beatNonce uint64 // of the Beat that is out; 0: none
	// What a List of the peer's may answer: the last Beat of this node, and of the peer.
	mine, its ask
	spellAt   moment // before that this node lists no edges because the peer asks

	downs   *downs              // nil: none is under way
	weights map[overlay.ID]bool // groups whose weight changed
	flushAt moment              // never: nothing waits
}

// A linkNumber is that of a link among all of the node's, one more than that of its place. It stands where a pointer
// would in the edges of groups, of which there are millions in a simulated network; when its link is gone, another
// gets it.
type linkNumber uint32

const none linkNumber = 0 // no link's

// numbered returns a link; nil for none.
func (s *Scribe) numbered(n linkNumber) *link {
	if n == none {
		return nil
	}
	return s.linkSlab.At(uint32(n - 1))
}

// An ask is a Beat by which a List is called for.
type ask struct {
	nonce uint64 // 0: none
	at    moment
}

// downs are the messages under way on a link.
type downs struct {
	out     []sent   // not acknowledged, the oldest first
	queue   []sent   // that wait for the window
	waiting int      // bytes of these
	timed   bool     // a look at out is due
	got     []uint64 // to acknowledge
}

// carry returns what is under way on a link, to have more put to it.
func (l *link) carry() *downs {
	if l.downs == nil {
		l.downs = &downs{}
	}
	return l.downs
}

// rest forgets what was under way when nothing is any more.
func (l *link) rest() {
	if d := l.downs; d != nil && len(d.out)+len(d.queue)+len(d.got) == 0 && !d.timed {
		l.downs = nil
	}
}

// A moment is a time in a third of the space: nanoseconds of Unix time.
type moment int64

const never moment = 0

func momentOf(t time.Time) moment { return moment(t.UnixNano()) }

func (s *Scribe) now() moment { return momentOf(s.clock.Now()) }

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }

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
		number := s.linkSlab.Put(link{made: s.now(), contact: c})
		l = s.linkSlab.At(number)
		l.number = linkNumber(number + 1)
		s.links[c.Peer.ID] = l
		s.node.Watch(c)
		s.lookIn(l, linkPatience)
	}
	if c.Issued > l.contact.Issued {
		l.contact = c
	}
	return l
}

// linkPatience is how long a link without edges stands: those may come for which it was
// made.
const linkPatience = 2 * joinPatience

// lookIn has a link looked at when d has passed, or sooner.
func (s *Scribe) lookIn(l *link, d time.Duration) {
	at := s.clock.Now().Add(d)
	if l.lookAt == never || momentOf(at) < l.lookAt {
		l.lookAt = momentOf(at)
		s.cal.Add(at, task{kind: taskLook, of: uint32(l.number)})
	}
}

// look drops the children behind a link when their lease is over, and a link without
// edges.
func (s *Scribe) look(l *link, now time.Time) {
	if l.lookAt == never || momentOf(now) < l.lookAt {
		return
	}
	l.lookAt = never
	lease := leaseBeats * max(s.cfg.BeatInterval, time.Duration(l.pause)*time.Second)
	if len(l.down.of) > 0 {
		if left := lease - momentOf(now).sub(l.renewed); left >= 0 {
			s.lookIn(l, left+1)
			return
		}
		s.childLost(l)
	}
	s.dropIdle(l)
}

// unused has a link dropped soon that has lost its last edge.
func (s *Scribe) unused(l *link) {
	if len(l.up.of) == 0 && len(l.down.of) == 0 {
		s.lookIn(l, linkPatience)
	}
}

// dropIdle ends a link without edges, once it has stood long enough.
func (s *Scribe) dropIdle(l *link) {
	if len(l.up.of) > 0 || len(l.down.of) > 0 || s.now().sub(l.made) < linkPatience {
		return
	}
	id := l.contact.Peer.ID
	delete(s.links, id)
	s.linkSlab.Take(uint32(l.number - 1))
	s.node.Unwatch(id)
}

func (s *Scribe) send(to env.Peer, m *scribepb.Message) {
	s.stats.Control++
	s.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Scribe, m))
}

// sendPart ends an edge; 0 is whichever there is at this time, which is therefore said at
// once.
func (s *Scribe) sendPart(to env.Peer, id overlay.ID, edge uint64) {
	if w := (word{kind: aPart, group: id, edge: edge}); edge != 0 {
		s.tell(to, w)
	} else {
		s.send(to, s.alone(&w))
	}
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
	d, m := l.carry(), sent{group: id, id: msg, frame: frame}
	if len(d.out) >= window {
		d.queue = append(d.queue, m)
		if d.waiting += len(frame); len(d.queue) > maxQueue || d.waiting > maxQueued {
			s.letPull(d)
		}
		return
	}
	s.sendOut(l, m)
}

// letPull leaves it to a slow child to pull what waits for it: the last message of each group, which
// shows that others are missing, is all that goes on waiting, or it would hear of nothing in time.
func (s *Scribe) letPull(d *downs) {
	last := map[overlay.ID]int{}
	for i := range d.queue {
		last[d.queue[i].group] = i
	}
	before, i := len(d.queue), -1
	d.waiting = 0
	d.queue = slices.DeleteFunc(d.queue, func(m sent) bool {
		i++
		if last[m.group] == i {
			d.waiting += len(m.frame)
			return false
		}
		return true
	})
	for len(d.queue) > maxQueue || d.waiting > maxQueued {
		d.waiting -= len(d.queue[0].frame)
		d.queue = slices.Delete(d.queue, 0, 1)
	}
	s.stats.Lost += uint64(before - len(d.queue))
}

func (s *Scribe) sendOut(l *link, m sent) {
	m.at = s.clock.Now()
	l.downs.out = append(l.downs.out, m)
	s.stats.Sent++
	s.net.Send(l.contact.Peer, env.Bulk, m.frame)
	s.timeResend(l)
}

// downRTO is how long a Down may stay unacknowledged.
func (s *Scribe) downRTO(l *link, tries int) time.Duration {
	return (s.node.RTO(l.contact.Peer.ID) + 2*gotDelay) << min(tries, 3)
}

func (s *Scribe) timeResend(l *link) {
	d := l.downs
	if d.timed || len(d.out) == 0 {
		return
	}
	d.timed = true
	first := d.out[0]
	s.cal.Add(first.at.Add(s.downRTO(l, first.tries)), task{kind: taskResend, of: uint32(l.number)})
}

// resend repeats the Downs that were not acknowledged in time.
func (s *Scribe) resend(l *link, now time.Time) {
	d := l.downs
	if d == nil {
		return // the peer was held to be dead meanwhile
	}
	d.timed = false
	var late []sent
	d.out = slices.DeleteFunc(d.out, func(m sent) bool {
		over := !now.Before(m.at.Add(s.downRTO(l, m.tries)))
		if over {
			late = append(late, m)
		}
		return over
	})
	for _, m := range late {
		g := s.groups.Get(m.group)
		if g == nil || g.child(l) == nil {
			continue // no child any longer
		}
		if m.tries++; m.tries > resends {
			s.stats.Lost++
			continue
		}
		if m.tries == 2 {
			s.node.Suspect(l.contact.Peer.ID)
		}
		s.stats.Resent++
		s.sendOut(l, m)
	}
	s.refill(l)
	s.timeResend(l)
	l.rest()
}

// refill sends what waited for the window.
func (s *Scribe) refill(l *link) {
	for d := l.downs; len(d.queue) > 0 && len(d.out) < window; {
		m := d.queue[0]
		d.queue = slices.Delete(d.queue, 0, 1)
		d.waiting -= len(m.frame)
		s.sendOut(l, m)
	}
}

func (s *Scribe) onGot(l *link, m *scribepb.Got) {
	if l == nil || l.downs == nil {
		return
	}
	l.downs.out = slices.DeleteFunc(l.downs.out, func(d sent) bool { return slices.Contains(m.Ids, d.id) })
	s.refill(l)
	l.rest()
}

// onDown takes a message from a parent: acknowledges it, passes it on, and tells
// one that is no parent any longer. A parent just left may still bring something
// new, and while a parent is sought the first Down can overtake the Accept; but
// what comes from below, or from a stranger, is no message of the group's.
func (s *Scribe) onDown(from env.PeerID, m *scribepb.Down, frame []byte) {
	id := overlay.ID(m.Group)
	s.stats.Received++
	g, l := s.groups.Get(id), s.links[from]
	if l != nil {
		l.carry().got = append(l.carry().got, m.Id)
		s.flushSoon(l, gotDelay)
	} else {
		s.send(env.Peer{ID: from}, &scribepb.Message{Body: &scribepb.Message_Got{Got: &scribepb.Got{Ids: []uint64{m.Id}}}})
	}
	parent := g != nil && (g.seeking() || g.sought != nil && g.sought.target == from || g.parent(l) != nil)
	if !parent {
		s.sendPart(env.Peer{ID: from}, id, 0)
	}
	if parent || g != nil && l != nil && overlay.Nearer(id, l.contact.ID, s.node.ID()) {
		s.pass(g, l, m.Id, m.Payload, frame, time.Duration(m.AgeMs)*time.Millisecond)
	}
}

// flushSoon makes sure that what waits on a link goes within d.
func (s *Scribe) flushSoon(l *link, d time.Duration) {
	if l.downs != nil && len(l.downs.got) >= maxGot {
		d = 0
	}
	at := s.clock.Now().Add(d)
	if l.flushAt == never || momentOf(at) < l.flushAt {
		l.flushAt = momentOf(at)
		s.cal.Add(at, task{kind: taskFlush, of: uint32(l.number)})
	}
}

// flush sends acknowledgements and changed weights.
func (s *Scribe) flush(l *link, now time.Time) {
	if l.flushAt == never || momentOf(now) < l.flushAt {
		return
	}
	l.flushAt = never
	if d := l.downs; d != nil {
		for part := range slices.Chunk(d.got, maxGot) {
			s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Got{Got: &scribepb.Got{Ids: part}}})
		}
		d.got = nil
		l.rest()
	}
	s.flushWeights(l)
}

// weigh tells the parent soon when the weight of a group has changed.
func (s *Scribe) weigh(g *group) {
	if len(g.above()) == 0 || g.weight() == g.sent || plant.StaleWeight {
		return
	}
	l := s.numbered(g.parents[0].link)
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
		g := s.groups.Get(id)
		if g == nil || g.parents[0].link != l.number || g.weight() == g.sent {
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
	s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_List{List: &scribepb.List{
		First: part[0].Group, Last: part[len(part)-1].Group, Edges: part, Partial: partial,
	}}})
}
