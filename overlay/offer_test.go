package overlay

import (
	"testing"

	"tidings/internal/env"
)

// A self-lookup begins one route at a bootstrap member, which no member has named, because all
// other routes of a node that knows only liars would stay among them. Only members that were
// found outside the network become bootstrap members.
func TestOneSelfLookupRouteBeginsAtABootstrapMember(t *testing.T) {
	l := newLab(t)
	n := l.member()
	door, named := l.actor(1), l.actor(2)
	n.pool.members = []*Contact{named.contact, door.contact}
	n.join.found = []env.Peer{door.contact.Peer}
	n.pool.keepBootstraps(n.cfg.Network.Name, n.join.found)
	n.pool.keepBootstraps(n.cfg.Network.Name, n.join.found) // the node joins again
	if len(n.pool.bootstraps) != 1 || n.pool.bootstraps[0] != door.contact {
		t.Fatalf("%d bootstrap members", len(n.pool.bootstraps))
	}
	n.join.search = search{}
	n.pool.clear()
	for _, liar := range l.actorsNear(n.ID(), 6, 2*lookupRoutes) {
		n.ensureContact(liar.contact)
		n.leaf.Add(liar.contact)
	}
	l.sent = nil
	n.selfLookup()
	l.run()
	asked := 0
	for _, m := range l.heard(door) {
		if f := m.GetFind(); f != nil && ID(f.Key) == n.ID() {
			asked++
		}
	}
	if others := len(l.sent); asked != 1 || others != lookupRoutes-1 {
		t.Errorf("the bootstrap member is asked %d times, other members %d times", asked, others)
	}
}
