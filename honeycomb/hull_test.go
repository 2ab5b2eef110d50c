package honeycomb

import (
	"cmp"
	"slices"
)

// A hullItem holds the choices of one item with any tradeoffs: choice l has objective F[l] and cost G[l].
type hullItem struct{ F, G []float64 }

// hulls are rows of arbitrary tradeoffs.
type hulls struct {
	items    []hullItem
	cheapest []int32 // choice of each item with the least cost
	begin    []int   // index in all of each item's first step, and the end
	all      []step
}

func newHulls(items []hullItem) *hulls {
	h := &hulls{items: items, cheapest: make([]int32, len(items)), begin: make([]int, 1, len(items)+1)}
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

// hull appends the steps of one item, by Andrew's monotone chain.
func (h *hulls) hull(i int, order []int32) {
	t, begin := &h.items[i], len(h.all)
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(t.G[a], t.G[b]), cmp.Compare(t.F[a], t.F[b]))
	})
	at := order[0]
	h.cheapest[i] = at
	for _, to := range order[1:] {
		if t.F[to] >= t.F[at] {
			continue // costs at least as much and is no better
		}
		for {
			s := step{gain: t.F[at] - t.F[to], cost: t.G[to] - t.G[at], item: int32(i), choice: to}
			s.slope = s.gain / s.cost
			last := len(h.all) - 1
			if last < begin || h.all[last].slope > s.slope {
				h.all, at = append(h.all, s), to
				break
			}
			// The previous choice lies on or above the line, so continue from the one before
			// it.
			h.all = h.all[:last]
			if at = h.cheapest[i]; last > begin {
				at = h.all[last-1].choice
			}
		}
	}
}

func (h *hulls) count() int          { return len(h.items) }
func (h *hulls) tieKey(i int) uint64 { return uint64(i) }

func (h *hulls) row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step) {
	pick = h.cheapest[i]
	for _, s := range h.all[h.begin[i]:h.begin[i+1]] {
		if s.slope >= hi {
			pick = s.choice
		} else if s.slope >= lo {
			to = append(to, s)
		}
	}
	return pick, Value{h.items[i].F[pick], h.items[i].G[pick]}, to
}

// minimise chooses for items with any tradeoffs, so that the sum of G is at most budget and the
// sum of F is least. Each item needs at least one choice, as many F as G, and finite numbers.
func minimise(items []hullItem, budget float64) Solution {
	return choose(newHulls(items), &costCurve{}, budget)
}
