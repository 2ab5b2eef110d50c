package overlay

import (
	"slices"
	"testing"
	"time"

	"tidings/overlay/overlaypb"
)

// newNode starts a node that is not a founder, is dialled back, and has found an actor.
func (l *lab) newNode(a *actor) *Node {
	n := l.boot()
	n.cfg.Founder = false
	n.cfg.DialBackTimeout = 0
	n.Reachable([]string{"here"})
	n.Found(a.contact.Peer)
	l.run()
	return n
}

// nearby returns an answer to a joining node that names the given actors; covers says whether
// their leaf holds the key.
func (l *lab) nearby(nonce uint64, covers bool, actors ...*actor) *overlaypb.Message {
	m := &overlaypb.Nearby{Nonce: nonce, Covers: covers}
	for _, a := range actors {
		m.Records = append(m.Records, a.contact.Raw)
	}
	return &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: m}}
}

// answerFinds answers the Finds sent to actors: each actor names the others and covers the
// node's id. It returns the number of queries of lookups, which it answers only if lookups is
// true.
func (l *lab) answerFinds(lookups bool, actors ...*actor) (asked int) {
	for _, a := range actors {
		for _, m := range l.heard(a) {
			switch f, p := m.GetFind(), m.GetProbe(); {
			case f != nil && f.Limit > 0 && !lookups:
				asked++
			case f != nil:
				asked += min(int(f.Limit), 1)
				l.say(a, l.nearby(f.Nonce, true, actors...))
			case p != nil && !p.Reply:
				l.say(a, probe(&overlaypb.Probe{Nonce: p.Nonce, Reply: true, Attach: p.Attach, Depth: p.Depth, Digest: p.Digest, Decided: p.Decided}))
			}
		}
	}
	return asked
}

// A node that loses its addresses while it joins becomes a client. When it has addresses again
// it starts a new lookup and does not wait for the old one.
func TestNodeThatLosesItsAddressesWhileJoiningJoinsLater(t *testing.T) {
	l := newLab(t)
	a, b := l.actor(1), l.actor(2)
	n := l.newNode(a)
	for _, m := range l.heard(a) { // a peer knows a nearer member, which answers slowly
		if f := m.GetFind(); f != nil {
			l.say(a, l.nearby(f.Nonce, false, b))
		}
	}
	if !n.join.lookingUp() {
		t.Fatal("no lookup is running while it asks for the way")
	}
	n.Reachable(nil)
	for range 600 { // the lookup finds no member
		l.answerFinds(false, a, b)
		l.pass(100 * time.Millisecond)
	}
	if n.State() != Attached {
		t.Fatalf("%v without addresses", n.State())
	}
	n.Reachable([]string{"here"})
	for range 400 {
		l.answerFinds(true, a, b)
		l.pass(100 * time.Millisecond)
	}
	if n.State() != Active || n.Leaf().Len() != 3 {
		t.Errorf("%v, %d in the leaf", n.State(), n.Leaf().Len())
	}
}

// If a node looked up its neighbours with the answer of a single peer, and later hears of
// members that none of the peers it asked had named, it repeats the lookup: the first peer may
// have named only liars.
func TestLiarAskedFirstDoesNotChooseTheMembersFound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.boot()
	honest := l.actorsNear(n.ID(), 9, joinWant)
	liars := l.actorsNear(n.ID(), 6, joinWant)
	n.cfg.Founder = false
	n.Reachable([]string{"here"})
	n.Found(liars[0].contact.Peer)
	l.run()
	for _, m := range l.heard(liars[0]) {
		l.say(liars[0], l.nearby(m.GetFind().Nonce, false, liars[1:]...))
	}
	var way []*overlaypb.Find // the Find to the nearer member is answered later than the lookup
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
		t.Fatalf("its lookup found %d members, and %d Finds are outstanding", len(n.join.nearest), len(way))
	}
	l.say(liars[1], l.nearby(way[0].Nonce, true, honest...)) // this one knows honest members too
	asked := 0
	for range 20 {
		asked += l.answerFinds(true, honest...)
		l.answerFinds(true, liars...)
		l.pass(10 * time.Millisecond)
	}
	if asked < len(honest) {
		t.Errorf("%d queries to honest members", asked)
	}
	if leaf := n.Leaf(); leaf.Has(honest[0].contact.ID) == nil {
		t.Errorf("%v in a leaf of %d without the honest", n.State(), leaf.Len())
	}
}

// The routes of a lookup begin with members named by different peers, one each. A second
// member of an offered leaf begins a route only if there are no others.
func TestRoutesBeginWithMembersNamedByDifferentPeers(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	one, two, offered := l.actorsNear(n.ID(), 3, 12), l.actorsNear(n.ID(), 4, 1), l.actorsNear(n.ID(), 5, 12)
	n.pool.add(n.self.ID, one[0].contact.ID, contacts(one))
	n.pool.add(n.self.ID, two[0].contact.ID, contacts(two))
	n.pool.add(n.self.ID, offered[0].contact.ID, contacts(offered))
	n.pool.add(n.self.ID, one[0].contact.ID, contacts(offered)) // only the first peer that named them counts
	n.pool.offer = &offer{members: contacts(offered)}
	from := slices.Clone(n.pool.members)
	slices.Reverse(from)
	n.pool.interleave(from)
	words := map[ID]int{}
	for i, c := range from[:14] {
		if words[n.pool.namedBy[c.ID]]++; i == 2 && len(words) != 3 {
			t.Errorf("the first three were named by %d peers", len(words))
		}
	}
	if got := words[one[0].contact.ID]; got != 12 {
		t.Errorf("%d members named by a peer outside the offer", got)
	}
}

func contacts(actors []*actor) (cs []*Contact) {
	for _, a := range actors {
		cs = append(cs, a.contact)
	}
	return cs
}

// A known peer keeps probing and answers nothing or too little. The node still asks the others
// and joins.
func TestPeerThatKeepsProbingDoesNotBlockAJoin(t *testing.T) {
	for name, answers := range map[string]bool{"silent": false, "answers at once": true} {
		l := newLab(t)
		n := l.boot()
		n.cfg.Founder = false
		pest, honest := l.actorsNear(n.ID(), 9, 1)[0], l.actorsNear(n.ID(), 3, 2)
		n.memory.remembered = append(n.memory.remembered, pest.contact, honest[0].contact, honest[1].contact)
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
			l.answerFinds(true, honest...)
			l.pass(50 * time.Millisecond)
		}
		if took := l.now.Sub(began); n.State() != Active || asked > 60 {
			t.Errorf("%s: %v after %v, and asked it %d times", name, n.State(), took, asked)
		}
	}
}

// A peer that is not a member claims to cover a client's id. The client finds no host, and
// asks again after pauses.
func TestClientWithoutHostsBacksOff(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	n.cfg.Founder, n.cfg.DialBackTimeout = false, 0
	a := l.actor(1)
	a.contact = newRecord(n.cfg.Network.Name, a.signer, nil, l.now, false)
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
