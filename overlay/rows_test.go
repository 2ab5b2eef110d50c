package overlay

import (
	"testing"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// A node that has only liars in a slot asks members of its leaf, and takes a member that is
// nearer to the slot's point than both liars, whatever their round-trip times are.
func TestSlotOfLiarsIsRepairedThroughTheLeaf(t *testing.T) {
	l := newLab(t)
	n := l.member()
	n.leafUpkeep.setDepth(1)
	mate := l.actorsNear(n.ID(), 1, 1)[0]
	l.say(mate, probe(&overlaypb.Probe{Nonce: 1, Depth: 1}))

	// Four actors in one slot, the nearest to its point first.
	slots := map[int][]*actor{}
	col := -1
	for _, a := range l.actorsNear(n.ID(), 0, 60) {
		_, _, at := n.table.slot(a.contact.ID, 1)
		if slots[at] = append(slots[at], a); len(slots[at]) == 4 && col < 0 {
			col = at
		}
	}
	point := n.table.prefix(0, col, n.ID())
	by, contacts := map[ID]*actor{}, []*Contact{}
	for _, a := range slots[col][:4] {
		by[a.contact.ID], contacts = a, append(contacts, a.contact)
	}
	contacts = nearestN(contacts, point, 4)

	for _, liar := range contacts[1:3] {
		l.say(by[liar.ID], probe(&overlaypb.Probe{Nonce: 1, Depth: 1}))
		n.peers.get(liar.Peer.ID).rtt = microseconds(1)
	}
	l.heard(mate)
	for n.peers.get(mate.id()).rowSent == env.Never {
		n.tableUpkeep.askLeafMember(0) // the random choice may be the node itself
	}
	if m := l.heard(mate)[0].GetRowRequest(); m == nil || m.Columns&(1<<col) == 0 {
		t.Fatalf("the mate was asked %v: column %d has two contacts", m, col)
	}
	give := &overlaypb.RowReply{Records: [][]byte{contacts[3].Raw, contacts[0].Raw}}
	l.say(mate, &overlaypb.Message{Body: &overlaypb.Message_RowReply{RowReply: give}})
	if l.answers(by[contacts[3].ID]) > 0 || l.answers(by[contacts[0].ID]) == 0 {
		t.Error("probed a member farther than both, or did not probe a nearer one")
	}
	if s := n.table.rows[0][col]; s.contact.contact.ID != contacts[0].ID && s.spare.contact.ID != contacts[0].ID {
		t.Error("the member nearest to the slot's point has no place")
	}
}
