package wedge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// An Application serves ranks in wedges. It may call the Wedge from within Serve, Release and
// Delivered.
type Application interface {
	// Valid says whether the leader that gave an order had the right to. It is called once for each
	// term and payload, before the node serves or forwards the order.
	Valid(key overlay.ID, term Term, payload []byte) bool

	// Willing says whether the node accepts an assignment. It is called once for each term and
	// payload.
	Willing(key overlay.ID, payload []byte) bool

	// Level returns, for a wedge of polling levels, the level that the node wants the wedge to
	// reach: the number of digits that its members share with the key. It is called in each round,
	// only at the leader and at nodes that were asked to serve by a node nearer to the key.
	Level(key overlay.ID) int

	// Serve gives the node an assignment for a key, or replaces the one it had.
	Serve(key overlay.ID, d Assignment)

	// Release ends the node's assignment for a key.
	Release(key overlay.ID)

	// CatchUp returns a message of at most MaxBroadcast bytes for a member that has just become
	// this node's child in a key's wedge: usually the leader's last broadcast. The child receives
	// it as if the leader had broadcast it. Nil: there is none.
	CatchUp(key overlay.ID) []byte

	// Delivered hands over a broadcast of the key's leader, as received from the node's parent.
	// Broadcasts may be missed. The message must not be changed.
	Delivered(key overlay.ID, from env.PeerID, message []byte)
}

// A Wedge is one node's part in the wedges of all keys. It is not safe for concurrent use. It passes
// messages, time and changes of the overlay to its components, of which each uses those above it in
// this list only, and completes what they change.
type Wedge struct {
	base

	links      *links      // what this node shares with each peer
	table      *table      // what it is in each tree
	outbox     *outbox     // changes of edges on their way to peers
	renewals   *renewals   // renewal of the edges
	broadcasts *broadcasts // messages of leaders
	tree       *tree       // the division of ranks
	reports    *reports    // ranks that nobody serves

	finishing  bool
	lastCounts []int // counts in the previous round
}

// New returns the Wedge of a node, and registers it with the node.
func New(e env.Env, node *overlay.Node, cfg Config, app Application) *Wedge {
	w := &Wedge{base: base{
		cfg: cfg.withDefaults(), clock: e.Clock, net: e.Network, rand: e.Rand, node: node, app: app, life: e.Rand.Uint64() | 1,
	}}
	b := &w.base
	w.links = &links{base: b, byPeer: map[env.PeerID]*link{}}
	w.table = &table{links: w.links, byShortKey: map[uint64]uint32{}}
	w.outbox = &outbox{base: b, links: w.links, table: w.table}
	w.renewals = &renewals{base: b, links: w.links, table: w.table, outbox: w.outbox}
	w.broadcasts = &broadcasts{base: b, links: w.links, table: w.table}
	w.tree = &tree{base: b, links: w.links, table: w.table, outbox: w.outbox, broadcasts: w.broadcasts}
	w.reports = &reports{base: b, links: w.links, table: w.table, outbox: w.outbox, tree: w.tree}
	node.Handle(wire.Wedge, w)
	w.schedule(env.Jitter(w.rand, w.cfg.Maintenance), task{kind: taskRound})
	w.schedule(w.sweepPause(), task{kind: taskSweep})
	return w
}

// ErrOrder means that an order is invalid, or cannot be given at this time.
var ErrOrder = errors.New("invalid order")

// Enlist makes this node the leader of a key's wedge: the N members nearest to the key get the
// ranks 0 to N-1, the nearest the first. The node itself may be anywhere. If the key has an order
// already, the new one needs a later term.
//
// The wedge lasts until the leader gives an order with no ranks, of any term, or another node gives
// an order of a later term. If the leader dies, the wedge ends with its leases.
func (w *Wedge) Enlist(key overlay.ID, o Order) error {
	r := w.table.byKey(shortKey(key))
	switch {
	case r != nil && r.order.key != key:
		return fmt.Errorf("enlist %s: %w: the node serves another key with the same first eight bytes", key.Short(), ErrOrder)
	case o.N <= 0:
		if r != nil && r.flags&leads != 0 {
			w.tree.remove(r)
			w.finishChanges()
		}
		return nil
	case r != nil && o.Term.Compare(r.order.term) <= 0:
		return fmt.Errorf("enlist %s: %w: term %v is not later than %v", key.Short(), ErrOrder, o.Term, r.order.term)
	case w.node.State() != overlay.Active:
		return fmt.Errorf("enlist %s: %w: the node is %v", key.Short(), ErrOrder, w.node.State())
	case o.DigitBits != 0 && (o.DigitBits != 1 && o.DigitBits != 4 || o.N != 1):
		return fmt.Errorf("enlist %s: %w: levels of %d bits and %d ranks", key.Short(), ErrOrder, o.DigitBits, o.N)
	case o.N > ranksPerMember*w.node.Count(0):
		return fmt.Errorf("enlist %s: %w: %d ranks of %d members", key.Short(), ErrOrder, o.N, w.node.Count(0))
	case o.Interval < minInterval || o.Interval > maxInterval || o.Interval%time.Millisecond != 0:
		return fmt.Errorf("enlist %s: %w: an interval of %v", key.Short(), ErrOrder, o.Interval)
	case len(o.Payload) > MaxPayload:
		return fmt.Errorf("enlist %s: %w: payload of %d bytes", key.Short(), ErrOrder, len(o.Payload))
	case r == nil && len(w.table.active) >= maxLed:
		return fmt.Errorf("enlist %s: %w: the node has %d memberships already", key.Short(), ErrOrder, len(w.table.active))
	}
	next := order{key: key, term: o.Term, n: uint32(o.N), digitBits: uint8(o.DigitBits), interval: o.Interval, payload: o.Payload}
	next.computeHashes()
	detail := withPayload
	leaderOnly := r == nil || r.order.digitBits != next.digitBits
	if r == nil {
		r = w.table.add(w.cfg.OrderCache.intern(next, true))
		r.intervalStart = w.clock.Now().UnixNano()
	} else {
		if r.order.payloadHash == next.payloadHash {
			detail = withoutPayload
		}
		w.table.change(r)
		w.tree.leaveParent(r)
		w.table.setOrder(r, w.cfg.OrderCache.intern(next, true))
	}
	if !o.IntervalStart.IsZero() {
		r.intervalStart = o.IntervalStart.UnixNano()
	}
	r.flags |= leads
	r.depth, r.first, r.ranks = 0, 0, r.order.n
	if o.DigitBits != 0 {
		r.depth = maxDepth
		if leaderOnly {
			r.level = w.tree.leaderOnlyLevel(r)
		}
	}
	r.flags &^= inGrace
	if r.extra != nil { // members that declined are asked again
		r.extra.standIns = nil
	}
	w.tree.walk(r, detail, true)
	w.finishChanges()
	return nil
}

// Decline ends the node's assignment for a key until an order of a later term asks it again.
// Another member takes over the phases of its ranks.
func (w *Wedge) Decline(key overlay.ID) {
	r := w.table.byKey(shortKey(key))
	if r == nil || r.order.key != key || r.flags&declines != 0 {
		return
	}
	w.table.change(r)
	r.flags |= appAsked | declines
	w.finishChanges()
}

// Next returns the time at which something is due, the zero time if nothing is.
func (w *Wedge) Next() time.Time { return w.cal.Next() }

// Run handles everything that is due, and returns Next.
func (w *Wedge) Run(now time.Time) time.Time {
	for {
		t, at, ok := w.cal.Pop(now)
		if !ok {
			return w.Next()
		}
		l, r := w.links.byPeer[t.peer], w.table.byKey(t.key)
		switch t.kind {
		case taskFlush:
			w.outbox.flush(l, at)
		case taskResend:
			if w.outbox.resend(l, at) {
				w.giveUp(l)
			}
		case taskDigest:
			w.renewals.digest(l, at)
		case taskDigestTimeout:
			w.renewals.timeout(l, at)
		case taskRound:
			w.round()
		case taskSweep:
			w.sweep(now)
		case taskGrace:
			w.tree.graceOver(r, now)
		case taskStandIns:
			w.reports.updateStandIns(r, at)
		}
		w.finishChanges()
	}
}

// The layer does not route, so Forward and Deliver have no work.

// Forward lets every message pass.
func (w *Wedge) Forward(*overlay.Message) bool { return false }

// Deliver counts a routed message as garbage.
func (w *Wedge) Deliver(*overlay.Message) { w.stats.Garbage++ }

// PeerGone gives the edges of a peer that died or left to other members. If the peer was a parent,
// this node goes on serving until its lease ends; the peer's own parent finds a replacement.
func (w *Wedge) PeerGone(id env.PeerID) {
	l := w.links.byPeer[id]
	if l == nil {
		return
	}
	w.outbox.clearPending(l)
	l.dead = true
	for r := range w.table.all() {
		if e := r.edgeTo(l); e != nil {
			w.table.change(r)
			w.stats.Replaced++
			w.tree.findChild(r, e, hashOnly)
			if e.link == noLink {
				w.stats.Adopted++
			}
		}
	}
	w.finishChanges()
}

// LeafChanged discards the counts of members. If the node is no longer a member of the network, all
// its memberships end.
func (w *Wedge) LeafChanged() {
	w.tree.counts = w.tree.counts[:0]
	if w.node.State() == overlay.Active {
		return
	}
	for _, r := range slices.Collect(w.table.all()) {
		w.tree.remove(r)
	}
	w.finishChanges()
}

// Stats returns the counters.
func (w *Wedge) Stats() Stats {
	st := w.stats
	st.Records, st.Links = len(w.table.active), len(w.links.byPeer)
	for r := range w.table.all() {
		if r.flags&leads != 0 {
			st.Led++
		}
		if r.serving().Len() > 0 {
			st.Keys++
		}
	}
	for _, l := range w.links.byPeer {
		st.Up += int(l.up.count)
		st.Down += int(l.down.count)
	}
	return st
}

// finishChanges completes all changes that table.change has announced: it updates the digests, informs the
// application of changed assignments and parents of missing ranks, and sends broadcasts. It also
// completes changes that the application makes meanwhile.
func (w *Wedge) finishChanges() {
	if w.finishing {
		return
	}
	w.finishing = true
	for i := 0; i < len(w.table.changed); i++ {
		b := w.table.changed[i]
		r := b.membership
		if r.flags&removed != 0 {
			if b.ranks.Len() > 0 {
				w.app.Release(b.order.key)
			}
			continue
		}
		r.flags &^= changing
		if l := w.links.at(r.parent); l != nil {
			l.up.add(r.parentEdgeHash())
		}
		for j := range r.edges {
			e := &r.edges[j]
			if l := w.links.at(e.link); l != nil {
				l.down.add(r.childEdgeHash(e))
				w.renewals.start(l)
			}
		}
		w.notify(r, b)
	}
	for _, number := range w.table.freed {
		w.table.store.Take(number)
	}
	w.table.freed = w.table.freed[:0]
	if cap(w.table.changed) > changedCap {
		w.table.changed = nil
	}
	w.table.changed = w.table.changed[:0]
	w.finishing = false
	w.broadcasts.flush()
}

// notify informs the application and the parent of a change.
func (w *Wedge) notify(r *membership, b priorState) {
	if r.flags&appAsked == 0 && r.assignedRanks(nil) > 0 {
		r.flags |= appAsked
		if !w.app.Willing(r.order.key, r.order.payload) {
			r.flags |= declines
		}
	}
	w.reports.update(r)
	switch now := r.serving(); {
	case now.Len() == 0 && b.ranks.Len() > 0:
		w.app.Release(r.order.key)
	case now.Len() > 0 && (now != b.ranks || r.order != b.order || r.intervalStart != b.intervalStart):
		w.app.Serve(r.order.key, r.assignment())
		if b.ranks.Len() == 0 {
			w.broadcasts.deliverKept(r)
		}
	}
}

// Assignment returns the node's assignment for a key; ok is false if it has none.
func (w *Wedge) Assignment(key overlay.ID) (d Assignment, ok bool) {
	r := w.table.byKey(shortKey(key))
	if r == nil || r.order.key != key {
		return Assignment{}, false
	}
	d = r.assignment()
	return d, d.Ranks.Len() > 0
}

// OrderInForce returns the term of the order that this node gave for a key, and the number of its
// ranks; ok is false if there is none, or if its wedge has polling levels.
func (w *Wedge) OrderInForce(key overlay.ID) (term Term, n int, ok bool) {
	r := w.table.byKey(shortKey(key))
	if r == nil || r.order.key != key || r.flags&leads == 0 || r.order.digitBits != 0 {
		return Term{}, 0, false
	}
	return r.order.term, int(r.order.n), true
}

// Leads says whether an order of this node is in force for a key. It ends when another node gives
// an order of a later term.
func (w *Wedge) Leads(key overlay.ID) bool {
	r := w.table.byKey(shortKey(key))
	return r != nil && r.order.key == key && r.flags&leads != 0
}

// Served returns how many ranks of a key that this node leads are served, stand-ins included, and
// how many members declined, as reported so far. It returns 0 if the node does not lead the key, or
// if the wedge has polling levels.
func (w *Wedge) Served(key overlay.ID) (served, declined int) {
	r := w.table.byKey(shortKey(key))
	if r == nil || r.order.key != key || r.flags&leads == 0 || r.order.digitBits != 0 {
		return 0, 0
	}
	count, _ := r.declined()
	return int(r.ranks - r.missing()), int(count)
}

// AdjustLevels moves the levels of all wedges in which this node decides one step towards what the
// application wants, as each round does.
func (w *Wedge) AdjustLevels() {
	for r := range w.table.all() {
		if r.order.digitBits != 0 && w.tree.adjustLevel(r) {
			w.tree.walk(r, hashOnly, false)
		}
	}
	w.finishChanges() // otherwise a link would seem to have no edges
}

// Broadcast sends a message of at most MaxBroadcast bytes to all members that take part in the
// wedge of a key that this node leads, relays included. Delivery is not confirmed, and a member
// that changes its parent meanwhile may miss the message. The message must not be changed
// afterwards.
func (w *Wedge) Broadcast(key overlay.ID, message []byte) error {
	r := w.table.byKey(shortKey(key))
	switch {
	case r == nil || r.order.key != key || r.flags&leads == 0:
		return fmt.Errorf("broadcast to %s: the node does not lead the key", key.Short())
	case len(message) > MaxBroadcast:
		return fmt.Errorf("broadcast to %s: message of %d bytes, at most %d allowed", key.Short(), len(message), MaxBroadcast)
	}
	w.broadcasts.forward(r, message)
	w.finishChanges()
	return nil
}
