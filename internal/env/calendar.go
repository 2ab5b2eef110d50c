package env

import (
	"math/bits"
	"slices"
	"time"
)

// A Calendar holds the times at which a layer wants to act, so that the layer needs only one alarm:
// its Run pops the entries that are due and returns Next.
//
// Entries cannot be moved or removed. A layer that reschedules something adds another entry, keeps
// the valid time beside the thing itself, and ignores the entry when Pop returns it at any other
// time. That is cheaper than an index, because few entries are rescheduled.
//
// The zero value is an empty calendar. Entries due at the same instant are popped in the order in
// which they were added, also in the simulator.
//
// A simulated network keeps five million entries in a thousand calendars. Its cost is the amount of
// cold memory that an entry touches between Add and Pop. A large calendar is therefore a ring of
// days, as in Brown's calendar queue (CACM, 1988): an entry waits unsorted in a block of its day,
// and a day is sorted when it comes. A small calendar is only a heap.
type Calendar[K any] struct {
	heap heap[K]  // all entries; with a ring, only those added since for today or earlier
	ring *ring[K] // nil while there are few entries, as in most calendars
	n    int      // number of entries
	seq  uint32
}

// A ring holds most entries of a large calendar.
type ring[K any] struct {
	// The fields that most calls touch come first, in two cache lines.
	current  []entry[K] // entries planned for today, sorted; those before pos are popped
	pos      int
	buffer   []entry[K] // new entries that are not in blocks yet
	today    int64      // number of today: a time shifted right by shift
	shift    uint
	size     int64 // days after today that the ring holds, a power of two
	builtFor int   // entries of the calendar when the ring was built

	freeBlock int32   // first free block, counted from 1; 0: none
	days      []int32 // first block of each day, counted from 1; 0: none
	blocks    []block[K]
	occupied  []uint64 // one bit for each day that has blocks
	stored    int      // entries in blocks
	far       heap[K]  // entries beyond the ring
}

// A block holds entries of one day. With small keys it fills two cache lines.
type block[K any] struct {
	n       int32
	next    int32 // next block of the same day, or next free block; 0: none
	entries [blockSize]entry[K]
}

const (
	ringMin       = 64 // entries from which a calendar has a ring
	entriesPerDay = 8  // average entries of a day when the ring is built
	blockSize     = 7
	bufferSize    = 16 // new entries that are put into blocks together
	samples       = 64 // entries that are sampled to choose the length of a day
)

// Len returns the number of entries, including those that a layer will ignore.
func (c *Calendar[K]) Len() int { return c.n }

// Add adds key at t.
func (c *Calendar[K]) Add(t time.Time, key K) {
	c.seq++
	c.n++
	c.insert(entry[K]{at: t.UnixNano(), seq: c.seq, key: key})
	if c.peek() == nil { // the ring has entries, and they are after today
		c.advance()
	}
	if c.n >= ringMin && (c.ring == nil || c.n > 2*c.ring.builtFor) {
		c.rebuild()
	}
}

// Next returns the time of the first entry, the zero time if there is none.
func (c *Calendar[K]) Next() time.Time {
	e := c.peek()
	if e == nil {
		return time.Time{}
	}
	return time.Unix(0, e.at).UTC()
}

// Pop removes and returns the first entry if it is due at now.
func (c *Calendar[K]) Pop(now time.Time) (key K, at time.Time, ok bool) {
	p := c.peek()
	if p == nil || p.at > now.UnixNano() {
		return key, at, false
	}
	e := *p
	if len(c.heap) > 0 && p == &c.heap[0] {
		c.heap.pop()
	} else {
		*p = entry[K]{}
		c.ring.pos++
	}
	c.n--
	if c.ring != nil && c.peek() == nil {
		c.advance()
		if c.n < c.ring.builtFor/2 {
			c.rebuild()
		}
	}
	return e.key, time.Unix(0, e.at).UTC(), true
}

// peek returns the first entry of current or of the heap. It returns nil if both are empty: in an
// empty calendar and, within one call, before advance.
func (c *Calendar[K]) peek() *entry[K] {
	r := c.ring
	if r == nil || r.pos == len(r.current) {
		if len(c.heap) == 0 {
			return nil
		}
		return &c.heap[0]
	}
	e := &r.current[r.pos]
	if len(c.heap) > 0 && c.heap[0].before(e) {
		return &c.heap[0]
	}
	return e
}

// insert puts an entry into the heap, the ring or far.
func (c *Calendar[K]) insert(e entry[K]) {
	r := c.ring
	if r == nil {
		c.heap.push(e)
		return
	}
	switch day := e.at >> r.shift; {
	case day <= r.today:
		c.heap.push(e)
	case day-r.today > r.size:
		r.far.push(e)
	default:
		r.buffer = append(r.buffer, e)
		if len(r.buffer) == cap(r.buffer) {
			r.flush()
		}
	}
}

// flush moves the buffered entries into blocks. Doing so for several entries at once makes the
// processor wait for their memory only once.
func (r *ring[K]) flush() {
	for _, e := range r.buffer {
		i := e.at >> r.shift & (r.size - 1)
		s := r.days[i]
		if s == 0 || r.blocks[s-1].n == blockSize {
			s = r.takeBlock(s)
			r.days[i] = s
		}
		p := &r.blocks[s-1]
		p.entries[p.n] = e
		p.n++
		r.occupied[i/64] |= 1 << (i % 64)
	}
	r.stored += len(r.buffer)
	clear(r.buffer)
	r.buffer = r.buffer[:0]
}

// takeBlock returns an empty block that is linked before next.
func (r *ring[K]) takeBlock(next int32) int32 {
	s := r.freeBlock
	if s == 0 {
		r.blocks = append(r.blocks, block[K]{})
		s = int32(len(r.blocks))
	} else {
		r.freeBlock = r.blocks[s-1].next
	}
	r.blocks[s-1].next = next
	return s
}

// advance makes the next day that has entries today.
func (c *Calendar[K]) advance() {
	r := c.ring
	r.flush()
	switch {
	case r.stored > 0:
		r.today = r.nextOccupied()
		i := r.today & (r.size - 1)
		r.current, r.pos = r.current[:0], 0
		for s := r.days[i]; s != 0; {
			p := &r.blocks[s-1]
			r.current = append(r.current, p.entries[:p.n]...)
			r.stored -= int(p.n)
			clear(p.entries[:p.n])
			p.n = 0
			s, p.next, r.freeBlock = p.next, r.freeBlock, s
		}
		r.days[i] = 0
		r.occupied[i/64] &^= 1 << (i % 64)
		sortEntries(r.current)
	case len(r.far) > 0:
		r.today = r.far[0].at >> r.shift
	default:
		return
	}
	for len(r.far) > 0 && r.far[0].at>>r.shift-r.today <= r.size {
		c.insert(r.far.pop())
	}
}

// nextOccupied returns the first day after today that has entries in the ring.
func (r *ring[K]) nextOccupied() int64 {
	mask := r.size - 1
	day := r.today + 1
	for {
		i := day & mask
		if w := r.occupied[i/64] >> (i % 64); w != 0 {
			return day + int64(bits.TrailingZeros64(w))
		}
		day += 64 - i%64
	}
}

// rebuild chooses the length of a day for the present entries and inserts all of them anew.
func (c *Calendar[K]) rebuild() {
	all := make([]entry[K], 0, c.n)
	all = append(all, c.heap...)
	if r := c.ring; r != nil {
		all = append(all, r.current[r.pos:]...)
		all = append(all, r.far...)
		all = append(all, r.buffer...)
		for _, first := range r.days {
			for s := first; s != 0; s = r.blocks[s-1].next {
				all = append(all, r.blocks[s-1].entries[:r.blocks[s-1].n]...)
			}
		}
	}
	*c = Calendar[K]{n: len(all), seq: c.seq, heap: c.heap[:0]}
	if len(all) >= ringMin {
		// The ring covers nine tenths of the entries plus a quarter more time. A few distant
		// entries must not make the days long.
		var at [samples]int64
		for i := range at {
			at[i] = all[i*len(all)/samples].at
		}
		slices.Sort(at[:])
		span := (at[samples*9/10] - at[0]) / 4 * 5
		days := max(64, 1<<bits.Len(uint(len(all)/entriesPerDay-1)))
		r := &ring[K]{
			size: int64(days), builtFor: len(all), days: make([]int32, days), occupied: make([]uint64, days/64),
			buffer: make([]entry[K], 0, bufferSize),
		}
		for span>>r.shift >= int64(days) {
			r.shift++
		}
		r.today = at[0] >> r.shift
		c.ring = r
	}
	for _, e := range all {
		c.insert(e)
	}
	if c.ring != nil && c.peek() == nil {
		c.advance()
	}
}

// Sooner returns the earlier of two times at which to run. The zero time means never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
