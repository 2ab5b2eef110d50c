package overlay

import (
	"slices"
	"testing"
	"time"

	"tidings/overlay/overlaypb"
)

// stranger starts a node that is no founder, is dialled back, and was told of an actor.
func (l *lab) stranger(a *actor) *Node {
	n := l.boot()
	n.cfg.Founder = false
	n.cfg.RolePatience = 0
	n.Reachable([]string{"here"})
	n.Found(a.contact.Peer)
	l.run()
	return n
}

// nearby is an answer to a joining node: from whose leaf, and whom it names.
func (l *lab) nearby(nonce uint64, covers bool, of ...*actor) *overlaypb.Message {
	m := &overlaypb.Nearby{Nonce: nonce, Covers: covers}
	for _, a := range of {
		m.Records = append(m.Records, a.contact.Raw)
	}
	return &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: m}}
}

// finds answers what actors are asked for: each names the others, and covers the node's id.
// The questions of look-ups, of which it returns the number, are answered too, or are not.
func (l *lab) finds(lookups bool, of ...*actor) (asked int) {
	for _, a := range of {
		for _, m := range l.heard(a) {
			switch f, p := m.GetFind(), m.GetProbe(); {
			case f != nil && f.Limit > 0 && !lookups:
				asked++
			case f != nil:
				asked += min(int(f.Limit), 1)
				l.say(a, l.nearby(f.Nonce, true, of...))
			case p != nil && !p.Reply:
				l.say(a, probe(&overlaypb.Probe{Nonce: p.Nonce, Reply: true, Attach: p.Attach, Depth: p.Depth, Digest: p.Digest, Decided: p.Decided}))
			}
		}
	}
	return asked
}

// A node whose addresses go while it looks for its place becomes a client; when it has some
// again, it looks anew: what it was looking up before is nothing it waits for.
func TestWhoLosesItsAddressesWhileItJoinsFindsItsPlaceLater(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	n := l.stranger(a)
	for _, m := range l.heard(a) { // it knows the way to somebody nearer, who is slow
		if f := m.GetFind(); f != nil {
			l.say(a, l.nearby(f.Nonce, false, b))
		}
	}
	if !n.join.lookingUp() {
		t.Fatal("it does not look up its place while it asks its way")
	}
	n.Reachable(nil)
	for range 600 { // the look-up finds nobody
		l.finds(false, a, b)
		l.pass(100 * time.Millisecond)
	}
	if n.State() != Attached {
		t.Fatalf("%v without addresses", n.State())
	}
	n.Reachable([]string{"here"})
	for range 400 {
		l.finds(true, a, b)
		l.pass(100 * time.Millisecond)
	}
	if n.State() != Active || n.Leaf().Len() != 3 {
		t.Errorf("%v, %d in the leaf", n.State(), n.Leaf().Len())
	}
}

// What a node looked up with nothing but one peer's word is looked up again if others then
// name members whom nobody it asked has named: the first may have named liars only.
func TestALiarWhoIsAskedFirstDoesNotChooseWhomAJoiningNodeFinds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.boot()
	honest := l.near(n.ID(), 9, joinWant)
	liars := l.near(n.ID(), 6, joinWant)
	n.cfg.Founder = false
	n.Reachable([]string{"here"})
	n.Found(liars[0].contact.Peer)
	l.run()
	for _, m := range l.heard(liars[0]) {
		l.say(liars[0], l.nearby(m.GetFind().Nonce, false, liars[1:]...))
	}
	var way []*overlaypb.Find // whom it asks for its way is slower than those it looks up by
	for range 20 {
		for _, a := range liars {
			for _, m := range l.heard(a) {
				if f := m.GetFind(); f != nil && f.Limit == 0 {
					way = append(way, f)
				} else if f != nil {
					l.say(a, l.nearby(f.Nonce, true, liars[1:]...))
				}
			}
		}
		l.pass(10 * time.Millisecond)
	}
	if n.join.lookingUp() || len(n.join.nearest) == 0 || len(way) == 0 {
		t.Fatalf("it has found %d, and asks %d for its way", len(n.join.nearest), len(way))
	}
	l.say(liars[1], l.nearby(way[0].Nonce, true, honest...)) // this one knows honest members too
	asked := 0
	for range 20 {
		asked += l.finds(true, honest...)
		l.finds(true, liars...)
		l.pass(10 * time.Millisecond)
	}
	if asked < len(honest) {
		t.Errorf("%d questions to honest members", asked)
	}
	if leaf := n.Leaf(); leaf.Has(honest[0].contact.ID) == nil {
		t.Errorf("%v in a leaf of %d without the honest", n.State(), leaf.Len())
	}
}

// The routes of a look-up begin with members who were named by different peers, one each;
// of a leaf that was offered no second one begins a route while there are others.
func TestRoutesBeginWithTheWordOfMany(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	one, two, offered := l.near(n.ID(), 3, 12), l.near(n.ID(), 4, 1), l.near(n.ID(), 5, 12)
	n.addToPool(one[0].contact.ID, contacts(one))
	n.addToPool(two[0].contact.ID, contacts(two))
	n.addToPool(offered[0].contact.ID, contacts(offered))
	n.addToPool(one[0].contact.ID, contacts(offered)) // that he names them too is not the first word of them
	n.join.offer = &offer{members: contacts(offered)}
	from := slices.Clone(n.join.pool)
	slices.Reverse(from)
	n.join.interleave(from)
	words := map[ID]int{}
	for i, c := range from[:14] {
		if words[n.join.namedBy[c.ID]]++; i == 2 && len(words) != 3 {
			t.Errorf("the first three are named by %d", len(words))
		}
	}
	if got := words[one[0].contact.ID]; got != 12 {
		t.Errorf("%d by one who has offered nothing", got)
	}
}

func contacts(of []*actor) (cs []*Contact) {
	for _, a := range of {
		cs = append(cs, a.contact)
	}
	return cs
}

// A peer that the node knows goes on probing it, and answers nothing or too little: the others are asked
// all the same, and the node finds its place.
func TestOneThatGoesOnProbingKeepsNobodyOut(t *testing.T) {
	for name, answers := range map[string]bool{"silent": false, "answers at once": true} {
		l := newLab(t)
		n := l.boot()
		n.cfg.Founder = false
		pest, honest := l.near(n.ID(), 9, 1)[0], l.near(n.ID(), 3, 2)
		n.remembered = append(n.remembered, pest.contact, honest[0].contact, honest[1].contact)
		n.Reachable([]string{"here"})
		l.run()
		began, asked := l.now, 0
		for l.now.Sub(began) < 3*time.Minute && n.State() != Active {
			for _, m := range l.heard(pest) {
				if f := m.GetFind(); f != nil {
					if asked++; answers {
						l.say(pest, l.nearby(f.Nonce, false))
					}
				}
			}
			l.say(pest, probe(&overlaypb.Probe{Nonce: 7}))
			l.finds(true, honest...)
			l.pass(50 * time.Millisecond)
		}
		if took := l.now.Sub(began); n.State() != Active || asked > 60 {
			t.Errorf("%s: %v after %v, and asked it %d times", name, n.State(), took, asked)
		}
	}
}

// A client is told by one that is no member itself that it is the one to turn to: it has nobody to act for it, and
// asks again in pauses.
func TestAClientWithoutHostsAsksInPauses(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	n.cfg.Founder, n.cfg.RolePatience = false, 0
	a := l.actor(1)
	a.contact = newRecord(n.network, a.signer, nil, l.now, false)
	n.Found(a.contact.Peer)
	l.run()
	asked := 0
	for range 60 * 20 {
		for _, m := range l.heard(a) {
			if f := m.GetFind(); f != nil {
				asked++
				l.say(a, l.nearby(f.Nonce, true))
			}
		}
		l.pass(50 * time.Millisecond)
	}
	if asked < 5 || asked > 20 {
		t.Errorf("it asks %d times in a minute", asked)
	}
}
