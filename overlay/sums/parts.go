package sums

import (
	"bytes"
	"cmp"
	"time"

	"tidings/overlay"
)

// A part is a piece of the network that one answer covers: a slot of the routing table, or a
// member of the leaf.
type part struct {
	row, col int              // position of the slot; row is leafRow for a member of the leaf
	contact  *overlay.Contact // member that is asked; nil if none is known
	rejected overlay.ID       // previous contact, replaced because its values did not count
	members  int              // estimated number of members, at least 1
	created  time.Time        // time at which the part was created

	value     []byte    // last accepted value; empty means zero
	version   uint64    // version of value; 0 if there is none
	confirmed time.Time // time of the last response with this version
	scope     Scope     // scope for which value was accepted
	measure   Measure

	waiting   bool // a request is not answered yet
	tries     int  // requests in this round
	answered  bool // a response came in this round, if only an incomplete one
	accepted  bool // a response in this round brought a value or confirmed it
	refused   bool // the last value of this contact was refused
	badRounds int  // successive rounds without a value that counts

	implausible bool  // value does not count
	substitute  *part // part whose value counts instead
}

// leafRow is the row of all members of the leaf, after those of the table.
const leafRow = overlay.Digits

func (p *part) isSlot() bool { return p.row < leafRow }

// digits returns the number of digits that a request for the part names.
func (p *part) digits() uint32 {
	if p.isSlot() {
		return uint32(p.row + 1)
	}
	return 0
}

// sharesDigits reports whether all members of the part share that many digits with the node.
func (p *part) sharesDigits(digits int, self overlay.ID) bool {
	if p.isSlot() {
		return p.row >= digits
	}
	return p.contact.ID.Common(self) >= 4*digits
}

// compare compares the part's position with another in the order of Aggregator.parts.
func (p *part) compare(row, col int, id overlay.ID) int {
	order := cmp.Or(cmp.Compare(p.row, row), cmp.Compare(p.col, col))
	if order == 0 && row == leafRow {
		return bytes.Compare(p.contact.ID[:], id[:])
	}
	return order
}

// refresh updates the parts after the leaf or the routing table has changed, drops values that
// were not confirmed for keepFor, and requests new parts.
func (s *Aggregator) refresh(now time.Time) {
	// Both lists have the same order, so one pass over them matches old parts with new ones.
	old, next := s.parts, make([]*part, 0, len(s.parts)+4)
	changed, depth, self := 0, s.depth(now), s.node.ID()
	find := func(row, col int, id overlay.ID) *part {
		for len(old) > 0 && old[0].compare(row, col, id) < 0 {
			s.removePart(old[0])
			old = old[1:]
			changed++
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
			p = &part{row: row, col: col, created: now}
			changed++
		}
		p.members = members
		if s.chooseContact(p, contact, spare) && p.version != 0 {
			changed++
		}
		if p.version != 0 && now.Sub(p.confirmed) > s.cfg.keepFor() {
			s.setValue(p, nil, 0)
		}
		if p.contact != nil || p.version != 0 {
			next = append(next, p)
		}
	})
	for _, c := range s.node.Leaf().Members() {
		if c.ID == self || c.ID.Common(self) < 4*depth || len(next) >= maxParts {
			continue
		}
		p := find(leafRow, 0, c.ID)
		if p == nil {
			p = &part{row: leafRow, members: 1, created: now}
			changed++
		}
		p.contact = c
		if p.version != 0 && now.Sub(p.confirmed) > s.cfg.keepFor() {
			s.setValue(p, nil, 0)
		}
		next = append(next, p)
	}
	for _, p := range old {
		s.removePart(p)
		changed++
	}
	s.parts = next
	for _, p := range s.parts {
		if p.contact != nil && p.tries == 0 {
			s.request(p, now)
		}
	}
	if changed > 0 {
		s.revision++
		if s.rounds.countChanges(changed, len(s.parts), now) {
			s.scheduleQuickRounds()
		}
	}
}

// chooseContact sets the contact of a slot and reports whether it changed. The present contact
// stays unless its values did not count for maxBadRounds rounds.
func (s *Aggregator) chooseContact(p *part, contact, spare *overlay.Contact) bool {
	if p.contact != nil && p.badRounds < maxBadRounds {
		return false
	}
	for _, c := range []*overlay.Contact{contact, spare} {
		if c == nil || c.ID == p.rejected || p.contact != nil && c.ID == p.contact.ID {
			continue
		}
		if p.contact != nil {
			rejected := p.contact.ID
			s.dropContact(p)
			p.rejected = rejected
		}
		s.node.Watch(c)
		p.contact = c
		return true
	}
	if p.contact == nil && contact != nil { // no other contact is known
		s.node.Watch(contact)
		p.contact = contact
		return true
	}
	return false
}

// dropContact stops asking the contact of a slot.
func (s *Aggregator) dropContact(p *part) {
	s.node.Unwatch(p.contact.Peer.ID)
	p.contact = nil
	p.waiting, p.tries, p.answered, p.accepted, p.refused, p.badRounds = false, 0, false, false, false, 0
}

// removePart releases what a part holds, when it has left the list of parts.
func (s *Aggregator) removePart(p *part) {
	if p.isSlot() && p.contact != nil {
		s.dropContact(p)
	}
	s.setValue(p, nil, 0)
}

// setValue sets the value of a part; version 0 removes it.
func (s *Aggregator) setValue(p *part, value []byte, version uint64) {
	s.keptBytes += len(value) - len(p.value)
	p.value, p.version = value, version
	if version == 0 {
		p.measure = Measure{}
	}
	s.revision++
}
