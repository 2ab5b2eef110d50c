package overlay

import (
	"slices"

	"tidings/overlay/overlaypb"
)

// maxLookSteps bounds the members asked in one search: prefixes grow by a digit
// with each, so more say that somebody sends us round in circles.
const maxSlotSearchSteps = 8

// A look is a search for somebody in a slot of the table. It goes from member to
// member, each nearer to the slot, until one has the slot in its leaf; only that
// one can say that nobody is there.
type slotSearch struct {
	row, col int
	key      ID // in the slot
	current  *peer
	asked    []ID
}

// lookFor looks for somebody in slot (row, col), unless it did so a moment ago.
func (n *Node) searchSlot(row, col int) {
	now := n.clock.Now()
	s := &n.table.rows[row][col]
	if n.state != Active || s.searchedAt != never && now.Sub(s.searchedAt.time()) < holdLimit {
		return
	}
	s.searchedAt = timestampOf(now)
	search := &slotSearch{row: row, col: col, key: n.table.prefix(row, col, n.randomID())}
	for _, c := range n.nearestKnown(search.key, 4) {
		if p := n.peers.get(c.Peer.ID); c.ID != n.self.ID && p != nil && !p.suspect {
			n.stepSlotSearch(p, search)
			return
		}
	}
	if n.leaf.Len() == 1 {
		n.markEmpty(s) // there is nobody at all
	}
}

// replace looks for somebody else in the slot of a contact that is silent, if nobody stands
// there with it who is not: a message that has to go there need not wait until it is buried.
func (n *Node) replaceSilent(silent *peer) {
	if silent.contact == nil {
		return
	}
	s, row, col := n.table.slot(silent.contact.ID, n.leaf.Depth())
	if s != nil && s.contact != nil && s.contact.suspect && (s.spare == nil || s.spare.suspect) {
		n.searchSlot(row, col)
	}
}

func (n *Node) randomID() (id ID) {
	for i := range id {
		id[i] = byte(n.rand.Uint32())
	}
	return id
}

// lookAt asks the next member.
func (n *Node) stepSlotSearch(p *peer, search *slotSearch) {
	nonce := n.rand.Uint64() | 1
	search.current = p
	search.asked = append(search.asked, p.contact.ID)
	n.slotSearches[nonce] = search
	n.after(p.answerTimeout(n.clock.Now()), task{kind: taskSlotSearch, n: nonce})
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{Nonce: nonce, Key: search.key[:]}}})
}

// lookUnanswered ends a search when a member does not answer: perhaps it is
// dead. The next message or the next turn of the rows searches again.
func (n *Node) slotSearchUnanswered(nonce uint64) {
	if search := n.slotSearches[nonce]; search != nil {
		delete(n.slotSearches, nonce)
		search.current.suspect = true
		n.probe(search.current)
	}
}

func (n *Node) slotSearchAnswered(p *peer, search *slotSearch, m *overlaypb.Nearby) {
	if search.current != p {
		return
	}
	delete(n.slotSearches, m.Nonce)
	if search.row >= len(n.table.rows) || !n.table.beyond(search.row, search.col, n.leaf.Depth()) {
		return // the leaf has grown over it
	}
	inSlot := 4 * (search.row + 1)
	found := p.contact.ID.Common(search.key) >= inSlot
	var next *Contact
	for _, c := range n.openRecords(m.Records) {
		if !c.Member || c.ID == n.self.ID {
			continue
		}
		if c.ID.Common(search.key) >= inSlot {
			found = true
			n.considerMember(c)
		}
		if Nearer(search.key, c.ID, p.contact.ID) && (next == nil || Nearer(search.key, c.ID, next.ID)) {
			next = c
		}
	}
	switch {
	case found:
	case m.Covers && p.contact.ID.Common(search.key) >= int(m.Depth):
		n.markEmpty(&n.table.rows[search.row][search.col])
	case next != nil && len(search.asked) < maxSlotSearchSteps && !slices.Contains(search.asked, next.ID):
		n.stepSlotSearch(n.ensureContact(next), search)
	}
}

// slotEmpty takes a slot for empty, and passes on what waited for that.
func (n *Node) markEmpty(s *slot) {
	if s.contact == nil && !s.empty {
		s.empty, s.counted = true, false
		n.release()
	}
}
