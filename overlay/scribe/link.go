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
	contact   *overlay.Contact // nil: it is no link any more
	number    linkNumber
	createdAt moment
	checkAt   moment // when a lease may be over, or the link of no use; never: no look is due

	up, down   edgeSet // up: the peer is the parent
	renewedAt  moment  // when the peer last said which edges down there are
	peerPeriod uint16  // seconds until its next Beat, as it says; 0: as usual

	heartbeating     bool
	tries            int8
	heartbeatAt      moment
	heartbeatCheckAt moment // when it is looked whether a Beat is due; never: there is no plan
	pendingNonce     uint64 // of the Beat that is out; 0: none
	// What a List of the peer's may answer: the last Beat of this node, and of the peer.
	ownHeartbeat, peerHeartbeat heartbeatRef
	nextListAt                  moment // before that this node lists no edges because the peer asks

	transfer *transfer           // nil: none is under way
	weights  map[overlay.ID]bool // groups whose weight changed
	flushAt  moment              // never: nothing waits
}

// A linkNumber is that of a link among all of the node's, one more than that of its place. It stands where a pointer
// would in the edges of groups, of which there are millions in a simulated network; when its link is gone, another
// gets it.
type linkNumber uint32

const noLink linkNumber = 0 // no link's

// numbered returns a link; nil for none.
func (s *Scribe) linkAt(n linkNumber) *link {
	if n == noLink {
		return nil
	}
	return s.linkStore.At(uint32(n - 1))
}

// An ask is a Beat by which a List is called for.
type heartbeatRef struct {
	nonce uint64 // 0: none
	at    moment
}

// downs are the messages under way on a link.
type transfer struct {
	inFlight      []outgoing // not acknowledged, the oldest first
	queue         []outgoing // that wait for the window
	queuedBytes   int        // bytes of these
	resendPlanned bool       // a look at out is due
	acks          []uint64   // to acknowledge
}

// carry returns what is under way on a link, to have more put to it.
func (l *link) ensureTransfer() *transfer {
	if l.transfer == nil {
		l.transfer = &transfer{}
	}
	return l.transfer
}

// rest forgets what was under way when nothing is any more.
func (l *link) dropIdleTransfer() {
	if d := l.transfer; d != nil && len(d.inFlight)+len(d.queue)+len(d.acks) == 0 && !d.resendPlanned {
		l.transfer = nil
	}
}

// A moment is a time in a third of the space: nanoseconds of Unix time.
type moment int64

const never moment = 0

func momentOf(t time.Time) moment { return moment(t.UnixNano()) }

func (s *Scribe) now() moment { return momentOf(s.clock.Now()) }

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }

// A sent is a Down on its way to a child.
type outgoing struct {
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
		number := s.linkStore.Put(link{createdAt: s.now(), contact: c})
		l = s.linkStore.At(number)
		l.number = linkNumber(number + 1)
		s.links[c.Peer.ID] = l
		s.node.Watch(c)
		s.checkLinkIn(l, linkGrace)
	}
	if c.Issued > l.contact.Issued {
		l.contact = c
	}
	return l
}

// linkPatience is how long a link without edges stands: those may come for which it was
// made.
const linkGrace = 2 * joinTimeout

// lookIn has a link looked at when d has passed, or sooner.
func (s *Scribe) checkLinkIn(l *link, d time.Duration) {
	at := s.clock.Now().Add(d)
	if l.checkAt == never || momentOf(at) < l.checkAt {
		l.checkAt = momentOf(at)
		s.cal.Add(at, task{kind: taskCheckLink, number: uint32(l.number)})
	}
}

// look drops the children behind a link when their lease is over, and a link without
// edges.
func (s *Scribe) checkLink(l *link, now time.Time) {
	if l.checkAt == never || momentOf(now) < l.checkAt {
		return
	}
	l.checkAt = never
	lease := leasePeriods * max(s.cfg.HeartbeatInterval, time.Duration(l.peerPeriod)*time.Second)
	if len(l.down.groups) > 0 {
		if left := lease - momentOf(now).sub(l.renewedAt); left >= 0 {
			s.checkLinkIn(l, left+1)
			return
		}
		s.dropChildren(l)
	}
	s.dropIdle(l)
}

// unused has a link dropped soon that has lost its last edge.
func (s *Scribe) dropIdleLater(l *link) {
	if len(l.up.groups) == 0 && len(l.down.groups) == 0 {
		s.checkLinkIn(l, linkGrace)
	}
}

// dropIdle ends a link without edges, once it has stood long enough.
func (s *Scribe) dropIdle(l *link) {
	if len(l.up.groups) > 0 || len(l.down.groups) > 0 || s.now().sub(l.createdAt) < linkGrace {
		return
	}
	id := l.contact.Peer.ID
	delete(s.links, id)
	s.linkStore.Take(uint32(l.number - 1))
	s.node.Unwatch(id)
}

func (s *Scribe) send(to env.Peer, m *scribepb.Message) {
	s.stats.Control++
	s.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Scribe, m))
}

// sendPart ends an edge; 0 is whichever there is at this time, which is therefore said at
// once.
func (s *Scribe) sendPrune(to env.Peer, id overlay.ID, edge uint64) {
	if w := (batchEntry{kind: entryPrune, group: id, edge: edge}); edge != 0 {
		s.enqueue(to, w)
	} else {
		s.send(to, s.single(&w))
	}
}

func (s *Scribe) sendReject(to env.Peer, ids ...overlay.ID) {
	m := &scribepb.Reject{}
	for i := range ids {
		m.Groups = append(m.Groups, ids[i][:])
	}
	s.send(to, &scribepb.Message{Body: &scribepb.Message_Reject{Reject: m}})
}

// sendDown sends one message to a child, or lets it wait while too many are
// unacknowledged.
func (s *Scribe) sendMulticast(l *link, id overlay.ID, msg uint64, frame []byte) {
	if plant.SilentDrop && msg%50 == 0 {
		return
	}
	d, m := l.ensureTransfer(), outgoing{group: id, id: msg, frame: frame}
	if len(d.inFlight) >= window {
		d.queue = append(d.queue, m)
		if d.queuedBytes += len(frame); len(d.queue) > maxQueue || d.queuedBytes > maxQueued {
			s.thinQueue(d)
		}
		return
	}
	s.transmit(l, m)
}

// letPull leaves it to a slow child to pull what waits for it: the last message of each group, which
// shows that others are missing, is all that goes on waiting, or it would hear of nothing in time.
func (s *Scribe) thinQueue(d *transfer) {
	last := map[overlay.ID]int{}
	for i := range d.queue {
		last[d.queue[i].group] = i
	}
	before, i := len(d.queue), -1
	d.queuedBytes = 0
	d.queue = slices.DeleteFunc(d.queue, func(m outgoing) bool {
		i++
		if last[m.group] == i {
			d.queuedBytes += len(m.frame)
			return false
		}
		return true
	})
	for len(d.queue) > maxQueue || d.queuedBytes > maxQueued {
		d.queuedBytes -= len(d.queue[0].frame)
		d.queue = slices.Delete(d.queue, 0, 1)
	}
	s.stats.Lost += uint64(before - len(d.queue))
}

func (s *Scribe) transmit(l *link, m outgoing) {
	m.at = s.clock.Now()
	l.transfer.inFlight = append(l.transfer.inFlight, m)
	s.stats.Sent++
	s.net.Send(l.contact.Peer, env.Bulk, m.frame)
	s.planResend(l)
}

// downRTO is how long a Down may stay unacknowledged.
func (s *Scribe) ackTimeout(l *link, tries int) time.Duration {
	return (s.node.RTO(l.contact.Peer.ID) + 2*ackDelay) << min(tries, 3)
}

func (s *Scribe) planResend(l *link) {
	d := l.transfer
	if d.resendPlanned || len(d.inFlight) == 0 {
		return
	}
	d.resendPlanned = true
	first := d.inFlight[0]
	s.cal.Add(first.at.Add(s.ackTimeout(l, first.tries)), task{kind: taskResend, number: uint32(l.number)})
}

// resend repeats the Downs that were not acknowledged in time.
func (s *Scribe) resend(l *link, now time.Time) {
	d := l.transfer
	if d == nil {
		return // the peer was held to be dead meanwhile
	}
	d.resendPlanned = false
	var late []outgoing
	d.inFlight = slices.DeleteFunc(d.inFlight, func(m outgoing) bool {
		over := !now.Before(m.at.Add(s.ackTimeout(l, m.tries)))
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
		if m.tries++; m.tries > maxResends {
			s.stats.Lost++
			continue
		}
		if m.tries == 2 {
			s.node.Suspect(l.contact.Peer.ID)
		}
		s.stats.Resent++
		s.transmit(l, m)
	}
	s.refill(l)
	s.planResend(l)
	l.dropIdleTransfer()
}

// refill sends what waited for the window.
func (s *Scribe) refill(l *link) {
	for d := l.transfer; len(d.queue) > 0 && len(d.inFlight) < window; {
		m := d.queue[0]
		d.queue = slices.Delete(d.queue, 0, 1)
		d.queuedBytes -= len(m.frame)
		s.transmit(l, m)
	}
}

func (s *Scribe) onAck(l *link, m *scribepb.Ack) {
	if l == nil || l.transfer == nil {
		return
	}
	l.transfer.inFlight = slices.DeleteFunc(l.transfer.inFlight, func(d outgoing) bool { return slices.Contains(m.Ids, d.id) })
	s.refill(l)
	l.dropIdleTransfer()
}

// onDown takes a message from a parent: acknowledges it, passes it on, and tells
// one that is no parent any longer. A parent just left may still bring something
// new, and while a parent is sought the first Down can overtake the Accept; but
// what comes from below, or from a stranger, is no message of the group's.
func (s *Scribe) onMulticast(from env.PeerID, m *scribepb.Multicast, frame []byte) {
	id := overlay.ID(m.Group)
	s.stats.Received++
	g, l := s.groups.Get(id), s.links[from]
	if l != nil {
		l.ensureTransfer().acks = append(l.ensureTransfer().acks, m.Id)
		s.flushSoon(l, ackDelay)
	} else {
		s.send(env.Peer{ID: from}, &scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: []uint64{m.Id}}}})
	}
	parent := g != nil && (g.searching() || g.search != nil && g.search.target == from || g.parent(l) != nil)
	if !parent {
		s.sendPrune(env.Peer{ID: from}, id, 0)
	}
	if parent || g != nil && l != nil && overlay.Nearer(id, l.contact.ID, s.node.ID()) {
		s.forward(g, l, m.Id, m.Payload, frame, time.Duration(m.AgeMs)*time.Millisecond)
	}
}

// flushSoon makes sure that what waits on a link goes within d.
func (s *Scribe) flushSoon(l *link, d time.Duration) {
	if l.transfer != nil && len(l.transfer.acks) >= maxAcks {
		d = 0
	}
	at := s.clock.Now().Add(d)
	if l.flushAt == never || momentOf(at) < l.flushAt {
		l.flushAt = momentOf(at)
		s.cal.Add(at, task{kind: taskFlush, number: uint32(l.number)})
	}
}

// flush sends acknowledgements and changed weights.
func (s *Scribe) flush(l *link, now time.Time) {
	if l.flushAt == never || momentOf(now) < l.flushAt {
		return
	}
	l.flushAt = never
	if d := l.transfer; d != nil {
		for part := range slices.Chunk(d.acks, maxAcks) {
			s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: part}}})
		}
		d.acks = nil
		l.dropIdleTransfer()
	}
	s.flushWeights(l)
}

// weigh tells the parent soon when the weight of a group has changed.
func (s *Scribe) updateWeight(g *group) {
	if len(g.parentEdges()) == 0 || g.weight() == g.sentWeight || plant.StaleWeight {
		return
	}
	l := s.linkAt(g.parents[0].link)
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
		if g == nil || g.parents[0].link != l.number || g.weight() == g.sentWeight {
			continue
		}
		l.up.change(g, g.sentWeight, g.weight())
		g.sentWeight = g.weight()
		changed = append(changed, &scribepb.Edge{Group: g.id[:], Weight: g.sentWeight})
	}
	l.weights = nil
	for part := range slices.Chunk(changed, maxList) {
		s.sendEdgeList(l, part, true)
	}
}

func (s *Scribe) sendEdgeList(l *link, part []*scribepb.Edge, partial bool) {
	s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{
		First: part[0].Group, Last: part[len(part)-1].Group, Edges: part, Partial: partial,
	}}})
}
