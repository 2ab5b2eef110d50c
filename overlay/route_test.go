package overlay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/overlay/overlaypb"
)

// A hop that has dropped a message recognises the retry of its origin, and forwards its
// payload.
func TestDroppedMessageIsForwardedWhenRetried(t *testing.T) {
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(origin, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	key := Key("lab", "key")
	for i := 0; !Nearer(key, root.contact.ID, n.ID()) || !Nearer(key, root.contact.ID, origin.contact.ID); i++ {
		key = Key("lab", fmt.Sprint(i))
	}
	r := &overlaypb.Route{Id: 7, Key: key[:], Layer: uint32(inboxLayer), Payload: []byte("news")}
	l.heard(root)
	l.say(origin, route(proto.Clone(r).(*overlaypb.Route)))
	for range 30 { // the root is alive but takes no message over
		l.pass(time.Second)
		l.answers(root)
		l.answers(origin)
	}
	if n.routes.payloadBytes != 0 {
		t.Errorf("%d bytes of payload are kept without use", n.routes.payloadBytes)
	}
	r.Try = 1
	l.heard(root)
	l.say(origin, route(r))
	got := l.heard(root)
	i := slices.IndexFunc(got, func(m *overlaypb.Message) bool { return m.GetRoute() != nil })
	if i < 0 || string(got[i].GetRoute().Payload) != "news" || got[i].GetRoute().Try != 1 {
		t.Errorf("passed on: %v", got)
	}
}

// A receipt that arrives while the message waits for its retry cancels the retry.
func TestReceiptCancelsTheRetry(t *testing.T) {
	l := newLab(t)
	n := l.member()
	box := &inbox{}
	n.Handle(inboxLayer, box)
	done := 0
	root := l.actor(1)
	rs := &routeState{id: 9, msg: Message{Key: root.contact.ID, Layer: inboxLayer, Payload: []byte("x")}, done: func(Receipt, bool) { done++ }, deadline: l.now.Add(time.Minute)}
	n.router.add(rs, l.now)
	n.hold(rs)
	l.say(root, ack(&overlaypb.Ack{Id: 9, Receipt: true, Root: root.contact.ID[:]}))
	n.release()
	l.pass(10 * time.Second)
	if done != 1 || len(box.got) != 0 || len(n.held) != 0 || n.routes.payloadBytes != 0 {
		t.Errorf("done %d times, delivered %q, %d held", done, box.got, len(n.held))
	}
}

// A receipt says which attempt the root took, at the origin and at hops on the way, even if a
// later attempt has been sent since.
func TestReceiptNamesTheAttempt(t *testing.T) {
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(origin, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	key := root.contact.ID
	for _, attempt := range []uint32{0, 1} {
		var got []Receipt
		n.Route(inboxLayer, key, nil, func(r Receipt, ok bool) { got = append(got, r) })
		var sent *overlaypb.Route
		for sent == nil || sent.Try < 1 {
			l.pass(time.Second)
			for _, m := range l.heard(root) {
				if m.GetRoute() != nil {
					sent = m.GetRoute()
					l.say(root, ack(&overlaypb.Ack{Id: sent.Id, Try: sent.Try}))
				}
			}
		}
		l.say(root, ack(&overlaypb.Ack{Id: sent.Id, Try: attempt, Receipt: true, Root: key[:], Hops: 1}))
		if len(got) != 1 || got[0] != (Receipt{Root: key, Hops: 1, Try: int(attempt)}) {
			t.Errorf("attempt %d: %+v", attempt, got)
		}

		id := uint64(7 + attempt)
		for try := range uint32(2) {
			l.say(origin, route(&overlaypb.Route{Id: id, Try: try, Key: key[:], Layer: uint32(inboxLayer)}))
		}
		l.heard(origin)
		l.say(root, ack(&overlaypb.Ack{Id: id, Try: attempt, Receipt: true, Root: key[:]}))
		if back := l.heard(origin); len(back) != 1 || back[0].GetAck().GetTry() != attempt {
			t.Errorf("attempt %d: passed back: %v", attempt, back)
		}
	}
}

// A message held at a node that does not become a member is dropped with its payload.
func TestMessageHeldTooLongIsDropped(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	a := l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	key := ID{1}
	for id := range uint64(10) {
		l.say(a, route(&overlaypb.Route{Id: id, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, MaxPayload)}))
	}
	if n.routes.payloadBytes != 10*MaxPayload {
		t.Fatalf("%d bytes are held", n.routes.payloadBytes)
	}
	l.pass(2 * hopLimit)
	if n.routes.payloadBytes != 0 || n.stats.Dropped != 10 {
		t.Errorf("%d bytes are left, %d messages dropped", n.routes.payloadBytes, n.stats.Dropped)
	}
}

// A message that cannot be held is dropped with its payload, and handled when it is retried.
func TestMessageThatCannotBeHeldIsDropped(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	a := l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	key := ID{1}
	for id := range uint64(maxHeld + 10) {
		l.say(a, route(&overlaypb.Route{Id: id, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, 100)}))
	}
	if n.routes.payloadBytes != maxHeld*100 || n.stats.Dropped != 10 || len(n.held) != maxHeld {
		t.Errorf("%d bytes are kept, %d messages held, %d dropped", n.routes.payloadBytes, len(n.held), n.stats.Dropped)
	}
	n.unhold(n.held[0])
	l.say(a, route(&overlaypb.Route{Id: maxHeld, Try: 1, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, 100)}))
	if last := n.held[len(n.held)-1]; last.id != maxHeld || len(last.msg.Payload) != 100 {
		t.Errorf("message %d was held last, with %d bytes", last.id, len(last.msg.Payload))
	}
}

// A hop keeps a payload until the next hop has taken it over, and at most maxPayloadBytes in
// total. It forgets a message after routeMemory.
func TestPayloadsOfOthersAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(origin, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	key := root.contact.ID
	send := func(id uint64) {
		l.sent = nil
		l.say(origin, route(&overlaypb.Route{Id: id, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, MaxPayload)}))
	}
	const many = 2 * maxPayloadBytes / MaxPayload
	for id := range uint64(many) {
		send(id)
	}
	if n.routes.payloadBytes > maxPayloadBytes+MaxPayload || n.stats.Dropped < many/2-2 {
		t.Errorf("keeps %d bytes, dropped %d messages", n.routes.payloadBytes, n.stats.Dropped)
	}
	load := n.routes.payloadBytes
	for id := range uint64(10) {
		l.say(root, ack(&overlaypb.Ack{Id: id}))
	}
	if n.routes.payloadBytes != load-10*MaxPayload {
		t.Errorf("after ten were taken over, %d bytes are left of their payloads", n.routes.payloadBytes-load+10*MaxPayload)
	}
	l.pass(2 * routeMemory)
	if n.routes.payloadBytes != 0 || n.Stats().Passages != 0 {
		t.Errorf("at the end %d bytes in %d messages are kept", n.routes.payloadBytes, n.Stats().Passages)
	}
}

// A message of which the sender is the root goes to nobody, and nothing of it is kept.
func TestAMessageToItselfLeavesNothing(t *testing.T) {
	l := newLab(t)
	n := l.member()
	expiries, delivered := len(n.routes.expiries), 0
	for i := range 100 {
		n.Route(inboxLayer, n.ID(), []byte{byte(i)}, func(_ Receipt, ok bool) {
			if ok {
				delivered++
			}
		})
	}
	if delivered != 100 || len(n.routes.byID) != 0 || len(n.routes.expiries) != expiries {
		t.Errorf("%d delivered, %d kept, %d to be forgotten", delivered, len(n.routes.byID), len(n.routes.expiries)-expiries)
	}
}

// Unknown fields of a receipt are not forwarded, so that it cannot exceed a frame on its way
// back.
func TestReceiptIsForwardedWithoutUnknownFields(t *testing.T) {
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(origin, route(&overlaypb.Route{Id: 7, Key: root.contact.ID[:], Layer: uint32(inboxLayer)}))
	n.peers.get(origin.id()).knowsMe = false
	a := &overlaypb.Ack{Id: 7, Receipt: true, Root: root.contact.ID[:]}
	a.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, 64<<10-400)))
	l.heard(origin)
	l.say(root, &overlaypb.Message{Body: &overlaypb.Message_Ack{Ack: a}})
	got := l.heard(origin)
	if len(got) != 1 || !got[0].GetAck().GetReceipt() || proto.Size(got[0]) > 1000 {
		t.Errorf("%d messages for the origin", len(got))
	}
}
