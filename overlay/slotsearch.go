package overlay

import (
	"slices"

	"tidings/internal/env"
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
func (tu *tableUpkeep) searchSlot(row, col int) {
	now := tu.clock.Now()
	s := &tu.table.rows[row][col]
	if tu.state != Active || s.searchedAt != env.Never && now.Sub(s.searchedAt.Time()) < holdLimit {
		return
	}
	s.searchedAt = env.MomentOf(now)
	search := &slotSearch{row: row, col: col, key: tu.table.prefix(row, col, tu.randomID())}
	for _, c := range tu.nearestKnown(search.key, 4) {
		if p := tu.peers.get(c.Peer.ID); c.ID != tu.self.ID && p != nil && !p.suspect {
			tu.stepSlotSearch(p, search)
			return
		}
	}
	if tu.leaf.Len() == 1 {
		tu.markEmpty(s) // this node is the only member
	}
}

// replaceSilent searches for another member in the slot of a silent contact if the spare
// cannot replace it. A message through that slot then need not wait until the contact is
// declared dead.
func (tu *tableUpkeep) replaceSilent(silent *peer) {
	if silent.contact == nil {
		return
	}
	s, row, col := tu.table.slot(silent.contact.ID, tu.leaf.Depth())
	if s != nil && s.contact != nil && s.contact.suspect && (s.spare == nil || s.spare.suspect) {
		tu.searchSlot(row, col)
	}
}

// stepSlotSearch asks the next member.
func (tu *tableUpkeep) stepSlotSearch(p *peer, search *slotSearch) {
	nonce := tu.rand.Uint64() | 1
	search.current = p
	search.asked = append(search.asked, p.contact.ID)
	tu.slotSearches[nonce] = search
	tu.after(p.answerTimeout(tu.clock.Now()), task{kind: taskSlotSearch, n: nonce})
	tu.send(p, &overlaypb.Message{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{Nonce: nonce, Key: search.key[:]}}})
}

// slotSearchUnanswered ends a search if a member does not answer, and probes that member. The
// next message or the next round of rows searches again.
func (tu *tableUpkeep) slotSearchUnanswered(nonce uint64) {
	if search := tu.slotSearches[nonce]; search != nil {
		delete(tu.slotSearches, nonce)
		search.current.suspect = true
		tu.liveness.probe(search.current)
	}
}

// onNearby takes an answer to Find. It reports whether the Find belonged to a search.
func (tu *tableUpkeep) onNearby(p *peer, m *overlaypb.Nearby) bool {
	search := tu.slotSearches[m.Nonce]
	if search != nil && search.current == p {
		tu.slotSearchAnswered(p, search, m)
	}
	return search != nil
}

func (tu *tableUpkeep) slotSearchAnswered(p *peer, search *slotSearch, m *overlaypb.Nearby) {
	delete(tu.slotSearches, m.Nonce)
	if search.row >= len(tu.table.rows) || !tu.table.beyond(search.row, search.col, tu.leaf.Depth()) {
		return // the leaf now includes the slot
	}
	inSlot := 4 * (search.row + 1)
	found := p.contact.ID.Common(search.key) >= inSlot
	var next *Contact
	for _, c := range tu.openRecords(m.Records) {
		if !c.Member || c.ID == tu.self.ID {
			continue
		}
		if c.ID.Common(search.key) >= inSlot {
			found = true
			tu.liveness.considerMember(c)
		}
		if Nearer(search.key, c.ID, p.contact.ID) && (next == nil || Nearer(search.key, c.ID, next.ID)) {
			next = c
		}
	}
	switch {
	case found:
	case m.Covers && p.contact.ID.Common(search.key) >= int(m.Depth):
		tu.markEmpty(&tu.table.rows[search.row][search.col])
	case next != nil && len(search.asked) < maxSlotSearchSteps && !slices.Contains(search.asked, next.ID):
		tu.stepSlotSearch(tu.ensureContact(next), search)
	}
}

// markEmpty marks a slot as confirmed empty, and releases the messages that waited for it.
func (tu *tableUpkeep) markEmpty(s *slot) {
	if s.contact == nil && !s.empty {
		s.empty, s.counted = true, false
		tu.slotEmpty()
	}
}
