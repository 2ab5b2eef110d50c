package overlay

import (
	"time"

	"tidings/internal/plant"
	"tidings/overlay/overlaypb"
)

// quickPause is the time between the rounds through the whole table after a join.
const quickPause = 20 * time.Second

// rowTurn asks the next contact of the table for its row and count, or has
// a slot without one looked into; after a join it asks all of them at once, twice.
func (n *Node) rowTurn() {
	if n.state != Active {
		return
	}
	var slots []func()
	n.table.each(n.leaf.Depth(), func(row, col int, s *slot) {
		if s.contact != nil {
			slots = append(slots, func() {
				n.askRow(s.contact, row)
				if s.spare != nil && n.clock.Now().Sub(s.spare.heard.time()) >= n.cfg.TableInterval {
					n.probe(s.spare) // or it would be found dead when it is needed
				}
			})
		} else {
			slots = append(slots, func() { n.lookFor(row, col) })
		}
	})
	pause := n.cfg.TableInterval
	switch {
	case n.quick > 0:
		n.quick--
		for _, ask := range slots {
			ask()
		}
		pause = quickPause
	case len(slots) > 0:
		n.turn = (n.turn + 1) % len(slots)
		slots[n.turn]()
		pause /= time.Duration(len(slots))
	}
	n.planRow(n.spread(pause))
}

// planRow sets the time of the next rowTurn; there is only one.
func (n *Node) planRow(in time.Duration) {
	n.rowAt = n.clock.Now().Add(in)
	n.at(n.rowAt, task{kind: taskRow})
}

// askRow asks a member that shares `row` digits with the node for its count and
// for what the node's own row lacks.
func (n *Node) askRow(p *peer, row int) {
	var lacks uint32
	for col := range n.table.rows[row] {
		s := &n.table.rows[row][col]
		if n.table.beyond(row, col, n.leaf.Depth()) && (s.contact == nil || s.spare == nil) {
			lacks |= 1 << col
		}
	}
	now := n.clock.Now()
	p.row, p.rowSent, p.rowDue = int16(row), momentOf(now), momentOf(now.Add(p.patience(now)))
	n.at(p.rowDue.time(), task{kind: taskRowDue, peer: p.id})
	p.told = false // it may have no place for me, and forget who I am
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_RowAsk{RowAsk: &overlaypb.RowAsk{
		Row: uint32(row), Columns: lacks,
	}}})
}

// rowUnanswered goes on when a contact did not answer RowAsk: perhaps it is dead.
func (n *Node) rowUnanswered(p *peer, due time.Time) {
	if p != nil && p.rowDue != never && p.rowDue == momentOf(due) {
		p.rowDue = never
		p.suspect = true
		n.probe(p)
	}
}

func (n *Node) onRowAsk(p *peer, m *overlaypb.RowAsk) {
	row := int(m.Row)
	if n.state != Active || p.contact == nil || n.self.ID.Common(p.contact.ID) < 4*row {
		return
	}
	r := &overlaypb.RowGive{Row: m.Row, Count: uint32(n.Count(4 * (row + 1)))}
	own := n.self.ID.Digit(row)
	for col := range 16 {
		if m.Columns&(1<<col) == 0 || col == own {
			continue
		}
		switch c, empty := n.inSlot(row, col); {
		case c != nil && c.ID != p.contact.ID:
			r.Records = append(r.Records, c.Raw)
		case empty:
			r.Vacant |= 1 << col
		}
	}
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_RowGive{RowGive: r}})
}

// inSlot returns a member that stands in slot (row, col), or says that nobody
// does, which only those know whose leaf holds the slot.
func (n *Node) inSlot(row, col int) (c *Contact, empty bool) {
	if n.table.beyond(row, col, n.leaf.Depth()) {
		s := &n.table.rows[row][col]
		if s.contact != nil {
			return s.contact.contact, false
		}
		return nil, false
	}
	for _, c := range n.leaf.Members() { // inside the leaf
		if c.ID.Common(n.self.ID) >= 4*row && c.ID.Digit(row) == col {
			return c, false
		}
	}
	return nil, true
}

func (n *Node) onRowGive(p *peer, m *overlaypb.RowGive) {
	if p.rowSent == never || int(p.row) != int(m.Row) {
		return // not asked for
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
			s.count, s.counted = int(m.Count), true
		}
	}
	for _, c := range n.open(m.Records) {
		n.meet(c)
	}
	for col := range n.table.rows[row] {
		if m.Vacant&(1<<col) != 0 && n.table.beyond(row, col, n.leaf.Depth()) {
			n.slotEmpty(&n.table.rows[row][col])
		}
	}
}

// Count returns how many members share the first d bits of the node's id, the
// node included: exact within the leaf, learned from contacts above it.
// Count(0) is the size of the network. A node that is no member knows 0.
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
	n.table.each(depth, func(row, col int, s *slot) {
		if n.table.common(row, col) < d {
			return
		}
		switch {
		case s.contact == nil:
		case s.counted:
			count += max(s.count, 1)
		default:
			count++
		}
	})
	return count
}
