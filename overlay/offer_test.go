package overlay

import (
	"testing"

	"tidings/internal/env"
)

// Who looks for itself begins one route at a door, whom no member has named: among liars only, all
// others would stay with them. Of those whom it met on its way to the network, only who was found
// outside it is one.
func TestOneRouteBeginsAtADoor(t *testing.T) {
	l := newLab(t)
	n := l.member()
	door, named := l.actor(1), l.actor(2)
	n.join.pool = []*Contact{named.contact, door.contact}
	n.join.found = []env.Peer{door.contact.Peer}
	n.keepBootstraps()
	n.keepBootstraps() // it joins again
	if len(n.bootstraps) != 1 || n.bootstraps[0] != door.contact {
		t.Fatalf("%d doors", len(n.bootstraps))
	}
	n.join = join{}
	for _, liar := range l.near(n.ID(), 6, 2*lookupRoutes) {
		n.ensureContact(liar.contact)
		n.leaf.Add(liar.contact)
	}
	l.sent = nil
	n.lookUpSelfAgain()
	l.run()
	asked := 0
	for _, m := range l.heard(door) {
		if f := m.GetFind(); f != nil && ID(f.Key) == n.ID() {
			asked++
		}
	}
	if others := len(l.sent); asked != 1 || others != lookupRoutes-1 {
		t.Errorf("the door is asked %d times, %d messages go to others", asked, others)
	}
}
