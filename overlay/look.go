package overlay

import (
	"slices"

	"tidings/overlay/overlaypb"
)

// maxLookSteps bounds the members asked in one search: prefixes grow by a digit
// with each, so more say that somebody sends us round in circles.
const maxLookSteps = 8

// A look is a search for somebody in a slot of the table. It goes from member to
// member, each nearer to the slot, until one has the slot in its leaf; only that
// one can say that nobody is there.
type look struct {
	row, col int
	key      ID // in the slot
	who      *peer
	asked    []ID
}

// lookFor looks for somebody in slot (row, col), unless it did so a moment ago.
func (n *Node) lookFor(row, col int) {
	now := n.clock.Now()
	s := &n.table.rows[row][col]
	if n.state != Active || s.asked != never && now.Sub(s.asked.time()) < holdLimit {
		return
	}
	s.asked = momentOf(now)
	l := &look{row: row, col: col, key: n.table.prefix(row, col, n.randomID())}
	for _, c := range n.nearestKnown(l.key, 4) {
		if p := n.peers.get(c.Peer.ID); c.ID != n.self.ID && p != nil && !p.suspect {
			n.lookAt(p, l)
			return
		}
	}
	if n.leaf.Len() == 1 {
		n.slotEmpty(s) // there is nobody at all
	}
}

// replace looks for somebody else in the slot of a contact that is silent, if nobody stands
// there with it who is not: a message that has to go there need not wait until it is buried.
func (n *Node) replace(silent *peer) {
	if silent.contact == nil {
		return
	}
	s, row, col := n.table.slot(silent.contact.ID, n.leaf.Depth())
	if s != nil && s.contact != nil && s.contact.suspect && (s.spare == nil || s.spare.suspect) {
		n.lookFor(row, col)
	}
}

func (n *Node) randomID() (id ID) {
	for i := range id {
		id[i] = byte(n.rand.Uint32())
	}
	return id
}

// lookAt asks the next member.
func (n *Node) lookAt(p *peer, l *look) {
	nonce := n.rand.Uint64() | 1
	l.who = p
	l.asked = append(l.asked, p.contact.ID)
	n.looks[nonce] = l
	n.after(p.patience(n.clock.Now()), task{kind: taskLook, n: nonce})
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{Nonce: nonce, Key: l.key[:]}}})
}

// lookUnanswered ends a search when a member does not answer: perhaps it is
// dead. The next message or the next turn of the rows searches again.
func (n *Node) lookUnanswered(nonce uint64) {
	if l := n.looks[nonce]; l != nil {
		delete(n.looks, nonce)
		l.who.suspect = true
		n.probe(l.who)
	}
}

func (n *Node) lookAnswered(p *peer, l *look, m *overlaypb.Nearby) {
	if l.who != p {
		return
	}
	delete(n.looks, m.Nonce)
	if l.row >= len(n.table.rows) || !n.table.beyond(l.row, l.col, n.leaf.Depth()) {
		return // the leaf has grown over it
	}
	inSlot := 4 * (l.row + 1)
	found := p.contact.ID.Common(l.key) >= inSlot
	var next *Contact
	for _, c := range n.open(m.Records) {
		if !c.Member || c.ID == n.self.ID {
			continue
		}
		if c.ID.Common(l.key) >= inSlot {
			found = true
			n.meet(c)
		}
		if Nearer(l.key, c.ID, p.contact.ID) && (next == nil || Nearer(l.key, c.ID, next.ID)) {
			next = c
		}
	}
	switch {
	case found:
	case m.Covers && p.contact.ID.Common(l.key) >= int(m.Depth):
		n.slotEmpty(&n.table.rows[l.row][l.col])
	case next != nil && len(l.asked) < maxLookSteps && !slices.Contains(l.asked, next.ID):
		n.lookAt(n.introduce(next), l)
	}
}

// slotEmpty takes a slot for empty, and passes on what waited for that.
func (n *Node) slotEmpty(s *slot) {
	if s.contact == nil && !s.empty {
		s.empty, s.counted = true, false
		n.release()
	}
}
