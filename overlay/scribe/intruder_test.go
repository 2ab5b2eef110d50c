package scribe_test

import (
	"crypto/ed25519"
	"flag"
	"fmt"
	"math"
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
	"tidings/sim"
)

// A story is the input of a fuzzer: each choice consumes a byte, and at its end every choice is the
// first.
type story []byte

func (s *story) choose(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func pick[T any](s *story, of ...T) T { return of[s.choose(len(of))] }

// number returns a random-looking number in most cases.
func (s *story) number() uint64 {
	return pick[uint64](s, 1, 0, 2, 64, 65, 255, 1<<16, 1<<31, math.MaxUint32, math.MaxUint64)
}

// An intruder is a host that sends arbitrary messages to one of a few members, which have trees
// among them.
type intruder struct {
	*sim.Host
	env    env.Env
	swarm  *sim.Swarm
	signer *wire.Signer
	record []byte
	groups []overlay.ID
	heard  []*scribepb.Message
}

func (*intruder) Run(time.Time) time.Time { return time.Time{} }
func (*intruder) Found(env.Peer)          {}
func (*intruder) Reachable([]string)      {}
func (*intruder) PeerDown(env.PeerID)     {}

func (in *intruder) Receive(_ env.PeerID, frame []byte) error {
	m := &scribepb.Message{}
	if layer, body, err := wire.ParseFrame(frame); err == nil && layer == wire.Scribe && proto.Unmarshal(body, m) == nil {
		in.heard = append(in.heard, m)
	}
	return nil
}

const members, groups = 5, 6

func intrude() *intruder {
	network := wire.DefaultNetwork("sim")
	network.FanOut = 2
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 6, Topology: sim.Uniform(10 * time.Millisecond)}, Network: network})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	in := &intruder{Host: s.World.Host(sim.HostConfig{Open: true}), swarm: s}
	for i := range groups {
		in.groups = append(in.groups, s.Key(fmt.Sprint(i)))
		for j, p := range s.Peers() {
			if (i+j)%3 > 0 {
				p.JoinGroup(in.groups[i], 1+i)
			}
		}
	}
	s.World.Run(20 * time.Second)
	in.signer = wire.NewSigner(in.Key(), wire.HashOf(network.Descriptor()))
	in.Boot(func(e env.Env) env.Node {
		in.env = e
		return in
	})
	in.record = in.sign(in.signer, true)
	return in
}

func (in *intruder) sign(s *wire.Signer, member bool) []byte {
	payload := wire.Encode(&overlaypb.Record{
		Addresses: [][]byte{[]byte(in.Peer().Addrs[0])}, Member: member, IssuedMs: uint64(in.swarm.Now().UnixMilli()),
	})
	return s.Sign(wire.DomainRecord, payload).Raw
}

func (in *intruder) target() *sim.Peer { return in.swarm.Peers()[1] }

func (in *intruder) send(layer wire.Layer, m proto.Message) {
	if proto.Size(m) > wire.MaxMessage {
		return
	}
	in.Do(func() { in.env.Network.Send(in.target().Peer(), env.Control, wire.AppendFrame(nil, layer, m)) })
	in.swarm.World.Run(50 * time.Millisecond)
}

// introduce makes the intruder known to the target, as a member or as its client.
func (in *intruder) introduce(client bool) {
	record := in.record
	if client {
		record = in.sign(in.signer, false)
	}
	in.send(wire.Overlay, &overlaypb.Message{Record: record, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1, Attach: client}}})
}

// aRecord returns the record of some node, or an invalid one.
func (in *intruder) aRecord(s *story) []byte {
	leaf := in.target().Layers().Overlay.Leaf()
	other := ed25519.NewKeyFromSeed(slices.Repeat([]byte{byte(s.choose(256))}, ed25519.SeedSize))
	switch s.choose(8) {
	case 0, 1:
		return in.record
	case 2:
		return in.sign(in.signer, false)
	case 3, 4:
		return leaf.Members()[s.choose(leaf.Len())].Raw
	case 5:
		return in.sign(wire.NewSigner(other, wire.HashOf([]byte("another network"))), true)
	case 6:
		forged := slices.Clone(in.record)
		forged[s.choose(len(forged))] ^= 1
		return forged
	}
	return make([]byte, pick(s, 0, 1, 1024, 1025))
}

// aGroup returns a group, in most cases one in which the target has a place.
func (in *intruder) aGroup(s *story) []byte {
	switch s.choose(8) {
	case 0, 1, 2, 3:
		return in.groups[s.choose(groups)][:]
	case 4:
		id := in.target().OverlayID()
		id[31] ^= byte(s.choose(256))
		return id[:]
	case 5:
		id := in.swarm.Key(fmt.Sprint("other", s.choose(256)))
		return id[:]
	}
	return make([]byte, pick(s, 32, 0, 31, 33))
}

// anEdge returns an id of an edge or a nonce, in most cases one that the target has used.
func (in *intruder) anEdge(s *story) uint64 {
	for range s.choose(4) {
		if len(in.heard) > 0 {
			m := in.heard[len(in.heard)-1]
			in.heard = in.heard[:len(in.heard)-1]
			for _, n := range []uint64{m.GetJoin().GetEdge(), m.GetAccept().GetEdge(), m.GetPrune().GetEdge(), m.GetHeartbeat().GetNonce(), m.GetMulticast().GetId()} {
				if n != 0 {
					return n
				}
			}
		}
	}
	return s.number()
}

func (in *intruder) someEdges(s *story) (of []uint64) {
	for range pick(s, 1, 0, 3, 64, 65, 1024, 1025) {
		of = append(of, in.anEdge(s))
	}
	return of
}

func (in *intruder) endures(t *testing.T) {
	t.Helper()
	s := in.swarm
	s.World.Run(2 * time.Second)
	in.Crash(false)
	s.World.Run(15 * time.Minute)
	before := s.MulticastStats()
	for i, p := range s.Peers() {
		for _, g := range in.groups {
			s.Publish(p, g, 10+i)
		}
	}
	s.World.Run(6 * time.Minute)
	s.CheckQuiet()
	for _, v := range s.Violations() {
		t.Error(v)
	}
	if m := s.MulticastStats(); m.Delivered-before.Delivered != m.Expected-before.Expected || m.Delivered == 0 {
		t.Errorf("multicast %+v", m)
	}
	for _, p := range s.Peers() {
		if st := p.Layers().Scribe.Stats(); st.Groups > groups || st.Links > members || st.Children > groups*members {
			t.Errorf("host %d has more on its mind than it should: %+v", p.Index(), st)
		}
	}
}

// A kind makes a message of one kind.
type kind func(in *intruder, s *story) *scribepb.Message

var entryKinds = []kind{entryJoin, aPublish, entryAccept, entryRedirect, entryPrune, aMulticast, anAck, aHeartbeat, aHeartbeatAck, anEdgeList, entryReject, anOffer, aBatch}

// tell sends the messages of a story to a member.
func tell(t *testing.T, b []byte, kinds ...kind) {
	s := story(b)
	in := intrude()
	if s.choose(4) > 0 {
		in.introduce(s.choose(3) == 1)
	}
	for range 1 + s.choose(6) {
		if s.choose(3) == 1 { // get an edge first
			g := in.groups[s.choose(groups)]
			in.send(wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Join{Join: &scribepb.Join{
				Group: g[:], Record: in.record, Edge: in.anEdge(&s),
			}}})
		}
		m := kinds[s.choose(len(kinds))](in, &s)
		routed := s.choose(3) == 1
		for i := range pick(&s, 1, 2, 20) {
			if !routed {
				in.send(wire.Scribe, m)
				continue
			}
			key := in.aGroup(&s)
			body := wire.Encode(m)
			in.send(wire.Overlay, &overlaypb.Message{Record: in.record, Body: &overlaypb.Message_Route{Route: &overlaypb.Route{
				Id: uint64(i)<<8 | uint64(s.choose(256)), Key: key, Layer: uint32(wire.Scribe), Payload: body,
			}}})
		}
	}
	in.endures(t)
}

var storiesFlag = flag.Int("stories", 10, "how many stories the members of a small world are told of each kind")

// Trees survive messages of every kind with arbitrary contents, each kind alone and all together,
// and are as before when the intruder is gone.
func TestTreesSurviveArbitraryMessages(t *testing.T) {
	t.Parallel()
	for i := range *storiesFlag {
		b := make([]byte, 300)
		dice := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		dice.Read(b)
		for j, k := range append(slices.Clone(entryKinds), nil) {
			these := entryKinds
			if k != nil {
				these = []kind{k}
			}
			if tell(t, b, these...); t.Failed() {
				t.Fatalf("story %d of kind %d", i, j)
			}
		}
	}
}

func fuzz(f *testing.F, k kind) {
	f.Add([]byte{})
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte("\x02\x05\x00\x01the quick brown fox jumps over the lazy dog and says so to everybody"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) <= 4<<10 {
			tell(t, b, k)
		}
	})
}

func FuzzJoin(f *testing.F) { fuzz(f, entryJoin) }

func entryJoin(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: &scribepb.Join{
		Group: in.aGroup(s), Record: in.aRecord(s), Weight: uint32(s.number()), Have: in.someEdges(s), Edge: in.anEdge(s),
	}}}
}

func FuzzPublish(f *testing.F) { fuzz(f, aPublish) }

// aPublish and aMulticast use no groups of the checkers, which would not know the messages.
func aPublish(in *intruder, s *story) *scribepb.Message {
	id := in.swarm.Key(fmt.Sprint("other", s.choose(256)))
	return &scribepb.Message{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{
		Group: id[:], Id: in.anEdge(s), Payload: make([]byte, pick(s, 0, 1, 56<<10, 56<<10+1)),
	}}}
}

func FuzzAccept(f *testing.F) { fuzz(f, entryAccept) }

func entryAccept(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{
		Group: in.aGroup(s), Record: in.aRecord(s), Edge: in.anEdge(s),
	}}}
}

func FuzzRedirect(f *testing.F) { fuzz(f, entryRedirect) }

func entryRedirect(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: in.aGroup(s), Record: in.aRecord(s)}}}
}

func FuzzPart(f *testing.F) { fuzz(f, entryPrune) }

func entryPrune(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: in.aGroup(s), Edge: in.anEdge(s)}}}
}

func FuzzDown(f *testing.F) { fuzz(f, aMulticast) }

func aMulticast(in *intruder, s *story) *scribepb.Message {
	id := in.swarm.Key(fmt.Sprint("other", s.choose(256)))
	return &scribepb.Message{Body: &scribepb.Message_Multicast{Multicast: &scribepb.Multicast{
		Group: id[:], Id: in.anEdge(s), Payload: make([]byte, pick(s, 0, 1, 56<<10, 56<<10+1)),
	}}}
}

func FuzzGot(f *testing.F) { fuzz(f, anAck) }

func anAck(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: in.someEdges(s)}}}
}

func FuzzBeat(f *testing.F) { fuzz(f, aHeartbeat) }

func aHeartbeat(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{
		Nonce: in.anEdge(s), UpCount: uint32(s.number()), UpDigest: s.number(), PeriodS: uint32(s.number()),
		DownCount: uint32(s.choose(3)), DownDigest: s.number(),
	}}}
}

func FuzzBeatAck(f *testing.F) { fuzz(f, aHeartbeatAck) }

func aHeartbeatAck(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: &scribepb.HeartbeatAck{Nonce: in.anEdge(s), Match: s.choose(2) == 1, PeriodS: uint32(s.number())}}}
}

func FuzzList(f *testing.F) { fuzz(f, anEdgeList) }

func anEdgeList(in *intruder, s *story) *scribepb.Message {
	list := &scribepb.EdgeList{First: make([]byte, 32), Last: slices.Repeat([]byte{255}, 32), Partial: s.choose(2) == 1, Nonce: in.anEdge(s)}
	if s.choose(3) == 1 {
		list.First, list.Last = in.aGroup(s), in.aGroup(s)
	}
	for range pick(s, 1, 0, 3, 12) {
		list.Edges = append(list.Edges, &scribepb.Edge{Group: in.aGroup(s), Weight: uint32(s.number())})
	}
	if s.choose(4) > 0 {
		slices.SortFunc(list.Edges, func(a, b *scribepb.Edge) int { return slices.Compare(a.Group, b.Group) })
		list.Edges = slices.CompactFunc(list.Edges, func(a, b *scribepb.Edge) bool { return slices.Equal(a.Group, b.Group) })
	}
	return &scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: list}}
}

func FuzzDrop(f *testing.F) { fuzz(f, entryReject) }

func entryReject(in *intruder, s *story) *scribepb.Message {
	d := &scribepb.Reject{}
	for range pick(s, 1, 0, 3, 512, 513) {
		d.Groups = append(d.Groups, in.aGroup(s))
	}
	return &scribepb.Message{Body: &scribepb.Message_Reject{Reject: d}}
}

func FuzzOffer(f *testing.F) { fuzz(f, anOffer) }

func anOffer(in *intruder, s *story) *scribepb.Message {
	return &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{
		Group: in.aGroup(s), Room: uint32(s.number()), Reply: s.choose(2) == 1,
	}}}
}

func FuzzBatch(f *testing.F) { fuzz(f, aBatch) }

func aBatch(in *intruder, s *story) *scribepb.Message {
	b := &scribepb.Batch{}
	for range pick(s, 1, 2, 0, 5) {
		b.Records = append(b.Records, in.aRecord(s))
	}
	column := func(edges, weights, records bool) *scribepb.Column {
		c := &scribepb.Column{}
		for range pick(s, 0, 1, 3, 1024) {
			c.Groups = append(c.Groups, in.aGroup(s)...)
			if edges {
				c.Edges = append(c.Edges, in.anEdge(s))
			}
			if weights {
				c.Weights = append(c.Weights, uint32(s.number()))
			}
			if records {
				c.Records = append(c.Records, uint32(s.choose(len(b.Records)+1)))
			}
		}
		return c
	}
	b.Prunes, b.Rejects, b.Joins = column(true, false, false), column(false, false, false), column(true, true, false)
	b.RoutedJoins, b.Accepts, b.Redirects = column(true, true, true), column(true, false, false), column(false, false, true)
	return &scribepb.Message{Body: &scribepb.Message_Batch{Batch: b}}
}
