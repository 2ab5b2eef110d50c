package sums

import (
	"errors"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/sums/sumspb"
)

// Who comes into the leaf is asked at once, and again until it answers, three times at most.
func TestPartIsAskedAgain(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	if got := a.asks(); len(got) != 1 || got[0].Digits != 0 || got[0].Have != 0 {
		t.Fatalf("asked %v", got)
	}
	if _, whole := l.s.Rest(); whole {
		t.Error("the sum is whole without an answer")
	}
	l.pass(2 * answerPatience)
	if got := a.asks(); len(got) != askTries-1 {
		t.Errorf("asked %d more times", len(got))
	}
	a.giveNumber(7)
	if sum, whole := l.s.Rest(); l.rest() != 7 || !whole {
		t.Errorf("the sum of others is %v, whole: %v", sum, whole)
	}
	a.giveNumber(8) // not asked for
	if l.rest() != 7 {
		t.Errorf("the sum of others is %v", l.rest())
	}
}

// In a round all are asked, and say when nothing has changed. That keeps the value; without
// a word it is kept for a while.
func TestSameValueIsNotSentAgain(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	a.has(7)
	l.pass(time.Minute)
	const maintenance = 10 * time.Minute // the default
	same := 0
	a.answers(func(q *sumspb.Ask) *sumspb.Give {
		if q.Have != versionOf(number(7)) {
			t.Errorf("asked %v", q)
		}
		same++
		return &sumspb.Give{Version: q.Have}
	})
	if l.pass(6 * maintenance); l.rest() != 7 || same < 4 {
		t.Errorf("the sum of others is %d; asked %d times", l.rest(), same)
	}
	a.answers(func(*sumspb.Ask) *sumspb.Give { return &sumspb.Give{Version: 99} }) // as something else before
	if l.pass(maintenance); l.rest() != 7 {
		t.Errorf("soon after a value was not confirmed the sum of others is %d", l.rest())
	}
	if l.pass(5 * maintenance); l.rest() != 0 {
		t.Errorf("long after the sum of others is %d", l.rest())
	}
}

func TestOwnValueIsGiven(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	a.ask(0, 0)
	if g := a.gives(); len(g) != 1 || len(g[0].msg.GetGive().Value) != 0 || g[0].msg.GetGive().Version != versionOf(nil) {
		t.Errorf("before there is a value: %v", g)
	}
	if err := l.s.Set(number(5)); err != nil {
		t.Fatal(err)
	}
	a.ask(0, 0)
	a.ask(0, versionOf(number(5)))
	g := a.gives()
	if len(g) != 2 || string(g[0].msg.GetGive().Value) != string(number(5)) || g[0].class != env.Bulk ||
		len(g[1].msg.GetGive().Value) != 0 || g[1].msg.GetGive().Version != versionOf(number(5)) || g[1].class != env.Control {
		t.Errorf("gave %v", g)
	}
	if l.s.Set(make([]byte, MaxValue+1)) == nil {
		t.Error("a value over bounds is taken")
	}
}

// A sum is not given before those have been asked of whom it is made; who is silent for a
// minute is left out.
func TestSumIsNotGivenEarly(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	a.giveNumber(7)
	whole := uint32(l.node.ID().Common(b.id) / 4) // digits that b shares, too
	early := func() bool {
		a.ask(whole, 0)
		g := a.gives()
		return len(g) == 1 && g[0].msg.GetGive().Early
	}
	if whole == 0 {
		whole = 1 // b shares none: a part that does not matter
		if early() {
			t.Error("it is early, for want of a part that does not matter")
		}
		return
	}
	if !early() {
		t.Error("it is not early")
	}
	l.pass(earlyFor)
	if early() {
		t.Error("it is early for ever")
	}
}

// What the layer above does not take does not count; what there was does.
func TestRefusedValue(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	a.has(7)
	l.pass(time.Minute)
	a.has(101)
	l.pass(15 * time.Minute)
	if st := l.s.Stats(); l.rest() != 7 || st.Refused == 0 {
		t.Errorf("%d, %+v", l.rest(), st)
	}
	a.has(100)
	if l.pass(15 * time.Minute); l.rest() != 100 {
		t.Errorf("a good value does not count after a bad one: %d", l.rest())
	}
}

// No more bytes are kept than there is room for.
func TestRoomForValues(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	a.has(7)
	l.pass(time.Minute)
	l.s.kept += maxKept - 12 // as if others had them
	b.has(9)
	a.has(8) // in the place of another
	l.pass(15 * time.Minute)
	if st := l.s.Stats(); l.rest() != 8 || st.Refused == 0 || st.KeptBytes > maxKept {
		t.Errorf("%d, %+v", l.rest(), st)
	}
}

// Who asks too often is not answered.
func TestFlood(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	for range 10 * maxAsks {
		a.ask(0, 0)
	}
	b.ask(0, 0)
	if n, m := len(a.gives()), len(b.gives()); n != maxAsks || m != 1 || l.s.Stats().Flooded != 9*maxAsks {
		t.Errorf("%d and %d answers, %+v", n, m, l.s.Stats())
	}
	l.pass(time.Minute)
	if a.ask(0, 0); len(a.gives()) != 1 {
		t.Error("it is not answered any more")
	}
}

// Messages over bounds are garbage.
func TestGarbage(t *testing.T) {
	l := newLab(t)
	a := l.actor(1)
	for _, m := range []*sumspb.Message{
		{},
		{Body: &sumspb.Message_Ask{Ask: &sumspb.Ask{Digits: overlay.Digits + 1}}},
		{Body: &sumspb.Message_Give{Give: &sumspb.Give{Digits: overlay.Digits + 1}}},
		{Body: &sumspb.Message_Give{Give: &sumspb.Give{Value: make([]byte, MaxValue+1)}}},
		{Body: &sumspb.Message_Give{Give: &sumspb.Give{Value: number(1), Version: 1}}},
		{Body: &sumspb.Message_Give{Give: &sumspb.Give{Early: true, Value: number(1), Version: versionOf(number(1))}}},
	} {
		if err := l.say(a.peer, m); !errors.Is(err, env.ErrFrame) {
			t.Errorf("%v: %v", m, err)
		}
	}
	if st := l.s.Stats(); st.Garbage != 6 || l.rest() != 0 {
		t.Errorf("%+v", st)
	}
}

// Who is dead does not count.
func TestDeadMemberDoesNotCount(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	a.has(7)
	b.has(9)
	if l.pass(time.Minute); l.rest() != 16 {
		t.Fatalf("the sum of others is %d", l.rest())
	}
	a.dead = true
	l.pass(3 * time.Minute)
	if l.node.Leaf().Has(a.id) != nil || l.rest() != 9 {
		t.Errorf("the sum of others is %d", l.rest())
	}
}

// FuzzReceive has a member and a stranger say what they like.
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
