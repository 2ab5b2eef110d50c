package overlay

import (
	"crypto/ed25519"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// A lab runs one node with a clock that the test moves, a network that records what is sent,
// and a store in memory.
type lab struct {
	t       testing.TB
	network wire.Network
	hash    wire.Hash
	now     time.Time
	node    *Node
	sent    []letter
	records map[string][]byte
}

type letter struct {
	to  env.PeerID
	msg *overlaypb.Message
}

func newLab(t testing.TB) *lab {
	network := wire.DefaultNetwork("lab")
	return &lab{
		t:       t,
		network: network,
		hash:    wire.HashOf(network.Descriptor()),
		now:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		records: map[string][]byte{},
	}
}

// boot starts the node as a founder that has not been dialled back yet.
func (l *lab) boot() *Node {
	e := env.Env{Clock: l, Network: l, Store: l, Rand: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler)}
	l.node = New(e, l.actor(0).signer, wire.NewCachingVerifier(wire.NewVerifier(l.hash), 1<<16), Config{Network: l.network, Founder: true})
	l.run()
	return l.node
}

// member starts a node that is a network of its own.
func (l *lab) member() *Node {
	l.boot()
	l.node.Reachable([]string{"here"})
	l.run()
	if l.node.State() != Active {
		l.t.Fatalf("the founder is %v", l.node.State())
	}
	return l.node
}

func (l *lab) Now() time.Time { return l.now }

func (l *lab) Send(to env.Peer, _ env.Class, frame []byte) {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil || layer != wire.Overlay {
		l.t.Fatalf("sent a frame of layer %d: %v", layer, err)
	}
	m, err := parse(body)
	if err != nil {
		l.t.Fatalf("sent an invalid frame: %v", err)
	}
	l.sent = append(l.sent, letter{to.ID, m})
}

func (l *lab) Commit(ops []env.Op, done func(error)) {
	for _, op := range ops {
		if op.Value == nil {
			delete(l.records, string(op.Key))
		} else {
			l.records[string(op.Key)] = op.Value
		}
	}
	done(nil)
}

func (l *lab) Get(key []byte) ([]byte, error) { return l.records[string(key)], nil }

func (l *lab) Range(prefix []byte, each func(key, value []byte) bool) error {
	var keys []string
	for k := range l.records {
		if strings.HasPrefix(k, string(prefix)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if !each([]byte(k), l.records[k]) {
			break
		}
	}
	return nil
}

func (l *lab) run() {
	for next := l.node.Run(l.now); !next.IsZero() && !next.After(l.now); {
		next = l.node.Run(l.now)
	}
}

// pass lets time pass.
func (l *lab) pass(d time.Duration) {
	for end := l.now.Add(d); ; {
		next := l.node.Run(l.now)
		if next.IsZero() || next.After(end) {
			l.now = end
			l.run()
			return
		}
		if next.After(l.now) {
			l.now = next
		}
	}
}

// An actor is another node, played by the test.
type actor struct {
	signer  *wire.Signer
	contact *Contact // as a member
}

// actor returns the n-th actor; the node itself is actor 0.
func (l *lab) actor(n int) *actor {
	a := &actor{signer: wire.NewSigner(l.key(n), l.hash)}
	a.contact = newRecord(l.network.Name, a.signer, []string{"there"}, l.now, true)
	return a
}

func (l *lab) key(n int) ed25519.PrivateKey {
	var seed [ed25519.SeedSize]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n))
	return ed25519.NewKeyFromSeed(seed[:])
}

func (a *actor) id() env.PeerID { return a.contact.Peer.ID }

// actorsNear returns actors whose ids share exactly `bits` bits with id.
func (l *lab) actorsNear(id ID, bits, count int) (actors []*actor) {
	for n := 1; len(actors) < count; n++ {
		if a := l.actor(n + 1000*bits); a.contact.ID.Common(id) == bits {
			actors = append(actors, a)
		}
	}
	return actors
}

// client returns an actor's record as a client.
func (l *lab) client(a *actor) *Contact {
	return newRecord(l.network.Name, a.signer, nil, l.now, false)
}

// say delivers a message of an actor to the node, with the actor's record.
func (l *lab) say(a *actor, m *overlaypb.Message) error {
	l.t.Helper()
	if m.Record == nil {
		m.Record = a.contact.Raw
	}
	err := l.node.Receive(a.id(), wire.Encode(m))
	l.run()
	return err
}

// heard returns and removes the messages that the node has sent to an actor.
func (l *lab) heard(a *actor) (of []*overlaypb.Message) {
	l.sent = slices.DeleteFunc(l.sent, func(s letter) bool {
		if s.to == a.id() {
			of = append(of, s.msg)
		}
		return s.to == a.id()
	})
	return of
}

// answers makes an actor answer the probes sent to it as a member that agrees with the node
// about the leaf. It returns the number of probes.
func (l *lab) answers(a *actor) (probes int) {
	for _, m := range l.heard(a) {
		if p := m.GetProbe(); p != nil && !p.Reply {
			probes++
			l.say(a, probe(&overlaypb.Probe{Nonce: p.Nonce, Reply: true, Depth: p.Depth, Digest: p.Digest, Decided: p.Decided}))
		}
	}
	return probes
}

func probe(p *overlaypb.Probe) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: p}}
}

func route(r *overlaypb.Route) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Route{Route: r}}
}

func ack(a *overlaypb.Ack) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Ack{Ack: a}}
}

// An inbox is an application that keeps what is delivered.
type inbox struct {
	got  []string
	gone []env.PeerID
}

const inboxLayer wire.Layer = 200

func (b *inbox) Forward(*Message) bool  { return false }
func (b *inbox) Deliver(m *Message)     { b.got = append(b.got, string(m.Payload)) }
func (b *inbox) PeerGone(id env.PeerID) { b.gone = append(b.gone, id) }
func (b *inbox) LeafChanged()           {}
