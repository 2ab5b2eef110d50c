package plot

import (
	"cmp"
	"slices"
)

// Distribution returns the line of a cumulative distribution in per cent, given the times of those
// of total events that happened. It ends below 100 if some did not happen.
func Distribution(name string, arrivals []float64, total int) Line {
	l := Line{Name: name, X: []float64{0}, Y: []float64{0}, Steps: true}
	for i, x := range slices.Sorted(slices.Values(arrivals)) {
		l.X, l.Y = append(l.X, x), append(l.Y, 100*float64(i+1)/float64(total))
	}
	return l
}

// Sorted returns the line with its points sorted by X.
func (l Line) Sorted() Line {
	order := make([]int, len(l.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.X[a], l.X[b]) })
	out := l
	out.X, out.Y = nil, nil
	for _, i := range order {
		out.X, out.Y = append(out.X, l.X[i]), append(out.Y, l.Y[i])
	}
	return out
}
