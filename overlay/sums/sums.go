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

// An Adder defines the meaning of values.
type Adder interface {
	// Zero returns a new empty sum.
	Zero() any
	// Add adds a value to a sum. Values come from strangers: Add returns an error, and adds
	// nothing, if a part of that scope cannot have such a value. It is never called with an
	// empty value, which means zero.
	Add(sum any, value []byte, scope Scope) error
	// Measure returns the figures by which sums are compared.
	Measure(sum any) Measure
	// Encode returns a sum as a value of at most MaxValue bytes. Equal sums should have equal
	// values, because an unchanged value is not sent again.
	Encode(sum any) []byte
}

// A Scope describes the part of the network that a value covers.
type Scope struct {
	// Nodes is the number of members in the part, at least 1. It is the receiver's estimate and
	// may be off by half while the network changes.
	Nodes int
}

// A Measure holds the figures by which the parts of a row are compared, each at least zero.
type Measure struct {
	// Items is the number of items that were added up, such as channels. Items are spread over
	// members at random, so if there are enough of them every part has some.
	Items float64
	// Amounts are totals over these items, such as subscribers.
	Amounts [6]float64
}

// An Aggregator is one node's instance of the protocol. It is not safe for concurrent use.
type Aggregator struct {
	cfg   Config
	clock env.Clock
	net   env.Network
	rand  *rand.Rand
	log   *slog.Logger
	node  *overlay.Node
	adder Adder
	stats Stats

	active    bool   // the node is a full member, and a sum is wanted of it
	demand    demand // sums that were wanted lately
	own       ownValue
	parts     []*part // slots by row and column, then members of the leaf by id
	keptBytes int     // size of all values in parts

	revision        uint64 // increases with every change of own or of a part
	checkedRevision uint64 // revision at the last plausibility check
	remote          remoteSum
	cache           []cachedSum // sums for other members, at most one for each number of digits
	requests        requestLimit
	rounds          rounds
	cal             env.Calendar[task]
}

// An ownValue is the encoded value of this node; empty if it has none.
type ownValue struct {
	value   []byte
	version uint64
}

// A remoteSum is the sum of all parts, as Remote returned it last.
type remoteSum struct {
	sum      any
	revision uint64 // revision of the Aggregator then; 0 if the sum was never computed
	complete bool   // every part had a value then
}

type task uint8

const (
	taskRound task = iota // request all parts
	taskRetry             // repeat requests that were not answered
	taskQuick             // start the pending series of quick rounds
	taskScan              // look for new slots in the routing table
)

// New returns the Aggregator of a node and registers it there.
func New(e env.Env, node *overlay.Node, cfg Config, adder Adder) *Aggregator {
	s := &Aggregator{
		cfg:      cfg.withDefaults(),
		clock:    e.Clock,
		net:      e.Network,
		rand:     e.Rand,
		log:      e.Log,
		node:     node,
		adder:    adder,
		own:      ownValue{version: versionOf(nil)},
		revision: 1,
		requests: requestLimit{count: map[env.PeerID]int{}},
	}
	node.Handle(wire.Sums, s)
	s.cal.Add(s.clock.Now().Add(scanInterval), taskScan)
	return s
}

// Set sets the node's own value, which the caller must not change afterwards; an empty value
// means none. Other nodes receive it with their next request.
func (s *Aggregator) Set(value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("sums: a value of %d bytes: want at most %d", len(value), MaxValue)
	}
	if len(value) > 0 {
		s.noteRemoteDemand() // a node with a value also wants the values of others
	}
	if !bytes.Equal(value, s.own.value) {
		s.own.value, s.own.version = value, versionOf(value)
		s.revision++
	}
	return nil
}

// Remote returns the sum of all other members' values that are known, and whether it is
// complete. The caller must not change the sum. Calling Remote counts as demand, so the node
// keeps requesting all parts for keepFor.
//
// The sum is computed again after a change. A complete sum stays in use while new parts are
// being requested: when a leaf splits, for example, a slot replaces half of its members.
func (s *Aggregator) Remote() (sum any, complete bool) {
	s.noteRemoteDemand()
	if s.remote.revision == s.revision || s.remote.complete && s.missesNewPart(0, s.clock.Now()) {
		return s.remote.sum, s.remote.complete
	}
	s.remote.revision, s.remote.sum = s.revision, s.adder.Zero()
	s.addParts(s.remote.sum, 0)
	s.remote.complete = s.active
	for _, p := range s.parts {
		s.remote.complete = s.remote.complete && p.version != 0
	}
	return s.remote.sum, s.remote.complete
}

// RequestQuickRounds starts a series of quick rounds as soon as the pause after the last series
// allows it. The layer above calls it when many of its values have changed.
func (s *Aggregator) RequestQuickRounds() {
	s.noteRemoteDemand()
	s.scheduleQuickRounds()
}

func (s *Aggregator) scheduleQuickRounds() {
	if !s.active || s.rounds.quickPending || s.rounds.quickLeft > quickRounds/2 {
		return // the remaining rounds of the series are enough
	}
	s.rounds.quickPending = true
	s.cal.Add(s.rounds.nextQuickStart(), taskQuick)
}

// Stats returns the counters.
func (s *Aggregator) Stats() Stats {
	st := s.stats
	s.checkValues()
	st.Parts, st.KeptBytes = len(s.parts), s.keptBytes
	for _, p := range s.parts {
		if p.version != 0 {
			st.Valued++
			if p.implausible {
				st.Doubted++
			}
		}
	}
	return st
}

// Next returns the time at which something is due, the zero time if nothing is.
func (s *Aggregator) Next() time.Time { return s.cal.Next() }

// Run does what is due and returns Next.
func (s *Aggregator) Run(now time.Time) time.Time {
	if s.active && s.node.State() != overlay.Active {
		s.reset() // the node has left
	}
	for {
		t, at, ok := s.cal.Pop(now)
		if !ok {
			return s.Next()
		}
		if t == taskScan {
			s.cal.Add(now.Add(scanInterval), taskScan)
		}
		switch {
		case !s.active:
		case t == taskScan && s.depth(now) == idleDepth:
			s.reset()
		case t == taskScan:
			s.refresh(now)
		case t == taskRound && at.Equal(s.rounds.nextAt):
			s.startRound(now)
		case t == taskRetry && at.Equal(s.rounds.retryAt):
			s.retry(now)
		case t == taskQuick && s.rounds.quickPending && !now.Before(s.rounds.nextQuickStart()):
			s.startQuickRounds(now)
		}
	}
}

// Forward lets every message pass, because this layer routes none.
func (s *Aggregator) Forward(*overlay.Message) bool { return false }

// Deliver counts a routed message as garbage.
func (s *Aggregator) Deliver(*overlay.Message) { s.stats.Garbage++ }

// LeafChanged updates the parts after members have come or gone.
func (s *Aggregator) LeafChanged() {
	now := s.clock.Now()
	switch active := s.node.State() == overlay.Active; {
	case active && !s.active:
		s.activate(now)
	case active:
		s.refresh(now)
	case s.active:
		s.reset()
	}
}

// PeerGone replaces a dead contact.
func (s *Aggregator) PeerGone(id env.PeerID) {
	for _, p := range s.parts {
		if p.isSlot() && p.contact != nil && p.contact.Peer.ID == id {
			s.dropContact(p)
		}
	}
	if s.active {
		s.refresh(s.clock.Now())
	}
}

// reset forgets everything except the own value. It is called when the node has left, or no sum
// is wanted any more.
func (s *Aggregator) reset() {
	for _, p := range s.parts {
		if p.isSlot() && p.contact != nil {
			s.dropContact(p)
		}
	}
	s.active, s.rounds.quickPending = false, false
	s.parts, s.keptBytes, s.cache = nil, 0, nil
	s.rounds.quickLeft, s.rounds.changed, s.remote.complete = 0, 0, false
	s.revision++
}

// Receive handles a message of this layer from a peer; body is the payload of the frame.
func (s *Aggregator) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		s.stats.Garbage++
		return err
	}
	switch b := m.Body.(type) {
	case *sumspb.Message_Request:
		s.onRequest(from, b.Request)
	case *sumspb.Message_Response:
		s.onResponse(from, b.Response)
	}
	return nil
}

func (s *Aggregator) send(to env.Peer, class env.Class, m *sumspb.Message) {
	f := wire.AppendFrame(nil, wire.Sums, m)
	s.stats.Bytes += uint64(len(f))
	s.net.Send(to, class, f)
}
