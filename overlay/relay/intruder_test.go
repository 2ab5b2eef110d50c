package relay_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
	"tidings/overlay/relay"
	"tidings/overlay/relay/relaypb"
	"tidings/sim"
)

// An intruder is a host that sends any messages of circuits to the members of a small world.
type intruder struct {
	*sim.Host
	env     env.Env
	swarm   *sim.Swarm
	network wire.Hash
	heard   []*relaypb.Message
}

func (*intruder) Run(time.Time) time.Time { return time.Time{} }
func (*intruder) Found(env.Peer)          {}
func (*intruder) Reachable([]string)      {}
func (*intruder) PeerDown(env.PeerID)     {}

func (in *intruder) Receive(_ env.PeerID, frame []byte) error {
	m := &relaypb.Message{}
	if layer, body, err := wire.ParseFrame(frame); err == nil && layer == wire.Relay && proto.Unmarshal(body, m) == nil {
		in.heard = append(in.heard, m)
	}
	return nil
}

// intrude builds a world of a few members and an intruder.
func intrude() *intruder {
	network := wire.DefaultNetwork("sim")
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 5, Topology: sim.Uniform(10 * time.Millisecond)}, Network: network})
	s.Grow(4, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	in := &intruder{Host: s.World.Host(sim.HostConfig{Open: true}), swarm: s, network: wire.HashOf(network.Descriptor())}
	in.Boot(func(e env.Env) env.Node {
		in.env = e
		return in
	})
	return in
}

// target returns the member that receives the messages.
func (in *intruder) target() *sim.Peer { return in.swarm.Peers()[1] }

func (in *intruder) stats() relay.Stats { return in.target().Layers().Relay.Stats() }

// send sends messages to the target and lets them arrive.
func (in *intruder) send(of ...*relaypb.Message) {
	in.Do(func() {
		for _, m := range of {
			in.env.Network.Send(in.target().Peer(), env.Control, wire.AppendFrame(nil, wire.Relay, m))
		}
	})
	in.swarm.World.Run(100 * time.Millisecond)
}

func open(circuit uint64, exit []byte) *relaypb.Message {
	return &relaypb.Message{Body: &relaypb.Message_Open{Open: &relaypb.Open{Circuit: circuit, Exit: exit}}}
}

func data(circuit uint64, size int) *relaypb.Message {
	return &relaypb.Message{Body: &relaypb.Message_Data{Data: &relaypb.Data{Circuit: circuit, Sealed: make([]byte, size)}}}
}

func forward(voucher, frame []byte) *relaypb.Message {
	return &relaypb.Message{Body: &relaypb.Message_Forward{Forward: &relaypb.Forward{Voucher: voucher, Frame: frame}}}
}

// A member has room for so many circuits of one peer, and declines the next. It forgets those that are idle.
func TestAMemberBoundsCircuits(t *testing.T) {
	t.Parallel()
	in := intrude()
	exit := in.swarm.Peers()[2].Layers().Overlay.Self().Raw
	for i := range uint64(70) {
		if i%2 == 0 {
			in.send(open(i, nil))
		} else {
			in.send(open(i, exit))
		}
	}
	opened, closed := 0, 0
	for _, m := range in.heard {
		if m.GetOpened() != nil {
			opened++
		}
		if m.GetClose() != nil {
			closed++
		}
	}
	if st := in.stats(); opened != 64 || closed != 6 || st.Declined != 6 {
		t.Errorf("%d opened, %d closed; %+v", opened, closed, st)
	}
	in.swarm.World.Run(5 * time.Minute)
	if st := in.stats(); st.Circuits != 0 {
		t.Errorf("after five minutes: %+v", st)
	}
	in.heard = nil
	in.send(data(3, 272))
	if len(in.heard) != 1 || in.heard[0].GetClose().GetCircuit() != 3 {
		t.Errorf("a frame of a circuit that is forgotten is answered by %v", in.heard)
	}
}

// A member does not open circuits that lead back, to itself, or to a node that is no member.
func TestCircuitsLeadOn(t *testing.T) {
	t.Parallel()
	in := intrude()
	record := func(key ed25519.PrivateKey, member bool) []byte {
		return wire.NewSigner(key, in.network).Sign(wire.DomainRecord, wire.Encode(&overlaypb.Record{
			Addresses: [][]byte{[]byte(in.Peer().Addrs[0])}, Member: member, IssuedMs: uint64(in.swarm.Now().UnixMilli()),
		})).Raw
	}
	for i, exit := range [][]byte{
		record(in.Key(), true),
		in.target().Layers().Overlay.Self().Raw,
		record(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), false),
	} {
		in.heard = nil
		in.send(open(uint64(i), exit))
		if len(in.heard) != 1 || in.heard[0].GetClose() == nil {
			t.Errorf("circuit %d: %v", i, in.heard)
		}
	}
	if in.send(open(9, []byte("no record"))); in.stats().Garbage != 1 || in.stats().Circuits != 0 {
		t.Errorf("%+v", in.stats())
	}
}

// A circuit carries so many bytes a second, and drops the rest.
func TestCircuitsAreThrottled(t *testing.T) {
	t.Parallel()
	in := intrude()
	in.send(open(1, in.swarm.Peers()[2].Layers().Overlay.Self().Raw))
	const size = 63<<10 + 16
	for range 100 {
		in.send(data(1, size))
	}
	carried := in.stats().Bytes
	if limit := uint64(4<<20 + 11*64<<10); carried > limit || carried < limit*9/10 || in.stats().Throttled == 0 {
		t.Errorf("%+v", in.stats())
	}
	in.swarm.World.Run(10 * time.Second)
	if in.send(data(1, size)); in.stats().Bytes != carried+size {
		t.Errorf("after a pause: %+v", in.stats())
	}
}

// An exit speaks only for guests that have said so, lately and to this exit, and brings frames of few layers.
func TestAnExitSpeaksOnlyForItsGuests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		valid   bool
		voucher func(in *intruder, guest *wire.Signer, v *relaypb.Voucher) []byte
		frame   []byte
	}{
		{"a voucher", true, nil, probe()},
		{"for another exit", false, func(in *intruder, guest *wire.Signer, v *relaypb.Voucher) []byte {
			v.Exit = []byte(in.target().ID())
			return guest.Sign(wire.DomainGuest, wire.Encode(v)).Raw
		}, probe()},
		{"an old one", false, func(_ *intruder, guest *wire.Signer, v *relaypb.Voucher) []byte {
			v.TimeMs -= uint64(61 * time.Minute / time.Millisecond)
			return guest.Sign(wire.DomainGuest, wire.Encode(v)).Raw
		}, probe()},
		{"a forged one", false, func(in *intruder, _ *wire.Signer, v *relaypb.Voucher) []byte {
			victim := in.swarm.Peers()[2].Key().Public().(ed25519.PublicKey)
			return wire.Envelope(victim, wire.Encode(v), make([]byte, ed25519.SignatureSize))
		}, probe()},
		{"an order to poll", false, nil, wire.AppendFrame(nil, wire.Wedge, &overlaypb.Message{})},
		{"another circuit", false, nil, wire.AppendFrame(nil, wire.Relay, open(1, nil))},
		{"no frame", false, nil, []byte("frame")},
	} {
		in := intrude()
		guest := wire.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{9}, ed25519.SeedSize)), in.network)
		v := &relaypb.Voucher{Exit: []byte(in.ID()), TimeMs: uint64(in.swarm.Now().UnixMilli())}
		voucher := guest.Sign(wire.DomainGuest, wire.Encode(v)).Raw
		if c.voucher != nil {
			voucher = c.voucher(in, guest, v)
		}
		in.send(forward(voucher, c.frame))
		answered := slices.ContainsFunc(in.heard, func(m *relaypb.Message) bool {
			return env.PeerID(m.GetReturn().GetGuest()) == guest.PeerID()
		})
		st := in.stats()
		if answered != c.valid || (st.Guests == 1) != c.valid || (st.Garbage+st.Declined == 0) != c.valid {
			t.Errorf("%s: answered %v, %+v", c.what, answered, st)
		}
	}
}

// A reading is the reader's end of a circuit whose exit is the target.
type reading struct {
	*intruder
	circuit      uint64
	encapsulated []byte
	secret       []byte // of the circuit, for vouchers
	sealing      cipher.AEAD
	sent         uint64
}

// read opens a circuit to the target.
func (in *intruder) read(t *testing.T, circuit uint64) *reading {
	t.Helper()
	in.heard = nil
	in.send(open(circuit, nil))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	opened, err := wire.NewVerifier(in.network).Open(wire.DomainRelay, in.heard[0].GetOpened().GetKey())
	must(err)
	key, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(opened.Payload)
	must(err)
	r := &reading{intruder: in, circuit: circuit}
	encapsulated, context, err := hpke.NewSender(key, hpke.HKDFSHA256(), hpke.ExportOnly(), []byte("tidings relay 1"))
	must(err)
	r.encapsulated = encapsulated
	r.secret, err = context.Export("voucher", 32)
	must(err)
	to, err := context.Export("to the exit", 32)
	must(err)
	block, err := aes.NewCipher(to)
	must(err)
	r.sealing, err = cipher.NewGCM(block)
	must(err)
	return r
}

// voucher lets the target speak for a guest in this circuit.
func (r *reading) voucher(guest *wire.Signer) []byte {
	return guest.Sign(wire.DomainGuest, wire.Encode(&relaypb.Voucher{
		Exit: []byte(r.target().ID()), TimeMs: uint64(r.swarm.Now().UnixMilli()), Circuit: r.secret,
	})).Raw
}

// seal returns a sealed frame.
func (r *reading) seal(p *relaypb.Passage) *relaypb.Message {
	plain := wire.Encode(p)
	plain = append(binary.BigEndian.AppendUint32(nil, uint32(len(plain))), plain...)
	size := 1024
	if len(plain) <= 256 {
		size = 256
	}
	plain = append(plain, make([]byte, size-len(plain))...)
	r.sent++
	nonce := binary.BigEndian.AppendUint64(make([]byte, 4), r.sent)
	return &relaypb.Message{Body: &relaypb.Message_Data{Data: &relaypb.Data{
		Circuit: r.circuit, Encapsulated: r.encapsulated, Number: r.sent, Sealed: r.sealing.Seal(nil, nonce, plain, nil),
	}}}
}

func guestOf(in *intruder, n byte) *wire.Signer {
	return wire.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{n}, ed25519.SeedSize)), in.network)
}

func probe() []byte {
	return wire.AppendFrame(nil, wire.Overlay, &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1}}})
}

// All members that a guest talks to see its voucher. None of them can use it in a circuit of its own, and so speak for the
// guest and get what is meant for it.
func TestVouchersCannotBeStolen(t *testing.T) {
	t.Parallel()
	in := intrude()
	guest, other := guestOf(in, 9), in.swarm.Peers()[2].Peer()
	victim := in.read(t, 1)
	voucher := victim.voucher(guest)
	in.send(victim.seal(&relaypb.Passage{Peer: []byte(other.ID), Voucher: voucher, Frame: probe()}))
	if st := in.stats(); st.Exited < 2 || st.Garbage > 0 {
		t.Fatalf("the guest: %+v", st)
	}
	before := in.stats().Exited
	thief := in.read(t, 2)
	in.send(thief.seal(&relaypb.Passage{Peer: []byte(other.ID), Voucher: voucher, Frame: probe()}))
	if st := in.stats(); st.Exited != before || st.Garbage != 1 {
		t.Errorf("the thief: %+v", st)
	}
}

// A middle that repeats a frame makes the exit send nothing.
func TestAnExitSendsAFrameOnce(t *testing.T) {
	t.Parallel()
	in := intrude()
	r := in.read(t, 1)
	m := r.seal(&relaypb.Passage{Peer: []byte(in.swarm.Peers()[2].ID()), Voucher: r.voucher(guestOf(in, 9)), Frame: probe()})
	in.send(m)
	before := in.stats()
	if in.send(m, m, m); before.Exited == 0 || in.stats().Exited != before.Exited || in.stats().Garbage != 3 {
		t.Errorf("%+v, then %+v", before, in.stats())
	}
}

// A stranger can neither make an exit dial any number of addresses nor have it make any number of keys.
func TestAStrangerHasMembersDialFew(t *testing.T) {
	t.Parallel()
	in := intrude()
	r := in.read(t, 1)
	p := &relaypb.Passage{Peer: []byte("nobody"), Addresses: [][]byte{[]byte("address")}, Voucher: r.voucher(guestOf(in, 9)), Frame: probe()}
	for i := range byte(20) {
		var frames []*relaypb.Message
		for j := range byte(100) {
			p.Addresses[0] = []byte{i, j}
			frames = append(frames, r.seal(p))
		}
		in.send(frames...)
	}
	if st := in.stats(); st.Exited < 500 || st.Exited > 540 || st.Exited+st.Throttled != 2000 {
		t.Errorf("%+v", st)
	}
	p.Addresses[0] = []byte{0, 0} // it was dialled before
	before := in.stats().Exited
	if in.send(r.seal(p)); in.stats().Exited != before+1 {
		t.Errorf("an address again: %+v", in.stats())
	}
	in.heard = nil
	for i := range uint64(100) {
		in.send(open(i+2, nil), &relaypb.Message{Body: &relaypb.Message_Close{Close: &relaypb.Close{Circuit: i + 2}}})
	}
	opened := slices.DeleteFunc(in.heard, func(m *relaypb.Message) bool { return m.GetOpened() == nil })
	if len(opened) < 20 || len(opened) > 50 {
		t.Errorf("%d circuits opened in ten seconds", len(opened))
	}
	in.swarm.World.Run(10 * time.Minute)
	in.heard = nil
	in.send(open(1, nil))
	if len(in.heard) != 1 || in.heard[0].GetOpened() == nil {
		t.Errorf("ten minutes later: %v", in.heard)
	}
}

// No exit takes the room that a member has for guests.
func TestAnExitHasSomeGuests(t *testing.T) {
	t.Parallel()
	in := intrude()
	for i := range 300 {
		seed := binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i))
		guest := wire.NewSigner(ed25519.NewKeyFromSeed(seed), in.network)
		v := &relaypb.Voucher{Exit: []byte(in.ID()), TimeMs: uint64(in.swarm.Now().UnixMilli())}
		in.send(forward(guest.Sign(wire.DomainGuest, wire.Encode(v)).Raw, probe()))
	}
	if st := in.stats(); st.Guests != 256 || st.Declined != 44 {
		t.Errorf("%+v", st)
	}
}

// FuzzIntruder sends any messages to a member, which goes on working.
func FuzzIntruder(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Fuzz(func(t *testing.T, story []byte) {
		in := intrude()
		exit := in.swarm.Peers()[2].Layers().Overlay.Self().Raw
		guest := wire.NewSigner(in.Key(), in.network)
		voucher := guest.Sign(wire.DomainGuest, wire.Encode(&relaypb.Voucher{Exit: []byte(in.ID()), TimeMs: uint64(in.swarm.Now().UnixMilli())})).Raw
		var key []byte
		for len(story) >= 3 {
			what, circuit, rest := story[0], uint64(story[1]%4), story[2:]
			n := min(len(rest), int(story[0]))
			body, tail := rest[:n], rest[n:]
			story = tail
			for _, m := range in.heard {
				if o := m.GetOpened(); o != nil {
					key = o.Key
				}
			}
			switch what % 8 {
			case 0:
				in.send(open(circuit, nil))
			case 1:
				in.send(open(circuit, exit))
			case 2:
				in.send(open(circuit, body))
			case 3:
				in.send(&relaypb.Message{Body: &relaypb.Message_Opened{Opened: &relaypb.Opened{Circuit: circuit, Key: key}}})
			case 4:
				m := data(circuit, 272)
				copy(m.GetData().Sealed, body)
				if what >= 128 {
					m.GetData().Encapsulated = append(make([]byte, 32), body...)[len(body):]
				}
				in.send(m)
			case 5:
				in.send(&relaypb.Message{Body: &relaypb.Message_Close{Close: &relaypb.Close{Circuit: circuit}}})
			case 6:
				in.send(forward(voucher, wire.AppendFrame(nil, wire.Layer(1+what>>5), &overlaypb.Message{Record: body})))
			case 7:
				in.send(&relaypb.Message{Body: &relaypb.Message_Return{Return: &relaypb.Return{Guest: []byte(in.ID()), Frame: body}}})
			}
		}
		in.swarm.World.Run(time.Second)
		in.heard = nil
		if in.send(open(77, nil)); !slices.ContainsFunc(in.heard, func(m *relaypb.Message) bool { return m.GetOpened() != nil || m.GetClose() != nil }) && in.stats().Garbage < 5 {
			t.Errorf("the member does not answer: %+v", in.stats())
		}
	})
}
