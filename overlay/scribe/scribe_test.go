package scribe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

func kindsOf(messages []*scribepb.Message) (of []string) {
	for _, m := range messages {
		of = append(of, fmt.Sprintf("%T", m.Body)[len("*scribepb.Message_"):])
	}
	return of
}

func count(messages []*scribepb.Message, kind string) (n int) {
	for _, k := range kindsOf(messages) {
		if k == kind {
			n++
		}
	}
	return n
}

func TestMessageIsDeliveredOnce(t *testing.T) {
	l := newLab(t, Config{}).active()
	root := l.members(1, l.own(0))[0]
	g, other := root.of(0), root.of(1)
	l.subscribed(root, g, 1)
	l.subscribed(root, other, 1)
	for range 3 {
		root.say(down(g, 7, "news"))
	}
	root.say(down(other, 7, "the same number in another group"))
	l.pass(seenTTL - 20*time.Second)
	root.say(down(g, 7, "news"))
	if len(l.got) != 2 || string(l.got[0].Payload) != "news" || l.got[0].ID != 7 || l.got[1].Group != other {
		t.Errorf("delivered: %v", l.got)
	}
	got := 0
	for _, m := range root.heard() {
		got += len(m.GetAck().GetIds())
	}
	if got < 4 {
		t.Errorf("%d of 5 are acknowledged", got)
	}
	if st := l.s.Stats(); st.Repeated != 3 || st.Delivered != 2 {
		t.Errorf("%+v", st)
	}
	l.pass(3 * seenTTL)
	if n := len(l.s.history.seen[0]) + len(l.s.history.seen[1]); n != 0 {
		t.Errorf("%d messages are known for ever", n)
	}
}

// A parent with more children than the fan-out sends the farthest to one nearer to the key, so that
// redirects cannot form a cycle.
func TestFarthestChildIsPushedBelowANearerOne(t *testing.T) {
	const fanOut = 4
	l := newLab(t, Config{FanOut: fanOut}).active()
	g := l.own(0)
	all := l.members(20, g)
	order := func(a *actor) int { return slices.Index(all, a) }
	for _, i := range []int{3, 17, 9, 0, 12, 5, 19, 1, 8, 2, 14} {
		all[i].route(g, all[i].join(g, 1))
		l.s.groups.Get(g).pushCheckPlanned = true // the test pushes down when it needs to
		l.s.children.pushDown(l.s.groups.Get(g))
		l.run()
		for j, a := range all {
			for _, m := range a.heard() {
				r := m.GetRedirect()
				if r == nil {
					continue
				}
				to, err := l.node.OpenRecord(r.Record)
				if err != nil {
					t.Fatal(err)
				}
				if !overlay.Nearer(g, to.ID, a.id) {
					t.Errorf("child %d is sent to a farther one", j)
				}
				for _, c := range l.s.groups.Get(g).children {
					if !c.client && !c.moving && order(l.actors[l.s.links.at(c.link).contact.Peer.ID]) > j {
						t.Errorf("child %d is redirected before %d", j, order(l.actors[l.s.links.at(c.link).contact.Peer.ID]))
					}
				}
				a.say(&scribepb.Message{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: g[:]}}})
			}
		}
	}
	place, _ := l.s.Place(g)
	if !place.Root || len(place.Children) != fanOut {
		t.Fatalf("%d children", len(place.Children))
	}
	for i := range fanOut {
		if !slices.Contains(place.Children, all[i].id) {
			t.Errorf("child %d is none although nearest", i)
		}
	}
}

// Children that do not move when they are redirected cannot accumulate.
func TestChildrenThatDoNotMoveAreBounded(t *testing.T) {
	const fanOut = 2
	l := newLab(t, Config{FanOut: fanOut}).active()
	g := l.own(0)
	for _, a := range l.members(30, g) {
		a.route(g, a.join(g, 1))
	}
	if place, _ := l.s.Place(g); len(place.Children) > crowdFactor*fanOut {
		t.Errorf("%d children hang below one that may have %d", len(place.Children), fanOut)
	}
}

func TestEdgesToOnePeerAreBounded(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	a.route(l.own(0), a.join(l.own(0), 1))
	down := &l.s.links.byPeer[a.peer].down
	down.groups = slices.Repeat(down.groups, maxEdges)
	a.heard()
	a.route(l.own(1), a.join(l.own(1), 1))
	if kinds := kindsOf(a.heard()); !slices.Equal(kinds, []string{"Reject"}) {
		t.Errorf("receives %v", kinds)
	}
	a.route(l.own(0), a.join(l.own(0), 2)) // a Join along the route changes no edge
	if kinds := kindsOf(a.heard()); !slices.Equal(kinds, []string{"Redirect"}) {
		t.Errorf("an existing child receives %v", kinds)
	}
	a.say(a.join(l.own(0), 2)) // an existing child may change its edge
	if w, _ := l.s.Weight(l.own(0)); w != 2 {
		t.Errorf("weight %d", w)
	}
	down.groups = down.groups[:1]
	l.pass(time.Minute)
	if st := l.s.Stats(); st.Groups != 1 {
		t.Errorf("%d groups, one of them has a child", st.Groups)
	}
}

func TestRedirectLeadsNearerOrNowhere(t *testing.T) {
	l := newLab(t, Config{}).active()
	g, root, nearer, farther := l.amid(l.members(8, l.own(0)))
	l.subscribed(root, g, 1)
	asks := func(a *actor) int { return count(a.heard(), "Join") }
	client := l.actor(99, false)
	for what, c := range map[string]struct {
		from, to *actor
		follows  bool
	}{
		"to one that is not nearer":    {root, farther, false},
		"to a client":                  {root, client, false},
		"from one that is no parent":   {farther, nearer, false},
		"from the parent, to a nearer": {root, nearer, true},
	} {
		c.from.say(c.to.redirect(g))
		if got := asks(c.to); got != 0 != c.follows {
			t.Errorf("%s: asks %d times", what, got)
		}
	}
	// The old edge remains until the new one is accepted.
	if parent, _ := l.s.Parent(g); parent != root.id {
		t.Error("left its parent before it had another")
	}
	nearer.say(nearer.accept(g, l.s.groups.Get(g).search.edge))
	if parent, _ := l.s.Parent(g); parent != nearer.id || count(root.heard(), "Prune") != 1 {
		t.Error("did not move")
	}
}

// A node that is redirected again and again follows only a few redirects.
func TestRedirectsAreBounded(t *testing.T) {
	l := newLab(t, Config{}).active()
	root := l.members(1, l.own(0))[0]
	g := root.of(0)
	l.s.Join(g, 1)
	l.run()
	routed := len(l.joins(g))
	for range 60 { // a minute of redirects
		root.say(root.redirect(g))
		l.pass(time.Second)
	}
	if asked := len(l.joins(g)) - routed; asked < 2 {
		t.Errorf("asked %d times along the route", asked)
	}
	if asked := count(root.heard(), "Join"); asked < maxRedirects || asked >= 60 {
		t.Errorf("followed %d of 60", asked)
	}
}

func TestOnlyAParentThatWasAskedIsAccepted(t *testing.T) {
	l := newLab(t, Config{}).active()
	g, root, nearer, farther := l.amid(l.members(8, l.own(0)))
	root.say(root.accept(g, 1))
	if _, ok := l.s.Place(g); ok || count(root.heard(), "Prune") != 1 {
		t.Error("has a parent in a group that it did not join")
	}
	l.s.Join(g, 3)
	l.run()
	j := l.joins(g)[0]
	for what, m := range map[string]*scribepb.Message{
		"an edge that it did not ask for":    root.accept(g, j.Edge+2),
		"one that is farther from the key":   farther.accept(g, j.Edge),
		"one that shows another's record":    farther.accept(g, j.Edge),
		"one that shows no record of a node": {Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{Group: g[:], Edge: j.Edge, Record: []byte("x")}}},
	} {
		from := farther
		if what == "an edge that it did not ask for" {
			from = root
		}
		from.say(m)
		if p, ok := l.s.Parent(g); ok {
			t.Errorf("%s: takes %s for its parent", what, p.Short())
		}
	}
	if !l.accepted(root, g) {
		t.Error("does not take the one it asked")
	}
	// A second Accept of the same edge, and one of another edge, change nothing.
	root.say(root.accept(g, j.Edge))
	nearer.say(nearer.accept(g, j.Edge))
	if p, _ := l.s.Place(g); len(p.Parents) != 1 || p.Parents[0] != root.id {
		t.Errorf("parents: %v", p.Parents)
	}
}

// A parent knows the weight in the Join, which may have changed by the time of the Accept.
func TestWeightThatChangesMeanwhileIsTold(t *testing.T) {
	l := newLab(t, Config{}).active()
	g, root, _, _ := l.amid(l.members(8, l.own(0)))
	l.s.Join(g, 3)
	l.run()
	edge := l.joins(g)[0].Edge
	l.s.Join(g, 5)
	root.say(root.accept(g, edge))
	root.heard()
	l.pass(2 * weightDelay)
	var told []uint32
	for _, m := range root.heard() {
		for _, e := range m.GetEdgeList().GetEdges() {
			told = append(told, e.Weight)
		}
	}
	if !slices.Equal(told, []uint32{5}) {
		t.Errorf("the parent, which was asked with 3, is told %v", told)
	}
}

// A parent that is asked again with a new id may have redirected the child before, by the old id.
// If the child went, it would prune an edge by an id that the parent no longer knows.
func TestChildStaysWhileItsParentIsAskedAgain(t *testing.T) {
	l := newLab(t, Config{}).active()
	g, root, nearer, _ := l.amid(l.members(8, l.own(0)))
	l.subscribed(root, g, 1)
	root.say(root.redirect(g))
	heard := root.heard()
	asked := heard[slices.IndexFunc(heard, func(m *scribepb.Message) bool { return m.GetJoin() != nil })].GetJoin()
	away := &scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: g[:], Record: nearer.raw}}}
	if root.say(away); count(nearer.heard(), "Join") != 0 {
		t.Error("went while the parent was asked")
	}
	root.say(root.accept(g, asked.Edge))
	if root.say(away); count(nearer.heard(), "Join") != 1 {
		t.Error("did not go after it was accepted again")
	}
	nearer.say(nearer.accept(g, l.s.groups.Get(g).search.edge))
	l.run()
	if parts := root.heard(); count(parts, "Prune") != 1 || parts[len(parts)-1].GetPrune().GetEdge() != asked.Edge {
		t.Errorf("prunes with %v, not edge %x", parts, asked.Edge)
	}
	// A parent that does not answer may redirect it later.
	nearer.say(nearer.redirect(g))
	nearer.heard()
	l.pass(joinTimeout)
	if nearer.say(&scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: g[:], Record: root.raw}}}); count(root.heard(), "Join") != 1 {
		t.Error("stays for ever")
	}
}

func TestRepeatedJoinIsAcceptedAgain(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	join := a.join(l.own(0), 1)
	for range 2 {
		if a.route(l.own(0), join); !slices.Equal(kindsOf(a.heard()), []string{"Accept"}) {
			t.Error("not accepted")
		}
	}
}

// A parent is told the weight after a Join along the route, in which it would not count. A parent that is asked directly knows
// the weight in the Join, and is told what has changed since.
func TestParentAskedAgainHasTheWeight(t *testing.T) {
	l := newLab(t, Config{}).active()
	g, root, _, _ := l.amid(l.members(8, l.own(0)))
	l.s.Join(g, 3)
	l.run()
	l.s.Join(g, 4)
	l.pass(2 * joinTimeout)
	all := l.joins(g)
	if len(all) < 2 || all[0].Weight != 0 || all[0].Weight != all[1].Weight || all[0].Edge != all[1].Edge {
		t.Fatalf("asks for %v", all)
	}
	l.accepted(root, g)
	l.pass(2 * weightDelay)
	if told := weights(root.heard()); !slices.Equal(told, []uint32{4}) {
		t.Errorf("the parent is told %v", told)
	}
	root.say(root.redirect(g))
	l.s.Join(g, 5)
	l.pass(2 * weightDelay)
	heard := root.heard()
	asked := heard[slices.IndexFunc(heard, func(m *scribepb.Message) bool { return m.GetJoin() != nil })].GetJoin()
	root.say(root.accept(g, asked.Edge))
	l.pass(2 * weightDelay)
	if told := weights(root.heard()); asked.Weight != 4 || !slices.Equal(told, []uint32{5}) {
		t.Errorf("the parent, which was asked with %d last, is told %v", asked.Weight, told)
	}
}

// weights returns the weights in EdgeLists.
func weights(heard []*scribepb.Message) (told []uint32) {
	for _, m := range heard {
		for _, e := range m.GetEdgeList().GetEdges() {
			told = append(told, e.Weight)
		}
	}
	return told
}

// A node that is neither member nor client yet does not send Joins: its record would be wrong, and
// the parent would treat it accordingly.
func TestJoinsWaitUntilTheNodeIsMemberOrClient(t *testing.T) {
	l := newLab(t, Config{})
	g := l.node.ID()
	l.s.Join(g, 2)
	l.run()
	l.pass(2 * time.Minute)
	if st := l.node.Stats(); st.Routed != 0 {
		t.Errorf("routed %d messages before it was a member", st.Routed)
	}
	l.active()
	l.pass(time.Second)
	if w, ok := l.s.Weight(g); !ok || w != 2 {
		t.Errorf("weight %d at the root (%v)", w, ok)
	}
	// The other end does not accept the Join of such a node either.
	a := l.actor(1, false)
	h := l.own(1)
	a.route(h, a.join(h, 1))
	if p, ok := l.s.Place(h); ok || l.s.Stats().Garbage != 1 {
		t.Errorf("a client has joined along the route: %+v", p)
	}
	if a.say(a.join(h, 1)); count(a.heard(), "Reject") != 1 {
		t.Error("a client that it does not act for is not rejected")
	}
	b := l.client(2)
	if b.say(b.join(h, 1)); count(b.heard(), "Accept") != 1 {
		t.Error("a client that it acts for has no place")
	}
}

func TestEdgeSetIsIndependentOfOrder(t *testing.T) {
	in := overlay.NewIndex(1, func(g *group) *overlay.ID { return &g.id })
	of := func(id overlay.ID) *group {
		g := in.Get(id)
		if g == nil {
			var number uint32
			g, number = in.Put(group{id: id})
			g.number = number
		}
		return g
	}
	rapid.Check(t, func(t *rapid.T) {
		weights := map[overlay.ID]uint32{}
		var e edgeSet
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			id := overlay.ID{byte(rapid.IntRange(0, 20).Draw(t, "group"))}
			to := uint32(rapid.IntRange(0, 5).Draw(t, "weight"))
			switch from, ok := weights[id]; {
			case !ok:
				e.add(in, of(id), to)
				weights[id] = to
			case rapid.Bool().Draw(t, "remove"):
				e.remove(in, of(id), from)
				delete(weights, id)
			default:
				e.change(of(id), from, to)
				weights[id] = to
			}
		}
		var fresh edgeSet
		for id, w := range weights { // in any order
			fresh.add(in, of(id), w)
		}
		if e.digest != fresh.digest || !slices.Equal(e.groups, fresh.groups) {
			t.Fatalf("%d edges, digest %x; made anew %d, %x", len(e.groups), e.digest, len(fresh.groups), fresh.digest)
		}
		if all := e.between(in, make([]byte, 32), slices.Repeat([]byte{0xff}, 32)); len(all) != len(weights) {
			t.Fatalf("%d of %d edges between the first id and the last", len(all), len(weights))
		}
		if of := e.between(in, slices.Concat([]byte{5}, make([]byte, 31)), slices.Concat([]byte{9}, make([]byte, 31))); slices.ContainsFunc(of, func(n uint32) bool { return in.At(n).id[0] < 5 || in.At(n).id[0] > 9 }) {
			t.Fatal("edges between two ids are beyond them")
		}
		if len(weights) > 0 {
			fresh.change(of(overlay.ID{30}), 0, 1)
			if e.digest == fresh.digest {
				t.Fatal("the digest does not distinguish weights")
			}
		}
	})
}

// When a parent knows different edges, the child lists all of its own: the lists cover all ids, and
// the parent forgets edges that are not listed.
func TestListsCoverAllGroups(t *testing.T) {
	l := newLab(t, Config{}).active()
	root := l.members(1, l.own(0))[0]
	const groups = 2*maxList + 100
	for i := range groups {
		l.s.Join(root.of(i), 1)
	}
	l.run()
	for i := range groups {
		if !l.accepted(root, root.of(i)) {
			t.Fatalf("no parent in group %d", i)
		}
	}
	root.heard()
	var beat *scribepb.Heartbeat
	for range 60 {
		l.pass(time.Second)
		for _, m := range root.heard() {
			if b := m.GetHeartbeat(); b != nil && beat == nil {
				beat = b
			}
		}
	}
	if beat == nil || beat.UpCount != groups {
		t.Fatalf("heartbeat: %v", beat)
	}
	l.s.links.byPeer[root.peer].renewal.pending = beat.Nonce
	root.say(&scribepb.Message{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: &scribepb.HeartbeatAck{Nonce: beat.Nonce}}})
	after := overlay.ID{}
	named := 0
	for i, m := range root.heard() {
		list := m.GetEdgeList()
		if list == nil || list.Partial {
			continue
		}
		named += len(list.Edges)
		if overlay.ID(list.First) != after || list.Nonce != beat.Nonce {
			t.Errorf("list %d starts at %x, not %x", i, list.First, after)
		}
		after = nextID(overlay.ID(list.Last))
	}
	if named != groups || after != (overlay.ID{}) {
		t.Errorf("%d of %d edges are named, up to %v", named, groups, after)
	}
}

func TestEdgesMissingFromAListEnd(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(2, l.own(0))[0]
	for i := range 5 {
		a.child(l.own(i), 1)
	}
	list := func(nonce uint64, partial bool, from, to int, weight uint32, named ...int) *scribepb.Message {
		first, last := l.own(from), l.own(to)
		m := &scribepb.EdgeList{First: first[:], Last: last[:], Nonce: nonce, Partial: partial}
		for _, i := range named {
			id := l.own(i)
			m.Edges = append(m.Edges, &scribepb.Edge{Group: id[:], Weight: weight})
		}
		return &scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: m}}
	}
	children := func() (of []int) {
		for i := range 5 {
			if p, ok := l.s.Place(l.own(i)); ok && len(p.Children) > 0 {
				of = append(of, i)
			}
		}
		return of
	}
	a.say(list(0, false, 0, 4, 1, 1)) // nobody asked for it
	a.say(list(9, false, 0, 4, 1, 1))
	a.say(list(0, true, 0, 4, 1, 1)) // only weights
	if got := children(); len(got) != 5 {
		t.Fatalf("a child in groups %v", got)
	}
	l.pass(2 * joinTimeout) // newer edges are kept, because their Accept may be on its way
	a.say(&scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: 9, UpCount: 99}}})
	if got := a.heard(); got[len(got)-1].GetHeartbeatAck().GetMatch() {
		t.Error("99 edges are 5")
	}
	a.say(list(9, false, 1, 3, 7, 2))
	if got := children(); !slices.Equal(got, []int{0, 2, 4}) {
		t.Errorf("a child in groups %v", got)
	}
	if w, _ := l.s.Weight(l.own(2)); w != 7 {
		t.Errorf("weight %d", w)
	}
	a.heard()
	if a.say(list(9, true, 6, 6, 1, 6)); count(a.heard(), "Reject") != 1 {
		t.Error("is not rejected in group 6")
	}
	// Afterwards the parent knows what the child knows.
	var e edgeSet
	e.add(l.s.groups.groupIndex, l.s.groups.Get(l.own(0)), 1)
	e.add(l.s.groups.groupIndex, l.s.groups.Get(l.own(2)), 7)
	e.add(l.s.groups.groupIndex, l.s.groups.Get(l.own(4)), 1)
	a.say(&scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: 10, UpCount: uint32(len(e.groups)), UpDigest: e.digest}}})
	if got := a.heard(); len(got) != 1 || !got[0].GetHeartbeatAck().GetMatch() {
		t.Errorf("%v", got)
	}
}

func TestLeaseEndsWithoutHeartbeats(t *testing.T) {
	l := newLab(t, Config{HeartbeatInterval: 10 * time.Second}).active()
	all := l.members(2, l.own(0))
	for _, a := range all {
		a.route(l.own(0), a.join(l.own(0), 1))
	}
	for range 10 {
		l.pass(10 * time.Second)
		all[0].say(&scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: 1, UpCount: 1}}})
	}
	if p, _ := l.s.Place(l.own(0)); !slices.Equal(p.Children, []overlay.ID{all[0].id}) {
		t.Errorf("%d children", len(p.Children))
	}
}

// There is one heartbeat in each interval, however often edges to a parent begin and end.
func TestHeartbeatsDoNotAddUp(t *testing.T) {
	l := newLab(t, Config{}).active()
	root := l.members(1, l.own(0))[0]
	for i := range 20 {
		l.subscribed(root, root.of(i), 1)
		l.pass(9 * time.Second)
		l.s.Leave(root.of(i))
		l.pass(12 * time.Second) // the link is dropped
	}
	l.subscribed(root, root.of(99), 1)
	root.heard()
	beats := 0
	for range 3000 {
		l.pass(100 * time.Millisecond)
		for _, m := range root.heard() {
			if b := m.GetHeartbeat(); b != nil {
				beats++
				root.say(&scribepb.Message{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: &scribepb.HeartbeatAck{Nonce: b.Nonce, Match: true}}})
			}
		}
	}
	if beats < 8 || beats > 14 {
		t.Errorf("%d heartbeats in five minutes", beats)
	}
}

// Weights are clamped to what all nodes together can have, and do not overflow.
func TestWeightsAreClamped(t *testing.T) {
	l := newLab(t, Config{MaxWeight: 5}).active()
	g := l.own(0)
	l.s.Join(g, 99)
	l.run()
	if p, _ := l.s.Place(g); p.Own != 5 {
		t.Errorf("own weight %d", p.Own)
	}
	if l.s.Join(g, -3); l.s.groups.Get(g).ownWeight != 1 {
		t.Errorf("own weight %d", l.s.groups.Get(g).ownWeight)
	}
	all := l.members(3, g) // four nodes in all
	for _, a := range all {
		a.child(g, 1<<32-1)
	}
	if w, ok := l.s.Weight(g); !ok || w != 1+3*4*5 {
		t.Errorf("weight %d", w)
	}
	b := l.client(9) // nothing hangs below a client
	if b.say(b.join(l.own(1), 1<<32-1)); l.s.groups.Get(l.own(1)).weight() != 5 {
		t.Errorf("a client counts %d", l.s.groups.Get(l.own(1)).weight())
	}
	huge := &group{children: []child{{weight: 1<<32 - 1}, {weight: 1<<32 - 1}}}
	if huge.weight() != 1<<32-1 {
		t.Errorf("twice the largest weight is %d", huge.weight())
	}
}

// The queue of a slow child is bounded. At the bound only the last message of each group stays, and
// the child pulls the others.
func TestSlowChildrenPull(t *testing.T) {
	for _, size := range []int{1, maxQueued / 512} {
		l := newLab(t, Config{}).active()
		all := l.members(2, l.own(0))
		a, few, many := all[0], l.own(0), l.own(1)
		for _, g := range []overlay.ID{few, many} {
			a.route(g, a.join(g, 1))
		}
		a.heard()
		pass := func(g overlay.ID, i int) {
			payload := strings.Repeat("x", size)
			l.s.forward(l.s.groups.Get(g), nil, uint64(i), nil, wire.AppendFrame(nil, wire.Scribe, down(g, uint64(i), payload)), 0)
		}
		pass(few, 1<<20)
		sent := 1
		for ; l.s.Stats().Lost == 0 && sent < 2*(window+maxQueue); sent++ {
			if sent == window {
				pass(few, 1<<20+1)
				sent++
			}
			pass(many, sent)
		}
		d := l.s.links.byPeer[a.peer].transfer
		if len(d.inFlight) != window || len(d.queue) != 2 || d.queue[0].group != few || d.queue[1].id != uint64(sent-1) {
			t.Fatalf("%d out, %d wait of %d", len(d.inFlight), len(d.queue), sent)
		}
		if lost := l.s.Stats().Lost; int(lost) != sent-window-2 || sent > window+maxQueue+1 {
			t.Errorf("%d are lost of %d", lost, sent)
		}
		if size > 1 && sent > window+530 {
			t.Errorf("%d messages of %d bytes", sent, size)
		}
		var ids []uint64
		for _, m := range d.inFlight {
			ids = append(ids, m.id)
		}
		a.say(&scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: ids}}})
		if len(d.inFlight) != 2 || len(d.queue) != 0 || d.queuedBytes != 0 {
			t.Errorf("after all were acknowledged %d are out, %d wait, %d bytes", len(d.inFlight), len(d.queue), d.queuedBytes)
		}
	}
}

// A new child receives recent messages that it does not have.
func TestLateChildReceivesWhatItMissed(t *testing.T) {
	l := newLab(t, Config{}).active()
	all := l.members(3, l.own(0))
	g := l.own(0)
	for id := range uint64(5) {
		all[0].route(g, publish(g, id+1, "news"))
	}
	given := func(a *actor) (ids []uint64) {
		for _, m := range a.heard() {
			if d := m.GetMulticast(); d != nil {
				ids = append(ids, d.Id)
			}
		}
		return ids
	}
	all[1].route(g, all[1].join(g, 1, 2, 4))
	if got := given(all[1]); !slices.Equal(got, []uint64{1, 3, 5}) {
		t.Errorf("given %v", got)
	}
	l.pass(recentTTL + sweepInterval)
	all[2].route(g, all[2].join(g, 1))
	if got := given(all[2]); len(got) > 0 || l.s.history.keptBytes != 0 {
		t.Errorf("after %v given %v, %d bytes kept", recentTTL, got, l.s.history.keptBytes)
	}
}

// A leap of the clock makes no message new that other nodes still forward.
func TestALeapOfTheClockForgetsNoMessage(t *testing.T) {
	l := newLab(t, Config{}).active()
	g := l.s.groups.ensure(l.own(0))
	g.ownWeight = 1
	l.pass(seenTTL - sweepInterval)
	l.s.forward(g, nil, 1, nil, nil, 0)
	l.pass(2 * sweepInterval) // the two maps have rotated twice
	l.now = l.now.Add(18 * time.Hour)
	l.run()
	l.pass(recentTTL)
	l.s.forward(g, nil, 1, nil, nil, 0)
	if st := l.s.Stats(); st.Delivered != 1 || st.Repeated != 1 {
		t.Errorf("delivered %d times, known again %d times", st.Delivered, st.Repeated)
	}
	l.pass(2 * seenTTL)
	l.s.forward(g, nil, 1, nil, nil, 0)
	if st := l.s.Stats(); st.Delivered != 2 {
		t.Error("a message is known for ever")
	}
}

// The messages kept for late children are bounded, in one group and in all groups that a stranger
// may invent. A node that is alone keeps none.
func TestKeptMessagesAreBounded(t *testing.T) {
	l := newLab(t, Config{}).active()
	g := l.s.groups.ensure(l.own(0))
	g.ownWeight = 1
	if l.s.forward(g, nil, maxRecent+5, nil, make([]byte, 10), 0); len(l.s.history.recent) > 0 {
		t.Error("a node that is alone keeps messages")
	}
	l.members(1, g.id)
	for id := range uint64(maxRecent + 5) {
		l.s.forward(g, nil, id, nil, make([]byte, 10), 0)
	}
	if of := l.s.history.recent[g.id]; len(of) != maxRecent || l.s.history.keptBytes != 10*maxRecent || of[0].id != 5 {
		t.Errorf("%d messages of %d bytes are kept", len(of), l.s.history.keptBytes)
	}
	for i := range 2 * maxKeptBytes / MaxPayload {
		g := l.s.groups.ensure(l.own(i + 1))
		g.root = true
		l.s.forward(g, nil, uint64(i), nil, make([]byte, MaxPayload), 0)
	}
	if l.s.history.keptBytes > maxKeptBytes || l.s.history.keptBytes < maxKeptBytes-MaxPayload {
		t.Errorf("%d bytes are kept", l.s.history.keptBytes)
	}
	l.pass(recentTTL + 2*sweepInterval)
	if st := l.s.Stats(); l.s.history.keptBytes != 0 || st.Groups != 1 {
		t.Errorf("in the end %d bytes in %d groups are kept", l.s.history.keptBytes, st.Groups)
	}
}

func TestLeavePrunes(t *testing.T) {
	l := newLab(t, Config{}).active()
	g, root, _, below := l.amid(l.members(8, l.own(0)))
	l.subscribed(root, g, 2)
	root.heard()
	l.s.Leave(g)
	l.run()
	if _, ok := l.s.Place(g); ok || count(root.heard(), "Prune") != 1 {
		t.Error("has a place after it has left")
	}
	l.s.Leave(g) // a repeated Leave changes nothing
	// With a child it keeps its place, and offers the child to its parent.
	l.subscribed(root, g, 2)
	below.say(below.join(g, 4))
	root.heard()
	l.s.Leave(g)
	l.pass(2 * weightDelay)
	heard := root.heard()
	if count(heard, "Offer") != 1 || count(heard, "Prune") != 0 || count(heard, "EdgeList") != 1 {
		t.Errorf("a forwarder sends its parent %v", kindsOf(heard))
	}
	below.heard()
	root.say(&scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g[:], Room: 1 << 31, Reply: true}}})
	if count(below.heard(), "Redirect") != 1 {
		t.Error("the child is not sent to the parent that has room")
	}
	below.say(&scribepb.Message{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: g[:]}}})
	if _, ok := l.s.Place(g); ok || count(root.heard(), "Prune") != 1 {
		t.Error("the forwarder has a place after its last child has gone")
	}
}

// A parent without room may have room later.
func TestForwarderOffersItsChildrenAgain(t *testing.T) {
	l := newLab(t, Config{}).active()
	g, root, _, below := l.amid(l.members(8, l.own(0)))
	l.subscribed(root, g, 2)
	below.say(below.join(g, 4))
	l.pass(2 * sweepInterval)
	root.heard()
	l.s.Leave(g)
	l.pass(l.s.cfg.HeartbeatInterval + 2*sweepInterval)
	if n := count(root.heard(), "Offer"); n != 2 {
		t.Errorf("a forwarder offers its children %d times", n)
	}
}

func TestRoomIsWhatIsLeftOfTheFanOut(t *testing.T) {
	l := newLab(t, Config{FanOut: 3}).active()
	all := l.members(3, l.own(0))
	g := l.own(0)
	all[0].route(g, all[0].join(g, 1))
	all[0].heard()
	offer := &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g[:]}}}
	all[0].say(offer)
	if got := all[0].heard(); len(got) != 1 || got[0].GetOffer().GetRoom() != 2 || !got[0].GetOffer().GetReply() {
		t.Errorf("%v", got)
	}
	if all[1].say(offer); len(all[1].heard()) != 0 {
		t.Error("a peer that is no child is told of room")
	}
}

// Messages from the wrong senders are ignored, and malformed ones count against their sender.
func TestMessagesFromWrongSendersAreIgnored(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	g := l.own(0)
	for what, m := range map[string]*scribepb.Message{
		"a Publish that is not routed":    publish(g, 1, "x"),
		"a Join with another's record":    l.actor(5, true).join(g, 1),
		"an Accept with another's record": l.actor(5, true).accept(g, 1),
		"a Redirect to nobody":            {Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: g[:], Record: []byte("x")}}},
	} {
		if err := a.say(m); !errors.Is(err, env.ErrFrame) {
			t.Errorf("%s: %v", what, err)
		}
	}
	a.say(down(g, 1, "x"))
	a.say(&scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: 4}}})
	a.say(&scribepb.Message{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: [][]byte{g[:]}}}})
	if kinds := kindsOf(a.heard()); !slices.Equal(kinds, []string{"Ack", "Prune", "HeartbeatAck"}) {
		t.Errorf("a peer that is no neighbour receives %v", kinds)
	}
	other := l.own(1)
	garbage := l.s.Stats().Garbage
	a.route(g, publish(other, 1, "x"))
	a.route(g, a.join(other, 1))
	a.route(g, down(g, 1, "x"))
	if st := l.s.Stats(); st.Garbage != garbage+3 || st.Groups != 0 || st.Links != 0 {
		t.Errorf("%+v", st)
	}
}

// The bounds of scribe.proto: values just within and just beyond.
func TestMessagesHaveBounds(t *testing.T) {
	id := make([]byte, 32)
	ids := func(n int) (of [][]byte) {
		for i := range n {
			of = append(of, slices.Concat(id[:30], []byte{byte(i >> 8), byte(i)}))
		}
		return of
	}
	list := func(edges ...[]byte) *scribepb.Message {
		m := &scribepb.EdgeList{First: id, Last: bytes.Repeat([]byte{255}, 32)}
		for _, e := range edges {
			m.Edges = append(m.Edges, &scribepb.Edge{Group: e})
		}
		return &scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: m}}
	}
	type body = scribepb.Message
	for _, c := range []struct {
		what   string
		within bool
		m      *body
	}{
		{"nothing", false, &body{}},
		{"join", true, &body{Body: &scribepb.Message_Join{Join: &scribepb.Join{Group: id, Record: make([]byte, overlay.MaxRecord), Have: make([]uint64, maxHave)}}}},
		{"join of no group", false, &body{Body: &scribepb.Message_Join{Join: &scribepb.Join{Record: id}}}},
		{"join of nobody", false, &body{Body: &scribepb.Message_Join{Join: &scribepb.Join{Group: id}}}},
		{"join with a long record", false, &body{Body: &scribepb.Message_Join{Join: &scribepb.Join{Group: id, Record: make([]byte, overlay.MaxRecord+1)}}}},
		{"join of one who has much", false, &body{Body: &scribepb.Message_Join{Join: &scribepb.Join{Group: id, Record: id, Have: make([]uint64, maxHave+1)}}}},
		{"publish", true, &body{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{Group: id, Payload: make([]byte, MaxPayload)}}}},
		{"publish of much", false, &body{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{Group: id, Payload: make([]byte, MaxPayload+1)}}}},
		{"publish to no group", false, &body{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{Group: id[1:]}}}},
		{"accept", true, &body{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{Group: id, Record: id}}}},
		{"accept of nobody", false, &body{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{Group: id}}}},
		{"redirect", true, &body{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: id, Record: id}}}},
		{"redirect to nobody", false, &body{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: id}}}},
		{"part", true, &body{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: id}}}},
		{"part from no group", false, &body{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{}}}},
		{"down", true, &body{Body: &scribepb.Message_Multicast{Multicast: &scribepb.Multicast{Group: id, Payload: make([]byte, MaxPayload)}}}},
		{"down with much", false, &body{Body: &scribepb.Message_Multicast{Multicast: &scribepb.Multicast{Group: id, Payload: make([]byte, MaxPayload+1)}}}},
		{"got", true, &body{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: make([]uint64, maxAcks)}}}},
		{"got too many", false, &body{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: make([]uint64, maxAcks+1)}}}},
		{"beat", true, &body{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{}}}},
		{"beat ack", true, &body{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: &scribepb.HeartbeatAck{}}}},
		{"list", true, list(ids(maxList)...)},
		{"list of many", false, list(ids(maxList + 1)...)},
		{"list in disorder", false, list(ids(2)[1], ids(2)[0])},
		{"list with one twice", false, list(id, id)},
		{"list beyond its range", false, &body{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{First: id, Last: id, Edges: []*scribepb.Edge{{Group: ids(2)[1]}}}}}},
		{"list without a range", false, &body{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{}}}},
		{"drop", true, &body{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: ids(maxList)}}}},
		{"drop of many", false, &body{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: ids(maxList + 1)}}}},
		{"drop of no group", false, &body{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: [][]byte{{}}}}}},
		{"batch", true, batchOf(&scribepb.Batch{Rejects: &scribepb.Column{Groups: make([]byte, 32*maxBatch)}})},
		{"batch of nobody", false, &body{Body: &scribepb.Message_Batch{Batch: &scribepb.Batch{}}}},
		{"batch of too many", false, batchOf(&scribepb.Batch{
			Rejects: &scribepb.Column{Groups: make([]byte, 32*maxBatch)}, Prunes: &scribepb.Column{Groups: id, Edges: []uint64{1}},
		})},
		{"batch of a part of a group", false, batchOf(&scribepb.Batch{Rejects: &scribepb.Column{Groups: id[1:]}})},
		{"batch of ways", true, batchOf(&scribepb.Batch{RoutedJoins: &scribepb.Column{
			Groups: id, Edges: []uint64{1}, Weights: []uint32{1}, Records: []uint32{0},
		}})},
		{"batch of a nobody's way", false, batchOf(&scribepb.Batch{RoutedJoins: &scribepb.Column{
			Groups: id, Edges: []uint64{1}, Weights: []uint32{1}, Records: []uint32{1},
		}})},
		{"batch without an edge", false, batchOf(&scribepb.Batch{Accepts: &scribepb.Column{Groups: id}})},
		{"batch without a weight", false, batchOf(&scribepb.Batch{Joins: &scribepb.Column{Groups: id, Edges: []uint64{1}}})},
		{"batch of what has no edges", false, batchOf(&scribepb.Batch{Rejects: &scribepb.Column{Groups: id, Edges: []uint64{1}}})},
		{"batch with a long record", false, &body{Body: &scribepb.Message_Batch{Batch: &scribepb.Batch{Records: [][]byte{make([]byte, overlay.MaxRecord+1)}}}}},
		{"offer", true, &body{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: id, Room: 1<<32 - 1}}}},
		{"offer of no group", false, &body{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{}}}},
	} {
		if _, err := parse(wire.Encode(c.m)); (err == nil) != c.within || err != nil && !errors.Is(err, env.ErrFrame) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	a := newLab(f, Config{}).actor(1, true)
	g := a.of(1)
	edge := &scribepb.Edge{Group: g[:], Weight: 3}
	for _, m := range []*scribepb.Message{
		a.join(g, 2, 3, 4), publish(g, 1, "payload"), a.accept(g, 1), a.redirect(g), down(g, 1, "payload"),
		{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: g[:], Edge: 1}}},
		{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: []uint64{1, 2}}}},
		{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: 1, UpCount: 2, UpDigest: 3}}},
		{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: &scribepb.HeartbeatAck{Nonce: 1, Match: true}}},
		{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{First: g[:], Last: g[:], Edges: []*scribepb.Edge{edge}, Nonce: 1}}},
		{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: [][]byte{g[:], g[:]}}}},
		{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g[:], Room: 1, Reply: true}}},
		batchOf(&scribepb.Batch{
			Prunes:      &scribepb.Column{Groups: g[:], Edges: []uint64{1}},
			RoutedJoins: &scribepb.Column{Groups: g[:], Edges: []uint64{1}, Weights: []uint32{1}, Records: []uint32{0}},
			Redirects:   &scribepb.Column{Groups: g[:], Records: []uint32{0}},
		}),
	} {
		raw := wire.Encode(m)
		f.Add(raw)
		f.Add(append(raw, raw...))
		f.Add(raw[:len(raw)/2])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parse(raw)
		if err != nil {
			return
		}
		if again, err := parse(wire.Encode(m)); err != nil || !proto.Equal(m, again) {
			t.Fatalf("%v came back as %v: %v", m, again, err)
		}
	})
}

// Nodes have thousands of groups, a simulated network has millions. The next size class is 128
// bytes.
func TestAGroupIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(group{}); size > 120 {
		t.Errorf("%d bytes", size)
	}
}
