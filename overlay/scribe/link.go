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

// A link is everything that this node shares with one peer: the edges of many groups, the messages
// between them, and pending weights. A node has hundreds of links.
type link struct {
	contact   *overlay.Contact // nil: the link was removed
	number    linkNumber
	createdAt moment
	checkAt   moment // when a lease may be over, or the link may be unused; never: no check is planned

	up, down   edgeSet // up: the peer is the parent; down: the peer is the child
	renewedAt  moment  // when the peer last confirmed the edges down
	peerPeriod uint16  // seconds until the peer's next heartbeat, as it announced; 0: the default

	heartbeating     bool
	tries            int8
	heartbeatAt      moment
	heartbeatCheckAt moment // time of the planned check whether a heartbeat is due; never: not planned
	pendingNonce     uint64 // of the heartbeat that awaits an answer; 0: none
	// The last heartbeats of this node and of the peer. An EdgeList must answer one of them.
	ownHeartbeat, peerHeartbeat heartbeatRef
	nextListAt                  moment // no EdgeLists are sent in answer to the peer's heartbeats before

	transfer *transfer           // nil: no messages are in transit
	weights  map[overlay.ID]bool // groups whose changed weight must be sent
	flushAt  moment              // never: no flush is planned
}

// A linkNumber is one more than the place of a link in Scribe.linkStore. Groups, of which a
// simulated network has millions, store it in place of a pointer. The number is reused when its
// link is gone.
type linkNumber uint32

const noLink linkNumber = 0 // the number of no link

// linkAt returns the link with a number; nil for noLink.
func (s *Scribe) linkAt(n linkNumber) *link {
	if n == noLink {
		return nil
	}
	return s.linkStore.At(uint32(n - 1))
}

// A heartbeatRef identifies a heartbeat that an EdgeList may answer.
type heartbeatRef struct {
	nonce uint64 // 0: none
	at    moment
}

// A transfer holds the messages in transit on a link.
type transfer struct {
	inFlight      []outgoing // not acknowledged, the oldest first
	queue         []outgoing // waiting for the window
	queuedBytes   int        // bytes of the queue
	resendPlanned bool       // a check for missing acknowledgements is planned
	acks          []uint64   // ids to be acknowledged to the peer
}

// ensureTransfer returns the transfer of a link, making one if there is none.
func (l *link) ensureTransfer() *transfer {
	if l.transfer == nil {
		l.transfer = &transfer{}
	}
	return l.transfer
}

// dropIdleTransfer removes a transfer that is empty.
func (l *link) dropIdleTransfer() {
	if d := l.transfer; d != nil && len(d.inFlight)+len(d.queue)+len(d.acks) == 0 && !d.resendPlanned {
		l.transfer = nil
	}
}

// A moment is a time in nanoseconds of Unix time, a third of the size of time.Time.
type moment int64

const never moment = 0

func momentOf(t time.Time) moment { return moment(t.UnixNano()) }

func (s *Scribe) now() moment { return momentOf(s.clock.Now()) }

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }

// An outgoing is a Multicast on its way to a child.
type outgoing struct {
	group overlay.ID
	id    uint64
	frame []byte
	at    time.Time
	tries int
}

// link returns the link to a node, making one if there is none.
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

// linkGrace is how long a link without edges is kept, so that the edges for which it was made can
// be accepted.
const linkGrace = 2 * joinTimeout

// checkLinkIn plans a check of a link within d.
func (s *Scribe) checkLinkIn(l *link, d time.Duration) {
	at := s.clock.Now().Add(d)
	if l.checkAt == never || momentOf(at) < l.checkAt {
		l.checkAt = momentOf(at)
		s.cal.Add(at, task{kind: taskCheckLink, number: uint32(l.number)})
	}
}

// checkLink drops the children on a link if their lease is over, and the link if it has no edges.
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

// dropIdleLater plans the removal of a link that has lost its last edge.
func (s *Scribe) dropIdleLater(l *link) {
	if len(l.up.groups) == 0 && len(l.down.groups) == 0 {
		s.checkLinkIn(l, linkGrace)
	}
}

// dropIdle removes a link without edges, once it is older than linkGrace.
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

// sendPrune ends an edge. Edge 0 means any edge that exists at this time, so that Prune is sent at
// once.
func (s *Scribe) sendPrune(to env.Peer, id overlay.ID, edge uint64) {
	if e := (batchEntry{kind: entryPrune, group: id, edge: edge}); edge != 0 {
		s.enqueue(to, e)
	} else {
		s.send(to, s.single(&e))
	}
}

func (s *Scribe) sendReject(to env.Peer, ids ...overlay.ID) {
	m := &scribepb.Reject{}
	for i := range ids {
		m.Groups = append(m.Groups, ids[i][:])
	}
	s.send(to, &scribepb.Message{Body: &scribepb.Message_Reject{Reject: m}})
}

// sendMulticast sends a message to a child, or queues it if window messages are unacknowledged.
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

// thinQueue reduces the queue of a slow child to the last message of each group. That message shows
// the child that others are missing, and it pulls them. If that is not enough, the oldest messages
// are dropped, too.
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

// ackTimeout is how long a Multicast may stay unacknowledged.
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

// resend repeats the Multicasts that were not acknowledged in time.
func (s *Scribe) resend(l *link, now time.Time) {
	d := l.transfer
	if d == nil {
		return // the peer was reported dead meanwhile
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
			continue // the peer is no longer a child
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

// refill sends queued messages while the window allows.
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

// onMulticast handles a message from a parent: acknowledges and forwards it, or tells a sender that
// is no parent. A former parent may still bring something new, and while a parent is sought, the
// first Multicast can overtake the Accept. A message from a child, or from a peer without a link,
// is not forwarded.
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

// flushSoon plans a flush of a link within d, at once if acknowledgements fill a message.
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

// updateWeight plans to tell the parent if the weight of a group has changed.
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
