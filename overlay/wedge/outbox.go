package wedge

import (
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/overlay/wedge/wedgepb"
)

// An outbox sends changes of edges to the peers concerned, in batches of which one at a time is in flight
// on each link, until it is acknowledged.
type outbox struct {
	*base
	links *links
	table *table
}

// batchState is what an outbox keeps of a link, and of the peer's batches.
type batchState struct {
	queue      []change
	flushAt    time.Time     // zero: no flush is planned
	inFlight   *outgoing     // the batch that is not acknowledged; nil: none
	rtt        time.Duration // round-trip time, see updateRTT; 0: not measured
	issueKnown uint64        // issue of this node's record that the peer has; 0: none

	peerLife, lastBatch uint64 // the peer's life, and the number of its last batch
	lastAck             []byte // the answer to that batch
}

// settled says whether the peer knows all changes.
func (b *batchState) settled() bool { return b.inFlight == nil && len(b.queue) == 0 }

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

// queueEntry queues an edge for its child, with the given part of its order.
func (ob *outbox) queueEntry(l *link, r *membership, e *edge, detail orderDetail) {
	e.flags = e.flags&^detailMask | max(e.flags&detailMask, uint8(detail))
	if e.flags&entryQueued == 0 {
		e.flags |= entryQueued
		ob.enqueue(l, change{kind: changeEntry, key: shortKey(r.order.key)}, flushDelay)
	}
}

func (ob *outbox) queueEnd(l *link, r *membership) {
	ob.enqueue(l, change{kind: changeEnd, key: shortKey(r.order.key)}, flushDelay)
}

// enqueue queues a change, to be sent within d.
func (ob *outbox) enqueue(l *link, i change, d time.Duration) {
	l.queue = append(l.queue, i)
	at := ob.clock.Now().Add(d)
	if l.inFlight == nil && (l.flushAt.IsZero() || at.Before(l.flushAt)) {
		l.flushAt = at
		ob.cal.Add(at, task{kind: taskFlush, peer: l.peer.ID})
	}
}

// flush sends the changes on a link. While a batch is in flight it does nothing, because the
// acknowledgement triggers the next batch.
func (ob *outbox) flush(l *link, at time.Time) {
	if l != nil && l.inFlight == nil && l.flushAt.Equal(at) {
		ob.flushNow(l)
	}
}

func (ob *outbox) flushNow(l *link) {
	l.flushAt = time.Time{}
	b, rest := ob.makeBatch(l)
	if l.queue = l.queue[rest:]; len(l.queue) == 0 {
		l.queue = nil
	}
	if b == nil {
		return
	}
	now := ob.clock.Now()
	b.Life, b.Number = ob.life, ob.nextNumber()
	l.inFlight = &outgoing{batch: b, made: now}
	ob.sendBatch(l, now)
}

// makeBatch makes a batch of queued changes, and returns how many of them it used up. The batch is
// nil if none of these needs to be told any longer.
func (ob *outbox) makeBatch(l *link) (b *wedgepb.Batch, taken int) {
	b = &wedgepb.Batch{}
	const overhead = 2 << 10 // a record, and the encoding of the fields
	size, items := overhead, 0
	for _, i := range l.queue {
		cost := ob.appendChange(b, l, i)
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
func (ob *outbox) appendChange(b *wedgepb.Batch, l *link, i change) int {
	r := ob.table.byKey(i.key)
	var e *edge
	if r != nil {
		e = r.edgeTo(l)
	}
	switch i.kind {
	case changeEntry, changeListed:
		if e == nil || i.kind == changeEntry && e.flags&entryQueued == 0 {
			return 0
		}
		entry := ob.entry(r, e)
		if i.kind == changeListed {
			entry.Listed = true
		}
		b.Entries = append(b.Entries, entry)
		ob.stats.Entries++
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
func (ob *outbox) entry(r *membership, e *edge) *wedgepb.Entry {
	o := r.order
	m := &wedgepb.Entry{
		Key:       shortKey(o.key),
		Depth:     uint32(e.depth) + 1,
		First:     e.first,
		Ranks:     e.ranks,
		AgeMs:     uint32(ob.intervalAge(r).Milliseconds()),
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
func (ob *outbox) intervalAge(r *membership) time.Duration {
	age := time.Duration(ob.clock.Now().UnixNano()-r.intervalStart) % r.order.interval
	if age < 0 { // a leader may give a start in the future
		age += r.order.interval
	}
	return age
}

// sendBatch sends the batch in flight, for the first time or again.
func (ob *outbox) sendBatch(l *link, now time.Time) {
	o := l.inFlight
	o.tries++
	o.batch.Record = nil
	if len(o.batch.Entries) > 0 && l.issueKnown != ob.node.Self().Issued {
		o.batch.Record = ob.node.Self().Raw
	}
	// Ages are valid at the estimated time of arrival, so the child need not have measured the
	// round trip.
	o.batch.WaitedMs = uint32((now.Sub(o.made) + ob.links.rtt(l)/2).Milliseconds())
	ob.stats.Batches++
	l.used = now
	ob.send(l.peer, &wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: o.batch}})
	o.due = now.Add(ob.links.timeout(l, o.tries))
	ob.cal.Add(o.due, task{kind: taskResend, peer: l.peer.ID})
}

// resend repeats a batch that was not acknowledged in time, and reports whether it gives up. A peer
// that lives but does not acknowledge is treated as one that refuses.
func (ob *outbox) resend(l *link, at time.Time) (givesUp bool) {
	if l == nil || l.inFlight == nil || !l.inFlight.due.Equal(at) {
		return false
	}
	switch {
	case l.inFlight.tries >= giveUpTries:
		ob.clearPending(l)
		return true
	case l.inFlight.tries == suspectTries:
		ob.node.Suspect(l.peer.ID)
	}
	ob.stats.Resent++
	ob.sendBatch(l, ob.clock.Now())
	return false
}

// clearPending discards what was queued or sent to a peer without an answer. If the peer comes
// back, a digest shows what it missed, and statuses are reported again.
func (ob *outbox) clearPending(l *link) {
	for r := range ob.table.all() {
		if r.parent == l.number {
			r.reported, r.flags = neverReported, r.flags&^statusQueued
		}
	}
	l.queue, l.inFlight, l.flushAt = nil, nil, time.Time{}
	l.digestPending, l.digestAt = 0, time.Time{}
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
