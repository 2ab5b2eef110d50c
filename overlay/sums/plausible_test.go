package sums

import (
	"testing"

	"tidings/overlay"
)

// row returns a row of parts with the given number of members each.
func row(members int, weights ...Measure) (of []*part) {
	for i, w := range weights {
		of = append(of, &part{row: 1, col: i, members: members, version: 1, measure: w})
	}
	return of
}

// implausible returns the indices of implausible parts, each followed by -1 if its substitute is
// missing or implausible.
func implausible(of []*part) (list []int) {
	for i, p := range of {
		if p.implausible {
			list = append(list, i)
			if p.substitute == nil || p.substitute.implausible {
				list = append(list, -1)
			}
		}
	}
	return list
}

// A value counts if it is close enough to the median of its row, or the row is too small to
// tell.
func TestImplausibleValues(t *testing.T) {
	w := func(things, amount float64) Measure { return Measure{Items: things, Amounts: [6]float64{amount}} }
	for _, c := range []struct {
		what string
		row  []*part
		want int // index of the implausible part, -1 if there is none
	}{
		{"alike", row(4, w(100, 500), w(120, 600), w(90, 400), w(100, 1), w(110, 700)), 3},
		{"alike, of one member each", row(1, w(100, 500), w(120, 600), w(90, 400), w(0, 0), w(110, 700)), -1},
		{"a thousandfold", row(4, w(100, 500), w(1e5, 5e5), w(90, 400), w(100, 450), w(110, 700)), 1},
		{"a thousandfold amount", row(1, w(100, 500), w(120, 600), w(90, 400), w(100, 5e5), w(110, 700)), 3},
		{"none", row(4, w(100, 500), w(120, 600), w(90, 400), w(100, 450), w(0, 0)), 4},
		{"too few to tell", row(4, w(100, 500), w(1e5, 600), w(90, 400), w(100, 450)), -1},
		{"too little to tell", row(4, w(1, 5), w(1000, 6000), w(1, 4), w(0, 0), w(1, 7)), -1},
	} {
		checkRow(c.row)
		switch got := implausible(c.row); {
		case c.want < 0 && len(got) == 0, c.want >= 0 && len(got) == 1 && got[0] == c.want:
		default:
			t.Errorf("%s: implausible parts %v, want %d", c.what, got, c.want)
		}
	}
	uneven := row(4, w(100, 500), w(120, 600), w(90, 400), w(100, 450), w(110, 9000))
	uneven[4].members = 60 // enough members for the larger amount
	if checkRow(uneven); implausible(uneven) != nil {
		t.Errorf("a part with many members is implausible: %v", implausible(uneven))
	}
	refused := append(row(4, w(100, 500), w(120, 600), w(90, 400), w(100, 450), w(110, 700)), &part{row: 1, col: 9, refused: true})
	if checkRow(refused); !refused[5].implausible || refused[5].substitute.measure.Items != 100 {
		t.Error("nothing substitutes for a refused value")
	}
}

// A contact is kept unless its values do not count.
func TestContactIsSticky(t *testing.T) {
	l := newLab(t)
	a, b, c := l.node.Contact(l.actor(1).peer), l.node.Contact(l.actor(2).peer), l.node.Contact(l.actor(3).peer)
	p := &part{row: 0, col: 1}
	asks := func(contact, spare, want *overlay.Contact) {
		t.Helper()
		if l.s.chooseContact(p, contact, spare); p.contact != want {
			t.Errorf("asks %v, not %v", p.contact, want)
		}
	}
	asks(a, b, a)
	asks(b, a, a)
	asks(nil, nil, a)
	p.badRounds = maxBadRounds
	asks(a, nil, a)
	asks(a, b, b)
	asks(a, b, b)
	l.s.dropContact(p) // dead
	asks(a, c, c)
	l.s.dropContact(p)
	asks(a, nil, a) // rejected before, but no other contact is known
}
