package overlay

import (
	"cmp"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

const (
	// routeMemory is the time for which a node remembers a message, so that the receipt finds
	// its way back and a repeated message is recognised. It is longer than any origin keeps
	// trying.
	routeMemory = 90 * time.Second
	// hopLimit is the time for which one node keeps trying to forward a message.
	hopLimit = 20 * time.Second
	// holdLimit is the time for which a message waits until a slot is confirmed empty.
	holdLimit = 2 * time.Second
	// firstRetry is the time that an origin first waits for a receipt.
	firstRetry = 4 * time.Second
	// maxRoutes bounds the messages remembered, maxHeld those that wait, and maxPayloadBytes
	// the payloads of other nodes that no next hop has taken over yet. Further messages are
	// dropped, and their origins try again.
	maxRoutes       = 1 << 16
	maxHeld         = 1 << 10
	maxPayloadBytes = 64 << 20
	// maxControl is the size in bytes of the largest payload that has priority. A larger one
	// is sent as bulk content.
	maxControl = 2 << 10
)

// A Receipt tells an origin what became of a routed message.
type Receipt struct {
	Root ID  // the node that delivered it
	Hops int // links from origin to root
	Try  int // the attempt that the root took, from 0
}

// routeState is what a node remembers of one routed message.
type routeState struct {
	id        uint64
	try       uint32
	msg       Message
	next      *peer
	tried     []*peer
	sendCount int
	sentAt    time.Time // time of the last transmission to next
	ackDue    time.Time // when next counts as silent; zero: it acknowledged
	startedAt time.Time // start of this try
	held      bool      // waits until the node is active or a slot is confirmed empty

	avoid []*peer // next hops that took earlier tries over, without a receipt

	receipt *overlaypb.Ack // the root's receipt, once it arrived

	// The fields below are used at the origin only.
	routeCheck
	done     func(Receipt, bool)
	queued   bool // in sendQueue
	inFlight bool // sent, and not taken over by a next hop yet
	retryAt  time.Time
	deadline time.Time
}

// router passes messages on towards the root of their key, one hop at a time.
type router struct {
	*neighbours
	liveness    *liveness
	tableUpkeep *tableUpkeep
	leafUpkeep  *leafUpkeep
	receipts    *receipts

	apps          []application // by layer
	routes        routeStates
	held          []*routeState // messages that wait until the node is active or a slot is confirmed empty
	sendQueue     []*routeState // own messages that wait for room in flight
	inFlight      int           // number of own messages that no next hop has taken over
	drainingQueue bool          // drainQueue is running
}

func newRouter(lv *liveness, tu *tableUpkeep, lu *leafUpkeep, rc *receipts) *router {
	return &router{
		neighbours: lv.neighbours, liveness: lv, tableUpkeep: tu, leafUpkeep: lu, receipts: rc,
		routes: routeStates{byID: map[uint64]*routeState{}, own: map[uint64]*routeState{}},
	}
}

// Route sends a payload of at most MaxPayload bytes towards the root of key. It calls done
// with the root's receipt, after the root's layer has taken the payload at least once, or with
// false when routeDeadline is over or the node has left. A receipt of a member that is too far from
// the key to be its root, or than which a lookup finds a nearer one, does not count. A layer that
// sends the same payload again soon has not got what it wanted, so the message goes another way.
func (rt *router) Route(layer wire.Layer, key ID, payload []byte, done func(r Receipt, ok bool)) {
	rt.route(layer, key, payload, false, done)
}

// RouteToAny is Route for a payload that any member on the way may take over (Application.Forward),
// so that the receipt may be of a member that is not the root.
func (rt *router) RouteToAny(layer wire.Layer, key ID, payload []byte, done func(r Receipt, ok bool)) {
	rt.route(layer, key, payload, true, done)
}

func (rt *router) route(layer wire.Layer, key ID, payload []byte, anyTaker bool, done func(r Receipt, ok bool)) {
	if rt.state == Left {
		done(Receipt{}, false)
		return
	}
	now := rt.clock.Now()
	rs := &routeState{
		id:         rt.rand.Uint64(),
		msg:        Message{Key: key, Layer: layer, Payload: payload},
		routeCheck: routeCheck{anyTaker: anyTaker},
		done:       done,
		deadline:   now.Add(routeDeadline),
	}
	rt.stats.Routed++
	rt.add(rs, now)
	if rt.routes.noteOwn(rs); len(rs.avoid) > 0 {
		rt.restartElsewhere(rs, now)
	}
	rt.enqueue(rs)
}

// failOwnRoutes reports failure for all own messages that have no receipt.
func (rt *router) failOwn() {
	var own []*routeState
	for _, rs := range rt.routes.byID {
		if rs.done != nil {
			own = append(own, rs)
		}
	}
	slices.SortFunc(own, func(a, b *routeState) int { return cmp.Compare(a.id, b.id) }) // map order is random
	for _, rs := range own {
		done := rs.done
		rs.done = nil
		rt.stats.Failed++
		done(Receipt{}, false)
	}
}

func (rt *router) add(rs *routeState, now time.Time) {
	rs.startedAt = now
	rt.routes.byID[rs.id] = rs
	rt.routes.payloadBytes += len(rs.msg.Payload)
	rt.routes.expiries = append(rt.routes.expiries, routeExpiry{rs.id, now.Add(routeMemory)})
}

func (rt *router) scheduleRetry(rs *routeState, in time.Duration) {
	rs.retryAt = rt.clock.Now().Add(env.Jitter(rt.rand, in))
	if rs.retryAt.After(rs.deadline) {
		rs.retryAt = rs.deadline
	}
	rt.at(rs.retryAt, task{kind: taskRetry, n: rs.id})
}

// retry sends an origin's message again if no receipt came.
func (rt *router) retry(rs *routeState, at time.Time) {
	if rs == nil || rs.done == nil || rs.receipt != nil || !rs.retryAt.Equal(at) {
		return
	}
	now := rt.clock.Now()
	if !now.Before(rs.deadline) {
		rt.stats.Failed++
		done := rs.done
		rt.unhold(rs)
		rt.routes.dropPayload(rs)
		rs.done, rs.ackDue, rs.queued = nil, time.Time{}, false
		done(Receipt{}, false)
		rt.endFlight(rs)
		return
	}
	if rt.nextTry(rs); rs.done != nil && rs.try >= lookUpFrom {
		rt.lookUp(rs)
	}
}

// nextTry sends an origin's message again: to the nearest members if a lookup has found them, and otherwise along the table
// by another next hop.
func (rt *router) nextTry(rs *routeState) {
	rs.try++
	rt.scheduleRetry(rs, min(firstRetry<<rs.try, 15*time.Second))
	rt.unhold(rs)
	rt.restartElsewhere(rs, rt.clock.Now())
	if !rt.sendToNearest(rs) {
		rt.forward(rs)
	}
}

// maxAvoided bounds the next hops of earlier tries that a message does not go to again.
const maxAvoided = 8

// restartElsewhere forgets which next hops were tried. Those that took earlier tries over, while no receipt came, are
// avoided as far as there are others, the last ones first.
func (rt *router) restartElsewhere(rs *routeState, now time.Time) {
	if last := rs.next; last != nil && !slices.Contains(rs.avoid, last) {
		rs.avoid = append(rs.avoid[max(len(rs.avoid)-maxAvoided+1, 0):], last)
	}
	rs.restart(now)
	for avoid := rs.avoid; len(avoid) > 0; avoid = avoid[1:] {
		if next, _, _ := rt.nextHop(rs.msg.Key, avoid); next != nil && !slices.Contains(avoid, next) {
			rs.tried = slices.Clone(avoid)
			return
		}
	}
}

// restart forgets which next hops were tried.
func (rs *routeState) restart(now time.Time) {
	rs.tried, rs.next, rs.sendCount, rs.ackDue, rs.startedAt = nil, nil, 0, time.Time{}, now
}

func (rt *router) onRoute(p *peer, m *overlaypb.Route) {
	if rs := rt.routes.byID[m.Id]; rs != nil {
		switch {
		case rs.receipt != nil && (m.Try <= rs.try || ID(rs.receipt.Root) == rt.self.ID):
			rt.sendAck(p, rs.receipt)
		case m.Try > rs.try && rs.done == nil: // the receipt of the last try was lost, or the origin does not believe it
			rs.try, rs.msg.Prev, rs.receipt = m.Try, p.id, nil
			rt.routes.setPayload(rs, m.Payload)
			rt.ack(p, m)
			rt.unhold(rs)
			rt.restartElsewhere(rs, rt.clock.Now())
			rt.forward(rs)
		default:
			rt.ack(p, m)
		}
		return
	}
	if int(m.Hops)+1 >= maxHops || len(rt.routes.byID) >= maxRoutes || rt.routes.payloadBytes >= maxPayloadBytes {
		rt.stats.Dropped++
		return
	}
	rs := &routeState{id: m.Id, try: m.Try, msg: Message{
		Key:     ID(m.Key),
		Layer:   wire.Layer(m.Layer),
		Payload: m.Payload,
		Prev:    p.id,
		Hops:    int(m.Hops) + 1,
	}}
	rt.add(rs, rt.clock.Now())
	rt.forward(rs)
	if rs.receipt == nil { // a receipt also acknowledges
		rt.ack(p, m)
	}
}

func (rt *router) ack(p *peer, m *overlaypb.Route) {
	rt.sendAck(p, &overlaypb.Ack{Id: m.Id, Try: m.Try})
}

func (rt *router) sendAck(p *peer, a *overlaypb.Ack) {
	rt.send(p, &overlaypb.Message{Body: &overlaypb.Message_Ack{Ack: a}})
}

// forward moves a message one step: to a layer above, to the next hop, or to where it waits.
func (rt *router) forward(rs *routeState) {
	app := rt.app(rs.msg.Layer)
	if rt.state == Active && app != nil && app.Forward(&rs.msg) {
		rt.sendReceipt(rs)
		return
	}
	next, root, wait := rt.nextHop(rs.msg.Key, rs.tried)
	switch {
	case wait && rt.clock.Now().Sub(rs.startedAt) < holdLimit || rt.state == Joining && next == nil || rt.state == Alone:
		rt.hold(rs)
	case root:
		rt.stats.Delivered++
		if app != nil {
			app.Deliver(&rs.msg)
		}
		rt.sendReceipt(rs)
	case next != nil:
		rt.sendToHop(rs, next)
	default:
		rt.hold(rs)
	}
}

// sendReceipt starts the receipt on its way back to the origin.
func (rt *router) sendReceipt(rs *routeState) {
	rs.receipt = rt.receipts.sign(rs)
	rt.finish(rs)
}

func (rt *router) finish(rs *routeState) {
	rt.unhold(rs)
	rt.routes.dropPayload(rs)
	rs.ackDue = time.Time{}
	if rs.done != nil {
		rt.stats.Receipts++
		done := rs.done
		rs.done = nil
		done(Receipt{Root: ID(rs.receipt.Root), Hops: int(rs.receipt.Hops), Try: int(rs.receipt.Try)}, true)
		rt.endFlight(rs)
		if rs.sentAt.IsZero() { // no other node knows the message, so nothing of it can come later
			rt.routes.forgetUnsent(rs)
		}
		return
	}
	if rs.msg.Prev != "" {
		p := rt.ensurePeer(rs.msg.Prev)
		rt.sendAck(p, rs.receipt)
		rt.forget(p)
	}
}

func (rt *router) sendToHop(rs *routeState, next *peer) {
	if rs.msg.Prev != "" {
		rt.stats.Forwarded++
	}
	rs.next = next
	rs.sendCount++
	now := rt.clock.Now()
	rs.sentAt, rs.ackDue = now, now.Add(next.answerTimeout(now)<<min(rs.sendCount-1, 2))
	rt.at(rs.ackDue, task{kind: taskHop, n: rs.id})
	class := env.Control
	if len(rs.msg.Payload) > maxControl {
		class = env.Bulk
	}
	rt.sendAs(next, class, &overlaypb.Message{Body: &overlaypb.Message_Route{Route: &overlaypb.Route{
		Id:      rs.id,
		Try:     rs.try,
		Hops:    uint32(rs.msg.Hops),
		Key:     rs.msg.Key[:],
		Layer:   uint32(rs.msg.Layer),
		Payload: rs.msg.Payload,
	}}})
}

// sentTo reports whether a message went to a peer last. It compares ids, because the peer may
// have been forgotten and met again since.
func (rs *routeState) sentTo(p *peer) bool { return rs.next != nil && rs.next.id == p.id }

func (rt *router) onAck(p *peer, m *overlaypb.Ack) {
	rs := rt.routes.byID[m.Id]
	if rs == nil {
		return
	}
	if rs.sentTo(p) && rs.sendCount == 1 && m.Try == rs.try && !rs.ackDue.IsZero() {
		p.sample(rt.clock.Now().Sub(rs.sentAt))
	}
	if !m.Receipt {
		if rs.sentTo(p) {
			rs.ackDue = time.Time{}
			if rs.done == nil {
				rt.routes.dropPayload(rs) // next has taken it over; a retry brings the payload again
			}
			rt.endFlight(rs)
		}
		return
	}
	if rs.receipt == nil && rs.msg.Prev != p.id { // a new message, so that unknown fields of the old one are not passed on
		m = &overlaypb.Ack{Id: rs.id, Try: m.Try, Receipt: true, Root: m.Root, Hops: m.Hops, Record: m.Record, Signature: m.Signature}
		if rs.done != nil && !rt.judge(rs, p, m) {
			return
		}
		rs.receipt = m
		rt.finish(rs)
	}
}

// hopTimedOut routes around a hop that did not acknowledge.
func (rt *router) hopTimedOut(rs *routeState, at time.Time) {
	if rs == nil || rs.next == nil || rs.ackDue.IsZero() || !rs.ackDue.Equal(at) {
		return // held since, possibly until the same instant
	}
	silent := rs.next
	silent.suspect = true
	rt.liveness.probe(silent)
	rt.tableUpkeep.replaceSilent(silent)
	if !slices.Contains(rs.tried, silent) {
		rs.tried = append(rs.tried, silent)
	}
	rt.stats.Rerouted++
	rt.tryNextHop(rs)
}

// tryNextHop forwards a message to a hop that was not tried yet, or, if there is none, tries
// all of them again.
func (rt *router) tryNextHop(rs *routeState) {
	rs.ackDue = time.Time{}
	if rt.clock.Now().Sub(rs.startedAt) > hopLimit {
		rt.drop(rs)
		return
	}
	next, root, _ := rt.nextHop(rs.msg.Key, rs.tried)
	if next == nil && !root {
		rs.tried = nil
	}
	rt.forward(rs)
}

// dropRoute stops forwarding a message until its origin tries again. If the origin is another
// node, the retry brings the payload again.
func (rt *router) drop(rs *routeState) {
	if rs.done == nil {
		rt.stats.Dropped++
		rt.routes.dropPayload(rs)
	}
	rt.endFlight(rs)
}

// rerouteFrom finds other ways for the messages that were sent to a peer that is gone.
func (rt *router) rerouteFrom(p *peer) {
	var lost []*routeState
	for _, rs := range rt.routes.byID {
		if rs.sentTo(p) {
			rs.next = nil
			rs.tried = slices.DeleteFunc(rs.tried, func(q *peer) bool { return q == p })
			if !rs.ackDue.IsZero() {
				lost = append(lost, rs)
			}
		}
	}
	slices.SortFunc(lost, func(a, b *routeState) int { return cmp.Compare(a.id, b.id) }) // map order is random
	for _, rs := range lost {
		rt.tryNextHop(rs)
	}
}

// Handle registers the layer that receives the messages routed for it.
func (rt *router) Handle(layer wire.Layer, app Application) {
	i, ok := slices.BinarySearchFunc(rt.apps, layer, func(a application, l wire.Layer) int { return cmp.Compare(a.layer, l) })
	if !ok {
		rt.apps = slices.Insert(rt.apps, i, application{layer: layer})
	}
	rt.apps[i].Application = app
}

// application is a layer above with its number.
type application struct {
	layer wire.Layer
	Application
}

// app returns the layer with a number, or nil.
func (rt *router) app(layer wire.Layer) Application {
	for _, a := range rt.apps {
		if a.layer == layer {
			return a
		}
	}
	return nil
}
