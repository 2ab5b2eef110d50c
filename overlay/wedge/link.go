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
	gone    bool // it was held to be dead, and has not spoken since
	common  int  // bits of the id it shares with this node

	up, down edges     // up: the peer is the parent
	hanging  int       // records whose parent it is: up.count, but for those being changed
	renewed  time.Time // when the peer last renewed the edges up

	queue   []item
	flushAt time.Time     // zero: nothing waits
	out     *outgoing     // nil: none
	trip    time.Duration // see measured; zero: never
	known   uint64        // the issue of this node's record that the peer has; 0: none

	life, last uint64 // of the peer, and its last batch
	lastAck    []byte // what that was answered

	digestAt    time.Time // when the edges down are next renewed; zero: no plan
	digestOut   uint64    // the digest that is not answered; 0: none
	digestDue   time.Time // when the answer is due
	digestTries int
	listFor     uint64 // the peer's digest that its list is to answer; 0: none
	round       uint8  // counts the lists

	used    time.Time // when something last came in or went out
	shunned time.Time // until then it is asked nothing new; zero: it is not shunned

	downs     []*wedgepb.Down // messages of leaders that wait
	downBytes int
	seen      seen // frames of Downs
}

// A linkNumber is that of a link among all of the node's, one more than that of its place. It stands where a pointer
// would in records, of which there are millions in a simulated network; when its link is gone, another gets it.
type linkNumber uint32

const none linkNumber = 0 // no link's

// numbered returns a link; nil for none.
func (w *Wedge) numbered(n linkNumber) *link {
	if n == none {
		return nil
	}
	return w.linkSlab.At(uint32(n - 1))
}

// edges summarises the edges of a link in one direction, by which both ends compare what
// they know.
type edges struct {
	count  uint32
	digest uint64
}

func (e *edges) add(hash uint64) {
	e.count++
	e.digest ^= hash
}

func (e *edges) remove(hash uint64) {
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
type item struct {
	kind itemKind
	key  uint64 // or, of the end of a list, the digest it answers
}

type itemKind uint8

const (
	itemEntry itemKind = iota
	itemAgain          // an entry in a list
	itemEnd
	itemPart
	itemTally
	itemListEnd
)

// link returns the link to a node, making it if there is none.
func (w *Wedge) link(c *overlay.Contact) *link {
	l := w.links[c.Peer.ID]
	if l == nil {
		number := w.linkSlab.Put(link{common: w.self.Common(c.ID), used: w.clock.Now()})
		l = w.linkSlab.At(number)
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
func (w *Wedge) sortedLinks(which func(*link) bool) (of []*link) {
	for _, l := range w.links {
		if which(l) {
			of = append(of, l)
		}
	}
	slices.SortFunc(of, func(a, b *link) int { return cmp.Compare(a.peer.ID, b.peer.ID) })
	return of
}

// clear forgets what was to be told to a peer. Should it come back, digests show what
// it has missed, and tallies are told again.
func (w *Wedge) clear(l *link) {
	for r := range w.all() {
		if r.parent == l.number {
			r.told, r.flags = unknown, r.flags&^telling
		}
	}
	l.queue, l.out, l.flushAt = nil, nil, time.Time{}
	l.digestOut, l.digestAt = 0, time.Time{}
}

func (w *Wedge) send(to env.Peer, m *wedgepb.Message) {
	w.stats.Control++
	w.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Wedge, m))
}

func (w *Wedge) nextNumber() uint64 {
	w.number++
	return w.number
}

// queueEntry has an edge told to its child, with so much of its order.
func (w *Wedge) queueEntry(l *link, r *record, e *edge, how wording) {
	e.flags = e.flags&^fill | max(e.flags&fill, uint8(how))
	if e.flags&queued == 0 {
		e.flags |= queued
		w.enqueue(l, item{kind: itemEntry, key: name(r.order.key)}, flushDelay)
	}
}

func (w *Wedge) queueEnd(l *link, r *record) {
	w.enqueue(l, item{kind: itemEnd, key: name(r.order.key)}, flushDelay)
}

func (w *Wedge) queuePart(l *link, r *record) {
	w.enqueue(l, item{kind: itemPart, key: name(r.order.key)}, flushDelay)
}

// enqueue has something told within d.
func (w *Wedge) enqueue(l *link, i item, d time.Duration) {
	l.queue = append(l.queue, i)
	at := w.clock.Now().Add(d)
	if l.out == nil && (l.flushAt.IsZero() || at.Before(l.flushAt)) {
		l.flushAt = at
		w.cal.Add(at, task{kind: taskFlush, peer: l.peer.ID})
	}
}

// flush sends what has changed on a link, unless a batch is under way: then its
// acknowledgement brings the next.
func (w *Wedge) flush(l *link, at time.Time) {
	if l != nil && l.out == nil && l.flushAt.Equal(at) {
		w.flushNow(l)
	}
}

func (w *Wedge) flushNow(l *link) {
	l.flushAt = time.Time{}
	b, rest := w.batch(l)
	if l.queue = l.queue[rest:]; len(l.queue) == 0 {
		l.queue = nil
	}
	if b == nil {
		return
	}
	now := w.clock.Now()
	b.Life, b.Number = w.life, w.nextNumber()
	l.out = &outgoing{batch: b, made: now}
	w.sendOut(l, now)
}

// batch makes a batch of what waits, and says how much of that it holds; nil if nothing
// of it is to be told any longer.
func (w *Wedge) batch(l *link) (b *wedgepb.Batch, taken int) {
	b = &wedgepb.Batch{}
	const overhead = 2 << 10 // a record, and what the fields cost beside their values
	size, items := overhead, 0
	for _, i := range l.queue {
		cost := w.write(b, l, i)
		taken++
		size += cost
		if cost > 0 {
			items++
		}
		if items == maxItems || size > maxBatch-MaxWords-overhead {
			break
		}
	}
	if items == 0 {
		return nil, taken
	}
	return b, taken
}

// write adds an item to a batch and returns about how many bytes it takes.
func (w *Wedge) write(b *wedgepb.Batch, l *link, i item) int {
	r := w.named(i.key)
	var e *edge
	if r != nil {
		e = r.to(l)
	}
	switch i.kind {
	case itemEntry, itemAgain:
		if e == nil || i.kind == itemEntry && e.flags&queued == 0 {
			return 0
		}
		entry := w.entry(r, e)
		if i.kind == itemAgain {
			entry.Again = true
		}
		b.Entries = append(b.Entries, entry)
		w.stats.Entries++
		return proto.Size(entry) + 2
	case itemEnd:
		if e != nil {
			return 0 // there is an edge again
		}
		b.Ends = append(b.Ends, i.key)
		return 8
	case itemPart:
		if r != nil && r.parent == l.number {
			return 0 // it is the parent again
		}
		b.Parts = append(b.Parts, i.key)
		return 8
	case itemTally:
		if r == nil || r.parent != l.number || r.flags&telling == 0 {
			return 0
		}
		t := r.tally()
		if r.told, r.flags = t.Missing, r.flags&^telling; t.Missing > 0 {
			r.flags |= spoke
		}
		b.Tallies = append(b.Tallies, t)
		return proto.Size(t) + 2
	default:
		b.ListEnd = i.key
		return 10
	}
}

// entry is an edge as its child is told.
func (w *Wedge) entry(r *record, e *edge) *wedgepb.Entry {
	o := r.order
	m := &wedgepb.Entry{
		Key:      name(o.key),
		Depth:    uint32(e.depth) + 1,
		First:    e.first,
		Ranks:    e.ranks,
		AgeMs:    uint32(w.age(r).Milliseconds()),
		Of:       uint32(o.hash),
		StandIns: r.standIns(e.first, e.ranks),
	}
	how := wording(e.flags & fill)
	e.flags &^= fill | queued
	if how == bare {
		return m
	}
	m.Order = &wedgepb.Order{
		Epoch: o.term.Epoch, Seq: o.term.Seq, N: o.n,
		IntervalMs: uint32(o.interval.Milliseconds()), WordsHash: o.wordsHash,
		Digit: uint32(o.digit),
	}
	if how == full {
		m.Order.Key, m.Order.Words, m.Order.Worded = o.key[:], o.words, true
	}
	return m
}

// age is how long ago the reference phase last began.
func (w *Wedge) age(r *record) time.Duration {
	age := time.Duration(w.clock.Now().UnixNano()-r.ref) % r.order.interval
	if age < 0 { // a leader may say when it will begin
		age += r.order.interval
	}
	return age
}

// sendOut sends the batch that is under way, again or for the first time.
func (w *Wedge) sendOut(l *link, now time.Time) {
	o := l.out
	o.tries++
	o.batch.Record = nil
	if len(o.batch.Entries) > 0 && l.known != w.node.Self().Issued {
		o.batch.Record = w.node.Self().Raw
	}
	// Ages are told as they will be when the batch has come: the child need not have
	// measured the way.
	o.batch.WaitedMs = uint32((now.Sub(o.made) + w.trip(l)/2).Milliseconds())
	w.stats.Batches++
	l.used = now
	w.send(l.peer, &wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: o.batch}})
	o.due = now.Add(w.patience(l, o.tries))
	w.cal.Add(o.due, task{kind: taskResend, peer: l.peer.ID})
}

// trip is how long a batch and its acknowledgement take: as measured on the link, else by
// the overlay, whose first probe may have had to wait for the link.
func (w *Wedge) trip(l *link) time.Duration {
	if l.trip != 0 {
		return l.trip
	}
	return w.node.RTT(l.peer.ID)
}

// measured takes one measured trip into the estimate. The shortest counts most: others had
// to wait for the link.
func (l *link) measured(d time.Duration) {
	if l.trip == 0 || d < l.trip {
		l.trip = d
		return
	}
	l.trip += min(d-l.trip, l.trip) / 16
}

// patience is how long an answer to what was sent so many times may take.
func (w *Wedge) patience(l *link, tries int) time.Duration {
	return w.node.RTO(l.peer.ID) << min(tries-1, 5)
}

// resend repeats a batch that was not acknowledged in time. A peer that lives but does
// not acknowledge is as good as one that refuses.
func (w *Wedge) resend(l *link, at time.Time) {
	if l == nil || l.out == nil || !l.out.due.Equal(at) {
		return
	}
	switch {
	case l.out.tries >= giveUpTries:
		w.giveUp(l)
		return
	case l.out.tries == suspectTries:
		w.node.Suspect(l.peer.ID)
	}
	w.stats.Resent++
	w.sendOut(l, w.clock.Now())
}

// giveUp gives the edges of a peer that does not answer to others.
func (w *Wedge) giveUp(l *link) {
	w.clear(l)
	w.shun(l)
	for r := range w.all() {
		if e := r.to(l); e != nil {
			w.replace(r, e)
		}
	}
}

// shun has a peer asked nothing new for a while.
func (w *Wedge) shun(l *link) {
	l.shunned = w.clock.Now().Add(w.cfg.Maintenance)
	if !slices.Contains(w.shunned, l.peer.ID) {
		w.shunned = append(w.shunned, l.peer.ID)
	}
}

// forgive forgets who need not be shunned any longer.
func (w *Wedge) forgive(now time.Time) {
	w.shunned = slices.DeleteFunc(w.shunned, func(id env.PeerID) bool {
		l := w.links[id]
		return l == nil || !now.Before(l.shunned)
	})
}
