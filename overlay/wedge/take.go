package wedge

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// onBatch takes what a peer has to tell, once, and acknowledges it.
func (w *Wedge) onBatch(from env.PeerID, b *wedgepb.Batch) error {
	l := w.links[from]
	if len(b.Record) > 0 {
		c, err := w.node.OpenRecord(b.Record)
		if err != nil || c.Peer.ID != from {
			w.stats.Garbage++
			return env.ErrFrame
		}
		if l = w.linkFor(c, b); l == nil {
			w.stats.Garbage++
			return env.ErrFrame
		}
	}
	if l == nil && len(b.Entries) > 0 {
		c := w.node.Contact(from)
		if c == nil || !c.Member {
			w.sendAck(env.Peer{ID: from}, &wedgepb.Ack{Number: b.Number, Strange: true})
			return nil
		}
		l = w.link(c)
	}
	if l == nil { // about edges that are no more
		w.sendAck(env.Peer{ID: from}, &wedgepb.Ack{Number: b.Number})
		return nil
	}
	if b.Life == l.life && b.Number <= l.last {
		if b.Number == l.last && l.lastAck != nil {
			w.stats.Control++
			w.net.Send(l.peer, env.Control, l.lastAck)
		}
		return nil
	}
	l.gone = false
	l.life, l.last, l.used = b.Life, b.Number, w.clock.Now()
	ack := &wedgepb.Ack{Number: b.Number}
	for _, key := range b.Ends {
		w.onEnd(l, key)
	}
	for _, key := range b.Parts {
		w.onPart(l, key)
	}
	waited := time.Duration(b.WaitedMs) * time.Millisecond
	for _, e := range b.Entries {
		if no := w.onEntry(l, e, waited); no != wedgepb.Answer_NONE {
			w.stats.Refused++
			ack.Answers = append(ack.Answers, &wedgepb.Answer{Key: e.Key, Kind: no})
		}
	}
	for _, t := range b.Tallies {
		w.onTally(l, t)
	}
	if b.ListEnd != 0 && b.ListEnd == l.listFor {
		w.endList(l)
	}
	l.lastAck = w.sendAck(l.peer, ack)
	return nil
}

// linkFor returns the link to the sender of a batch, making it if there are entries.
func (w *Wedge) linkFor(c *overlay.Contact, b *wedgepb.Batch) *link {
	if !c.Member || c.ID == w.self {
		return nil
	}
	if l := w.links[c.Peer.ID]; l != nil || len(b.Entries) > 0 {
		return w.link(c)
	}
	return nil
}

func (w *Wedge) sendAck(to env.Peer, ack *wedgepb.Ack) []byte {
	w.stats.Control++
	frame := wire.AppendFrame(nil, wire.Wedge, &wedgepb.Message{Body: &wedgepb.Message_Ack{Ack: ack}})
	w.net.Send(to, env.Control, frame)
	return frame
}

// onEntry takes an edge from a parent, or says why not. If there is another parent by the
// same term, the later word counts: whoever changes the tree tells all behind the change.
func (w *Wedge) onEntry(l *link, e *wedgepb.Entry, waited time.Duration) (no wedgepb.Answer_Kind) {
	if w.node.State() != overlay.Active {
		return wedgepb.Answer_FULL
	}
	r := w.named(e.Key)
	o, ok := w.orderOf(e, r)
	switch {
	case !ok:
		return wedgepb.Answer_NEED
	case !w.fits(l, o, e):
		return wedgepb.Answer_INVALID
	case (r == nil || r.parent != l.number) && !w.room(l, r == nil):
		return wedgepb.Answer_FULL
	case r != nil:
		if no := w.refuses(r, l, o, e.Again); no != wedgepb.Answer_NONE {
			return no
		}
	}
	if (r == nil || o != r.order) && !w.app.Valid(o.key, o.term, o.words) {
		return wedgepb.Answer_INVALID
	}
	how := bare
	switch {
	case e.Order.GetWorded() && (r == nil || r.order.wordsHash != o.wordsHash):
		how = full
	case o != r.order:
		how = ordered
	}
	if r == nil {
		r = w.record(o)
	}
	w.take(l, r, o, e, waited, how)
	return wedgepb.Answer_NONE
}

// refuses says why a record cannot have an edge by an order from a parent, if that is so.
func (w *Wedge) refuses(r *record, l *link, o *order, again bool) (no wedgepb.Answer_Kind) {
	switch later := o.term.Compare(r.order.term); {
	case r.order.key != o.key:
		return wedgepb.Answer_INVALID
	case later < 0:
		return wedgepb.Answer_LATER
	case later == 0 && (o != r.order || r.flags&leads != 0): // one term, two orders
		return wedgepb.Answer_INVALID
	case later == 0 && (again || r.order.digit != 0 && !w.numbered(r.parent).lost()) && r.parent != none && r.parent != l.number:
		return wedgepb.Answer_MOVED
	}
	return wedgepb.Answer_NONE
}

// fits says whether an entry can be one: its sender stands above this node as the walk
// says, there are not more ranks than the network can serve, and each has a phase.
func (w *Wedge) fits(l *link, o *order, e *wedgepb.Entry) bool {
	end := e.First + e.Ranks
	stands := uint32(0)
	if end > o.n {
		stands = end - max(e.First, o.n)
	}
	return l.common+1 == int(e.Depth) &&
		int64(o.n) <= perMember*int64(w.count(0)) &&
		int(stands) == len(e.StandIns) && end <= o.n+maxStandIns &&
		!slices.ContainsFunc(e.StandIns, func(rank uint32) bool { return rank >= o.n })
}

// room says whether there is room for another edge from a peer, and for a record if the
// key is a new one.
func (w *Wedge) room(l *link, fresh bool) bool {
	most := maxRecords
	if l.common < w.node.Leaf().Depth() {
		most /= awayShare
	}
	return l.hanging < most && !(fresh && len(w.listed) >= maxRecords)
}

// take makes an entry the record's edge to its parent, and goes on with the walk. Children
// are told as much of the order as was new here.
func (w *Wedge) take(l *link, r *record, o *order, e *wedgepb.Entry, waited time.Duration, how wording) {
	w.begin(r)
	fresh := r.ranks == 0 || r.order.digit != o.digit
	anew := r.ranks != e.Ranks || int(r.depth) != int(e.Depth) || o != r.order
	if r.parent != l.number {
		w.leaveParent(r)
		if l.hanging == 0 {
			l.renewed = w.clock.Now()
		}
		w.hang(r, l)
		r.told, r.flags = 0, r.flags&^spoke
		if e.Again {
			r.told = unknown // the parent may remember what it was told before
		}
	} else if !e.Again && (r.told != 0 || r.flags&spoke != 0) {
		r.told = unknown // the parent may have missed it, or hold what was told before
	}
	if o != r.order {
		w.give(r, o)
	}
	r.flags &^= leads | ending
	r.round = l.round
	r.depth, r.first, r.ranks = uint16(e.Depth), e.First, e.Ranks
	if o.digit != 0 && fresh {
		r.level = w.digits(o)
	}
	if len(e.StandIns) > 0 || r.extra != nil {
		if x := r.rare(); !slices.Equal(x.standIns, e.StandIns) {
			x.standIns = slices.Clone(e.StandIns)
			r.flags |= stood
		}
	}
	w.setRef(r, time.Duration(e.AgeMs)*time.Millisecond+waited)
	w.walk(r, how, anew)
}

// setRef takes over when the reference phase began, unless it is what is known already,
// give or take what a hop can differ. Only the phase counts, not which interval it is.
func (w *Wedge) setRef(r *record, age time.Duration) {
	if r.order.digit != 0 { // its own
		if r.ref == 0 {
			r.ref = w.clock.Now().UnixNano() - w.rand.Int64N(int64(r.order.interval))
		}
		return
	}
	ref := w.clock.Now().Add(-age).UnixNano()
	off := (time.Duration(ref-r.ref) % r.order.interval).Abs()
	if r.ref == 0 || min(off, r.order.interval-off) > refSlack {
		r.ref = ref
	}
}

// onEnd takes the end of an edge from a parent. The edges below end at once, and the
// duty if no other parent comes.
func (w *Wedge) onEnd(l *link, key uint64) {
	if r := w.named(key); r != nil && r.parent == l.number {
		w.orphan(r)
	}
}

// onPart takes the end of an edge to a child, who has another parent.
func (w *Wedge) onPart(l *link, key uint64) {
	if r := w.named(key); r != nil {
		w.lose(r, r.to(l))
	}
}

// lose leaves an edge to a child who has another parent: if that is right, this node will
// soon have none itself, or other ranks. If not, it asks again in the next round.
func (w *Wedge) lose(r *record, e *edge) {
	if e != nil {
		w.begin(r)
		r.part(e)
		e.flags = elsewhere
	}
}

// onAck takes the acknowledgement of a batch, and what was not taken of it.
func (w *Wedge) onAck(l *link, m *wedgepb.Ack) {
	if l == nil || l.out == nil || l.out.batch.Number != m.Number {
		return
	}
	if m.Strange {
		l.known = 0
		if l.out.tries < giveUpTries {
			w.sendOut(l, w.clock.Now())
		}
		return
	}
	if l.out.tries == 1 {
		l.measured(w.clock.Now().Sub(l.out.made))
	}
	sent := l.out.batch.Entries
	l.known = w.node.Self().Issued
	l.out = nil
	for _, e := range sent {
		if e.Order.GetWorded() && !slices.ContainsFunc(m.Answers, func(a *wedgepb.Answer) bool { return a.Key == e.Key }) {
			w.handOff(l, e.Key)
		}
	}
	for _, a := range m.Answers {
		if slices.ContainsFunc(sent, func(e *wedgepb.Entry) bool { return e.Key == a.Key }) {
			w.onAnswer(l, a)
		}
	}
	if len(l.queue) > 0 {
		w.flushNow(l)
	}
}

// onAnswer goes on when a child has not taken an entry.
func (w *Wedge) onAnswer(l *link, a *wedgepb.Answer) {
	r := w.named(a.Key)
	if r == nil {
		return
	}
	e := r.to(l)
	if e == nil {
		return
	}
	switch a.Kind {
	case wedgepb.Answer_NEED:
		if e.flags&filled != 0 { // it was given the words, and asks again
			w.replace(r, e)
			return
		}
		e.flags |= filled
		w.queueEntry(l, r, e, full)
	case wedgepb.Answer_MOVED, wedgepb.Answer_LATER:
		w.lose(r, e)
	case wedgepb.Answer_FULL:
		w.shun(l)
		w.replace(r, e)
	default:
		w.replace(r, e)
	}
}
