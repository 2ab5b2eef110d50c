package sums

import (
	"cmp"
	"slices"
)

// Members are spread evenly over the id space, and so are the keys of the items that they
// count. The slots of one row therefore have similar sums. Each value is compared with the
// median of its row, as overlay does with counts; the members of the leaf form a row, too. A
// value that differs from the median by more than tolerance does not count. Until a plausible
// value arrives, the value of the row's median part counts in its place.

// checkValues decides which values count, if a part has changed since the last check.
func (s *Aggregator) checkValues() {
	if s.checkedRevision == s.revision {
		return
	}
	s.checkedRevision = s.revision
	for rest := s.parts; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].row == rest[0].row {
			n++
		}
		checkRow(rest[:n])
		rest = rest[n:]
	}
}

// checkRow decides which values of a row count.
func checkRow(row []*part) {
	var valued []*part
	for _, p := range row {
		p.implausible, p.substitute = false, nil
		if p.version != 0 {
			valued = append(valued, p)
		}
	}
	if len(valued) < minComparedParts {
		return
	}
	median, perMember := medians(valued)
	if median[0] < minMedianItems {
		return
	}
	plausible := make([]*part, 0, len(valued))
	for _, p := range valued {
		if p.implausible = !p.isPlausible(&median, &perMember); !p.implausible {
			plausible = append(plausible, p)
		}
	}
	if len(plausible) == 0 {
		for _, p := range valued {
			p.implausible = false
		}
		return
	}
	slices.SortStableFunc(plausible, func(a, b *part) int { return cmp.Compare(a.measure.Items, b.measure.Items) })
	typical := plausible[len(plausible)/2]
	for _, p := range row {
		if p.implausible = p.implausible || p.version == 0 && p.refused; p.implausible {
			p.substitute = typical
		}
	}
}

// figures are the numbers of a Measure.
type figures [1 + len(Measure{}.Amounts)]float64

func (m *Measure) figures() (f figures) {
	f[0] = m.Items
	copy(f[1:], m.Amounts[:])
	return f
}

// medians returns the medians of all figures, per part and per member. Amounts follow either:
// channels are proportional to the id space of a part, while what its members do is
// proportional to their number.
func medians(of []*part) (typical, perMember figures) {
	all, shares := make([]float64, len(of)), make([]float64, len(of))
	for i := range typical {
		for j, p := range of {
			m := p.measure.figures()
			all[j], shares[j] = m[i], m[i]/float64(max(p.members, 1))
		}
		typical[i], perMember[i] = median(all), median(shares)
	}
	return typical, perMember
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// isPlausible reports whether the part's figures are close enough to the medians of its row.
func (p *part) isPlausible(median, perMember *figures) bool {
	m := p.measure.figures()
	for i, x := range m {
		n := perMember[i] * float64(max(p.members, 1))
		if most := max(median[i], n) * tolerance; most > 0 && !(x <= most) {
			return false
		}
		if least := min(median[i], n) / tolerance; p.members >= minDoubtedMembers && x < least {
			return false
		}
	}
	return true
}
