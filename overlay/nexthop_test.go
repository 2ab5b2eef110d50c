package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidings/internal/env"
)

// Whatever leaf and table contain, each next hop is nearer to the key than the node, and is
// the nearest one possible. Suspects and peers that were tried are skipped as long as there
// are others. A node is the root only if it knows no nearer member and every slot that could
// hold one is confirmed empty.
func TestEveryHopIsNearer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newLab(t).member()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		depth := rapid.IntRange(0, 6).Draw(rt, "depth")
		n.leaf.SetDepth(depth)
		n.table.resize(depth)
		var met []*peer
		for range rapid.IntRange(0, 60).Draw(rt, "peers") {
			c := &Contact{Member: true}
			copy(c.ID[:], n.self.ID[:r.IntN(2)])
			for i := range c.ID {
				if c.ID[i] == 0 || r.IntN(2) == 0 {
					c.ID[i] = byte(r.Uint32())
				}
			}
			c.Peer.ID = env.PeerID(c.ID[:])
			p := n.ensureContact(c)
			p.suspect = r.IntN(4) == 0
			if n.leaf.Covers(c.ID) {
				n.leaf.Add(c)
			} else if out := n.table.put(p, depth); out != nil {
				met = slices.DeleteFunc(met, func(q *peer) bool { return q == out })
				if out == p {
					continue
				}
			}
			met = append(met, p)
		}
		confirmed := rapid.Bool().Draw(rt, "slots confirmed")
		n.table.each(depth, func(_, _ int, s *slot) { s.empty = s.contact == nil && (confirmed || r.IntN(2) == 0) })
		var tried []*peer
		for _, p := range met {
			if r.IntN(5) == 0 {
				tried = append(tried, p)
			}
		}
		key := drawID(rt, "key")
		if rapid.Bool().Draw(rt, "key in the leaf") {
			copy(key[:2], n.self.ID[:2])
		}

		next, root, wait := n.nextHop(key, tried)
		if root && (next != nil || wait) || next != nil && !Nearer(key, next.contact.ID, n.self.ID) {
			rt.Fatalf("next %v, root %v, wait %v", next, root, wait)
		}
		isTried := func(p *peer) bool {
			for _, q := range tried {
				if p == q {
					return true
				}
			}
			return false
		}
		covers := n.leaf.Covers(key)
		here, _, _ := n.table.slot(key, depth)
		nearer, good := 0, 0
		for _, p := range met {
			if !Nearer(key, p.contact.ID, n.self.ID) ||
				covers && n.leaf.Has(p.contact.ID) == nil ||
				here != nil && here.contact != nil && here.contact != p && here.spare != p {
				continue // it is not a possible next hop
			}
			if nearer++; p.suspect || isTried(p) {
				continue
			}
			good++
			if next != nil && !next.suspect && Nearer(key, p.contact.ID, next.contact.ID) {
				rt.Fatalf("goes to %v, but %v is nearer", next.contact.ID, p.contact.ID)
			}
		}
		if root && nearer > 0 {
			rt.Fatalf("considers itself the root, but knows %d nearer members", nearer)
		}
		if good > 0 && (next == nil || next.suspect || isTried(next)) {
			rt.Fatalf("goes to %+v although %d others are nearer, and no suspects", next, good)
		}
		if next != nil && isTried(next) {
			rt.Fatal("goes again to a peer that was tried")
		}
		if confirmed && wait || nearer == 0 && root == wait {
			rt.Fatalf("%d nearer, slots confirmed: %v; root %v, wait %v", nearer, confirmed, root, wait)
		}
		if !covers {
			n.table.each(depth, func(row, col int, s *slot) {
				if root && !s.empty && s.contact == nil && Nearer(key, n.table.prefix(row, col, key), n.self.ID) {
					rt.Fatalf("considers itself the root, but a nearer member may exist in slot (%d, %d)", row, col)
				}
			})
		}
	})
}

func TestClientSendsThroughItsHosts(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	var hosts []*peer
	for i := range 2 {
		p := n.ensureContact(l.actor(i + 1).contact)
		p.isHost = true
		hosts = append(hosts, p)
	}
	n.hosts, n.state = hosts, Attached
	key := Key(l.network.Name, "http://example.org/")
	hop := func(tried ...*peer) *peer {
		next, root, _ := n.nextHop(key, tried)
		if root || n.IsRoot(key) {
			t.Error("a client considers itself a root")
		}
		return next
	}
	if hop() != nil {
		t.Error("sends through a member that has not agreed to act for it")
	}
	hosts[0].attached, hosts[1].attached = env.MomentOf(l.now), env.MomentOf(l.now)
	if hop() != hosts[0] || hop(hosts[0]) != hosts[1] || hop(hosts...) != nil {
		t.Error("does not send through the first that was not tried")
	}
	if hosts[0].suspect = true; hop() != hosts[1] || hop(hosts[1]) != hosts[0] {
		t.Error("uses a suspect although there is another host")
	}
}
