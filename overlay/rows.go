package overlay

import (
	"math"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// quickRoundInterval is the time between the rounds through the whole table after a join.
const quickRoundInterval = 20 * time.Second

// tableUpkeep finds contacts for the slots of the table, replaces dead ones, and learns counts.
type tableUpkeep struct {
	*neighbours
	counts   *counts
	liveness *liveness

	slotSearches map[uint64]*slotSearch // by the nonce of the outstanding query
	churn        churnRate
	nextRowAt    time.Time // when the next contact of the table is asked
	slotTurn     int       // index of the slot whose contact was asked last
	quickRounds  int       // remaining rounds that ask the whole table at once
	slotEmpty    func()    // called when a slot was confirmed empty
}

func newTableUpkeep(cs *counts, lv *liveness, slotEmpty func()) *tableUpkeep {
	return &tableUpkeep{
		neighbours: cs.neighbours, counts: cs, liveness: lv, slotSearches: map[uint64]*slotSearch{}, slotEmpty: slotEmpty,
	}
}

// askNextRow asks the next contact of the table for its row and count, or searches for a contact
// if the slot has none. After a join it asks the whole table at once, twice.
func (tu *tableUpkeep) askNextRow() {
	if tu.state != Active {
		return
	}
	now := tu.clock.Now()
	interval := tu.interval(now)
	var slots []func()
	tu.table.each(tu.leaf.Depth(), func(row, col int, s *slot) {
		if s.contact != nil {
			slots = append(slots, func() {
				tu.askRow(s.contact, row)
				if s.spare != nil && now.Sub(s.spare.lastHeard.Time()) >= interval {
					tu.liveness.probe(s.spare) // otherwise a dead spare would be noticed only when it is needed
				}
			})
		} else {
			slots = append(slots, func() { tu.searchSlot(row, col) })
		}
	})
	pause := interval
	switch {
	case tu.quickRounds > 0:
		tu.quickRounds--
		for _, ask := range slots {
			ask()
		}
		for row := range tu.table.rows {
			if tu.quickRounds == 0 {
				tu.askLeafMember(row)
			}
		}
		pause = quickRoundInterval
	case len(slots) > 0:
		if tu.slotTurn = (tu.slotTurn + 1) % len(slots); tu.slotTurn == 0 {
			tu.askLeafMember(tu.rand.IntN(len(tu.table.rows)))
		}
		slots[tu.slotTurn]()
		pause /= time.Duration(len(slots))
	}
	tu.scheduleRow(env.Jitter(tu.rand, pause))
}

// scheduleRow sets the time of the next askNextRow. Only one is scheduled at a time.
func (tu *tableUpkeep) scheduleRow(in time.Duration) {
	tu.nextRowAt = tu.clock.Now().Add(in)
	tu.at(tu.nextRowAt, task{kind: taskRow})
}

// askLeafMember asks a random member of the leaf for its contacts in a row. The leaf as a
// whole is honest, so a node that has only liars in its table learns of other members through
// it.
func (tu *tableUpkeep) askLeafMember(row int) {
	if p := tu.randomMember(); p != nil {
		tu.askColumns(p, row, func(*slot) bool { return true })
	}
}

// askRow asks a member that shares `row` digits with the node for its count and for the
// contacts that the node's own row lacks.
func (tu *tableUpkeep) askRow(p *peer, row int) {
	p.knowsMe = false // it may have no place for this node, and have forgotten it
	tu.askColumns(p, row, func(s *slot) bool {
		return s.contact == nil || s.spare == nil && !(s.counted && s.count < 2)
	})
}

// askColumns asks a member for contacts in those slots of a row that are wanted.
func (tu *tableUpkeep) askColumns(p *peer, row int, wanted func(*slot) bool) {
	var columns uint32
	for col := range tu.table.rows[row] {
		if tu.table.beyond(row, col, tu.leaf.Depth()) && wanted(&tu.table.rows[row][col]) {
			columns |= 1 << col
		}
	}
	now := tu.clock.Now()
	p.row, p.rowSent, p.rowDue = int16(row), env.MomentOf(now), env.MomentOf(now.Add(p.answerTimeout(now)))
	tu.at(p.rowDue.Time(), task{kind: taskRowTimeout, peer: p.id})
	tu.send(p, &overlaypb.Message{Body: &overlaypb.Message_RowRequest{RowRequest: &overlaypb.RowRequest{
		Row: uint32(row), Columns: columns,
	}}})
}

// remove takes a peer that is dead or has left out of the table, and searches for another member
// if its slot has none left. It reports whether the peer was there.
func (tu *tableUpkeep) remove(p *peer) bool {
	if !tu.table.remove(p) {
		return false
	}
	if s, row, col := tu.table.slot(p.contact.ID, tu.leaf.Depth()); s != nil && s.contact == nil {
		s.empty, s.counted = false, false
		tu.searchSlot(row, col)
	}
	return true
}

// rowUnanswered probes a contact that did not answer RowRequest, because it may be dead.
func (tu *tableUpkeep) rowUnanswered(p *peer, due time.Time) {
	if p != nil && p.rowDue != env.Never && p.rowDue == env.MomentOf(due) {
		p.rowDue = env.Never
		p.suspect = true
		tu.liveness.probe(p)
	}
}

func (tu *tableUpkeep) onRowRequest(p *peer, m *overlaypb.RowRequest) {
	row := int(m.Row)
	if tu.state != Active || p.contact == nil || tu.self.ID.Common(p.contact.ID) < 4*row {
		return
	}
	r := &overlaypb.RowReply{Row: m.Row, Count: uint32(tu.counts.Count(4 * (row + 1)))}
	own := tu.self.ID.Digit(row)
	for col := range 16 {
		if m.Columns&(1<<col) == 0 || col == own {
			continue
		}
		switch c, empty := tu.memberInSlot(row, col, p.contact.ID); {
		case c != nil && c.ID != p.contact.ID:
			r.Records = append(r.Records, c.Raw)
		case empty:
			r.EmptyColumns |= 1 << col
		}
	}
	tu.send(p, &overlaypb.Message{Body: &overlaypb.Message_RowReply{RowReply: r}})
}

func (tu *tableUpkeep) onRowReply(p *peer, m *overlaypb.RowReply) {
	if p.rowSent == env.Never || int(p.row) != int(m.Row) {
		return // nobody asked for it
	}
	p.sample(tu.clock.Now().Sub(p.rowSent.Time()))
	p.rowSent, p.rowDue = env.Never, env.Never
	if tu.state != Active || p.contact == nil || int(m.Row) >= len(tu.table.rows) {
		return
	}
	row := int(m.Row)
	common := tu.self.ID.Common(p.contact.ID)
	if common < 4*row {
		return
	}
	if s, r, _ := tu.table.slot(p.contact.ID, tu.leaf.Depth()); s != nil && r == row {
		s.count, s.counted = int32(min(m.Count, math.MaxInt32)), true
	}
	for _, c := range tu.openRecords(m.Records) {
		tu.liveness.considerMember(c)
	}
	for col := range tu.table.rows[row] {
		if m.EmptyColumns&(1<<col) != 0 && tu.table.beyond(row, col, tu.leaf.Depth()) {
			tu.markEmpty(&tu.table.rows[row][col])
		}
	}
}
