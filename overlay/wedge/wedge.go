package wedge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/slab"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
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

// A Wedge is one node's part in the wedges of all keys. It is not safe for concurrent use.
type Wedge struct {
	cfg   Config
	clock env.Clock
	net   env.Network
	rand  *rand.Rand
	node  *overlay.Node
	self  overlay.ID
	app   Application
	stats Stats

	memberships    slab.Slab[membership]
	active         []uint32          // numbers of the memberships; their order is the same in every run of a simulation
	byShortKey     map[uint64]uint32 // numbers of the memberships, by shortKey
	freed          []uint32          // numbers of removed memberships; reusable after finishChanges
	links          map[env.PeerID]*link
	linkStore      slab.Slab[link] // storage of the links; see linkNumber
	changed        []priorState    // memberships that are being changed
	broadcastLinks []*link         // links on which broadcasts wait for finishChanges
	relayedBytes   int             // bytes of the broadcasts kept as a relay
	finishing      bool

	counts     []int // number of members that share 0, 1, 2 ... bits with the node, until it is 1
	countsAt   time.Time
	lastCounts []int // counts in the previous round
	scratch    []edge
	blocked    []env.PeerID // peers that recently refused entries for lack of room, or did not answer
	life       uint64       // random number drawn at the start, never 0
	lastNumber uint64       // number of the last batch, digest or frame of broadcasts
	cal        env.Calendar[task]
}

// A task is an entry of the calendar. Its link or membership may be gone when it is due.
type task struct {
	kind taskKind
	peer env.PeerID
	key  uint64
}

type taskKind uint8

const (
	taskFlush         taskKind = iota // send the changes on a link
	taskResend                        // a batch was not acknowledged in time
	taskDigest                        // renew the edges of a link
	taskDigestTimeout                 // a digest was not answered in time
	taskRound                         // compare splits with counts
	taskSweep                         // end expired leases and drop idle links
	taskGrace                         // the grace of a membership is over
	taskStandIns                      // assign stand-ins
)

// New returns the Wedge of a node, and registers it with the node.
func New(e env.Env, node *overlay.Node, cfg Config, app Application) *Wedge {
	w := &Wedge{
		cfg:        cfg.withDefaults(),
		clock:      e.Clock,
		net:        e.Network,
		rand:       e.Rand,
		node:       node,
		self:       node.ID(),
		app:        app,
		byShortKey: map[uint64]uint32{},
		links:      map[env.PeerID]*link{},
		life:       e.Rand.Uint64() | 1,
	}
	node.Handle(wire.Wedge, w)
	w.schedule(w.jitter(w.cfg.Maintenance), task{kind: taskRound})
	w.schedule(w.sweepPause(), task{kind: taskSweep})
	return w
}

func (w *Wedge) schedule(d time.Duration, t task) { w.cal.Add(w.clock.Now().Add(d), t) }

// jitter returns a random duration between 3/4 and 5/4 of d, so that nodes do not act in step.
func (w *Wedge) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(w.rand.Int64N(int64(d)/2+1))
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
	r := w.byKey(shortKey(key))
	switch {
	case r != nil && r.order.key != key:
		return fmt.Errorf("enlist %s: %w: the node serves another key with the same first eight bytes", key.Short(), ErrOrder)
	case o.N <= 0:
		if r != nil && r.flags&leads != 0 {
			w.remove(r)
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
	case r == nil && len(w.active) >= maxMemberships:
		return fmt.Errorf("enlist %s: %w: the node has %d memberships already", key.Short(), ErrOrder, len(w.active))
	}
	next := order{key: key, term: o.Term, n: uint32(o.N), digitBits: uint8(o.DigitBits), interval: o.Interval, payload: o.Payload}
	next.computeHashes()
	detail := withPayload
	leaderOnly := r == nil || r.order.digitBits != next.digitBits
	if r == nil {
		r = w.newMembership(w.cfg.OrderCache.intern(next, true))
		r.intervalStart = w.clock.Now().UnixNano()
	} else {
		if r.order.payloadHash == next.payloadHash {
			detail = withoutPayload
		}
		w.beginChange(r)
		w.leaveParent(r)
		w.setOrder(r, w.cfg.OrderCache.intern(next, true))
	}
	if !o.IntervalStart.IsZero() {
		r.intervalStart = o.IntervalStart.UnixNano()
	}
	r.flags |= leads
	r.depth, r.first, r.ranks = 0, 0, r.order.n
	if o.DigitBits != 0 {
		r.depth = maxDepth
		if leaderOnly {
			r.level = w.leaderOnlyLevel(r)
		}
	}
	r.flags &^= inGrace
	if r.extra != nil { // members that declined are asked again
		r.extra.standIns = nil
	}
	w.walk(r, detail, true)
	w.finishChanges()
	return nil
}

// Decline ends the node's assignment for a key until an order of a later term asks it again.
// Another member takes over the phases of its ranks.
func (w *Wedge) Decline(key overlay.ID) {
	r := w.byKey(shortKey(key))
	if r == nil || r.order.key != key || r.flags&declines != 0 {
		return
	}
	w.beginChange(r)
	r.flags |= appAsked | declines
	w.finishChanges()
}

// Run handles everything that is due, and returns the time of the next call.
func (w *Wedge) Run(now time.Time) time.Time {
	for {
		t, at, ok := w.cal.Pop(now)
		if !ok {
			return w.cal.Next()
		}
		l, r := w.links[t.peer], w.byKey(t.key)
		switch t.kind {
		case taskFlush:
			w.flush(l, at)
		case taskResend:
			w.resend(l, at)
		case taskDigest:
			w.digest(l, at)
		case taskDigestTimeout:
			w.digestTimeout(l, at)
		case taskRound:
			w.round()
		case taskSweep:
			w.sweep(now)
		case taskGrace:
			w.graceOver(r, now)
		case taskStandIns:
			w.updateStandIns(r, at)
		}
		w.finishChanges()
	}
}

// Receive handles one message of this layer from a peer. The body is the content of the frame.
func (w *Wedge) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		w.stats.Garbage++
		return err
	}
	l := w.links[from]
	switch b := m.Body.(type) {
	case *wedgepb.Message_Batch:
		err = w.onBatch(from, b.Batch)
	case *wedgepb.Message_Ack:
		w.onAck(l, b.Ack)
	case *wedgepb.Message_Digest:
		w.onDigest(from, l, b.Digest)
	case *wedgepb.Message_DigestReply:
		w.onDigestReply(l, b.DigestReply)
	case *wedgepb.Message_Broadcasts:
		w.onBroadcasts(l, b.Broadcasts)
	}
	w.finishChanges()
	return err
}

// The layer does not route, so Forward and Deliver have no work.

// Forward lets every message pass.
func (w *Wedge) Forward(*overlay.Message) bool { return false }

// Deliver counts a routed message as garbage.
func (w *Wedge) Deliver(*overlay.Message) { w.stats.Garbage++ }

// PeerGone gives the edges of a peer that died or left to other members. If the peer was a parent,
// this node goes on serving until its lease ends; the peer's own parent finds a replacement.
func (w *Wedge) PeerGone(id env.PeerID) {
	l := w.links[id]
	if l == nil {
		return
	}
	w.clearPending(l)
	l.dead = true
	for r := range w.all() {
		if e := r.edgeTo(l); e != nil {
			w.beginChange(r)
			w.stats.Replaced++
			w.findChild(r, e, hashOnly)
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
	w.counts = w.counts[:0]
	if w.node.State() == overlay.Active {
		return
	}
	for _, r := range slices.Collect(w.all()) {
		w.remove(r)
	}
	w.finishChanges()
}

// Stats returns the counters.
func (w *Wedge) Stats() Stats {
	st := w.stats
	st.Records, st.Links = len(w.active), len(w.links)
	for r := range w.all() {
		if r.flags&leads != 0 {
			st.Led++
		}
		if r.serving().Len() > 0 {
			st.Duties++
		}
	}
	for _, l := range w.links {
		st.Up += int(l.up.count)
		st.Down += int(l.down.count)
	}
	return st
}
