package sums

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
	"tidings/overlay/sums/sumspb"
)

// A lab is one node with a clock that the test moves and a network that records what is sent.
// The test plays the other nodes as actors, which answer probes.
type lab struct {
	t       testing.TB
	network wire.Network
	hash    wire.Hash
	now     time.Time
	node    *overlay.Node
	s       *Aggregator
	sent    []letter
	asked   []asked
	actors  map[env.PeerID]*actor

	answering []*actor
}

type letter struct {
	to    env.PeerID
	class env.Class
	msg   *sumspb.Message
}

type asked struct {
	who  env.PeerID
	what *overlaypb.Message
}

// An actor is another member, played by the test.
type actor struct {
	l    *lab
	id   overlay.ID
	peer env.PeerID
	raw  []byte
	dead bool
	says func(*sumspb.Request) *sumspb.Response // its responses; nil if it is silent
}

// newLab returns a lab whose node is the only member of its network.
func newLab(t testing.TB) *lab {
	network := wire.DefaultNetwork("lab")
	l := &lab{
		t: t, network: network, hash: wire.HashOf(network.Descriptor()),
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), actors: map[env.PeerID]*actor{},
	}
	e := env.Env{Clock: l, Network: l, Store: forgetful{}, Rand: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler)}
	self := wire.NewSigner(ed25519.NewKeyFromSeed(make([]byte, 32)), l.hash)
	l.node = overlay.New(e, self, wire.NewCachingVerifier(wire.NewVerifier(l.hash), 1<<16), overlay.Config{Network: network, Founder: true})
	l.s = New(e, l.node, Config{}, numbers{})
	l.node.Reachable([]string{"here"})
	if l.run(); l.node.State() != overlay.Active {
		t.Fatalf("the founder is %v", l.node.State())
	}
	l.s.noteRemoteDemand()
	return l
}

// A forgetful store keeps nothing.
type forgetful struct{}

func (forgetful) Commit(_ []env.Op, done func(error))              { done(nil) }
func (forgetful) Get([]byte) ([]byte, error)                       { return nil, nil }
func (forgetful) Range([]byte, func(key, value []byte) bool) error { return nil }

// numbers adds numbers of eight bytes; it refuses more than a hundred for each member.
type numbers struct{}

func (numbers) Zero() any { return new(uint64) }

func (numbers) Add(sum any, value []byte, about Scope) error {
	if len(value) != 8 || binary.BigEndian.Uint64(value) > 100*uint64(about.Nodes) {
		return errors.New("no such number")
	}
	*sum.(*uint64) += binary.BigEndian.Uint64(value)
	return nil
}

func (numbers) Measure(sum any) Measure { return Measure{Items: float64(*sum.(*uint64))} }
func (numbers) Encode(sum any) []byte   { return number(*sum.(*uint64)) }

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (l *lab) rest() uint64 {
	sum, _ := l.s.Remote()
	return *sum.(*uint64)
}

func (l *lab) Now() time.Time { return l.now }

func (l *lab) Send(to env.Peer, class env.Class, frame []byte) {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		l.t.Fatal(err)
	}
	if layer == wire.Sums {
		m, err := parse(body)
		if err != nil {
			l.t.Fatalf("sent an invalid message: %v", err)
		}
		l.sent = append(l.sent, letter{to.ID, class, m})
		return
	}
	m := &overlaypb.Message{}
	if err := proto.Unmarshal(body, m); err != nil {
		l.t.Fatal(err)
	}
	if p := m.GetProbe(); p != nil && !p.Reply {
		l.asked = append(l.asked, asked{to.ID, m})
	}
}

func (l *lab) run() {
	for {
		l.node.Run(l.now)
		next := env.Sooner(l.s.Run(l.now), l.node.Run(l.now))
		all := l.asked
		l.asked = nil
		for _, q := range all {
			if a := l.actors[q.who]; a != nil && !a.dead {
				p := q.what.GetProbe()
				a.tell(&overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
					Nonce: p.Nonce, Reply: true, Depth: p.Depth, Digest: p.Digest, Decided: p.Decided,
				}}})
			}
		}
		for _, a := range l.answering {
			for _, q := range a.asks() {
				if err := l.s.Receive(a.peer, wire.Encode(&sumspb.Message{Body: &sumspb.Message_Response{Response: a.says(q)}})); err != nil {
					l.t.Fatal(err)
				}
				next = l.now
			}
		}
		if len(l.asked) == 0 && (next.IsZero() || next.After(l.now)) {
			return
		}
	}
}

// advance lets time pass.
func (l *lab) advance(d time.Duration) {
	for end := l.now.Add(d); l.now.Before(end); {
		l.s.noteRemoteDemand() // keeps the demand alive
		l.run()
		next := env.Sooner(l.s.Run(l.now), l.node.Run(l.now))
		if next.IsZero() || next.After(end) {
			next = end
		}
		if next.After(l.now) {
			l.now = next
		}
	}
	l.run()
}

// actor returns the n-th actor, a member of the node's leaf.
func (l *lab) actor(n int) *actor {
	var seed [ed25519.SeedSize]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n)+1)
	signer := wire.NewSigner(ed25519.NewKeyFromSeed(seed[:]), l.hash)
	a := &actor{l: l, peer: signer.PeerID()}
	a.id = overlay.NodeID(l.network.Name, a.peer)
	payload := wire.Encode(&overlaypb.Record{
		IssuedMs: uint64(l.now.UnixMilli()), Member: true, Addresses: [][]byte{fmt.Append(nil, n)},
	})
	a.raw = signer.Sign(wire.DomainRecord, payload).Raw
	l.actors[a.peer] = a
	a.tell(&overlaypb.Message{Record: a.raw, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1}}})
	if l.run(); l.node.Leaf().Has(a.id) == nil {
		l.t.Fatal("an actor is not in the leaf")
	}
	return a
}

func (a *actor) tell(m *overlaypb.Message) {
	a.l.t.Helper()
	if err := a.l.node.Receive(a.peer, wire.Encode(m)); err != nil {
		a.l.t.Fatal(err)
	}
}

// receive delivers a message of this layer to the node.
func (l *lab) receive(from env.PeerID, m *sumspb.Message) error {
	err := l.s.Receive(from, wire.Encode(m))
	l.run()
	return err
}

func (a *actor) ask(digits uint32, have uint64) {
	if err := a.l.receive(a.peer, &sumspb.Message{Body: &sumspb.Message_Request{Request: &sumspb.Request{Digits: digits, KnownVersion: have}}}); err != nil {
		a.l.t.Fatal(err)
	}
}

func (a *actor) give(g *sumspb.Response) {
	if err := a.l.receive(a.peer, &sumspb.Message{Body: &sumspb.Message_Response{Response: g}}); err != nil {
		a.l.t.Fatal(err)
	}
}

func (a *actor) giveNumber(n uint64) {
	a.give(&sumspb.Response{Version: versionOf(number(n)), Value: number(n)})
}

// answers sets how the actor responds to requests from now on.
func (a *actor) answers(of func(*sumspb.Request) *sumspb.Response) {
	if a.says == nil {
		a.l.answering = append(a.l.answering, a)
	}
	a.says = of
}

// has makes the actor respond with a number.
func (a *actor) has(n uint64) {
	a.answers(func(q *sumspb.Request) *sumspb.Response {
		g := &sumspb.Response{Digits: q.Digits, Version: versionOf(number(n))}
		if g.Version != q.KnownVersion {
			g.Value = number(n)
		}
		return g
	})
}

// asks and gives return and remove the messages that the node has sent to the actor.
func (a *actor) asks() (of []*sumspb.Request) {
	for _, m := range a.heard(func(m *sumspb.Message) bool { return m.GetRequest() != nil }) {
		of = append(of, m.msg.GetRequest())
	}
	return of
}

func (a *actor) gives() []letter {
	return a.heard(func(m *sumspb.Message) bool { return m.GetResponse() != nil })
}

func (a *actor) heard(which func(*sumspb.Message) bool) (of []letter) {
	var others []letter
	for _, s := range a.l.sent {
		if s.to == a.peer && which(s.msg) {
			of = append(of, s)
		} else {
			others = append(others, s)
		}
	}
	a.l.sent = others
	return of
}
