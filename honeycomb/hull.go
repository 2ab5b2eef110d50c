package honeycomb

import (
	"cmp"
	"slices"
)

// A Tradeoff has the choices of one item: at l the objective is F[l] and the constraint's
// cost is G[l].
type Tradeoff struct{ F, G []float64 }

// A step is one from a choice to the next on the lower convex hull, away from the cheapest.
type step struct {
	slope float64 // gain/cost
	gain  float64 // of f, which falls
	cost  float64 // of g, which rises
	row   int32   // the item
	to    int32   // the choice it leads to
}

// rows are the choices of items as rows of steps; the slopes of a row fall strictly.
type rows interface {
	ties
	count() int
	// row returns the choice of an item when its steps as steep as hi are taken, and what
	// it is worth, and appends the next ones that are as steep as lo.
	row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step)
}

// hulls are rows of any tradeoffs: all steps, and where the row of each item begins.
type hulls struct {
	items []Tradeoff
	first []int32
	begin []int
	all   []step
}

func newHulls(items []Tradeoff) *hulls {
	h := &hulls{items: items, first: make([]int32, len(items)), begin: make([]int, 1, len(items)+1)}
	var order []int32
	for i := range items {
		order = order[:0]
		for l := range items[i].F {
			order = append(order, int32(l))
		}
		h.hull(i, order)
		h.begin = append(h.begin, len(h.all))
	}
	return h
}

// hull appends the steps of one item: Andrew's monotone chain.
func (h *hulls) hull(i int, order []int32) {
	t, begin := &h.items[i], len(h.all)
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(t.G[a], t.G[b]), cmp.Compare(t.F[a], t.F[b]))
	})
	at := order[0]
	h.first[i] = at
	for _, to := range order[1:] {
		if t.F[to] >= t.F[at] {
			continue // costs more, or as much, and is no better
		}
		for {
			s := step{gain: t.F[at] - t.F[to], cost: t.G[to] - t.G[at], row: int32(i), to: to}
			s.slope = s.gain / s.cost
			last := len(h.all) - 1
			if last < begin || h.all[last].slope > s.slope {
				h.all, at = append(h.all, s), to
				break
			}
			// The choice before lies on or above the line: go on from the one before it.
			h.all = h.all[:last]
			if at = h.first[i]; last > begin {
				at = h.all[last-1].to
			}
		}
	}
}

func (h *hulls) count() int       { return len(h.items) }
func (h *hulls) tie(i int) uint64 { return uint64(i) }

func (h *hulls) row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step) {
	pick = h.first[i]
	for _, s := range h.all[h.begin[i]:h.begin[i+1]] {
		if s.slope >= hi {
			pick = s.to
		} else if s.slope >= lo {
			to = append(to, s)
		}
	}
	return pick, Value{h.items[i].F[pick], h.items[i].G[pick]}, to
}
