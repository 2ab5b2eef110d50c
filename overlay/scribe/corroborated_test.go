package scribe

import (
	"testing"
	"time"

	"tidings/overlay/scribe/scribepb"
)

// A member that reports too many clients below it adds at most as many as all others report, and as many as one node may
// have. Honest children, which are more even, count in full. All clients of the root count as one with that member.
func TestOneChildAddsLittleToACorroboratedWeight(t *testing.T) {
	for name, c := range map[string]struct {
		own      int
		children []uint32
		clients  uint32 // with as many readers as one node may have
		want     int
	}{
		"a root alone":                   {own: 3, want: 3},
		"one node's clients":             {children: []uint32{5}, want: 5},
		"even children":                  {own: 1, children: []uint32{40, 50, 60}, want: 151},
		"a child that has a third":       {children: []uint32{40, 40, 41}, want: 121},
		"a child that has most":          {own: 1, children: []uint32{9, 10, 100}, want: 20 + 20 + 5},
		"the only child":                 {children: []uint32{100}, want: 5},
		"one child, and some readers":    {own: 4, children: []uint32{100}, want: 4 + 4 + 5},
		"a client":                       {own: 1, clients: 1, want: 1 + 5},
		"many clients":                   {own: 1, clients: 40, want: 1 + 1 + 5},
		"clients and a child":            {own: 1, children: []uint32{7, 7}, clients: 40, want: 8 + 8 + 5},
		"most of what nobody could have": {own: 1, children: []uint32{1<<32 - 1, 3}, want: 4 + 4 + 5},
	} {
		l := newLab(t, Config{MaxWeight: 5}).active()
		g := l.own(0)
		if c.own > 0 {
			l.s.Join(g, c.own)
			l.run()
		}
		for i, a := range l.members(23, g)[:len(c.children)] { // 24 nodes in all
			a.child(g, c.children[i])
		}
		for i := range c.clients {
			a := l.client(100 + int(i))
			a.say(a.join(g, 99))
		}
		if got, ok := l.s.Corroborated(g); got != c.want || !ok {
			t.Errorf("%s: %d, %v; want %d", name, got, ok, c.want)
		}
	}
}

// Anybody can route a Join in the name of any member, whose records are public. The weight in it counts nowhere in a tree: a child
// tells its parent when it has the Accept, or joins it directly.
func TestAWeightThatCameAlongTheRouteDoesNotCount(t *testing.T) {
	l := newLab(t, Config{MaxWeight: 5}).active()
	all := l.members(23, l.own(0))
	liar, others := all[22], all[:4]
	in, root, _, farther := l.amid(all)
	l.subscribed(root, in, 1) // where the node is not the root, but on the way of others
	for round := range 3 {
		for _, a := range others {
			liar.route(l.own(0), a.join(l.own(0), 1<<20))
			liar.say(liar.routedJoins(a.raw, l.own(0)))
		}
		liar.route(in, farther.join(in, 1<<20))
		if n, _ := l.s.Weight(l.own(0)); n != 0 {
			t.Errorf("round %d: %d clients of which nobody has told", round, n)
		}
		if p, _ := l.s.Place(in); len(p.Children) != 1 || l.s.groups.Get(in).weight() != 1 {
			t.Errorf("round %d: %d children; weight %d", round, len(p.Children), l.s.groups.Get(in).weight())
		}
		l.pass(10 * time.Second)
	}
	for i, a := range others {
		a.weigh(l.own(0), 3)
		if n, _ := l.s.Weight(l.own(0)); n != 3*(i+1) {
			t.Errorf("%d clients of %d members", n, i+1)
		}
	}
}

// A parent asks a child that has joined along the route and tells no weight, because the message may be lost.
func TestAChildThatTellsNoWeightIsAsked(t *testing.T) {
	l := newLab(t, Config{}).active()
	all := l.members(2, l.own(0))
	all[0].child(l.own(0), 2)
	all[1].route(l.own(0), all[1].join(l.own(0), 2))
	l.pass(joinTimeout + 2*l.s.cfg.HeartbeatInterval/heartbeatSlots)
	for i, a := range all {
		beats := heartbeatsOf(a.heard())
		if asked := len(beats) > 0 && beats[0].DownCount == 1; asked != (i == 1) {
			t.Errorf("child %d is asked: %v", i, asked)
		}
	}
}

// A root offers its room to the child that has most clients of the group below it, once a minute, if these are more than one
// node's. It is mostly the root of before, and the new one would have hardly another child.
func TestARootOffersRoomToTheRootOfBefore(t *testing.T) {
	l := newLab(t, Config{MaxWeight: 5, FanOut: 4}).active()
	g := l.own(0)
	all := l.members(3, g)
	all[0].child(g, 20)
	all[1].child(g, 4)
	l.pass(5 * time.Second)
	if of := offers(all[0]); len(of) != 1 || of[0].Room != 2 || !of[0].Reply {
		t.Errorf("offers %v", of)
	}
	l.pass(10 * time.Second)
	all[2].child(g, 4)
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
