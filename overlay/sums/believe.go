package sums

import (
	"cmp"
	"slices"
)

// Members stand evenly in the id space, and so do the keys of whatever they count: the slots
// of one row hold about as much each. What one of them claims is compared with the median of
// its row, as overlay does with counts, and so is each member of the leaf with the others.
// What differs by more than tolerance does not count; the part with the median in its
// place does, until another value comes.

// judge decides which values count, if something has changed.
func (s *Sums) judge() {
	if s.judged == s.stamp {
		return
	}
	s.judged = s.stamp
	for rest := s.parts; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].row == rest[0].row {
			n++
		}
		judgeRow(rest[:n])
		rest = rest[n:]
	}
}

// judgeRow decides which values of a row count.
func judgeRow(row []*part) {
	var valued []*part
	for _, p := range row {
		p.doubted, p.standIn = false, nil
		if p.version != 0 {
			valued = append(valued, p)
		}
	}
	if len(valued) < company {
		return
	}
	usual, each := medians(valued)
	if usual[0] < enough {
		return
	}
	believed := make([]*part, 0, len(valued))
	for _, p := range valued {
		if p.doubted = !p.believable(&usual, &each); !p.doubted {
			believed = append(believed, p)
		}
	}
	if len(believed) == 0 {
		for _, p := range valued {
			p.doubted = false
		}
		return
	}
	slices.SortStableFunc(believed, func(a, b *part) int { return cmp.Compare(a.measure.Things, b.measure.Things) })
	typical := believed[len(believed)/2]
	for _, p := range row {
		if p.doubted = p.doubted || p.version == 0 && p.refused; p.doubted {
			p.standIn = typical
		}
	}
}

// figures are the numbers of a measure.
type figures [1 + len(Measure{}.Amounts)]float64

func (m *Measure) figures() (f figures) {
	f[0] = m.Things
	copy(f[1:], m.Amounts[:])
	return f
}

// medians returns those of all figures, as they are and for each member: channels go with
// the id space of a part, what its members do with their number.
func medians(of []*part) (usual, each figures) {
	all, shares := make([]float64, len(of)), make([]float64, len(of))
	for i := range usual {
		for j, p := range of {
			m := p.measure.figures()
			all[j], shares[j] = m[i], m[i]/float64(max(p.members, 1))
		}
		usual[i], each[i] = median(all), median(shares)
	}
	return usual, each
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// believable says whether a part lies near enough to the median of its row.
func (p *part) believable(usual, each *figures) bool {
	m := p.measure.figures()
	for i, x := range m {
		n := each[i] * float64(max(p.members, 1))
		if most := max(usual[i], n) * tolerance; most > 0 && !(x <= most) {
			return false
		}
		if least := min(usual[i], n) / tolerance; p.members >= several && x < least {
			return false
		}
	}
	return true
}
