package sums

import (
	"bytes"
	"cmp"
	"time"

	"tidings/overlay"
)

// A part is a piece of the network for which one answer speaks: a slot of the table, or a
// member of the leaf.
type part struct {
	row, col int              // of the slot; row leafRow: a member of the leaf
	who      *overlay.Contact // who is asked; nil: nobody is known
	shunned  overlay.ID       // whoever was asked before and brought nothing that counts
	members  int              // as counted
	since    time.Time        // when the part came to be

	value   []byte
	version uint64    // of the value; 0: there is none
	at      time.Time // when somebody last said so
	about   Scope     // for which it was taken
	measure Measure

	waiting bool // for an answer
	tries   int  // Asks in this round
	heard   bool // an answer to one of them, if only that it is early
	good    bool // a value, or that it is the same
	refused bool // the last value of whoever is asked was
	poor    int  // rounds in which whoever is asked brought nothing that counts

	doubted bool  // the value does not count
	standIn *part // whose value counts in its place
}

// leafRow stands for the leaf among rows.
const leafRow = overlay.Digits

func (p *part) slot() bool { return p.row < leafRow }

// digits is what is asked for.
func (p *part) digits() uint32 {
	if p.slot() {
		return uint32(p.row + 1)
	}
	return 0
}

// within says whether all members of the part share so many digits with a node.
func (p *part) within(digits int, self overlay.ID) bool {
	if p.slot() {
		return p.row >= digits
	}
	return p.who.ID.Common(self) >= 4*digits
}

// compare orders parts.
func (p *part) compare(row, col int, id overlay.ID) int {
	order := cmp.Or(cmp.Compare(p.row, row), cmp.Compare(p.col, col))
	if order == 0 && row == leafRow {
		return bytes.Compare(p.who.ID[:], id[:])
	}
	return order
}

// refresh brings the parts to what leaf and table are now, forgets values that nobody has
// confirmed for long, and asks for parts that are new.
func (s *Sums) refresh(now time.Time) {
	// Both lists have one order, so that one walk along them finds each part again.
	old, next := s.parts, make([]*part, 0, len(s.parts)+4)
	moved, depth, self := 0, s.depth(now), s.node.ID()
	find := func(row, col int, id overlay.ID) *part {
		for len(old) > 0 && old[0].compare(row, col, id) < 0 {
			s.drop(old[0])
			old = old[1:]
			moved++
		}
		if len(old) == 0 || old[0].compare(row, col, id) > 0 {
			return nil
		}
		p := old[0]
		old = old[1:]
		return p
	}
	s.node.EachSlot(func(row, col int, contact, spare *overlay.Contact, members int) {
		if row < depth {
			return
		}
		p := find(row, col, overlay.ID{})
		if p == nil {
			if contact == nil {
				return
			}
			p = &part{row: row, col: col, since: now}
			moved++
		}
		p.members = members
		if s.appoint(p, contact, spare) && p.version != 0 {
			moved++
		}
		if p.version != 0 && now.Sub(p.at) > s.cfg.KeepFor {
			s.setValue(p, nil, 0)
		}
		if p.who != nil || p.version != 0 {
			next = append(next, p)
		}
	})
	for _, c := range s.node.Leaf().Members() {
		if c.ID == self || c.ID.Common(self) < 4*depth || len(next) >= maxParts {
			continue
		}
		p := find(leafRow, 0, c.ID)
		if p == nil {
			p = &part{row: leafRow, members: 1, since: now}
			moved++
		}
		p.who = c
		if p.version != 0 && now.Sub(p.at) > s.cfg.KeepFor {
			s.setValue(p, nil, 0)
		}
		next = append(next, p)
	}
	for _, p := range old {
		s.drop(p)
		moved++
	}
	s.parts = next
	for _, p := range s.parts {
		if p.who != nil && p.tries == 0 {
			s.ask(p, now)
		}
	}
	if moved > 0 {
		s.stamp++
		s.shaken(moved, now)
	}
}

// appoint chooses whom to ask for a slot, and says whether that is somebody else than
// before: whoever was, as long as there is no reason against.
func (s *Sums) appoint(p *part, contact, spare *overlay.Contact) bool {
	if p.who != nil && p.poor < poorRounds {
		return false
	}
	for _, c := range []*overlay.Contact{contact, spare} {
		if c == nil || c.ID == p.shunned || p.who != nil && c.ID == p.who.ID {
			continue
		}
		if p.who != nil {
			shunned := p.who.ID
			s.dismiss(p)
			p.shunned = shunned
		}
		s.node.Watch(c)
		p.who = c
		return true
	}
	if p.who == nil && contact != nil { // it was shunned, but there is nobody else
		s.node.Watch(contact)
		p.who = contact
		return true
	}
	return false
}

// dismiss asks whoever was asked for a slot no more.
func (s *Sums) dismiss(p *part) {
	s.node.Unwatch(p.who.Peer.ID)
	p.who = nil
	p.waiting, p.tries, p.heard, p.good, p.refused, p.poor = false, 0, false, false, false, 0
}

// drop forgets a part that is none any longer.
func (s *Sums) drop(p *part) {
	if p.slot() && p.who != nil {
		s.dismiss(p)
	}
	s.setValue(p, nil, 0)
}

// setValue sets what a part has.
func (s *Sums) setValue(p *part, value []byte, version uint64) {
	s.kept += len(value) - len(p.value)
	p.value, p.version = value, version
	if version == 0 {
		p.measure = Measure{}
	}
	s.stamp++
}
