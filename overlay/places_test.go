package overlay_test

import (
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
	"tidings/sim"
)

// A thief is a node that can be reached, and says that it is where others are. A member in league with it passes the false
// record on.
type thief struct {
	*intruder
	accomplice *intruder
	stolen     []byte // the false record
	id         overlay.ID
}

// intrudeAtAddresses builds a small world of address ids with a thief. The false record is issued after the thief's own
// one by age, which may be negative.
func intrudeAtAddresses(t *testing.T, after time.Duration) *thief {
	network := wire.DefaultNetwork("sim")
	network.IDs = wire.AddressIDs
	in := intrude(network)
	o := &intruder{Host: in.swarm.World.Host(sim.HostConfig{Open: true}), swarm: in.swarm}
	o.signer = wire.NewSigner(o.Key(), wire.HashOf(network.Descriptor()))
	o.Boot(func(e env.Env) env.Node {
		o.env = e
		return o
	})
	o.record = o.sign(o.signer, 0, false) // as a client it has to prove nothing
	th := &thief{intruder: o, accomplice: in}
	th.stolen = o.signer.Sign(wire.DomainRecord, wire.Encode(&overlaypb.Record{
		Addresses: [][]byte{[]byte("\x04\x32\x05\x05\x05\x00\x01")}, Member: true,
		IssuedMs: uint64(in.swarm.Now().Add(after).UnixMilli()),
	})).Raw
	c, err := in.target().Layers().Overlay.OpenRecord(th.stolen)
	if err != nil {
		t.Fatal(err)
	}
	th.id = c.ID
	in.send(probe(in.record)) // the accomplice is a member
	in.swarm.World.Run(time.Second)
	if c := in.target().Layers().Overlay.Contact(in.ID()); c == nil || in.target().Layers().Overlay.Leaf().Has(c.ID) == nil {
		t.Fatal("the accomplice has no place")
	}
	return th
}

func probe(record []byte) *overlaypb.Message {
	return &overlaypb.Message{Record: record, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1, Reply: true}}}
}

// A node that has just spoken as a client, or without a record, gets no place by a record that somebody else shows.
func TestASpeakerHasNotProvenAnotherPlace(t *testing.T) {
	for name, client := range map[string]bool{"as a client": true, "without a record": false} {
		th := intrudeAtAddresses(t, time.Minute)
		var record []byte
		if client {
			record = th.record
		}
		th.send(probe(record))
		th.accomplice.send(&overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Partial: true, Records: [][]byte{th.stolen}}}})
		if th.target().Layers().Overlay.Leaf().Has(th.id) != nil {
			t.Errorf("%s: the thief has a place of others", name)
		}
	}
}

// A lookup does not find a node at a place that it has not proven, although the node answers.
func TestALookupFindsNobodyAtAStolenPlace(t *testing.T) {
	for name, after := range map[string]time.Duration{"the earlier record": -time.Minute, "the later record": time.Minute} {
		th := intrudeAtAddresses(t, after)
		w := th.swarm.World
		th.send(probe(th.record))
		w.Run(5 * time.Second) // the lookup asks members that have not just spoken
		var found *overlay.Lookup
		target := th.target()
		target.Do(func() {
			target.Layers().Overlay.Lookup(th.id, overlay.MaxLookup, func(l overlay.Lookup) { found = &l })
		})
		for range 400 {
			if found != nil {
				break
			}
			w.Run(50 * time.Millisecond)
			th.answer(nil)
			th.accomplice.answer(th.stolen)
		}
		if found == nil || len(found.Nearest) < members {
			t.Fatalf("%s: %+v", name, found)
		}
		for _, c := range found.Nearest {
			if c.ID == th.id {
				t.Errorf("%s: the lookup found the thief", name)
			}
		}
	}
}

// answer answers the questions that an intruder has heard, with a record.
func (in *intruder) answer(record []byte) {
	heard := in.heard
	in.heard = nil
	for _, m := range heard {
		find := m.GetFind()
		if find == nil {
			continue
		}
		r := &overlaypb.Nearby{Nonce: find.Nonce}
		if record != nil {
			r.Records = [][]byte{record}
		}
		reply := &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: r}}
		in.Do(func() {
			in.env.Network.Send(in.target().Peer(), env.Control, wire.AppendFrame(nil, wire.Overlay, reply))
		})
	}
}
