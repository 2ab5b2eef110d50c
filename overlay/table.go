package overlay

import (
	"slices"

	"tidings/internal/env"
)

// A slot of the routing table is for members that share `row` digits with the node and have
// another digit next.
//
// Of its two members, one is near by round-trip time. The other is the nearest of all known
// ones to a point in the slot that the node's own id determines. Liars can name one another as
// contacts everywhere, but they are nearest to that point only in their share of slots (Castro
// et al., Secure routing for structured peer-to-peer overlay networks, OSDI 2002, §4).
type slot struct {
	contact *peer // the nearer one by round-trip time
	spare   *peer
	// count is the number of members below the slot's prefix, as a contact there last said;
	// counted says whether one did.
	count   int32
	counted bool
	// empty says that a member whose leaf holds the slot's whole prefix knows no member there.
	// A slot is not considered empty only because no contact is known.
	empty      bool
	searchedAt env.Moment // start of the last search for a member
}

// table is the routing table: rows of base 16, down to the leaf.
type table struct {
	self ID
	rows [][16]slot
}

// common returns the number of leading bits that the prefix of slot (row, col) shares with the
// node's id.
func (t *table) common(row, col int) int {
	x := uint(col ^ t.self.Digit(row))
	n := 4 * row
	for bit := uint(8); bit > 0 && x&bit == 0; bit >>= 1 {
		n++
	}
	return n
}

// beyond reports whether slot (row, col) lies outside a leaf of the given depth, so that it
// needs a contact.
func (t *table) beyond(row, col, depth int) bool {
	return col != t.self.Digit(row) && t.common(row, col) < depth
}

// resize gives the table the rows that a leaf of the given depth leaves to it, and clears the
// slots that now lie inside the leaf. It returns the peers that were in them.
func (t *table) resize(depth int) (out []*peer) {
	rows := (depth + 3) / 4
	for row := range t.rows {
		for col := range t.rows[row] {
			s := &t.rows[row][col]
			if row < rows && t.beyond(row, col, depth) {
				continue
			}
			for _, p := range []*peer{s.contact, s.spare} {
				if p != nil {
					out = append(out, p)
				}
			}
			*s = slot{}
		}
	}
	if rows < len(t.rows) {
		t.rows = slices.Clip(t.rows[:rows])
	}
	for len(t.rows) < rows {
		t.rows = append(t.rows, [16]slot{})
	}
	return out
}

// prefix returns key with its first digits replaced by those of slot (row, col), which is the
// id in the slot nearest to key.
func (t *table) prefix(row, col int, key ID) ID {
	for i := range row {
		key.setDigit(i, t.self.Digit(i))
	}
	key.setDigit(row, col)
	return key
}

// slot returns the slot of an id, or nil if the id belongs to the leaf.
func (t *table) slot(id ID, depth int) (s *slot, row, col int) {
	common := t.self.Common(id)
	if common >= depth {
		return nil, 0, 0
	}
	row = common / 4
	return &t.rows[row][id.Digit(row)], row, id.Digit(row)
}

// wants reports whether the table would take a contact that it does not have yet.
func (t *table) wants(id ID, depth int) bool {
	s, row, col := t.slot(id, depth)
	if s == nil || s.contact == nil || s.spare == nil || s.spare.suspect {
		return s != nil
	}
	point := t.prefix(row, col, t.self)
	return Nearer(point, id, s.contact.contact.ID) && Nearer(point, id, s.spare.contact.ID)
}

// put adds a peer if its slot has a free place. In a full slot the peer replaces another one
// if it is nearer to the slot's point than both, or faster than the one that is not nearest to
// the point. put returns the peer that has no place now, which may be p itself.
func (t *table) put(p *peer, depth int) (out *peer) {
	s, row, col := t.slot(p.contact.ID, depth)
	if s == nil {
		return p
	}
	switch {
	case s.contact == p || s.spare == p:
	case s.contact == nil:
		s.contact = p
	case s.spare == nil:
		s.spare = p
	default:
		point := t.prefix(row, col, t.self)
		nearest, other := &s.contact, &s.spare
		if !s.spare.suspect && Nearer(point, s.spare.contact.ID, s.contact.contact.ID) {
			nearest, other = other, nearest
		}
		switch {
		case s.spare.suspect || Nearer(point, p.contact.ID, (*nearest).contact.ID):
			other = &s.spare // the faster one stays
		case !faster(p, *other):
			return p
		}
		out, *other = *other, p
	}
	s.empty = false
	if s.spare != nil && (s.contact.suspect && !s.spare.suspect || faster(s.spare, s.contact)) {
		s.contact, s.spare = s.spare, s.contact
	}
	return out
}

// faster reports whether a is nearer than b by round-trip time, by enough to be worth losing
// b's measurements.
func faster(a, b *peer) bool {
	return a.rtt > 0 && (b.rtt == 0 || a.rtt < b.rtt*3/4)
}

// of returns the slot to which a peer belongs, or nil if the table has no such row.
func (t *table) of(p *peer) *slot {
	if p.contact == nil {
		return nil
	}
	row := t.self.Common(p.contact.ID) / 4
	if row >= len(t.rows) {
		return nil
	}
	return &t.rows[row][p.contact.ID.Digit(row)]
}

// remove removes a peer from its slot; the spare moves up. It reports whether the peer was in
// the table.
func (t *table) remove(p *peer) bool {
	if !t.has(p) {
		return false
	}
	s := t.of(p)
	if s.contact == p {
		s.contact = s.spare
	}
	s.spare = nil
	return true
}

// has reports whether a peer is in the table.
func (t *table) has(p *peer) bool {
	s := t.of(p)
	return s != nil && (s.contact == p || s.spare == p)
}

// eachPeer calls f for every contact and spare beyond the leaf.
func (t *table) eachPeer(depth int, f func(p *peer)) {
	t.each(depth, func(_, _ int, s *slot) {
		for _, p := range []*peer{s.contact, s.spare} {
			if p != nil {
				f(p)
			}
		}
	})
}

// each calls f for every slot beyond the leaf, from the first row on.
func (t *table) each(depth int, f func(row, col int, s *slot)) {
	for row := range t.rows {
		for col := range t.rows[row] {
			if t.beyond(row, col, depth) {
				f(row, col, &t.rows[row][col])
			}
		}
	}
}
