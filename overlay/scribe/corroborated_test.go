package scribe

import (
	"testing"
	"time"

	"tidings/overlay/scribe/scribepb"
)

// A member that reports too many clients below it adds at most as many as all others report, and as many as one node may
// have. Honest children, which are more even, count in full, and so do clients.
func TestOneChildAddsLittleToACorroboratedWeight(t *testing.T) {
	for name, c := range map[string]struct {
		own      int
		children []uint32
		client   bool
		want     int
	}{
		"a root alone":                   {own: 3, want: 3},
		"one node's clients":             {children: []uint32{5}, want: 5},
		"even children":                  {own: 1, children: []uint32{40, 50, 60}, want: 151},
		"a child that has a third":       {children: []uint32{40, 40, 41}, want: 121},
		"a child that has most":          {own: 1, children: []uint32{9, 10, 100}, want: 20 + 20 + 5},
		"the only child":                 {children: []uint32{100}, want: 5},
		"one child, and some readers":    {own: 4, children: []uint32{100}, want: 4 + 4 + 5},
		"a client's weight is bounded":   {own: 1, children: []uint32{5}, client: true, want: 6},
		"most of what nobody could have": {own: 1, children: []uint32{1<<32 - 1, 3}, want: 4 + 4 + 5},
	} {
		l := newLab(t, Config{MaxWeight: 5}).active()
		g := l.own(0)
		if c.own > 0 {
			l.s.Join(g, c.own)
			l.run()
		}
		for i, a := range l.members(23, g)[:len(c.children)] { // 24 nodes in all
			if c.client {
				a = l.client(99)
				a.say(a.join(g, c.children[i]))
				continue
			}
			a.route(g, a.join(g, c.children[i]))
		}
		if got, ok := l.s.Corroborated(g); got != c.want || ok != (c.own+len(c.children) > 0) {
			t.Errorf("%s: %d, %v; want %d", name, got, ok, c.want)
		}
	}
}

// A root offers its room to the child that has most clients of the group below it, once a minute, if these are more than one
// node's. It is mostly the root of before, and the new one would have hardly another child.
func TestARootOffersRoomToTheRootOfBefore(t *testing.T) {
	l := newLab(t, Config{MaxWeight: 5, FanOut: 4}).active()
	g := l.own(0)
	all := l.members(3, g)
	all[0].route(g, all[0].join(g, 20))
	all[1].route(g, all[1].join(g, 4))
	l.pass(5 * time.Second)
	if of := offers(all[0]); len(of) != 1 || of[0].Room != 2 || !of[0].Reply {
		t.Errorf("offers %v", of)
	}
	l.pass(10 * time.Second)
	all[2].route(g, all[2].join(g, 4))
	l.pass(10 * time.Second)
	if of := offers(all[0]); len(of) != 0 {
		t.Errorf("offers again within a minute: %v", of)
	}
	if n := len(offers(all[1])); n != 0 {
		t.Error("a child with few clients is offered room")
	}
}

func offers(a *actor) (of []*scribepb.Offer) {
	for _, m := range a.heard() {
		if o := m.GetOffer(); o != nil {
			of = append(of, o)
		}
	}
	return of
}

// A node that also subscribes hands over its children to the root only.
func TestOnlyTheRootTakesChildrenFromASubscriber(t *testing.T) {
	for _, isRoot := range []bool{true, false} {
		l := newLab(t, Config{}).active()
		all := l.members(4, l.node.ID())
		g, root, nearer, farther := l.amid(all)
		parent := root
		if !isRoot {
			parent = nearer
		}
		l.subscribed(parent, g, 1)
		farther.route(g, farther.join(g, 1))
		farther.heard()
		parent.say(&scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g[:], Room: 9, Reply: true}}})
		l.pass(time.Second)
		if n := count(farther.heard(), "Redirect"); (n == 1) != isRoot {
			t.Errorf("parent is the root: %v; %d redirects", isRoot, n)
		}
	}
}
