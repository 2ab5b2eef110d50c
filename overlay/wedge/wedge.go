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

// An Application is what serves in wedges. It may call the Wedge from within Serve, Release
// and Delivered.
type Application interface {
	// Valid is asked whether who gave an order has the right to: once for each term and
	// words, before the node serves or passes them on.
	Valid(key overlay.ID, term Term, words []byte) bool

	// Willing is asked whether the node takes a duty: once for each term and words.
	Willing(key overlay.ID, words []byte) bool

	// Level is asked in each round, of a wedge of polling levels, down to which level the node
	// wants it to reach: how many digits its members have in common with the key. Only the
	// leader is asked, and those that a node nearer to the key has asked to serve.
	Level(key overlay.ID) int

	// Serve gives the node a duty for a key, or another one in place of the one it had.
	Serve(key overlay.ID, d Assignment)

	// Release ends the node's duty for a key.
	Release(key overlay.ID)

	// Handoff is asked what a member that has just been given a part in a key's wedge by
	// this node is to have at once, of at most MaxDown bytes: mostly what the leader has
	// sent down last. It comes there as if the leader had sent it. Nil: nothing.
	CatchUp(key overlay.ID) []byte

	// Delivered brings what the key's leader sent down, from the node's parent. A message
	// may be missed; payload must not be changed.
	Delivered(key overlay.ID, from env.PeerID, payload []byte)
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
	active         []uint32          // numbers of the records, in an order that is the same in each world
	byShortKey     map[uint64]uint32 // numbers of the records, by name
	freed          []uint32          // numbers of records that have ended, until all is settled
	links          map[env.PeerID]*link
	linkStore      slab.Slab[link] // where they lie; see linkNumber
	changed        []priorState    // records that are being changed
	broadcastLinks []*link         // on which messages of leaders wait for the end of the turn
	relayedBytes   int             // bytes that relays keep
	finishing      bool

	counts     []int // members that share 0, 1, 2 ... bits with the node, down to one
	countsAt   time.Time
	lastCounts []int // those of the last round
	scratch    []edge
	blocked    []env.PeerID // refused all lately, or did not answer
	life       uint64       // drawn at the start
	lastNumber uint64       // of the last batch, digest, or frame of Downs
	cal        env.Calendar[task]
}

// A task is an entry of the calendar. What it is about may be gone when its time comes.
type task struct {
	kind taskKind
	peer env.PeerID
	key  uint64
}

type taskKind uint8

const (
	taskFlush         taskKind = iota // send what has changed on a link
	taskResend                        // a batch was not acknowledged
	taskDigest                        // renew the edges of a link
	taskDigestTimeout                 // a digest was not answered
	taskRound                         // compare splits with counts
	taskSweep                         // forget what has grown old
	taskGrace                         // the grace of a record is over
	taskStandIns                      // name stand-ins
)

// New returns the Wedge of a node, and registers it there.
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

// spread returns d give or take a quarter, so that nodes do not march in step.
func (w *Wedge) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(w.rand.Int64N(int64(d)/2+1))
}

// ErrOrder says that an order cannot be given.
var ErrOrder = errors.New("no order to give")

// Enlist makes this node the leader of a key's wedge: the N members nearest to the key get
// the ranks 0 to N-1, the nearest the first. The node itself may be anywhere. An order
// for a key that has one needs a later term. The wedge stands until its leader dismisses it,
// by an order of no ranks and any term, or until somebody else gives an order of a later
// term; if the leader dies, it ends with its leases.
func (w *Wedge) Enlist(key overlay.ID, o Order) error {
	r := w.byKey(shortKey(key))
	switch {
	case r != nil && r.order.key != key:
		return fmt.Errorf("enlist %s: %w: the node serves a key of the same name", key.Short(), ErrOrder)
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
		return fmt.Errorf("enlist %s: %w: words of %d bytes", key.Short(), ErrOrder, len(o.Payload))
	case r == nil && len(w.active) >= maxMemberships:
		return fmt.Errorf("enlist %s: %w: there are %d already", key.Short(), ErrOrder, len(w.active))
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
	if r.extra != nil { // who declined is asked again
		r.extra.standIns = nil
	}
	w.walk(r, detail, true)
	w.finishChanges()
	return nil
}

// Decline ends the node's duty for a key, until an order of a later term asks it again:
// another member takes over its ranks' phases.
func (w *Wedge) Decline(key overlay.ID) {
	r := w.byKey(shortKey(key))
	if r == nil || r.order.key != key || r.flags&declines != 0 {
		return
	}
	w.beginChange(r)
	r.flags |= appAsked | declines
	w.finishChanges()
}

// Run does what is due and returns when it wants to be run next.
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

// Receive takes one message of the layer's from a peer; body is what the frame carries.
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
		w.onAgree(l, b.DigestReply)
	case *wedgepb.Message_Broadcasts:
		w.onBroadcasts(l, b.Broadcasts)
	}
	w.finishChanges()
	return err
}

// Forward and Deliver are for layers that route; this one does not.

// Forward lets everything pass.
func (w *Wedge) Forward(*overlay.Message) bool { return false }

// Deliver counts what somebody routed here.
func (w *Wedge) Deliver(*overlay.Message) { w.stats.Garbage++ }

// PeerGone gives the edges of a peer that is dead or has left to others. Whose parent it
// was serves on by its lease: whoever stood above that one sends another.
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

// LeafChanged has members counted anew. A node that is no member any longer has no part
// in any wedge.
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
