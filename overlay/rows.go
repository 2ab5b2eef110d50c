package overlay

import (
	"math"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay/overlaypb"
)

// quickRoundInterval is the time between the rounds through the whole table after a join.
const quickRoundInterval = 20 * time.Second

// askNextRow asks the next contact of the table for its row and count, or searches for a contact
// if the slot has none. After a join it asks the whole table at once, twice.
func (n *Node) askNextRow() {
	if n.state != Active {
		return
	}
	now := n.clock.Now()
	interval := n.tableInterval(now)
	var slots []func()
	n.table.each(n.leaf.Depth(), func(row, col int, s *slot) {
		if s.contact != nil {
			slots = append(slots, func() {
				n.askRow(s.contact, row)
				if s.spare != nil && now.Sub(s.spare.lastHeard.time()) >= interval {
					n.probe(s.spare) // otherwise a dead spare would be noticed only when it is needed
				}
			})
		} else {
			slots = append(slots, func() { n.searchSlot(row, col) })
		}
	})
	pause := interval
	switch {
	case n.quickRounds > 0:
		n.quickRounds--
		for _, ask := range slots {
			ask()
		}
		for row := range n.table.rows {
			if n.quickRounds == 0 {
				n.askLeafMember(row)
			}
		}
		pause = quickRoundInterval
	case len(slots) > 0:
		if n.slotTurn = (n.slotTurn + 1) % len(slots); n.slotTurn == 0 {
			n.askLeafMember(n.rand.IntN(len(n.table.rows)))
		}
		slots[n.slotTurn]()
		pause /= time.Duration(len(slots))
	}
	n.scheduleRow(n.jitter(pause))
}

// scheduleRow sets the time of the next askNextRow. Only one is scheduled at a time.
func (n *Node) scheduleRow(in time.Duration) {
	n.nextRowAt = n.clock.Now().Add(in)
	n.at(n.nextRowAt, task{kind: taskRow})
}

// askLeafMember asks a random member of the leaf for its contacts in a row. The leaf as a
// whole is honest, so a node that has only liars in its table learns of other members through
// it.
func (n *Node) askLeafMember(row int) {
	contacts := n.leaf.Members()
	c := contacts[n.rand.IntN(len(contacts))]
	if p := n.peers.get(c.Peer.ID); c != n.self && p != nil {
		n.askColumns(p, row, func(*slot) bool { return true })
	}
}

// askRow asks a member that shares `row` digits with the node for its count and for the
// contacts that the node's own row lacks.
func (n *Node) askRow(p *peer, row int) {
	p.knowsMe = false // it may have no place for this node, and have forgotten it
	n.askColumns(p, row, func(s *slot) bool {
		return s.contact == nil || s.spare == nil && !(s.counted && s.count < 2)
	})
}

// askColumns asks a member for contacts in those slots of a row that are wanted.
func (n *Node) askColumns(p *peer, row int, wanted func(*slot) bool) {
	var columns uint32
	for col := range n.table.rows[row] {
		if n.table.beyond(row, col, n.leaf.Depth()) && wanted(&n.table.rows[row][col]) {
			columns |= 1 << col
		}
	}
	now := n.clock.Now()
	p.row, p.rowSent, p.rowDue = int16(row), timestampOf(now), timestampOf(now.Add(p.answerTimeout(now)))
	n.at(p.rowDue.time(), task{kind: taskRowTimeout, peer: p.id})
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_RowRequest{RowRequest: &overlaypb.RowRequest{
		Row: uint32(row), Columns: columns,
	}}})
}

// rowUnanswered probes a contact that did not answer RowRequest, because it may be dead.
func (n *Node) rowUnanswered(p *peer, due time.Time) {
	if p != nil && p.rowDue != never && p.rowDue == timestampOf(due) {
		p.rowDue = never
		p.suspect = true
		n.probe(p)
	}
}

func (n *Node) onRowRequest(p *peer, m *overlaypb.RowRequest) {
	row := int(m.Row)
	if n.state != Active || p.contact == nil || n.self.ID.Common(p.contact.ID) < 4*row {
		return
	}
	r := &overlaypb.RowReply{Row: m.Row, Count: uint32(n.Count(4 * (row + 1)))}
	own := n.self.ID.Digit(row)
	for col := range 16 {
		if m.Columns&(1<<col) == 0 || col == own {
			continue
		}
		switch c, empty := n.memberInSlot(row, col, p.contact.ID); {
		case c != nil && c.ID != p.contact.ID:
			r.Records = append(r.Records, c.Raw)
		case empty:
			r.EmptyColumns |= 1 << col
		}
	}
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_RowReply{RowReply: r}})
}

// memberInSlot returns a member in slot (row, col). If there are two it returns the one nearer
// to the point of the asking node's slot. empty says that no member exists there, which is
// known only if the leaf holds the slot.
func (n *Node) memberInSlot(row, col int, asker ID) (c *Contact, empty bool) {
	if n.table.beyond(row, col, n.leaf.Depth()) {
		s := &n.table.rows[row][col]
		point := n.table.prefix(row, col, asker)
		switch {
		case s.contact == nil:
			return nil, false
		case s.spare != nil && Nearer(point, s.spare.contact.ID, s.contact.contact.ID):
			return s.spare.contact, false
		}
		return s.contact.contact, false
	}
	for _, c := range n.leaf.Members() { // the slot lies inside the leaf
		if c.ID.Common(n.self.ID) >= 4*row && c.ID.Digit(row) == col {
			return c, false
		}
	}
	return nil, true
}

func (n *Node) onRowReply(p *peer, m *overlaypb.RowReply) {
	if p.rowSent == never || int(p.row) != int(m.Row) {
		return // nobody asked for it
	}
	p.sample(n.clock.Now().Sub(p.rowSent.time()))
	p.rowSent, p.rowDue = never, never
	if n.state != Active || p.contact == nil || int(m.Row) >= len(n.table.rows) {
		return
	}
	row := int(m.Row)
	common := n.self.ID.Common(p.contact.ID)
	if common < 4*row {
		return
	}
	if s, r, _ := n.table.slot(p.contact.ID, n.leaf.Depth()); s != nil && r == row {
		if !(plant.StaleCount && s.counted) {
			s.count, s.counted = int32(min(m.Count, math.MaxInt32)), true
		}
	}
	for _, c := range n.openRecords(m.Records) {
		n.considerMember(c)
	}
	for col := range n.table.rows[row] {
		if m.EmptyColumns&(1<<col) != 0 && n.table.beyond(row, col, n.leaf.Depth()) {
			n.markEmpty(&n.table.rows[row][col])
		}
	}
}

// Count returns the number of members that share the first d bits of the node's id, the node
// included. The count is exact within the leaf and learned from contacts above it. Count(0) is
// the size of the network. A node that is not a member returns 0.
func (n *Node) Count(d int) int {
	if n.state != Active {
		return 0
	}
	depth := n.leaf.Depth()
	if d >= depth {
		count := 0
		for _, c := range n.leaf.Members() {
			if c.ID.Common(n.self.ID) >= d {
				count++
			}
		}
		return count
	}
	count := n.leaf.Len()
	for row := range n.table.rows {
		upper, lower := n.countBounds(row)
		n.table.each(depth, func(at, col int, s *slot) {
			switch {
			case at != row || n.table.common(row, col) < d || s.contact == nil:
			case s.counted:
				count += min(max(int(s.count), lower, 1), upper)
			default:
				count++
			}
		})
	}
	return count
}

// countBounds returns bounds for the count of a slot in a row. Members are spread evenly, so
// the slots of one row hold about the same number; a count more than five standard deviations
// from their median is not believed.
func (n *Node) countBounds(row int) (upper, lower int) {
	var counts []int
	n.table.each(n.leaf.Depth(), func(at, _ int, s *slot) {
		if at == row && s.contact != nil && s.counted {
			counts = append(counts, int(s.count))
		}
	})
	if len(counts) < 5 { // too few counts to compare, so the node's own leaf is the measure
		share := float64(n.leaf.Len()) * math.Pow(2, float64(n.leaf.Depth()-4*(row+1)))
		return int(2*share + 5*math.Sqrt(share) + 3), int(share/2 - 5*math.Sqrt(share) - 3)
	}
	slices.Sort(counts)
	median := float64(counts[len(counts)/2])
	return int(median + 5*math.Sqrt(median) + 3), int(median - 5*math.Sqrt(median) - 3)
}

// A Slot describes a slot of the routing table, which is for members that share Row digits
// with the node and have digit Column next.
type Slot struct {
	Row, Column int
	Contact     ID // zero: no contact is known
}

// Contacts returns one contact of each slot of the table beyond the leaf.
func (n *Node) Contacts() (contacts []*Contact) {
	n.table.each(n.leaf.Depth(), func(_, _ int, s *slot) {
		if s.contact != nil {
			contacts = append(contacts, s.contact.contact)
		}
	})
	return contacts
}

// Partners returns the peers that this node needs: the members of its leaf and table, and its
// hosts and clients.
func (n *Node) Partners() map[env.PeerID]bool {
	partners := map[env.PeerID]bool{}
	for _, contacts := range [][]*Contact{n.Contacts(), n.leaf.Members(), n.Hosts()} {
		for _, c := range contacts {
			partners[c.Peer.ID] = true
		}
	}
	for _, p := range n.clientList() {
		partners[p.contact.Peer.ID] = true
	}
	return partners
}

// Slots returns the slots beyond the leaf, from the first row on.
func (n *Node) Slots() (slots []Slot) {
	n.table.each(n.leaf.Depth(), func(row, col int, s *slot) {
		slot := Slot{Row: row, Column: col}
		if s.contact != nil {
			slot.Contact = s.contact.contact.ID
		}
		slots = append(slots, slot)
	})
	return slots
}

// EachSlot calls f for every slot beyond the leaf, from the first row on, with its contact and
// spare (nil if there is none) and the number of members below its prefix, clipped to what is
// believable. If no count is known, members is the upper bound.
func (n *Node) EachSlot(f func(row, col int, contact, spare *Contact, members int)) {
	at, upper, lower := -1, 0, 0
	n.table.each(n.leaf.Depth(), func(row, col int, s *slot) {
		if row != at {
			at = row
			upper, lower = n.countBounds(row)
		}
		members := upper
		if s.counted {
			members = min(max(int(s.count), lower, 1), upper)
		}
		f(row, col, contactOf(s.contact), contactOf(s.spare), members)
	})
}

func contactOf(p *peer) *Contact {
	if p == nil {
		return nil
	}
	return p.contact
}
