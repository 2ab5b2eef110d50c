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

// A link is all that this node shares with one peer: the edges between them, in both
// directions, and what has changed in them.
type link struct {
	number  linkNumber
	peer    env.Peer
	contact *overlay.Contact
	dead    bool // it was held to be dead, and has not spoken since
	common  int  // bits of the id it shares with this node

	up, down  edgeSet   // up: the peer is the parent
	childOf   int       // records whose parent it is: up.count, but for those being changed
	renewedAt time.Time // when the peer last renewed the edges up

	queue      []change
	flushAt    time.Time     // zero: nothing waits
	inFlight   *outgoing     // nil: none
	rtt        time.Duration // see measured; zero: never
	issueKnown uint64        // the issue of this node's record that the peer has; 0: none

	peerLife, lastBatch uint64 // of the peer, and its last batch
	lastAck             []byte // what that was answered

	digestAt      time.Time // when the edges down are next renewed; zero: no plan
	digestPending uint64    // the digest that is not answered; 0: none
	digestDue     time.Time // when the answer is due
	digestTries   int
	listFor       uint64 // the peer's digest that its list is to answer; 0: none
	round         uint8  // counts the lists

	used         time.Time // when something last came in or went out
	blockedUntil time.Time // until then it is asked nothing new; zero: it is not shunned

	broadcasts     []*wedgepb.Broadcast // messages of leaders that wait
	broadcastBytes int
	numbers        recentNumbers // frames of Downs
}

// A linkNumber is that of a link among all of the node's, one more than that of its place. It stands where a pointer
// would in records, of which there are millions in a simulated network; when its link is gone, another gets it.
type linkNumber uint32

const noLink linkNumber = 0 // no link's

// numbered returns a link; nil for none.
func (w *Wedge) linkAt(n linkNumber) *link {
	if n == noLink {
		return nil
	}
	return w.linkStore.At(uint32(n - 1))
}

// edges summarises the edges of a link in one direction, by which both ends compare what
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

// An outgoing batch waits for its acknowledgement.
type outgoing struct {
	batch *wedgepb.Batch
	made  time.Time
	due   time.Time
	tries int
}

// An item is something to be told in a batch. Entries and tallies are written as they are
// when the batch is made.
type change struct {
	kind changeKind
	key  uint64 // or, of the end of a list, the digest it answers
}

type changeKind uint8

const (
	changeEntry  changeKind = iota
	changeListed            // an entry in a list
	changeEnd
	changeLeave
	changeStatus
	changeListEnd
)

// link returns the link to a node, making it if there is none.
func (w *Wedge) link(c *overlay.Contact) *link {
	l := w.links[c.Peer.ID]
	if l == nil {
		number := w.linkStore.Put(link{common: w.self.Common(c.ID), used: w.clock.Now()})
		l = w.linkStore.At(number)
		l.number = linkNumber(number + 1)
		w.links[c.Peer.ID] = l
		w.node.Watch(c)
		if w.node.RTT(c.Peer.ID) == 0 {
			w.node.Suspect(c.Peer.ID) // a probe: phases are told by the round trip
		}
	}
	if l.contact == nil || c.Issued > l.contact.Issued {
		l.peer, l.contact = c.Peer, c
	}
	return l
}

// sortedLinks returns some of the links, by peer.
func (w *Wedge) sortedLinks(keep func(*link) bool) (links []*link) {
	for _, l := range w.links {
		if keep(l) {
			links = append(links, l)
		}
	}
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.peer.ID, b.peer.ID) })
	return links
}

// clear forgets what was to be told to a peer. Should it come back, digests show what
// it has missed, and tallies are told again.
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

// queueEntry has an edge told to its child, with so much of its order.
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

// enqueue has something told within d.
func (w *Wedge) enqueue(l *link, i change, d time.Duration) {
	l.queue = append(l.queue, i)
	at := w.clock.Now().Add(d)
	if l.inFlight == nil && (l.flushAt.IsZero() || at.Before(l.flushAt)) {
		l.flushAt = at
		w.cal.Add(at, task{kind: taskFlush, peer: l.peer.ID})
	}
}

// flush sends what has changed on a link, unless a batch is under way: then its
// acknowledgement brings the next.
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

// batch makes a batch of what waits, and says how much of that it holds; nil if nothing
// of it is to be told any longer.
func (w *Wedge) makeBatch(l *link) (b *wedgepb.Batch, taken int) {
	b = &wedgepb.Batch{}
	const overhead = 2 << 10 // a record, and what the fields cost beside their values
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

// write adds an item to a batch and returns about how many bytes it takes.
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
			return 0 // it is the parent again
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

// entry is an edge as its child is told.
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

// age is how long ago the reference phase last began.
func (w *Wedge) intervalAge(r *membership) time.Duration {
	age := time.Duration(w.clock.Now().UnixNano()-r.intervalStart) % r.order.interval
	if age < 0 { // a leader may say when it will begin
		age += r.order.interval
	}
	return age
}

// sendOut sends the batch that is under way, again or for the first time.
func (w *Wedge) sendBatch(l *link, now time.Time) {
	o := l.inFlight
	o.tries++
	o.batch.Record = nil
	if len(o.batch.Entries) > 0 && l.issueKnown != w.node.Self().Issued {
		o.batch.Record = w.node.Self().Raw
	}
	// Ages are told as they will be when the batch has come: the child need not have
	// measured the way.
	o.batch.WaitedMs = uint32((now.Sub(o.made) + w.rtt(l)/2).Milliseconds())
	w.stats.Batches++
	l.used = now
	w.send(l.peer, &wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: o.batch}})
	o.due = now.Add(w.timeout(l, o.tries))
	w.cal.Add(o.due, task{kind: taskResend, peer: l.peer.ID})
}

// trip is how long a batch and its acknowledgement take: as measured on the link, else by
// the overlay, whose first probe may have had to wait for the link.
func (w *Wedge) rtt(l *link) time.Duration {
	if l.rtt != 0 {
		return l.rtt
	}
	return w.node.RTT(l.peer.ID)
}

// measured takes one measured trip into the estimate. The shortest counts most: others had
// to wait for the link.
func (l *link) updateRTT(d time.Duration) {
	if l.rtt == 0 || d < l.rtt {
		l.rtt = d
		return
	}
	l.rtt += min(d-l.rtt, l.rtt) / 16
}

// patience is how long an answer to what was sent so many times may take.
func (w *Wedge) timeout(l *link, tries int) time.Duration {
	return w.node.RTO(l.peer.ID) << min(tries-1, 5)
}

// resend repeats a batch that was not acknowledged in time. A peer that lives but does
// not acknowledge is as good as one that refuses.
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

// giveUp gives the edges of a peer that does not answer to others.
func (w *Wedge) giveUp(l *link) {
	w.clearPending(l)
	w.block(l)
	for r := range w.all() {
		if e := r.edgeTo(l); e != nil {
			w.replaceChild(r, e)
		}
	}
}

// shun has a peer asked nothing new for a while.
func (w *Wedge) block(l *link) {
	l.blockedUntil = w.clock.Now().Add(w.cfg.Maintenance)
	if !slices.Contains(w.blocked, l.peer.ID) {
		w.blocked = append(w.blocked, l.peer.ID)
	}
}

// forgive forgets who need not be shunned any longer.
func (w *Wedge) unblock(now time.Time) {
	w.blocked = slices.DeleteFunc(w.blocked, func(id env.PeerID) bool {
		l := w.links[id]
		return l == nil || !now.Before(l.blockedUntil)
	})
}
