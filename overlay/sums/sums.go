package sums

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/sums/sumspb"
)

// An Adder knows what values mean.
type Adder interface {
	// Zero returns a new sum, of nothing.
	Zero() any
	// Add adds a value to a sum. Values come from strangers: one that such a part of the
	// network cannot have is refused with an error, and nothing is added. An empty value
	// is never added: it stands for nothing.
	Add(sum any, value []byte, about Scope) error
	// Measure says what a sum counts for.
	Measure(sum any) Measure
	// Encode returns a sum as a value, of at most MaxValue bytes. Equal sums should have
	// equal values: what has not changed is not sent again.
	Encode(sum any) []byte
}

// A Scope says for which part of the network a value speaks.
type Scope struct {
	// Nodes is how many members the part has by the node's own counts, at least 1: an
	// estimate, which may be off by a half while the network changes.
	Nodes int
}

// A Measure is what a value counts for, by which the parts of a row are compared. Each number
// must be at least zero.
type Measure struct {
	// Things is how many things were added up, which stand at members by chance: where
	// there are enough of them, no part has none.
	Things float64
	// Amounts are what these amount to.
	Amounts [6]float64
}

// Sums is one node's part in the adding up. It is not safe for concurrent use.
type Sums struct {
	cfg   Config
	clock env.Clock
	net   env.Network
	rand  *rand.Rand
	log   *slog.Logger
	node  *overlay.Node
	adder Adder
	stats Stats

	active bool // a member in full, of whom a sum is wanted
	wanted wants
	own    []byte
	ownVer uint64  // its version
	parts  []*part // slots by row and column, then the leaf by id
	kept   int     // bytes of their values

	stamp     uint64 // rises with every change of what sums are made of
	judged    uint64 // the stamp when values were last compared
	rest      any    // the sum of all parts
	restOf    uint64 // the stamp when it was made; 0: never
	restWhole bool   // no part lacked
	answers   []answer
	asks      map[env.PeerID]int // in this minute
	asksEnd   time.Time          // of the minute

	roundAt   time.Time     // when the next round is due
	againAt   time.Time     // when answers are looked for; zero: none is out
	quick     int           // quick rounds still to come
	quickAt   time.Time     // when the last series began
	pause     time.Duration // from then to the next, at least
	lull      time.Duration // between the present round and the next, about
	disturbed bool          // another is due
	changed   int           // parts that changed
	changedAt time.Time     // since then
	cal       env.Calendar[task]
}

type task uint8

const (
	taskRound  task = iota // ask for all parts
	taskAgain              // ask those again that did not answer
	taskQuick              // a pause between series of quick rounds is over
	taskGlance             // see whether there are new slots
)

// New returns the Sums of a node, and registers it there.
func New(e env.Env, node *overlay.Node, cfg Config, adder Adder) *Sums {
	s := &Sums{
		cfg:    cfg.filled(),
		clock:  e.Clock,
		net:    e.Network,
		rand:   e.Rand,
		log:    e.Log,
		node:   node,
		adder:  adder,
		ownVer: versionOf(nil),
		stamp:  1,
		asks:   map[env.PeerID]int{},
	}
	node.Handle(wire.Sums, s)
	s.cal.Add(s.clock.Now().Add(glancePause), taskGlance)
	return s
}

// Set sets the own value, which must not be changed afterwards; empty: nothing. Others hear of
// it when they next ask.
func (s *Sums) Set(value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("sums: a value of %d bytes: want at most %d", len(value), MaxValue)
	}
	if len(value) > 0 {
		s.wantRest() // as long as this node has a value it wants that of others
	}
	if !bytes.Equal(value, s.own) {
		s.own, s.ownVer = value, versionOf(value)
		s.stamp++
	}
	return nil
}

// Rest returns the sum of all others' values, as far as they are known, and whether it is
// whole. Nodes learn them as long as somebody wants to know. It must not be changed. It is made anew when something has changed; but one that was
// whole stands while new parts are being asked: where a leaf splits, a slot comes in place of
// half of its members.
func (s *Sums) Rest() (sum any, whole bool) {
	s.wantRest()
	if s.restOf == s.stamp || s.restWhole && s.early(0, s.clock.Now()) {
		return s.rest, s.restWhole
	}
	s.restOf, s.rest = s.stamp, s.adder.Zero()
	s.addParts(s.rest, 0)
	s.restWhole = s.active
	for _, p := range s.parts {
		s.restWhole = s.restWhole && p.version != 0
	}
	return s.rest, s.restWhole
}

// Disturbed says that much has changed, as the layer above sees it: quick rounds begin, as
// soon as they may.
func (s *Sums) Disturbed() {
	s.wantRest()
	s.disturb()
}

func (s *Sums) disturb() {
	if !s.active || s.disturbed || s.quick > quickRounds/2 {
		return // the rounds to come will do
	}
	s.disturbed = true
	s.cal.Add(s.quickFrom(), taskQuick)
}

// Stats returns the counters.
func (s *Sums) Stats() Stats {
	st := s.stats
	s.judge()
	st.Parts, st.KeptBytes = len(s.parts), s.kept
	for _, p := range s.parts {
		if p.version != 0 {
			st.Valued++
			if p.doubted {
				st.Doubted++
			}
		}
	}
	return st
}

// Run does what is due and returns when it wants to be run next.
func (s *Sums) Run(now time.Time) time.Time {
	if s.active && s.node.State() != overlay.Active {
		s.forget() // it has left
	}
	for {
		t, at, ok := s.cal.Pop(now)
		if !ok {
			return s.cal.Next()
		}
		if t == taskGlance {
			s.cal.Add(now.Add(glancePause), taskGlance)
		}
		switch {
		case !s.active:
		case t == taskGlance && s.depth(now) == asleep:
			s.forget()
		case t == taskGlance:
			s.refresh(now)
		case t == taskRound && at.Equal(s.roundAt):
			s.round(now)
		case t == taskAgain && at.Equal(s.againAt):
			s.again(now)
		case t == taskQuick && s.disturbed && !now.Before(s.quickFrom()):
			s.hurry(now)
		}
	}
}

// Forward lets all pass: nothing of this layer is routed.
func (s *Sums) Forward(*overlay.Message) bool { return false }

// Deliver counts what somebody routed all the same.
func (s *Sums) Deliver(*overlay.Message) { s.stats.Garbage++ }

// LeafChanged looks for parts that came and went.
func (s *Sums) LeafChanged() {
	now := s.clock.Now()
	switch active := s.node.State() == overlay.Active; {
	case active && !s.active:
		s.wake(now)
	case active:
		s.refresh(now)
	case s.active:
		s.forget()
	}
}

// PeerGone looks for somebody else to ask.
func (s *Sums) PeerGone(id env.PeerID) {
	for _, p := range s.parts {
		if p.slot() && p.who != nil && p.who.Peer.ID == id {
			s.dismiss(p)
		}
	}
	if s.active {
		s.refresh(s.clock.Now())
	}
}

// forget forgets all but the own value: the node is no member any longer.
func (s *Sums) forget() {
	for _, p := range s.parts {
		if p.slot() && p.who != nil {
			s.dismiss(p)
		}
	}
	s.active, s.disturbed = false, false
	s.parts, s.kept, s.answers = nil, 0, nil
	s.quick, s.changed, s.restWhole = 0, 0, false
	s.stamp++
}

// Receive takes one message of the layer's from a peer; body is what the frame carries.
func (s *Sums) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		s.stats.Garbage++
		return err
	}
	switch b := m.Body.(type) {
	case *sumspb.Message_Ask:
		s.onAsk(from, b.Ask)
	case *sumspb.Message_Give:
		s.onGive(from, b.Give)
	}
	return nil
}

func (s *Sums) send(to env.Peer, class env.Class, m *sumspb.Message) {
	f := wire.AppendFrame(nil, wire.Sums, m)
	s.stats.Bytes += uint64(len(f))
	s.net.Send(to, class, f)
}
