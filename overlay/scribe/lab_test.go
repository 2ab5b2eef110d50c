package scribe

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
	"tidings/overlay/scribe/scribepb"
)

// A lab is one node with a clock that the test moves, and a network that records what is sent. The
// test plays the other nodes as actors, which answer probes and acknowledge routed messages.
type lab struct {
	t       testing.TB
	network wire.Network
	hash    wire.Hash
	now     time.Time
	node    *overlay.Node
	s       *Scribe
	got     []Delivery
	sent    []letter // messages, with the entries of a batch one by one except routed Joins
	batches []letter // batches as they were sent
	routed  []*overlaypb.Route
	asked   []asked
	actors  map[env.PeerID]*actor
}

type letter struct {
	to  env.PeerID
	msg *scribepb.Message
}

type asked struct {
	who  env.PeerID
	what *overlaypb.Message
}

// An actor is another node, played by the test.
type actor struct {
	l      *lab
	signer *wire.Signer
	id     overlay.ID
	peer   env.PeerID
	raw    []byte
}

func newLab(t testing.TB, cfg Config) *lab {
	network := wire.DefaultNetwork("lab")
	l := &lab{
		t:       t,
		network: network,
		hash:    wire.HashOf(network.Descriptor()),
		now:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		actors:  map[env.PeerID]*actor{},
	}
	e := env.Env{Clock: l, Network: l, Store: forgetful{}, Rand: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler)}
	self := wire.NewSigner(ed25519.NewKeyFromSeed(make([]byte, 32)), l.hash)
	verify := wire.NewCachingVerifier(wire.NewVerifier(l.hash), 1<<16)
	l.node = overlay.New(e, self, verify, overlay.Config{Network: network, Founder: true})
	l.s = New(e, l.node, cfg, func(d Delivery) { l.got = append(l.got, d) })
	return l
}

// active makes the node a network of one.
func (l *lab) active() *lab {
	l.node.Reachable([]string{"here"})
	if l.run(); l.node.State() != overlay.Active {
		l.t.Fatalf("the founder is %v", l.node.State())
	}
	return l
}

// A forgetful store keeps nothing.
type forgetful struct{}

func (forgetful) Commit(_ []env.Op, done func(error))              { done(nil) }
func (forgetful) Get([]byte) ([]byte, error)                       { return nil, nil }
func (forgetful) Range([]byte, func(key, value []byte) bool) error { return nil }

func (l *lab) Now() time.Time { return l.now }

func (l *lab) Send(to env.Peer, _ env.Class, frame []byte) {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		l.t.Fatal(err)
	}
	if layer == wire.Scribe {
		m, err := parse(body)
		if err != nil {
			l.t.Fatalf("sent an invalid message: %v", err)
		}
		if m.GetBatch() != nil {
			l.batches = append(l.batches, letter{to.ID, m})
			l.sent = append(l.sent, entriesOf(to.ID, m.GetBatch())...)
			return
		}
		l.sent = append(l.sent, letter{to.ID, m})
		return
	}
	m := &overlaypb.Message{}
	if err := proto.Unmarshal(body, m); err != nil {
		l.t.Fatal(err)
	}
	if r := m.GetRoute(); r != nil {
		l.routed = append(l.routed, r)
		l.asked = append(l.asked, asked{to.ID, m})
	}
	if p := m.GetProbe(); p != nil && !p.Reply {
		l.asked = append(l.asked, asked{to.ID, m})
	}
}

// entriesOf returns the entries of a batch as messages of their own.
func entriesOf(to env.PeerID, b *scribepb.Batch) (of []letter) {
	say := func(m *scribepb.Message) { of = append(of, letter{to, m}) }
	each(b.Prunes, func(i int, g overlay.ID) {
		say(&scribepb.Message{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: g[:], Edge: b.Prunes.Edges[i]}}})
	})
	each(b.Rejects, func(_ int, g overlay.ID) {
		say(&scribepb.Message{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: [][]byte{g[:]}}}})
	})
	each(b.Joins, func(i int, g overlay.ID) {
		say(&scribepb.Message{Body: &scribepb.Message_Join{Join: &scribepb.Join{
			Group: g[:], Record: b.Records[0], Edge: b.Joins.Edges[i], Weight: b.Joins.Weights[i],
		}}})
	})
	each(b.Accepts, func(i int, g overlay.ID) {
		say(&scribepb.Message{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{
			Group: g[:], Record: b.Records[0], Edge: b.Accepts.Edges[i],
		}}})
	})
	each(b.Redirects, func(i int, g overlay.ID) {
		say(&scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{
			Group: g[:], Record: b.Records[b.Redirects.Records[i]],
		}}})
	})
	return of
}

func (l *lab) run() {
	for {
		l.node.Run(l.now)
		next := env.Sooner(l.s.Run(l.now), l.node.Run(l.now))
		all := l.asked
		l.asked = nil
		for _, q := range all {
			if a := l.actors[q.who]; a != nil {
				a.answer(q.what)
			}
		}
		if len(l.asked) == 0 && (next.IsZero() || next.After(l.now)) {
			return
		}
	}
}

// pass advances the clock by d.
func (l *lab) pass(d time.Duration) {
	for end := l.now.Add(d); l.now.Before(end); {
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

// members returns actors that the node knows, those nearest to key first.
func (l *lab) members(count int, key overlay.ID) (of []*actor) {
	for n := range count {
		a := l.actor(n, true)
		a.tellOverlay(&overlaypb.Message{Record: a.raw, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1}}})
		of = append(of, a)
	}
	l.run()
	slices.SortFunc(of, func(a, b *actor) int {
		if overlay.Nearer(key, a.id, b.id) {
			return -1
		}
		return 1
	})
	return of
}

// amid returns a group, its root, another actor nearer to the key than the node, and one farther
// from it.
func (l *lab) amid(of []*actor) (g overlay.ID, root, nearer, farther *actor) {
	for _, root = range of {
		g, nearer, farther = root.of(0), nil, nil
		for _, a := range of {
			switch {
			case a == root:
			case overlay.Nearer(g, a.id, l.node.ID()):
				nearer = a
			default:
				farther = a
			}
		}
		if nearer != nil && farther != nil {
			return g, root, nearer, farther
		}
	}
	l.t.Fatal("the node is never in the midst of the actors")
	return
}

// client returns an actor for which the node acts.
func (l *lab) client(n int) *actor {
	a := l.actor(n, false)
	a.tellOverlay(&overlaypb.Message{Record: a.raw, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1, Attach: true}}})
	l.run()
	return a
}

// own returns the n-th group of which the node is the root.
func (l *lab) own(n int) overlay.ID {
	id := l.node.ID()
	binary.BigEndian.PutUint32(id[28:], uint32(n))
	return id
}

// of returns the n-th group of which an actor is the root.
func (a *actor) of(n int) overlay.ID {
	id := a.id
	binary.BigEndian.PutUint32(id[28:], uint32(n))
	return id
}

func (a *actor) tellOverlay(m *overlaypb.Message) {
	a.l.t.Helper()
	if err := a.l.node.Receive(a.peer, wire.Encode(m)); err != nil {
		a.l.t.Fatal(err)
	}
}

func (a *actor) answer(m *overlaypb.Message) {
	if r := m.GetRoute(); r != nil {
		a.tellOverlay(&overlaypb.Message{Body: &overlaypb.Message_Ack{Ack: &overlaypb.Ack{Id: r.Id, Try: r.Try}}})
		return
	}
	p := m.GetProbe()
	a.tellOverlay(&overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce: p.Nonce, Reply: true, Depth: p.Depth, Digest: p.Digest, Decided: p.Decided,
	}}})
}

// say gives the node a message of this layer.
func (a *actor) say(m *scribepb.Message) error {
	body := wire.Encode(m)
	err := a.l.s.Receive(a.peer, wire.AppendFrame(nil, wire.Scribe, m), body)
	a.l.run()
	return err
}

// route gives the node a message that the actor routes.
func (a *actor) route(key overlay.ID, m *scribepb.Message) {
	a.l.t.Helper()
	a.tellOverlay(&overlaypb.Message{Record: a.raw, Body: &overlaypb.Message_Route{Route: &overlaypb.Route{
		Id: rand.Uint64(), Key: key[:], Layer: uint32(wire.Scribe), Payload: wire.Encode(m),
	}}})
	a.l.run()
}

// heard returns the messages for the actor since the last call.
func (a *actor) heard() (of []*scribepb.Message) {
	a.l.sent = slices.DeleteFunc(a.l.sent, func(s letter) bool {
		if s.to == a.peer {
			of = append(of, s.msg)
		}
		return s.to == a.peer
	})
	return of
}

func (a *actor) join(g overlay.ID, weight uint32, have ...uint64) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: &scribepb.Join{
		Group: g[:], Record: a.raw, Weight: weight, Have: have, Edge: rand.Uint64() | 1,
	}}}
}

// child makes the actor a child with a weight, which it tells when it has the Accept.
func (a *actor) child(g overlay.ID, weight uint32) {
	a.l.t.Helper()
	a.route(g, a.join(g, 0))
	a.weigh(g, weight)
}

// weigh tells the node the actor's weight.
func (a *actor) weigh(g overlay.ID, weight uint32) {
	a.say(&scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{
		First: g[:], Last: g[:], Edges: []*scribepb.Edge{{Group: g[:], Weight: weight}}, Partial: true,
	}}})
}

func (a *actor) accept(g overlay.ID, edge uint64) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{Group: g[:], Record: a.raw, Edge: edge}}}
}

func (a *actor) redirect(g overlay.ID) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: g[:], Record: a.raw}}}
}

func down(g overlay.ID, id uint64, payload string) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Multicast{Multicast: &scribepb.Multicast{Group: g[:], Id: id, Payload: []byte(payload)}}}
}

func publish(g overlay.ID, id uint64, payload string) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{Group: g[:], Id: id, Payload: []byte(payload)}}}
}

// subscribed joins the node to a group of which an actor is the root, and has the actor accept it.
func (l *lab) subscribed(root *actor, g overlay.ID, weight int) {
	l.t.Helper()
	l.s.Join(g, weight)
	l.run()
	if !l.accepted(root, g) {
		l.t.Fatal("has no parent")
	}
}

// accepted has an actor accept the node's last Join for a group, if there is one.
func (l *lab) accepted(by *actor, g overlay.ID) bool {
	j := l.joins(g)
	if len(j) == 0 {
		return false
	}
	by.say(by.accept(g, j[len(j)-1].Edge))
	parent, ok := l.s.Parent(g)
	return ok && parent == by.id
}

// joins returns the routed Joins for a group that the node has sent, those in batches first.
func (l *lab) joins(g overlay.ID) (of []*scribepb.Join) {
	for _, sent := range l.batches {
		b := sent.msg.GetBatch()
		each(b.RoutedJoins, func(i int, id overlay.ID) {
			if id == g {
				of = append(of, &scribepb.Join{
					Group: id[:], Record: b.Records[b.RoutedJoins.Records[i]], Edge: b.RoutedJoins.Edges[i], Weight: b.RoutedJoins.Weights[i],
				})
			}
		})
	}
	for _, r := range l.routed {
		m, err := parse(r.Payload)
		if err != nil {
			l.t.Fatal(err)
		}
		if j := m.GetJoin(); j != nil && overlay.ID(j.Group) == g {
			of = append(of, j)
		}
	}
	return of
}
