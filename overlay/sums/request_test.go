package sums

import (
	"errors"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/sums/sumspb"
)

// A new member of the leaf is asked at once, and again until it answers, three times at most.
func TestPartIsAskedAgain(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	if got := a.asks(); len(got) != 1 || got[0].Digits != 0 || got[0].KnownVersion != 0 {
		t.Fatalf("asked %v", got)
	}
	if _, complete := l.s.Remote(); complete {
		t.Error("the sum is complete without an answer")
	}
	l.advance(2 * responseTimeout)
	if got := a.asks(); len(got) != maxTries-1 {
		t.Errorf("asked %d more times", len(got))
	}
	a.giveNumber(7)
	if sum, complete := l.s.Remote(); l.rest() != 7 || !complete {
		t.Errorf("the sum of others is %v, complete: %v", sum, complete)
	}
	a.giveNumber(8) // not asked for
	if l.rest() != 7 {
		t.Errorf("the sum of others is %v", l.rest())
	}
}

// Every round requests all parts, and the version in a response confirms an unchanged value.
// Without confirmation a value is kept for a while.
func TestSameValueIsNotSentAgain(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	a.has(7)
	l.advance(time.Minute)
	const maintenance = 10 * time.Minute // the default
	same := 0
	a.answers(func(q *sumspb.Request) *sumspb.Response {
		if q.KnownVersion != versionOf(number(7)) {
			t.Errorf("asked %v", q)
		}
		same++
		return &sumspb.Response{Version: q.KnownVersion}
	})
	if l.advance(6 * maintenance); l.rest() != 7 || same < 4 {
		t.Errorf("the sum of others is %d; asked %d times", l.rest(), same)
	}
	a.answers(func(*sumspb.Request) *sumspb.Response { return &sumspb.Response{Version: 99} }) // as if its last value had been another one
	if l.advance(maintenance); l.rest() != 7 {
		t.Errorf("soon after a value was not confirmed the sum of others is %d", l.rest())
	}
	if l.advance(5 * maintenance); l.rest() != 0 {
		t.Errorf("long after the sum of others is %d", l.rest())
	}
}

func TestOwnValueIsSent(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	a.ask(0, 0)
	if g := a.gives(); len(g) != 1 || len(g[0].msg.GetResponse().Value) != 0 || g[0].msg.GetResponse().Version != versionOf(nil) {
		t.Errorf("before there is a value: %v", g)
	}
	if err := l.s.Set(number(5)); err != nil {
		t.Fatal(err)
	}
	a.ask(0, 0)
	a.ask(0, versionOf(number(5)))
	g := a.gives()
	if len(g) != 2 || string(g[0].msg.GetResponse().Value) != string(number(5)) || g[0].class != env.Bulk ||
		len(g[1].msg.GetResponse().Value) != 0 || g[1].msg.GetResponse().Version != versionOf(number(5)) || g[1].class != env.Control {
		t.Errorf("gave %v", g)
	}
	if l.s.Set(make([]byte, MaxValue+1)) == nil {
		t.Error("a value larger than MaxValue is accepted")
	}
}

// A sum is not sent before all its parts have answered; a part that is silent for a minute is
// left out.
func TestIncompleteSumIsNotSent(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	a.giveNumber(7)
	whole := uint32(l.node.ID().Common(b.id) / 4) // digits that b shares, too
	early := func() bool {
		a.ask(whole, 0)
		g := a.gives()
		return len(g) == 1 && g[0].msg.GetResponse().Incomplete
	}
	if whole == 0 {
		whole = 1 // b shares none, so it is no part of the sum
		if early() {
			t.Error("the sum is incomplete because of a part that does not belong to it")
		}
		return
	}
	if !early() {
		t.Error("the sum is complete before its part has answered")
	}
	l.advance(newPartGrace)
	if early() {
		t.Error("the sum stays incomplete for ever")
	}
}

// A value that the Adder refuses does not count; the last accepted one does.
func TestRefusedValue(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	a.has(7)
	l.advance(time.Minute)
	a.has(101)
	l.advance(15 * time.Minute)
	if st := l.s.Stats(); l.rest() != 7 || st.Refused == 0 {
		t.Errorf("%d, %+v", l.rest(), st)
	}
	a.has(100)
	if l.advance(15 * time.Minute); l.rest() != 100 {
		t.Errorf("a good value does not count after a bad one: %d", l.rest())
	}
}

// The bytes of kept values are bounded.
func TestRoomForValues(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	a.has(7)
	l.advance(time.Minute)
	l.s.keptBytes += maxKeptBytes - 12 // as if other parts had values
	b.has(9)
	a.has(8) // replaces a value of the same size
	l.advance(15 * time.Minute)
	if st := l.s.Stats(); l.rest() != 8 || st.Refused == 0 || st.KeptBytes > maxKeptBytes {
		t.Errorf("%d, %+v", l.rest(), st)
	}
}

// Requests beyond maxRequests a minute are not answered.
func TestFlood(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	for range 10 * maxRequests {
		a.ask(0, 0)
	}
	b.ask(0, 0)
	if n, m := len(a.gives()), len(b.gives()); n != maxRequests || m != 1 || l.s.Stats().Flooded != 9*maxRequests {
		t.Errorf("%d and %d answers, %+v", n, m, l.s.Stats())
	}
	l.advance(time.Minute)
	if a.ask(0, 0); len(a.gives()) != 1 {
		t.Error("requests are still dropped a minute later")
	}
}

// Messages that violate a bound are garbage.
func TestGarbage(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	for _, m := range []*sumspb.Message{
		{},
		{Body: &sumspb.Message_Request{Request: &sumspb.Request{Digits: overlay.Digits + 1}}},
		{Body: &sumspb.Message_Response{Response: &sumspb.Response{Digits: overlay.Digits + 1}}},
		{Body: &sumspb.Message_Response{Response: &sumspb.Response{Value: make([]byte, MaxValue+1)}}},
		{Body: &sumspb.Message_Response{Response: &sumspb.Response{Value: number(1), Version: 1}}},
		{Body: &sumspb.Message_Response{Response: &sumspb.Response{Incomplete: true, Value: number(1), Version: versionOf(number(1))}}},
	} {
		if err := l.receive(a.peer, m); !errors.Is(err, env.ErrFrame) {
			t.Errorf("%v: %v", m, err)
		}
	}
	if st := l.s.Stats(); st.Garbage != 6 || l.rest() != 0 {
		t.Errorf("%+v", st)
	}
}

// A dead member does not count.
func TestDeadMemberDoesNotCount(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	a.has(7)
	b.has(9)
	if l.advance(time.Minute); l.rest() != 16 {
		t.Fatalf("the sum of others is %d", l.rest())
	}
	a.dead = true
	l.advance(3 * time.Minute)
	if l.node.Leaf().Has(a.id) != nil || l.rest() != 9 {
		t.Errorf("the sum of others is %d", l.rest())
	}
}

// FuzzReceive sends arbitrary messages from a member and from a stranger.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x01}, uint8(0))
	f.Add([]byte{0x12, 0x0b, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x20, 1}, uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, who uint8) {
		l := newLab(t)
		a, b := l.actor(1), l.actor(2)
		from := a.peer
		if who%2 == 1 {
			from = "a stranger"
		}
		for range 3 {
			_ = l.s.Receive(from, body)
			l.run()
		}
		if l.rest() > 100 || l.s.Stats().KeptBytes > 3*MaxValue {
			t.Errorf("%d, %+v", l.rest(), l.s.Stats())
		}
		b.giveNumber(50)
		if l.rest() < 50 {
			t.Errorf("an honest value does not count: %d", l.rest())
		}
	})
}
