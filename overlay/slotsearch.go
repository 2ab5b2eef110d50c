package overlay

import (
	"slices"

	"tidings/overlay/overlaypb"
)

// maxSlotSearchSteps bounds the members asked in one search. Prefixes grow by a digit with
// each step, so a longer search is being sent round in circles.
const maxSlotSearchSteps = 8

// A slotSearch looks for a member in a slot of the table. It goes from member to member, each
// nearer to the slot, until one has the slot in its leaf. Only that member can say that the
// slot is empty.
type slotSearch struct {
	row, col int
	key      ID // a random id in the slot
	current  *peer
	asked    []ID
}

// searchSlot searches for a member in slot (row, col), unless it did so within holdLimit.
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
		n.markEmpty(s) // this node is the only member
	}
}

// replaceSilent searches for another member in the slot of a silent contact if the spare
// cannot replace it. A message through that slot then need not wait until the contact is
// declared dead.
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

// stepSlotSearch asks the next member.
func (n *Node) stepSlotSearch(p *peer, search *slotSearch) {
	nonce := n.rand.Uint64() | 1
	search.current = p
	search.asked = append(search.asked, p.contact.ID)
	n.slotSearches[nonce] = search
	n.after(p.answerTimeout(n.clock.Now()), task{kind: taskSlotSearch, n: nonce})
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{Nonce: nonce, Key: search.key[:]}}})
}

// slotSearchUnanswered ends a search if a member does not answer, and probes that member. The
// next message or the next round of rows searches again.
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
		return // the leaf now includes the slot
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

// markEmpty marks a slot as confirmed empty, and releases the messages that waited for it.
func (n *Node) markEmpty(s *slot) {
	if s.contact == nil && !s.empty {
		s.empty, s.counted = true, false
		n.release()
	}
}
