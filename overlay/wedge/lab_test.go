package wedge

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
	"tidings/overlay/wedge/wedgepb"
)

// A lab is one node with a clock that the test moves, and a network that records what is sent. The
// test plays the other nodes as actors, which answer probes.
type lab struct {
	t       testing.TB
	network wire.Network
	hash    wire.Hash
	now     time.Time
	node    *overlay.Node
	w       *Wedge
	sent    []letter
	probed  []question
	actors  map[env.PeerID]*actor

	serves  map[overlay.ID]Assignment
	invalid map[overlay.ID]bool
	valid   int // number of calls of Valid
	onServe func()
	got     []string
}

type letter struct {
	to  env.PeerID
	msg *wedgepb.Message
}

type question struct {
	who  env.PeerID
	what *overlaypb.Probe
}

// An actor is another node, played by the test.
type actor struct {
	l      *lab
	signer *wire.Signer
	id     overlay.ID
	peer   env.PeerID
	raw    []byte
	number uint64 // of its last batch
	read   uint64 // number of the node's last batch that the actor has read
}

// newLab returns a member of a network of one.
func newLab(t testing.TB) *lab {
	network := wire.DefaultNetwork("lab")
	l := &lab{
		t:       t,
		network: network,
		hash:    wire.HashOf(network.Descriptor()),
		now:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		actors:  map[env.PeerID]*actor{},
		serves:  map[overlay.ID]Assignment{},
		invalid: map[overlay.ID]bool{},
	}
	e := env.Env{Clock: l, Network: l, Store: forgetful{}, Rand: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler)}
	self := wire.NewSigner(ed25519.NewKeyFromSeed(make([]byte, 32)), l.hash)
	verify := wire.NewCachingVerifier(wire.NewVerifier(l.hash), 1<<16)
	l.node = overlay.New(e, self, verify, overlay.Config{Network: network, Founder: true})
	l.w = New(e, l.node, Config{}, l)
	l.node.Reachable([]string{"here"})
	if l.run(); l.node.State() != overlay.Active {
		t.Fatalf("the founder is %v", l.node.State())
	}
	return l
}

// A forgetful store keeps nothing.
type forgetful struct{}

func (forgetful) Commit(_ []env.Op, done func(error))              { done(nil) }
func (forgetful) Get([]byte) ([]byte, error)                       { return nil, nil }
func (forgetful) Range([]byte, func(key, value []byte) bool) error { return nil }

func (l *lab) Valid(key overlay.ID, _ Term, _ []byte) bool { l.valid++; return !l.invalid[key] }
func (l *lab) Willing(overlay.ID, []byte) bool             { return true }
func (l *lab) Level(overlay.ID) int                        { return 0 }
func (l *lab) Serve(key overlay.ID, d Assignment) {
	l.serves[key] = d
	if l.onServe != nil {
		l.onServe()
	}
}
func (l *lab) Release(key overlay.ID)    { delete(l.serves, key) }
func (l *lab) CatchUp(overlay.ID) []byte { return nil }

func (l *lab) Delivered(_ overlay.ID, _ env.PeerID, message []byte) {
	l.got = append(l.got, string(message))
}

func (l *lab) Now() time.Time { return l.now }

func (l *lab) Send(to env.Peer, _ env.Class, frame []byte) {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		l.t.Fatal(err)
	}
	if layer == wire.Wedge {
		m, err := parse(body)
		if err != nil {
			l.t.Fatalf("sent an invalid message: %v", err)
		}
		l.sent = append(l.sent, letter{to.ID, m})
		return
	}
	m := &overlaypb.Message{}
	if err := proto.Unmarshal(body, m); err != nil {
		l.t.Fatal(err)
	}
	if p := m.GetProbe(); p != nil && !p.Reply {
		l.probed = append(l.probed, question{to.ID, p})
	}
}

func (l *lab) run() {
	for {
		l.node.Run(l.now)
		next := env.Sooner(l.w.Run(l.now), l.node.Run(l.now))
		all := l.probed
		l.probed = nil
		for _, q := range all {
			if a := l.actors[q.who]; a != nil {
				a.answer(q.what)
			}
		}
		if len(l.probed) == 0 && (next.IsZero() || next.After(l.now)) {
			break
		}
	}
	if err := l.w.Check(); err != nil {
		l.t.Fatal(err)
	}
}

// pass advances the clock by d.
func (l *lab) pass(d time.Duration) {
	for end := l.now.Add(d); l.now.Before(end); {
		l.run()
		next := env.Sooner(l.w.Run(l.now), l.node.Run(l.now))
		if next.IsZero() || next.After(end) {
			next = end
		}
		if next.After(l.now) {
			l.now = next
		}
	}
	l.run()
}

// actor returns the n-th actor, which the node does not know yet.
func (l *lab) actor(n int, member bool) *actor {
	var seed [ed25519.SeedSize]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n)+1)
	a := &actor{l: l, signer: wire.NewSigner(ed25519.NewKeyFromSeed(seed[:]), l.hash)}
	a.peer = a.signer.PeerID()
	a.id = overlay.NodeID(l.network.Name, a.peer)
	record := &overlaypb.Record{IssuedMs: uint64(l.now.UnixMilli()), Member: member}
	if member {
		record.Addresses = [][]byte{fmt.Append(nil, n)}
	}
	a.raw = a.signer.Sign(wire.DomainRecord, wire.Encode(record)).Raw
	l.actors[a.peer] = a
	return a
}

// members returns actors that the node knows, those that share most bits with it first.
func (l *lab) members(count int) (of []*actor) {
	for n := range count {
		a := l.actor(n, true)
		a.tellOverlay(&overlaypb.Message{Record: a.raw, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1}}})
		of = append(of, a)
	}
	l.pass(time.Minute)
	if known := l.node.Count(0); known != count+1 && l.node.Leaf().Depth() == 0 {
		l.t.Fatalf("the node knows %d members", known)
	}
	slices.SortFunc(of, func(a, b *actor) int { return b.id.Common(l.node.ID()) - a.id.Common(l.node.ID()) })
	return of
}

// key returns the n-th key nearest to the node.
func (l *lab) key(n int) overlay.ID {
	id := l.node.ID()
	binary.BigEndian.PutUint32(id[4:], binary.BigEndian.Uint32(id[4:])+uint32(n))
	return id
}

func (a *actor) tellOverlay(m *overlaypb.Message) {
	a.l.t.Helper()
	if err := a.l.node.Receive(a.peer, wire.Encode(m)); err != nil {
		a.l.t.Fatal(err)
	}
}

func (a *actor) answer(p *overlaypb.Probe) {
	a.tellOverlay(&overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce: p.Nonce, Reply: true, Depth: p.Depth, Digest: p.Digest, Decided: p.Decided,
	}}})
}

// say gives the node a message of this layer.
func (a *actor) say(m *wedgepb.Message) error {
	err := a.l.w.Receive(a.peer, wire.Encode(m))
	a.l.run()
	return err
}

// batch gives the node a batch, with a number if it has none, and returns the refusals.
func (a *actor) batch(b *wedgepb.Batch) (answers map[uint64]wedgepb.Refusal_Kind) {
	a.l.t.Helper()
	if b.Number == 0 {
		a.number++
		b.Number = a.number
	}
	if b.Life == 0 {
		b.Life = 1
	}
	a.heard()
	if err := a.say(&wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: b}}); err != nil {
		a.l.t.Fatal(err)
	}
	answers = map[uint64]wedgepb.Refusal_Kind{}
	for _, m := range a.heard() {
		if ack := m.GetAck(); ack != nil && ack.Number == b.Number {
			for _, n := range ack.Refusals {
				answers[n.Key] = n.Kind
			}
			return answers
		}
	}
	return nil
}

// heard returns the messages for the actor since the last call.
func (a *actor) heard() (of []*wedgepb.Message) {
	a.l.sent = slices.DeleteFunc(a.l.sent, func(s letter) bool {
		if s.to == a.peer {
			of = append(of, s.msg)
		}
		return s.to == a.peer
	})
	return of
}

// told returns the entries sent to the actor, and acknowledges them.
func (a *actor) told(answer func(*wedgepb.Entry) wedgepb.Refusal_Kind) (of []*wedgepb.Entry) {
	for _, m := range a.heard() {
		b := m.GetBatch()
		if b == nil {
			continue
		}
		if b.Number <= a.read {
			continue // repeated before it was acknowledged
		}
		a.read = b.Number
		of = append(of, b.Entries...)
		ack := &wedgepb.Ack{Number: b.Number}
		for _, e := range b.Entries {
			if kind := answer(e); kind != wedgepb.Refusal_NONE {
				ack.Refusals = append(ack.Refusals, &wedgepb.Refusal{Key: e.Key, Kind: kind})
			}
		}
		if err := a.say(&wedgepb.Message{Body: &wedgepb.Message_Ack{Ack: ack}}); err != nil {
			a.l.t.Fatal(err)
		}
	}
	return of
}

// entry returns a valid entry with an order for n ranks, all of them for the node.
func (a *actor) entry(key overlay.ID, term Term, n int, payload string) *wedgepb.Entry {
	o := order{key: key, term: term, n: uint32(n), interval: 30 * time.Minute, payload: []byte(payload)}
	o.computeHashes()
	return &wedgepb.Entry{
		Key: shortKey(key), Depth: uint32(a.id.Common(a.l.node.ID())) + 1, Ranks: uint32(n), OrderHash: uint32(o.hash),
		Order: &wedgepb.Order{
			Epoch: term.Epoch, Seq: term.Seq, N: uint32(n), IntervalMs: uint32(o.interval.Milliseconds()),
			PayloadHash: o.payloadHash, Key: key[:], Payload: o.payload, HasPayload: true,
		},
	}
}
