package overlay

import (
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// Across returns a member of the right half, the same one each time, and spreads picks evenly
// over all known candidates.
func TestAcrossIsStableAndSpreads(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.member()
	for i := range 120 {
		l.say(l.actor(i+1), probe(&overlaypb.Probe{Nonce: 1}))
		if i%10 == 0 {
			l.pass(time.Second)
			for j := range 120 {
				l.answers(l.actor(j + 1))
			}
		}
	}
	for range 60 {
		l.pass(300 * time.Millisecond)
		for j := range 120 {
			l.answers(l.actor(j + 1))
		}
	}
	if n.Leaf().Depth() == 0 {
		t.Fatal("one leaf holds all")
	}
	beyond := map[int]int{} // contacts and spares, by the number of bits they share
	n.EachEntry(func(_, _ int, c *Contact) { beyond[n.self.ID.Common(c.ID)]++ })
	for d := range 12 {
		known := beyond[d]
		if d >= n.Leaf().Depth() {
			known = 0
			for _, c := range n.Leaf().Members() {
				if n.self.ID.Common(c.ID) == d {
					known++
				}
			}
		}
		const picks = 2000
		chosen := map[ID]int{}
		for pick := range uint64(picks) {
			c := n.Across(d, pick)
			if c == nil {
				break
			}
			if n.self.ID.Common(c.ID) != d {
				t.Fatalf("bit %d: %v shares %d bits with the node", d, c.ID.Short(), n.self.ID.Common(c.ID))
			}
			if n.Across(d, pick) != c {
				t.Fatalf("bit %d, pick %d: a different member the second time", d, pick)
			}
			other := n.Across(d, pick, c.Peer.ID)
			if (other == nil) != (known == 1) || other == c {
				t.Fatalf("bit %d: an excepted member is returned", d)
			}
			chosen[c.ID]++
		}
		if len(chosen) != known {
			t.Errorf("bit %d: %d of %d are chosen", d, len(chosen), known)
		}
		for id, count := range chosen {
			if mean := picks / known; count < mean/2 || count > 2*mean {
				t.Errorf("bit %d: %v is chosen %d times, the mean is %d", d, id.Short(), count, mean)
			}
		}
	}
	if n.Across(-1, 1) != nil || n.Across(Bits, 1) != nil {
		t.Error("a bit out of range has members across")
	}
}

// A suspect is returned only if there is nobody else.
func TestAcrossAvoidsSuspects(t *testing.T) {
	l := newLab(t)
	n := l.member()
	two := l.actorsNear(n.ID(), 1, 2)
	for _, a := range two {
		l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
		l.answers(a)
	}
	for pick := range uint64(20) {
		for i, a := range two {
			n.peers.get(a.id()).suspect = true
			if c := n.Across(1, pick); c == nil || c.Peer.ID != two[1-i].id() {
				t.Fatalf("pick %d: a suspect is returned", pick)
			}
			if c := n.Across(1, pick, two[1-i].id()); c == nil || c.Peer.ID != a.id() {
				t.Fatalf("pick %d: the only candidate is not returned", pick)
			}
			n.peers.get(a.id()).suspect = false
		}
	}
}

func TestRTT(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a := l.actor(1)
	if d := n.RTT(a.id()); d != 0 {
		t.Errorf("an unmeasured peer has round trip %v", d)
	}
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	l.heard(a)
	n.probe(n.peers.get(a.id()))
	l.now = l.now.Add(80 * time.Millisecond)
	if l.answers(a) != 1 || n.RTT(a.id()) != 80*time.Millisecond {
		t.Errorf("the round trip is %v", n.RTT(a.id()))
	}
	if n.RTT(env.PeerID("nobody")) != 0 {
		t.Error("an unknown peer has a round trip")
	}
}
