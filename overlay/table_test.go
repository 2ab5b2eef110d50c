package overlay

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every id outside the leaf has one slot, which determines how many bits it shares with the
// node's id. An id in the leaf has none.
func TestEveryIDHasItsSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := table{self: drawID(t, "self")}
		depth := rapid.IntRange(0, 20).Draw(t, "depth")
		tab.resize(depth)
		id := tab.self
		if bit := rapid.IntRange(0, 30).Draw(t, "first other bit"); bit < 30 {
			id = drawID(t, "id")
			copy(id[:bit/8], tab.self[:bit/8])
			for b := range bit {
				if id.Bit(b) != tab.self.Bit(b) {
					id[b/8] ^= 0x80 >> (b % 8)
				}
			}
		}
		s, row, col := tab.slot(id, depth)
		if inLeaf := tab.self.Common(id) >= depth; inLeaf != (s == nil) {
			t.Fatalf("in the leaf: %v, in the table: %v", inLeaf, s != nil)
		}
		if s == nil {
			return
		}
		if s != &tab.rows[row][col] || !tab.beyond(row, col, depth) || tab.common(row, col) != tab.self.Common(id) {
			t.Fatalf("slot (%d, %d) shares %d bits, %v shares %d", row, col, tab.common(row, col), id, tab.self.Common(id))
		}
		near := tab.prefix(row, col, id)
		if near != id {
			t.Fatalf("the id nearest to %v in its own slot is %v", id, near)
		}
		key := drawID(t, "key")
		if near = tab.prefix(row, col, key); Nearer(key, id, near) {
			t.Fatalf("%v is nearer to %v than %v, which has all other digits of it", id, key, near)
		}
	})
}

func TestTableCoversWhatTheLeafDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := table{self: drawID(t, "self")}
		depth := rapid.IntRange(0, 20).Draw(t, "depth")
		tab.resize(depth)
		// The slots beyond the leaf and the leaf itself cover the whole space.
		const scale = 1 << 24
		space := scale >> depth
		tab.each(depth, func(row, _ int, _ *slot) { space += scale >> (4 * (row + 1)) })
		if rows := (depth + 3) / 4; 4*rows <= 24 && depth%4 == 0 && space != scale || len(tab.rows) != rows {
			t.Fatalf("depth %d: %d rows hold %d of %d", depth, len(tab.rows), space, scale)
		}
	})
}

func TestNearerContactIsPreferred(t *testing.T) {
	self := ID{}
	at := func(n byte, rtt time.Duration) *peer { // all in the slot of digit 5
		c := someone(0x50, n)
		return &peer{contact: c, rtt: microseconds(rtt.Microseconds())}
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		what           string
		put            []*peer
		contact, spare byte
		out            byte // result of the last put; 0: none
	}{
		{"the first", []*peer{at(1, 0)}, 1, 0, 0},
		{"the second is the spare", []*peer{at(1, 0), at(2, 0)}, 1, 2, 0},
		{"the second is nearer", []*peer{at(1, 100*ms), at(2, 10*ms)}, 2, 1, 0},
		{"the second is hardly nearer", []*peer{at(1, 100*ms), at(2, 80*ms)}, 1, 2, 0},
		{"the third has no place", []*peer{at(1, 20*ms), at(2, 30*ms), at(3, 40*ms)}, 1, 2, 3},
		{"the third was never measured", []*peer{at(1, 20*ms), at(2, 30*ms), at(3, 0)}, 1, 2, 3},
		{"the third takes the spare's place", []*peer{at(1, 20*ms), at(2, 90*ms), at(3, 30*ms)}, 1, 3, 2},
		{"the third is nearest, and replaces the one that is not nearest to the point", []*peer{at(1, 80*ms), at(2, 90*ms), at(3, 10*ms)}, 3, 1, 2},
		{"the same, where the spare is nearest to the point", []*peer{at(2, 20*ms), at(1, 90*ms), at(3, 10*ms)}, 3, 1, 2},
		{"the third is nearest to the point, but slow", []*peer{at(2, 20*ms), at(3, 30*ms), at(1, 90*ms)}, 2, 1, 3},
	} {
		tab := table{self: self}
		tab.resize(4)
		var out *peer
		for _, p := range c.put {
			out = tab.put(p, 4)
		}
		of := func(p *peer) byte {
			if p == nil {
				return 0
			}
			return p.contact.ID[1]
		}
		s := tab.rows[0][5]
		if of(s.contact) != c.contact || of(s.spare) != c.spare || of(out) != c.out {
			t.Errorf("%s: contact %d, spare %d, out %d", c.what, of(s.contact), of(s.spare), of(out))
		}
	}
}

func TestSpareMovesUp(t *testing.T) {
	tab := table{}
	tab.resize(4)
	a, b, c := &peer{contact: someone(0x70, 1)}, &peer{contact: someone(0x70, 2)}, &peer{contact: someone(0x70, 3)}
	tab.put(a, 4)
	tab.put(b, 4)
	if tab.wants(c.contact.ID, 4) || !tab.wants(someone(0x80).ID, 4) || tab.wants(ID{}, 4) {
		t.Error("wants a member for a full slot or for the leaf, or none for an empty slot")
	}
	if !tab.wants(someone(0x70).ID, 4) {
		t.Error("does not want a member nearer to the slot's point than both")
	}
	a.suspect = true
	if tab.put(b, 4); !tab.wants(c.contact.ID, 4) {
		t.Error("does not want another member in place of a suspect")
	}
	if tab.put(b, 4); tab.rows[0][7].contact != b {
		t.Error("a suspect stays the contact although the spare has spoken")
	}
	if !tab.remove(b) || tab.rows[0][7].contact != a || !tab.wants(c.contact.ID, 4) {
		t.Error("the spare did not move up")
	}
	if tab.remove(b) || tab.remove(&peer{}) || tab.has(b) || !tab.has(a) {
		t.Error("a removed peer is still in the table")
	}
}

func TestTableGrowsAndShrinksWithTheLeaf(t *testing.T) {
	tab := table{} // the node's id is all zeros
	tab.resize(6)
	var put []*peer
	for _, first := range []byte{0x80, 0x40, 0x20, 0x10, 0x08, 0x04} { // they share 0 to 5 bits
		p := &peer{contact: someone(first)}
		if out := tab.put(p, 6); out != nil {
			t.Fatalf("no place for %x", first)
		}
		put = append(put, p)
	}
	if inLeaf := (&peer{contact: someone(0x02)}); tab.put(inLeaf, 6) != inLeaf {
		t.Error("a member of the leaf has a place in the table")
	}
	tab.rows[0][8].count, tab.rows[0][8].counted = 7, true
	if out := tab.resize(3); !slices.Equal(out, []*peer{put[3], put[5], put[4]}) || len(tab.rows) != 1 {
		t.Errorf("%d peers come into the wider leaf, %d rows stay", len(out), len(tab.rows))
	}
	if out := tab.resize(9); out != nil || len(tab.rows) != 3 || tab.rows[0][8].count != 7 || !tab.has(put[0]) || tab.has(put[3]) {
		t.Errorf("a deeper leaf: %d rows, out %v", len(tab.rows), out)
	}
}
