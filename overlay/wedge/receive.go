package wedge

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// onBatch handles a batch once, and acknowledges it.
func (w *Wedge) onBatch(from env.PeerID, b *wedgepb.Batch) error {
	l := w.links.byPeer[from]
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
			w.sendAck(env.Peer{ID: from}, &wedgepb.Ack{Number: b.Number, UnknownSender: true})
			return nil
		}
		l = w.links.open(c)
	}
	if l == nil { // the batch concerns edges that no longer exist
		w.sendAck(env.Peer{ID: from}, &wedgepb.Ack{Number: b.Number})
		return nil
	}
	if b.Life == l.peerLife && b.Number <= l.lastBatch {
		if b.Number == l.lastBatch && l.lastAck != nil {
			w.stats.Control++
			w.net.Send(l.peer, env.Control, l.lastAck)
		}
		return nil
	}
	l.dead = false
	l.peerLife, l.lastBatch, l.used = b.Life, b.Number, w.clock.Now()
	ack := &wedgepb.Ack{Number: b.Number}
	for _, key := range b.Ends { // the edges below end at once, and the assignment ends if no other parent appears
		if r := w.table.byKey(key); r != nil && r.parent == l.number {
			w.tree.loseParent(r)
		}
	}
	for _, key := range b.Leaves { // the child has another parent
		if r := w.table.byKey(key); r != nil {
			w.tree.childLeft(r, r.edgeTo(l))
		}
	}
	waited := time.Duration(b.WaitedMs) * time.Millisecond
	for _, e := range b.Entries {
		if refusal := w.onEntry(l, e, waited); refusal != wedgepb.Refusal_NONE {
			w.stats.Refused++
			ack.Refusals = append(ack.Refusals, &wedgepb.Refusal{Key: e.Key, Kind: refusal})
		}
	}
	for _, t := range b.Statuses {
		w.reports.onStatus(l, t)
	}
	if b.ListEnd != 0 && b.ListEnd == l.listFor {
		w.endList(l)
	}
	l.lastAck = w.sendAck(l.peer, ack)
	return nil
}

// linkFor returns the link to the sender of a batch. It makes one only if the batch has entries.
func (w *Wedge) linkFor(c *overlay.Contact, b *wedgepb.Batch) *link {
	if !c.Member || c.ID == w.node.ID() {
		return nil
	}
	if l := w.links.byPeer[c.Peer.ID]; l != nil || len(b.Entries) > 0 {
		return w.links.open(c)
	}
	return nil
}

func (w *Wedge) sendAck(to env.Peer, ack *wedgepb.Ack) []byte {
	w.stats.Control++
	frame := wire.AppendFrame(nil, wire.Wedge, &wedgepb.Message{Body: &wedgepb.Message_Ack{Ack: ack}})
	w.net.Send(to, env.Control, frame)
	return frame
}

// onEntry accepts an edge from a parent, or says why not. If the node has another parent of the
// same term, the later entry wins, because a parent that changes the tree tells everyone affected.
func (w *Wedge) onEntry(l *link, e *wedgepb.Entry, waited time.Duration) (refusal wedgepb.Refusal_Kind) {
	if w.node.State() != overlay.Active {
		return wedgepb.Refusal_FULL
	}
	r := w.table.byKey(e.Key)
	o, ok := w.orderOf(e, r)
	switch {
	case !ok:
		return wedgepb.Refusal_NEED_PAYLOAD
	case !w.validEntry(l, o, e):
		return wedgepb.Refusal_INVALID
	case (r == nil || r.parent != l.number) && !w.hasRoom(l, r == nil):
		return wedgepb.Refusal_FULL
	case r != nil:
		if refusal := w.refusal(r, l, o, e.Listed); refusal != wedgepb.Refusal_NONE {
			return refusal
		}
	}
	if (r == nil || o != r.order) && !w.app.Valid(o.key, o.term, o.payload) {
		return wedgepb.Refusal_INVALID
	}
	detail := hashOnly
	switch {
	case e.Order.GetHasPayload() && (r == nil || r.order.payloadHash != o.payloadHash):
		detail = withPayload
	case o != r.order:
		detail = withoutPayload
	}
	if r == nil {
		r = w.table.add(o)
	}
	w.tree.acceptEntry(l, r, o, e, waited, detail)
	return wedgepb.Refusal_NONE
}

// refusal returns the reason why a membership cannot accept an order from a parent, or NONE.
func (w *Wedge) refusal(r *membership, l *link, o *order, listed bool) (kind wedgepb.Refusal_Kind) {
	switch later := o.term.Compare(r.order.term); {
	case r.order.key != o.key:
		return wedgepb.Refusal_INVALID
	case later < 0:
		return wedgepb.Refusal_LATER_TERM
	case later == 0 && (o != r.order || r.flags&leads != 0): // two different orders of one term
		return wedgepb.Refusal_INVALID
	case later == 0 && (listed || r.order.digitBits != 0 && !w.links.at(r.parent).lost()) && r.parent != noLink && r.parent != l.number:
		return wedgepb.Refusal_HAS_PARENT
	}
	return wedgepb.Refusal_NONE
}

// validEntry checks that the sender is above this node as the walk prescribes, that the network can
// serve so many ranks, and that every rank has a phase.
func (w *Wedge) validEntry(l *link, o *order, e *wedgepb.Entry) bool {
	end := e.First + e.Ranks
	standIns := uint32(0)
	if end > o.n {
		standIns = end - max(e.First, o.n)
	}
	return l.common+1 == int(e.Depth) &&
		int64(o.n) <= ranksPerMember*int64(w.tree.count(0)) &&
		int(standIns) == len(e.StandIns) && end <= o.n+maxStandIns &&
		!slices.ContainsFunc(e.StandIns, func(rank uint32) bool { return rank >= o.n })
}

// hasRoom says whether the node has room for another edge from a peer, and for a new membership if
// the key is new.
func (w *Wedge) hasRoom(l *link, fresh bool) bool {
	limit := maxMemberships
	if l.common < w.node.Leaf().Depth() {
		limit /= outsideShare
	}
	return l.childOf < limit && !(fresh && len(w.table.active) >= maxMemberships)
}

// onAck handles the acknowledgement of a batch, with the refusals of its entries.
func (w *Wedge) onAck(l *link, m *wedgepb.Ack) {
	if l == nil || l.inFlight == nil || l.inFlight.batch.Number != m.Number {
		return
	}
	if m.UnknownSender {
		l.issueKnown = 0
		if l.inFlight.tries < giveUpTries {
			w.outbox.sendBatch(l, w.clock.Now())
		}
		return
	}
	if l.inFlight.tries == 1 {
		l.updateRTT(w.clock.Now().Sub(l.inFlight.made))
	}
	sent := l.inFlight.batch.Entries
	l.issueKnown = w.node.Self().Issued
	l.inFlight = nil
	for _, e := range sent {
		if e.Order.GetHasPayload() && !slices.ContainsFunc(m.Refusals, func(a *wedgepb.Refusal) bool { return a.Key == e.Key }) {
			w.broadcasts.sendCatchUp(l, e.Key)
		}
	}
	for _, a := range m.Refusals {
		if slices.ContainsFunc(sent, func(e *wedgepb.Entry) bool { return e.Key == a.Key }) {
			w.onRefusal(l, a)
		}
	}
	if len(l.queue) > 0 {
		w.outbox.flushNow(l)
	}
}

// onRefusal reacts to a child that refused an entry.
func (w *Wedge) onRefusal(l *link, a *wedgepb.Refusal) {
	r := w.table.byKey(a.Key)
	if r == nil {
		return
	}
	e := r.edgeTo(l)
	if e == nil {
		return
	}
	switch a.Kind {
	case wedgepb.Refusal_NEED_PAYLOAD:
		if e.flags&payloadSent != 0 { // the child was given the payload, and asks again
			w.tree.replaceChild(r, e)
			return
		}
		e.flags |= payloadSent
		w.outbox.queueEntry(l, r, e, withPayload)
	case wedgepb.Refusal_HAS_PARENT, wedgepb.Refusal_LATER_TERM:
		w.tree.childLeft(r, e)
	case wedgepb.Refusal_FULL:
		w.links.block(l)
		w.tree.replaceChild(r, e)
	default:
		w.tree.replaceChild(r, e)
	}
}

// giveUp gives the edges of a peer that does not answer to other members.
func (w *Wedge) giveUp(l *link) {
	w.links.block(l)
	for r := range w.table.all() {
		if e := r.edgeTo(l); e != nil {
			w.tree.replaceChild(r, e)
		}
	}
}

// endList ends the edges from a parent that its list did not contain.
func (w *Wedge) endList(l *link) {
	l.listFor = 0
	l.renewedAt = w.clock.Now()
	for r := range w.table.all() {
		if r.parent == l.number && r.listRound != l.round {
			w.tree.loseParent(r)
		}
	}
}

// Receive handles one message of this layer from a peer. The body is the content of the frame.
func (w *Wedge) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		w.stats.Garbage++
		return err
	}
	l := w.links.byPeer[from]
	switch b := m.Body.(type) {
	case *wedgepb.Message_Batch:
		err = w.onBatch(from, b.Batch)
	case *wedgepb.Message_Ack:
		w.onAck(l, b.Ack)
	case *wedgepb.Message_Digest:
		w.renewals.onDigest(from, l, b.Digest)
	case *wedgepb.Message_DigestReply:
		w.renewals.onReply(l, b.DigestReply)
	case *wedgepb.Message_Broadcasts:
		w.broadcasts.onBroadcasts(l, b.Broadcasts)
	}
	w.finishChanges()
	return err
}
