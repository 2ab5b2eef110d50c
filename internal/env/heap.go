package env

import "slices"

// An entry is one planned time of a calendar.
type entry[K any] struct {
	at  int64 // nanoseconds since the Unix epoch
	seq uint32
	key K
}

// before orders by time and then by sequence number. The difference of sequence numbers stays right
// when they wrap round.
func (e *entry[K]) before(f *entry[K]) bool {
	return e.at < f.at || e.at == f.at && int32(e.seq-f.seq) < 0
}

// A heap is a 4-ary heap of entries. The four children of an entry lie in one or two cache lines.
type heap[K any] []entry[K]

func (p *heap[K]) push(e entry[K]) {
	h := append(*p, e)
	*p = h
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// minShrinkCap is the capacity from which a mostly empty heap shrinks. A thousand simulated nodes
// have thousands of heaps.
const minShrinkCap = 32

// pop removes the first entry of a heap that is not empty.
func (p *heap[K]) pop() entry[K] {
	h := *p
	top := h[0]
	n := len(h) - 1
	e := h[n]
	h[n] = entry[K]{}
	h = h[:n]
	if cap(h) >= minShrinkCap && n < cap(h)/8 {
		h = append(make([]entry[K], 0, cap(h)/4), h...)
	}
	*p = h
	if n == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for j := first + 1; j < min(first+4, n); j++ {
			if h[j].before(&h[least]) {
				least = j
			}
		}
		if !h[least].before(&e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
	return top
}

// sortEntries sorts the entries of a day, of which there are mostly few.
func sortEntries[K any](list []entry[K]) {
	if len(list) > 16 {
		slices.SortFunc(list, func(a, b entry[K]) int {
			if a.before(&b) {
				return -1
			}
			return 1
		})
		return
	}
	for i := 1; i < len(list); i++ {
		e := list[i]
		j := i
		for j > 0 && e.before(&list[j-1]) {
			list[j] = list[j-1]
			j--
		}
		list[j] = e
	}
}
