package overlay

import (
	"fmt"
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// among returns a member that knows some others, and a key for which all of them are nearer than it.
func (l *lab) among(n int) (*Node, []*actor, ID) {
	node := l.member()
	var of []*actor
	for i := range n {
		of = append(of, l.actor(i+1))
		l.say(of[i], probe(&overlaypb.Probe{Nonce: 1}))
	}
	for i := 0; ; i++ {
		key, far := Key("lab", fmt.Sprint(i)), true
		for _, a := range of {
			far = far && Nearer(key, a.contact.ID, node.ID())
		}
		if far {
			return node, of, key
		}
	}
}

// routesTo returns the routed messages that an actor has got, and acknowledges them.
func (l *lab) routesTo(a *actor) (of []*overlaypb.Route) {
	for _, m := range l.heard(a) {
		if r := m.GetRoute(); r != nil {
			of = append(of, r)
			l.say(a, ack(&overlaypb.Ack{Id: r.Id, Try: r.Try}))
		} else if p := m.GetProbe(); p != nil && !p.Reply {
			l.say(a, probe(&overlaypb.Probe{Nonce: p.Nonce, Reply: true, Depth: p.Depth, Digest: p.Digest, Decided: p.Decided}))
		}
	}
	return of
}

// A receipt counts only if the node that it names has signed it, or has sent it itself.
func TestReceiptsOfOthersAreNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		believed bool
		forge    func(a *overlaypb.Ack, hop, root *actor, key ID)
	}{
		"unsigned": {false, func(*overlaypb.Ack, *actor, *actor, ID) {}},
		"signed": {true, func(a *overlaypb.Ack, _, root *actor, key ID) {
			a.Record, a.Signature = root.contact.Raw, root.signer.Signature(wire.DomainReceipt, receiptBytes(a.Id, key))
		}},
		"signed by the hop": {false, func(a *overlaypb.Ack, hop, root *actor, key ID) {
			a.Record, a.Signature = root.contact.Raw, hop.signer.Signature(wire.DomainReceipt, receiptBytes(a.Id, key))
		}},
		"signed by the hop, with its record": {false, func(a *overlaypb.Ack, hop, _ *actor, key ID) {
			a.Record, a.Signature = hop.contact.Raw, hop.signer.Signature(wire.DomainReceipt, receiptBytes(a.Id, key))
		}},
		"of another message": {false, func(a *overlaypb.Ack, _, root *actor, key ID) {
			a.Record, a.Signature = root.contact.Raw, root.signer.Signature(wire.DomainReceipt, receiptBytes(a.Id+1, key))
		}},
		"of another key": {false, func(a *overlaypb.Ack, hop, root *actor, _ ID) {
			a.Record, a.Signature = root.contact.Raw, root.signer.Signature(wire.DomainReceipt, receiptBytes(a.Id, hop.contact.ID))
		}},
		"of a client near the key": {false, func(a *overlaypb.Ack, _, root *actor, key ID) {
			c := newRecord("lab", root.signer, nil, time.Unix(1, 0), false)
			a.Record, a.Signature = c.Raw, root.signer.Signature(wire.DomainReceipt, receiptBytes(a.Id, key))
		}},
		"of the hop itself": {true, func(a *overlaypb.Ack, hop, _ *actor, _ ID) { a.Root = hop.contact.ID[:] }},
	} {
		l := newLab(t)
		n, hops, key := l.among(1)
		root := l.actor(2)
		for i := 3; !Nearer(key, root.contact.ID, hops[0].contact.ID); i++ {
			root = l.actor(i)
		}
		done := 0
		n.Route(inboxLayer, key, nil, func(Receipt, bool) { done++ })
		a := &overlaypb.Ack{Id: l.routesTo(hops[0])[0].Id, Receipt: true, Root: root.contact.ID[:], Hops: 2}
		c.forge(a, hops[0], root, key)
		l.say(hops[0], ack(a))
		if st := n.Stats(); (done == 1) != c.believed || (st.Unbelieved == 0) != c.believed {
			t.Errorf("%s: done %d times, %+v", name, done, st)
		}
	}
}

// The tries of one message go to different next hops, and so do messages with the same payload, which
// a layer sends again because the first one had no effect. The third is preceded by a lookup.
func TestTriesGoDifferentWays(t *testing.T) {
	for _, again := range []bool{false, true} {
		l := newLab(t)
		n, hops, key := l.among(4)
		first := map[int]bool{} // hops that got a message
		route := func() {
			n.RouteToAny(inboxLayer, key, []byte("join"), func(Receipt, bool) {})
		}
		route()
		ways := 0
		for range 10 {
			for i, a := range hops {
				for _, r := range l.routesTo(a) {
					if first[i] && n.Stats().Checked == 0 {
						t.Errorf("again %v: hop %d twice", again, i)
					}
					if first[i] = true; again { // it lies
						l.say(a, ack(&overlaypb.Ack{Id: r.Id, Receipt: true, Root: a.contact.ID[:], Hops: 1}))
					}
					if ways++; again && ways < 3 {
						route()
					}
				}
			}
			l.pass(3 * time.Second)
		}
		if len(first) < 2 || n.Stats().Checked != 1 {
			t.Errorf("again %v: %d ways, %d hops, %d lookups", again, ways, len(first), n.Stats().Checked)
		}
	}
}
