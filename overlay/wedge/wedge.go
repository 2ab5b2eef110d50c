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
	Serve(key overlay.ID, d Duty)

	// Release ends the node's duty for a key.
	Release(key overlay.ID)

	// Handoff is asked what a member that has just been given a part in a key's wedge by
	// this node is to have at once, of at most MaxDown bytes: mostly what the leader has
	// sent down last. It comes there as if the leader had sent it. Nil: nothing.
	Handoff(key overlay.ID) []byte

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

	records  slab.Slab[record]
	listed   []uint32          // numbers of the records, in an order that is the same in each world
	names    map[uint64]uint32 // numbers of the records, by name
	gone     []uint32          // numbers of records that have ended, until all is settled
	links    map[env.PeerID]*link
	linkSlab slab.Slab[link] // where they lie; see linkNumber
	touched  []before        // records that are being changed
	downs    []*link         // on which messages of leaders wait for the end of the turn
	kept     int             // bytes that relays keep
	settling bool

	counts   []int // members that share 0, 1, 2 ... bits with the node, down to one
	countsAt time.Time
	parted   []int // those of the last round
	scratch  []edge
	shunned  []env.PeerID // refused all lately, or did not answer
	life     uint64       // drawn at the start
	number   uint64       // of the last batch, digest, or frame of Downs
	cal      env.Calendar[task]
}

// A task is an entry of the calendar. What it is about may be gone when its time comes.
type task struct {
	kind taskKind
	peer env.PeerID
	key  uint64
}

type taskKind uint8

const (
	taskFlush  taskKind = iota // send what has changed on a link
	taskResend                 // a batch was not acknowledged
	taskDigest                 // renew the edges of a link
	taskAgain                  // a digest was not answered
	taskRound                  // compare splits with counts
	taskSweep                  // forget what has grown old
	taskEnd                    // the grace of a record is over
	taskStand                  // name stand-ins
)

// New returns the Wedge of a node, and registers it there.
func New(e env.Env, node *overlay.Node, cfg Config, app Application) *Wedge {
	w := &Wedge{
		cfg:   cfg.filled(),
		clock: e.Clock,
		net:   e.Network,
		rand:  e.Rand,
		node:  node,
		self:  node.ID(),
		app:   app,
		names: map[uint64]uint32{},
		links: map[env.PeerID]*link{},
		life:  e.Rand.Uint64() | 1,
	}
	node.Handle(wire.Wedge, w)
	w.after(w.spread(w.cfg.Maintenance), task{kind: taskRound})
	w.after(w.sweepPause(), task{kind: taskSweep})
	return w
}

func (w *Wedge) after(d time.Duration, t task) { w.cal.Add(w.clock.Now().Add(d), t) }

// spread returns d give or take a quarter, so that nodes do not march in step.
func (w *Wedge) spread(d time.Duration) time.Duration {
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
	r := w.named(name(key))
	switch {
	case r != nil && r.order.key != key:
		return fmt.Errorf("enlist %s: %w: the node serves a key of the same name", key.Short(), ErrOrder)
	case o.N <= 0:
		if r != nil && r.flags&leads != 0 {
			w.end(r)
			w.settle()
		}
		return nil
	case r != nil && o.Term.Compare(r.order.term) <= 0:
		return fmt.Errorf("enlist %s: %w: term %v is not later than %v", key.Short(), ErrOrder, o.Term, r.order.term)
	case w.node.State() != overlay.Active:
		return fmt.Errorf("enlist %s: %w: the node is %v", key.Short(), ErrOrder, w.node.State())
	case o.Reach != 0 && (o.Reach != 1 && o.Reach != 4 || o.N != 1):
		return fmt.Errorf("enlist %s: %w: levels of %d bits and %d ranks", key.Short(), ErrOrder, o.Reach, o.N)
	case o.N > perMember*w.node.Count(0):
		return fmt.Errorf("enlist %s: %w: %d ranks of %d members", key.Short(), ErrOrder, o.N, w.node.Count(0))
	case o.Interval < minInterval || o.Interval > maxInterval || o.Interval%time.Millisecond != 0:
		return fmt.Errorf("enlist %s: %w: an interval of %v", key.Short(), ErrOrder, o.Interval)
	case len(o.Words) > MaxWords:
		return fmt.Errorf("enlist %s: %w: words of %d bytes", key.Short(), ErrOrder, len(o.Words))
	case r == nil && len(w.listed) >= maxRecords:
		return fmt.Errorf("enlist %s: %w: there are %d already", key.Short(), ErrOrder, len(w.listed))
	}
	next := order{key: key, term: o.Term, n: uint32(o.N), digit: uint8(o.Reach), interval: o.Interval, words: o.Words}
	next.seal()
	how := full
	alone := r == nil || r.order.digit != next.digit
	if r == nil {
		r = w.record(w.cfg.Orders.share(next, true))
		r.ref = w.clock.Now().UnixNano()
	} else {
		if r.order.wordsHash == next.wordsHash {
			how = ordered
		}
		w.begin(r)
		w.leaveParent(r)
		w.give(r, w.cfg.Orders.share(next, true))
	}
	if !o.Ref.IsZero() {
		r.ref = o.Ref.UnixNano()
	}
	r.flags |= leads
	r.depth, r.first, r.ranks = 0, 0, r.order.n
	if o.Reach != 0 {
		r.depth = maxDepth
		if alone {
			r.level = w.alone(r)
		}
	}
	r.flags &^= ending
	if r.extra != nil { // who declined is asked again
		r.extra.standIns = nil
	}
	w.walk(r, how, true)
	w.settle()
	return nil
}

// Decline ends the node's duty for a key, until an order of a later term asks it again:
// another member takes over its ranks' phases.
func (w *Wedge) Decline(key overlay.ID) {
	r := w.named(name(key))
	if r == nil || r.order.key != key || r.flags&declines != 0 {
		return
	}
	w.begin(r)
	r.flags |= asked | declines
	w.settle()
}

// Run does what is due and returns when it wants to be run next.
func (w *Wedge) Run(now time.Time) time.Time {
	for {
		t, at, ok := w.cal.Pop(now)
		if !ok {
			return w.cal.Next()
		}
		l, r := w.links[t.peer], w.named(t.key)
		switch t.kind {
		case taskFlush:
			w.flush(l, at)
		case taskResend:
			w.resend(l, at)
		case taskDigest:
			w.digest(l, at)
		case taskAgain:
			w.digestAgain(l, at)
		case taskRound:
			w.round()
		case taskSweep:
			w.sweep(now)
		case taskEnd:
			w.endDue(r, now)
		case taskStand:
			w.standIn(r, at)
		}
		w.settle()
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
	case *wedgepb.Message_Agree:
		w.onAgree(l, b.Agree)
	case *wedgepb.Message_Downs:
		w.onDowns(l, b.Downs)
	}
	w.settle()
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
	w.clear(l)
	l.gone = true
	for r := range w.all() {
		if e := r.to(l); e != nil {
			w.begin(r)
			w.stats.Replaced++
			w.employ(r, e, bare)
			if e.link == none {
				w.stats.Adopted++
			}
		}
	}
	w.settle()
}

// LeafChanged has members counted anew. A node that is no member any longer has no part
// in any wedge.
func (w *Wedge) LeafChanged() {
	w.counts = w.counts[:0]
	if w.node.State() == overlay.Active {
		return
	}
	for _, r := range slices.Collect(w.all()) {
		w.end(r)
	}
	w.settle()
}

// Stats returns the counters.
func (w *Wedge) Stats() Stats {
	st := w.stats
	st.Records, st.Links = len(w.listed), len(w.links)
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
