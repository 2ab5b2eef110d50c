package overlay_test

import (
	"crypto/ed25519"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
	"tidings/sim"
)

// A story is the fuzzer's input. Each choice consumes one byte, and after the last byte every
// choice is the first.
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

// number is usually a boundary value.
func (s *story) number() uint64 {
	return pick[uint64](s, 1, 0, 2, 7, 63, 64, 255, 256, 1<<16-1, 1<<16, 1<<31, math.MaxUint32, 1<<63, math.MaxUint64)
}

// An intruder is a host that sends arbitrary messages to the members of a small world.
type intruder struct {
	*sim.Host
	env    env.Env
	swarm  *sim.Swarm
	signer *wire.Signer
	record []byte
	heard  []*overlaypb.Message
}

func (*intruder) Run(time.Time) time.Time { return time.Time{} }
func (*intruder) Found(env.Peer)          {}
func (*intruder) Reachable([]string)      {}
func (*intruder) PeerDown(env.PeerID)     {}

func (in *intruder) Receive(_ env.PeerID, frame []byte) error {
	m := &overlaypb.Message{}
	if layer, body, err := wire.ParseFrame(frame); err == nil && layer == wire.Overlay && proto.Unmarshal(body, m) == nil {
		in.heard = append(in.heard, m)
	}
	return nil
}

const members = 4

// intrude builds a world of a few members and an intruder.
func intrude(network wire.Network) *intruder {
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 5, Topology: sim.Uniform(10 * time.Millisecond)}, Network: network})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	in := &intruder{Host: s.World.Host(sim.HostConfig{Open: true}), swarm: s}
	in.signer = wire.NewSigner(in.Key(), wire.HashOf(network.Descriptor()))
	in.Boot(func(e env.Env) env.Node {
		in.env = e
		return in
	})
	in.record = in.sign(in.signer, 0, true)
	return in
}

func (in *intruder) sign(s *wire.Signer, age time.Duration, member bool) []byte {
	payload := wire.Encode(&overlaypb.Record{
		Addresses: [][]byte{[]byte(in.Peer().Addrs[0])}, Member: member,
		IssuedMs: uint64(in.swarm.Now().Add(-age).UnixMilli()),
	})
	return s.Sign(wire.DomainRecord, payload).Raw
}

// target returns the member that receives the messages.
func (in *intruder) target() *sim.Peer { return in.swarm.Peers()[1] }

// send sends a message to the target and lets it arrive.
func (in *intruder) send(m *overlaypb.Message) {
	body := wire.Encode(m)
	if len(body) > wire.MaxMessage {
		return
	}
	in.Do(func() {
		in.env.Network.Send(in.target().Peer(), env.Control, wire.AppendFrame(nil, wire.Overlay, m))
	})
	in.swarm.World.Run(50 * time.Millisecond)
}

// aRecord returns a valid, outdated, forged or meaningless record.
func (in *intruder) aRecord(s *story) []byte {
	other := func(n byte, network wire.Hash) *wire.Signer {
		return wire.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{n}, ed25519.SeedSize)), network)
	}
	own := in.target().Layers().Overlay
	switch s.choose(10) {
	case 0:
		return in.record
	case 1:
		return in.sign(in.signer, 0, false) // a client
	case 2:
		return in.sign(in.signer, time.Hour, true)
	case 3:
		return in.sign(in.signer, -1000*time.Hour, true)
	case 4:
		return own.Self().Raw
	case 5:
		return own.Leaf().Members()[s.choose(own.Leaf().Len())].Raw
	case 6:
		return in.sign(other(byte(s.choose(256)), wire.HashOf(wire.DefaultNetwork("sim").Descriptor())), 0, true)
	case 7:
		return in.sign(other(1, wire.HashOf([]byte("another network"))), 0, true)
	case 8:
		forged := slices.Clone(in.record)
		forged[s.choose(len(forged))] ^= 1
		return forged
	}
	return make([]byte, pick(s, 0, 1, 1024, 1025))
}

func (in *intruder) someRecords(s *story) (of [][]byte) {
	for range pick(s, 1, 0, 2, 16, 17, 40, 256, 257) {
		of = append(of, in.aRecord(s))
	}
	return of
}

// aKey is usually an id.
func (in *intruder) aKey(s *story) []byte {
	id := overlay.NodeID("sim", in.ID())
	switch s.choose(8) {
	case 0:
		return id[:]
	case 1:
		id = in.target().OverlayID()
		return id[:]
	case 2:
		id = in.target().OverlayID()
		id[pick(s, 0, 1, 31)] ^= byte(1 + s.choose(255))
		return id[:]
	case 3:
		id = in.swarm.Peers()[s.choose(members)].OverlayID()
		return id[:]
	case 4, 5:
		id = in.swarm.Key(string(rune(s.choose(256))))
		return id[:]
	}
	return make([]byte, pick(s, 32, 0, 31, 33))
}

// aNonce is usually one that the target waits for.
func (in *intruder) aNonce(s *story) uint64 {
	for range s.choose(4) {
		if len(in.heard) > 0 {
			m := in.heard[len(in.heard)-1]
			in.heard = in.heard[:len(in.heard)-1]
			for _, n := range []uint64{m.GetProbe().GetNonce(), m.GetFind().GetNonce(), m.GetRoute().GetId(), m.GetAck().GetId()} {
				if n != 0 {
					return n
				}
			}
		}
	}
	return s.number()
}

// endures lets the world settle after the intruder is gone, and checks that its members form
// the same network and keep no more state than before.
func (in *intruder) endures(t *testing.T) {
	t.Helper()
	s := in.swarm
	s.World.Run(2 * time.Second)
	in.Crash(false)
	s.World.Run(15 * time.Minute)
	for i, p := range s.Peers() {
		for j := range 8 {
			s.Route(p, s.Key(string(rune('a'+8*i+j))))
		}
	}
	s.World.Run(3 * time.Minute)
	s.CheckQuiet()
	for _, v := range s.Violations() {
		t.Error(v)
	}
	if r := s.RouteStats(); r.Acked != 8*members {
		t.Errorf("of %d messages %d were acknowledged", 8*members, r.Acked)
	}
	for _, p := range s.Peers() {
		if st := p.Layers().Overlay.Stats(); st.Peers > members+40 || st.Passages > 100 || st.Leaf != members || st.Clients > 0 {
			t.Errorf("host %d keeps more state than it should: %+v", p.Index(), st)
		}
	}
}

// aTime is usually a time near now, or an extreme.
func (in *intruder) aTime(s *story) uint64 {
	now := uint64(in.swarm.Now().UnixMilli())
	return pick(s, now, 0, now-1, now+1, now+60_000, now+3_600_000, math.MaxUint64)
}
