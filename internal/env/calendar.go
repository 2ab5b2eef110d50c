package env

import "time"

// A Calendar holds the times at which a layer wants to do things, so that the
// layer needs only one alarm: Run pops what is due and returns Next.
//
// Entries cannot be moved or removed. A layer that changes its mind adds
// another entry, keeps the time that counts beside the thing itself, and
// ignores what it pops at any other time. That is cheaper than an index, and
// most plans are kept.
//
// The zero value is an empty calendar. Entries due at one instant come in the
// order in which they were added, in every world.
type Calendar[K any] struct {
	heap []entry[K] // 4-ary: a node's children lie in one or two cache lines
	seq  uint32
}

type entry[K any] struct {
	at  int64 // nanoseconds since the Unix epoch
	seq uint32
	key K
}

// before orders by time, then by age; the difference of seq survives its
// wrapping round.
func (e *entry[K]) before(f *entry[K]) bool {
	return e.at < f.at || e.at == f.at && int32(e.seq-f.seq) < 0
}

// Len is the number of entries, those that no longer count included.
func (c *Calendar[K]) Len() int { return len(c.heap) }

// Add enters key at t.
func (c *Calendar[K]) Add(t time.Time, key K) {
	c.seq++
	e := entry[K]{t.UnixNano(), c.seq, key}
	c.heap = append(c.heap, e)
	i := len(c.heap) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !e.before(&c.heap[p]) {
			break
		}
		c.heap[i] = c.heap[p]
		i = p
	}
	c.heap[i] = e
}

// Next returns the time of the first entry, the zero time if there is none.
func (c *Calendar[K]) Next() time.Time {
	if len(c.heap) == 0 {
		return time.Time{}
	}
	return time.Unix(0, c.heap[0].at)
}

// Pop removes and returns the first entry if it is due at now.
func (c *Calendar[K]) Pop(now time.Time) (key K, at time.Time, ok bool) {
	if len(c.heap) == 0 || c.heap[0].at > now.UnixNano() {
		return key, at, false
	}
	top := c.heap[0]
	n := len(c.heap) - 1
	last := c.heap[n]
	c.heap[n] = entry[K]{}
	c.heap = c.heap[:n]
	if n > 0 {
		c.sink(last)
	}
	return top.key, time.Unix(0, top.at), true
}

// sink puts e in its place, from the empty top down.
func (c *Calendar[K]) sink(e entry[K]) {
	h := c.heap
	i := 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for j := first + 1; j < min(first+4, len(h)); j++ {
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
}

// Sooner returns the earlier of two wishes to be run, where the zero time is
// none.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
