package wedge

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// A link is everything that this node shares with one peer: the edges between them, in both
// directions, and the changes to be sent.
type link struct {
	number  linkNumber
	peer    env.Peer
	contact *overlay.Contact
	dead    bool // the peer was reported dead, and has sent nothing since
	common  int  // bits of the id that the peer shares with this node

	up, down  edgeSet   // up: the peer is the parent; down: the peer is the child
	childOf   int       // memberships whose parent the peer is; equals up.count except during changes
	renewedAt time.Time // when the peer last renewed the edges up

	queue      []change
	flushAt    time.Time     // zero: no flush is planned
	inFlight   *outgoing     // the batch that is not acknowledged; nil: none
	rtt        time.Duration // round-trip time, see updateRTT; 0: not measured
	issueKnown uint64        // issue of this node's record that the peer has; 0: none

	peerLife, lastBatch uint64 // the peer's life, and the number of its last batch
	lastAck             []byte // the answer to that batch

	digestAt      time.Time // when the edges down are renewed next; zero: not planned
	digestPending uint64    // number of the digest that awaits an answer; 0: none
	digestDue     time.Time // when that answer is overdue
	digestTries   int
	listFor       uint64 // number of the peer's digest that the expected list answers; 0: none
	round         uint8  // counts the peer's lists, modulo 256

	used         time.Time // when a batch was last received or sent
	blockedUntil time.Time // no new entries are sent to the peer before; zero: it is not blocked

	broadcasts     []*wedgepb.Broadcast // queued broadcasts
	broadcastBytes int
	numbers        recentNumbers // of recent broadcast frames
}

// A linkNumber is one more than the place of a link in Wedge.linkStore. Memberships, of which a
// simulated network has millions, store it in place of a pointer. The number is reused when its
// link is gone.
type linkNumber uint32

const noLink linkNumber = 0 // the number of no link

// linkAt returns the link with a number; nil for noLink.
func (w *Wedge) linkAt(n linkNumber) *link {
	if n == noLink {
		return nil
	}
	return w.linkStore.At(uint32(n - 1))
}

// An edgeSet summarises the edges of a link in one direction, so that both ends can compare what
// they know.
type edgeSet struct {
	count  uint32
	digest uint64
}

func (e *edgeSet) add(hash uint64) {
	e.count++
	e.digest ^= hash
}

func (e *edgeSet) remove(hash uint64) {
	e.count--
	e.digest ^= hash
}

// An outgoing is a batch that is not acknowledged.
type outgoing struct {
	batch *wedgepb.Batch
	made  time.Time
	due   time.Time
	tries int
}

// A change is one thing to be told in a batch. Entries and statuses are written as they are when
// the batch is made.
type change struct {
	kind changeKind
	key  uint64 // short key; for changeListEnd the number of the digest that the list answers
}

type changeKind uint8

const (
	changeEntry  changeKind = iota
	changeListed            // an entry that is part of a list
	changeEnd
	changeLeave
	changeStatus
	changeListEnd
)

// link returns the link to a node, making one if there is none.
func (w *Wedge) link(c *overlay.Contact) *link {
	l := w.links[c.Peer.ID]
	if l == nil {
		number := w.linkStore.Put(link{common: w.self.Common(c.ID), used: w.clock.Now()})
		l = w.linkStore.At(number)
		l.number = linkNumber(number + 1)
		w.links[c.Peer.ID] = l
		w.node.Watch(c)
		if w.node.RTT(c.Peer.ID) == 0 {
			w.node.Suspect(c.Peer.ID) // starts a probe, since times are corrected by half the round trip
		}
	}
	if l.contact == nil || c.Issued > l.contact.Issued {
		l.peer, l.contact = c.Peer, c
	}
	return l
}

// sortedLinks returns the links for which keep is true, by peer.
func (w *Wedge) sortedLinks(keep func(*link) bool) (links []*link) {
	for _, l := range w.links {
		if keep(l) {
			links = append(links, l)
		}
	}
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.peer.ID, b.peer.ID) })
	return links
}

// clearPending discards what was queued or sent to a peer without an answer. If the peer comes
// back, a digest shows what it missed, and statuses are reported again.
func (w *Wedge) clearPending(l *link) {
	for r := range w.all() {
		if r.parent == l.number {
			r.reported, r.flags = neverReported, r.flags&^statusQueued
		}
	}
	l.queue, l.inFlight, l.flushAt = nil, nil, time.Time{}
	l.digestPending, l.digestAt = 0, time.Time{}
}

func (w *Wedge) send(to env.Peer, m *wedgepb.Message) {
	w.stats.Control++
	w.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Wedge, m))
}

func (w *Wedge) nextNumber() uint64 {
	w.lastNumber++
	return w.lastNumber
}

// queueEntry queues an edge for its child, with the given part of its order.
func (w *Wedge) queueEntry(l *link, r *membership, e *edge, detail orderDetail) {
	e.flags = e.flags&^detailMask | max(e.flags&detailMask, uint8(detail))
	if e.flags&entryQueued == 0 {
		e.flags |= entryQueued
		w.enqueue(l, change{kind: changeEntry, key: shortKey(r.order.key)}, flushDelay)
	}
}

func (w *Wedge) queueEnd(l *link, r *membership) {
	w.enqueue(l, change{kind: changeEnd, key: shortKey(r.order.key)}, flushDelay)
}

func (w *Wedge) queueLeave(l *link, r *membership) {
	w.enqueue(l, change{kind: changeLeave, key: shortKey(r.order.key)}, flushDelay)
}

// enqueue queues a change, to be sent within d.
func (w *Wedge) enqueue(l *link, i change, d time.Duration) {
	l.queue = append(l.queue, i)
	at := w.clock.Now().Add(d)
	if l.inFlight == nil && (l.flushAt.IsZero() || at.Before(l.flushAt)) {
		l.flushAt = at
		w.cal.Add(at, task{kind: taskFlush, peer: l.peer.ID})
	}
}

// flush sends the changes on a link. While a batch is in flight it does nothing, because the
// acknowledgement triggers the next batch.
func (w *Wedge) flush(l *link, at time.Time) {
	if l != nil && l.inFlight == nil && l.flushAt.Equal(at) {
		w.flushNow(l)
	}
}

func (w *Wedge) flushNow(l *link) {
	l.flushAt = time.Time{}
	b, rest := w.makeBatch(l)
	if l.queue = l.queue[rest:]; len(l.queue) == 0 {
		l.queue = nil
	}
	if b == nil {
		return
	}
	now := w.clock.Now()
	b.Life, b.Number = w.life, w.nextNumber()
	l.inFlight = &outgoing{batch: b, made: now}
	w.sendBatch(l, now)
}

// makeBatch makes a batch of queued changes, and returns how many of them it used up. The batch is
// nil if none of these needs to be told any longer.
func (w *Wedge) makeBatch(l *link) (b *wedgepb.Batch, taken int) {
	b = &wedgepb.Batch{}
	const overhead = 2 << 10 // a record, and the encoding of the fields
	size, items := overhead, 0
	for _, i := range l.queue {
		cost := w.appendChange(b, l, i)
		taken++
		size += cost
		if cost > 0 {
			items++
		}
		if items == maxChanges || size > maxBatch-MaxPayload-overhead {
			break
		}
	}
	if items == 0 {
		return nil, taken
	}
	return b, taken
}

// appendChange adds a change to a batch, and returns its approximate size in bytes; 0 if it is
// obsolete.
func (w *Wedge) appendChange(b *wedgepb.Batch, l *link, i change) int {
	r := w.byKey(i.key)
	var e *edge
	if r != nil {
		e = r.edgeTo(l)
	}
	switch i.kind {
	case changeEntry, changeListed:
		if e == nil || i.kind == changeEntry && e.flags&entryQueued == 0 {
			return 0
		}
		entry := w.entry(r, e)
		if i.kind == changeListed {
			entry.Listed = true
		}
		b.Entries = append(b.Entries, entry)
		w.stats.Entries++
		return proto.Size(entry) + 2
	case changeEnd:
		if e != nil {
			return 0 // there is an edge again
		}
		b.Ends = append(b.Ends, i.key)
		return 8
	case changeLeave:
		if r != nil && r.parent == l.number {
			return 0 // the peer is the parent again
		}
		b.Leaves = append(b.Leaves, i.key)
		return 8
	case changeStatus:
		if r == nil || r.parent != l.number || r.flags&statusQueued == 0 {
			return 0
		}
		t := r.status()
		if r.reported, r.flags = t.Missing, r.flags&^statusQueued; t.Missing > 0 {
			r.flags |= reportedMissing
		}
		b.Statuses = append(b.Statuses, t)
		return proto.Size(t) + 2
	default:
		b.ListEnd = i.key
		return 10
	}
}

// entry returns an edge in the form in which its child is told.
func (w *Wedge) entry(r *membership, e *edge) *wedgepb.Entry {
	o := r.order
	m := &wedgepb.Entry{
		Key:       shortKey(o.key),
		Depth:     uint32(e.depth) + 1,
		First:     e.first,
		Ranks:     e.ranks,
		AgeMs:     uint32(w.intervalAge(r).Milliseconds()),
		OrderHash: uint32(o.hash),
		StandIns:  r.standIns(e.first, e.ranks),
	}
	detail := orderDetail(e.flags & detailMask)
	e.flags &^= detailMask | entryQueued
	if detail == hashOnly {
		return m
	}
	m.Order = &wedgepb.Order{
		Epoch: o.term.Epoch, Seq: o.term.Seq, N: o.n,
		IntervalMs: uint32(o.interval.Milliseconds()), PayloadHash: o.payloadHash,
		DigitBits: uint32(o.digitBits),
	}
	if detail == withPayload {
		m.Order.Key, m.Order.Payload, m.Order.HasPayload = o.key[:], o.payload, true
	}
	return m
}

// intervalAge returns how long ago the current interval began, less than the interval.
func (w *Wedge) intervalAge(r *membership) time.Duration {
	age := time.Duration(w.clock.Now().UnixNano()-r.intervalStart) % r.order.interval
	if age < 0 { // a leader may give a start in the future
		age += r.order.interval
	}
	return age
}

// sendBatch sends the batch in flight, for the first time or again.
func (w *Wedge) sendBatch(l *link, now time.Time) {
	o := l.inFlight
	o.tries++
	o.batch.Record = nil
	if len(o.batch.Entries) > 0 && l.issueKnown != w.node.Self().Issued {
		o.batch.Record = w.node.Self().Raw
	}
	// Ages are valid at the estimated time of arrival, so the child need not have measured the
	// round trip.
	o.batch.WaitedMs = uint32((now.Sub(o.made) + w.rtt(l)/2).Milliseconds())
	w.stats.Batches++
	l.used = now
	w.send(l.peer, &wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: o.batch}})
	o.due = now.Add(w.timeout(l, o.tries))
	w.cal.Add(o.due, task{kind: taskResend, peer: l.peer.ID})
}

// rtt returns the round-trip time of a link. It prefers the link's own measurement, because the
// overlay's first probe may have waited for the connection.
func (w *Wedge) rtt(l *link) time.Duration {
	if l.rtt != 0 {
		return l.rtt
	}
	return w.node.RTT(l.peer.ID)
}

// updateRTT includes a measurement in the estimate. The shortest counts most, since longer ones may
// have waited for the connection.
func (l *link) updateRTT(d time.Duration) {
	if l.rtt == 0 || d < l.rtt {
		l.rtt = d
		return
	}
	l.rtt += min(d-l.rtt, l.rtt) / 16
}

// timeout returns how long to wait for an answer after so many tries.
func (w *Wedge) timeout(l *link, tries int) time.Duration {
	return w.node.RTO(l.peer.ID) << min(tries-1, 5)
}

// resend repeats a batch that was not acknowledged in time. A peer that lives but does not
// acknowledge is treated as one that refuses.
func (w *Wedge) resend(l *link, at time.Time) {
	if l == nil || l.inFlight == nil || !l.inFlight.due.Equal(at) {
		return
	}
	switch {
	case l.inFlight.tries >= giveUpTries:
		w.giveUp(l)
		return
	case l.inFlight.tries == suspectTries:
		w.node.Suspect(l.peer.ID)
	}
	w.stats.Resent++
	w.sendBatch(l, w.clock.Now())
}

// giveUp gives the edges of a peer that does not answer to other members.
func (w *Wedge) giveUp(l *link) {
	w.clearPending(l)
	w.block(l)
	for r := range w.all() {
		if e := r.edgeTo(l); e != nil {
			w.replaceChild(r, e)
		}
	}
}

// block stops new entries to a peer for one maintenance interval.
func (w *Wedge) block(l *link) {
	l.blockedUntil = w.clock.Now().Add(w.cfg.Maintenance)
	if !slices.Contains(w.blocked, l.peer.ID) {
		w.blocked = append(w.blocked, l.peer.ID)
	}
}

// unblock ends the blocks that are over.
func (w *Wedge) unblock(now time.Time) {
	w.blocked = slices.DeleteFunc(w.blocked, func(id env.PeerID) bool {
		l := w.links[id]
		return l == nil || !now.Before(l.blockedUntil)
	})
}
