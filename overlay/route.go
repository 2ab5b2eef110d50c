package overlay

import (
	"cmp"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

const (
	// wayLife is how long a node remembers a message that passed, so that
	// the receipt finds its way back and a repeated message is known. It is
	// over the longest time an origin tries.
	wayLife = 90 * time.Second
	// hopLimit is how long one node goes on trying to pass a message on.
	hopLimit = 20 * time.Second
	// holdLimit is how long a message waits for a slot to be confirmed empty.
	holdLimit = 2 * time.Second
	// retryFirst is how long an origin waits for a receipt at first.
	retryFirst = 4 * time.Second
	// maxWays bounds the messages remembered, maxHeld those that wait, and
	// maxLoad the bytes of others' payloads that no next hop has taken over
	// yet; more are dropped, and their origins try again.
	maxWays = 1 << 16
	maxHeld = 1 << 10
	maxLoad = 64 << 20
	// maxControl is the size of the largest payload that goes ahead of
	// others, in bytes; what is larger is content.
	maxControl = 2 << 10
)

// A Receipt says what became of a routed message.
type Receipt struct {
	Root ID  // who delivered it
	Hops int // links from origin to root
	Try  int // the attempt that the root took: 0 is the first
}

// A passage is a message on its way through this node.
type passage struct {
	id      uint64
	try     uint32
	msg     Message
	next    *peer
	tried   []*peer
	sends   int
	sent    time.Time // to next
	due     time.Time // when next counts as silent; zero: it acknowledged
	since   time.Time // of this try
	waiting bool      // held until the node is active or a slot is confirmed

	receipt *overlaypb.Ack // the root's, once it came

	// At the origin:
	done     func(Receipt, bool)
	inLine   bool // it waits for its turn
	abroad   bool // it has had it, and no next hop has taken it over
	retryAt  time.Time
	deadline time.Time
}

// Route sends a payload of at most MaxPayload bytes towards the root of key and
// calls done with the root's receipt, or with false when RouteDeadline is over (or
// the node has left).
// The root's layer has then taken the payload at least once.
func (n *Node) Route(layer wire.Layer, key ID, payload []byte, done func(r Receipt, ok bool)) {
	if n.state == Left {
		done(Receipt{}, false)
		return
	}
	now := n.clock.Now()
	w := &passage{
		id:       n.rand.Uint64(),
		msg:      Message{Key: key, Layer: layer, Payload: payload},
		done:     done,
		deadline: now.Add(n.cfg.RouteDeadline),
	}
	n.stats.Routed++
	n.enter(w, now)
	n.lineUp(w)
}

// giveUp tells the origins of all messages without a receipt that there will be
// none.
func (n *Node) giveUp() {
	var own []*passage
	for _, w := range n.ways.on {
		if w.done != nil {
			own = append(own, w)
		}
	}
	slices.SortFunc(own, func(a, b *passage) int { return cmp.Compare(a.id, b.id) }) // maps have no order
	for _, w := range own {
		done := w.done
		w.done = nil
		n.stats.Failed++
		done(Receipt{}, false)
	}
}

func (n *Node) enter(w *passage, now time.Time) {
	w.since = now
	n.ways.on[w.id] = w
	n.ways.load += len(w.msg.Payload)
	n.ways.old = append(n.ways.old, way{w.id, now.Add(wayLife)})
}

func (n *Node) planRetry(w *passage, in time.Duration) {
	w.retryAt = n.clock.Now().Add(n.spread(in))
	if w.retryAt.After(w.deadline) {
		w.retryAt = w.deadline
	}
	n.at(w.retryAt, task{kind: taskRetry, n: w.id})
}

// retry sends an origin's message again when no receipt came.
func (n *Node) retry(w *passage, at time.Time) {
	if w == nil || w.done == nil || w.receipt != nil || !w.retryAt.Equal(at) {
		return
	}
	now := n.clock.Now()
	if !now.Before(w.deadline) {
		n.stats.Failed++
		done := w.done
		n.unhold(w)
		n.ways.unload(w)
		w.done, w.due, w.inLine = nil, time.Time{}, false
		done(Receipt{}, false)
		n.makeRoom(w)
		return
	}
	w.try++
	n.planRetry(w, min(retryFirst<<w.try, 15*time.Second))
	last := w.next
	n.unhold(w)
	w.begin(now)
	if next, _, _ := n.nextHop(w.msg.Key, []*peer{last}); last != nil && next != nil && next != last {
		w.tried = []*peer{last} // it took the message, and nothing came of it
	}
	n.pass(w)
}

// anew looks for a way from here as if none had been tried.
func (n *Node) anew(w *passage, now time.Time) {
	n.unhold(w)
	w.begin(now)
	n.pass(w)
}

// begin forgets what was tried to pass the message on.
func (w *passage) begin(now time.Time) {
	w.tried, w.next, w.sends, w.due, w.since = nil, nil, 0, time.Time{}, now
}

func (n *Node) onRoute(p *peer, m *overlaypb.Route) {
	if w := n.ways.on[m.Id]; w != nil {
		switch {
		case w.receipt != nil:
			n.sendAck(p, w.receipt)
		case m.Try > w.try && w.done == nil:
			w.try, w.msg.Prev = m.Try, p.id
			n.ways.carry(w, m.Payload)
			n.ack(p, m)
			n.anew(w, n.clock.Now())
		default:
			n.ack(p, m)
		}
		return
	}
	if int(m.Hops)+1 >= maxHops || len(n.ways.on) >= maxWays || n.ways.load >= maxLoad {
		n.stats.Dropped++
		return
	}
	w := &passage{id: m.Id, try: m.Try, msg: Message{
		Key:     ID(m.Key),
		Layer:   wire.Layer(m.Layer),
		Payload: m.Payload,
		Prev:    p.id,
		Hops:    int(m.Hops) + 1,
	}}
	n.enter(w, n.clock.Now())
	n.pass(w)
	if w.receipt == nil { // a receipt is an acknowledgement too
		n.ack(p, m)
	}
}

func (n *Node) ack(p *peer, m *overlaypb.Route) {
	n.sendAck(p, &overlaypb.Ack{Id: m.Id, Try: m.Try})
}

func (n *Node) sendAck(p *peer, a *overlaypb.Ack) {
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Ack{Ack: a}})
}

// pass takes a message one step on: to a layer above, to the next hop, or to
// where it waits.
func (n *Node) pass(w *passage) {
	app := n.app(w.msg.Layer)
	if n.state == Active && app != nil && app.Forward(&w.msg) {
		n.arrived(w)
		return
	}
	next, root, wait := n.nextHop(w.msg.Key, w.tried)
	switch {
	case wait && n.clock.Now().Sub(w.since) < holdLimit || n.state == Joining && next == nil || n.state == Alone:
		n.hold(w)
	case root:
		n.stats.Delivered++
		if app != nil {
			app.Deliver(&w.msg)
		}
		n.arrived(w)
	case next != nil:
		n.toHop(w, next)
	default:
		n.hold(w)
	}
}

// arrived starts the receipt on its way back.
func (n *Node) arrived(w *passage) {
	if plant.NoReceipt && w.msg.Key[31]&15 == 0 && w.done == nil || plant.LateReceipt && w.msg.Key[31]&15 == 0 && w.done == nil && w.try < 3 {
		return
	}
	w.receipt = &overlaypb.Ack{Id: w.id, Try: w.try, Receipt: true, Root: n.self.ID[:], Hops: uint32(w.msg.Hops)}
	n.receipted(w)
}

func (n *Node) receipted(w *passage) {
	n.unhold(w)
	n.ways.unload(w)
	w.due = time.Time{}
	if w.done != nil {
		n.stats.Receipts++
		done := w.done
		w.done = nil
		done(Receipt{Root: ID(w.receipt.Root), Hops: int(w.receipt.Hops), Try: int(w.receipt.Try)}, true)
		n.makeRoom(w)
		return
	}
	if w.msg.Prev != "" {
		p := n.acquaint(w.msg.Prev)
		n.sendAck(p, w.receipt)
		n.forget(p)
	}
}

func (n *Node) toHop(w *passage, next *peer) {
	if w.msg.Prev != "" {
		n.stats.Forwarded++
	}
	w.next = next
	w.sends++
	now := n.clock.Now()
	w.sent, w.due = now, now.Add(next.patience(now)<<min(w.sends-1, 2))
	n.at(w.due, task{kind: taskHop, n: w.id})
	class := env.Control
	if len(w.msg.Payload) > maxControl {
		class = env.Bulk
	}
	n.sendAs(next, class, &overlaypb.Message{Body: &overlaypb.Message_Route{Route: &overlaypb.Route{
		Id:      w.id,
		Try:     w.try,
		Hops:    uint32(w.msg.Hops),
		Key:     w.msg.Key[:],
		Layer:   uint32(w.msg.Layer),
		Payload: w.msg.Payload,
	}}})
}

// sentTo says whether a message went to a peer last. The peer may have been
// forgotten and met again since.
func (w *passage) sentTo(p *peer) bool { return w.next != nil && w.next.id == p.id }

func (n *Node) onAck(p *peer, m *overlaypb.Ack) {
	w := n.ways.on[m.Id]
	if w == nil {
		return
	}
	if w.sentTo(p) && w.sends == 1 && m.Try == w.try && !w.due.IsZero() {
		p.sample(n.clock.Now().Sub(w.sent))
	}
	if !m.Receipt {
		if w.sentTo(p) {
			w.due = time.Time{}
			if w.done == nil {
				n.ways.unload(w) // its own now; a new try brings it again
			}
			n.makeRoom(w)
		}
		return
	}
	if w.receipt == nil && w.msg.Prev != p.id { // made anew: what else it carried goes no farther
		w.receipt = &overlaypb.Ack{Id: w.id, Try: m.Try, Receipt: true, Root: m.Root, Hops: m.Hops}
		n.receipted(w)
	}
}

// hopSilent routes around a hop that did not acknowledge.
func (n *Node) hopSilent(w *passage, at time.Time) {
	if w == nil || w.next == nil || w.due.IsZero() || !w.due.Equal(at) {
		return // held since, perhaps until the same instant
	}
	silent := w.next
	silent.suspect = true
	n.probe(silent)
	n.replace(silent)
	if !slices.Contains(w.tried, silent) {
		w.tried = append(w.tried, silent)
	}
	n.stats.Rerouted++
	n.tryOn(w)
}

// tryOn passes a message to another hop than those tried, or again to one of
// them when there is no other.
func (n *Node) tryOn(w *passage) {
	w.due = time.Time{}
	if n.clock.Now().Sub(w.since) > hopLimit {
		n.lose(w)
		return
	}
	next, root, _ := n.nextHop(w.msg.Key, w.tried)
	if next == nil && !root {
		w.tried = nil
	}
	n.pass(w)
}

// lose ends the passing on of a message for this time: its origin tries again, and another's
// brings its payload with it.
func (n *Node) lose(w *passage) {
	if w.done == nil {
		n.stats.Dropped++
		n.ways.unload(w)
	}
	n.makeRoom(w)
}

// wayLost looks for other ways for what was sent to a peer that is gone.
func (n *Node) wayLost(p *peer) {
	var lost []*passage
	for _, w := range n.ways.on {
		if w.sentTo(p) {
			w.next = nil
			w.tried = slices.DeleteFunc(w.tried, func(q *peer) bool { return q == p })
			if !w.due.IsZero() {
				lost = append(lost, w)
			}
		}
	}
	slices.SortFunc(lost, func(a, b *passage) int { return cmp.Compare(a.id, b.id) }) // maps have no order
	for _, w := range lost {
		n.tryOn(w)
	}
}
