package env

import (
	"math/bits"
	"slices"
	"time"
)

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
//
// A simulated network keeps five million entries in a thousand calendars, and
// what counts there is how much cold memory an entry touches between Add and
// Pop. A large calendar is therefore a ring of days, as in Brown's calendar
// queue (CACM, 1988): an entry waits on one of the sheets of its day, unsorted,
// and is sorted when the day has come. Few entries need no ring.
type Calendar[K any] struct {
	near pile[K]  // all entries; with a ring, what was added since for today, or for earlier
	ring *ring[K] // nil: there are few entries, as in most calendars
	n    int      // entries
	seq  uint32
}

// A ring holds most entries of a large calendar.
type ring[K any] struct {
	// What most calls touch comes first, in two cache lines.
	list  []entry[K] // what was planned for today, sorted; before todo it is done
	todo  int
	fresh []entry[K] // entries that have not been put on sheets yet
	today int64      // a day is a time shifted right by shift
	shift uint
	size  int64 // days the ring holds, those after today
	built int   // entries of the calendar when the ring was laid out

	unused int32   // first unused sheet, counted from 1; 0: none
	days   []int32 // first sheet of each day, counted from 1; 0: none
	sheets []sheet[K]
	busy   []uint64 // a bit for each day that has sheets
	inRing int      // entries on sheets
	far    pile[K]  // entries beyond the ring
}

// A sheet holds entries of one day. Those of small keys lie in two cache lines.
type sheet[K any] struct {
	n       int32
	next    int32 // of the same day, or the next unused one
	entries [sheetHolds]entry[K]
}

const (
	ringFrom   = 64 // entries that make a ring worth while
	dayHolds   = 8  // entries of a day, at most, when the ring is laid out
	sheetHolds = 7
	freshHolds = 16 // entries that wait to be put on sheets together
	samples    = 64 // entries that are looked at to choose the length of a day
)

// Len is the number of entries, those that no longer count included.
func (c *Calendar[K]) Len() int { return c.n }

// Add enters key at t.
func (c *Calendar[K]) Add(t time.Time, key K) {
	c.seq++
	c.n++
	c.enter(entry[K]{at: t.UnixNano(), seq: c.seq, key: key})
	if c.first() == nil { // there is a ring, and it is there
		c.advance()
	}
	if c.n >= ringFrom && (c.ring == nil || c.n > 2*c.ring.built) {
		c.layOut()
	}
}

// Next returns the time of the first entry, the zero time if there is none.
func (c *Calendar[K]) Next() time.Time {
	e := c.first()
	if e == nil {
		return time.Time{}
	}
	return time.Unix(0, e.at).UTC()
}

// Pop removes and returns the first entry if it is due at now.
func (c *Calendar[K]) Pop(now time.Time) (key K, at time.Time, ok bool) {
	p := c.first()
	if p == nil || p.at > now.UnixNano() {
		return key, at, false
	}
	e := *p
	if len(c.near) > 0 && p == &c.near[0] {
		c.near.pop()
	} else {
		*p = entry[K]{}
		c.ring.todo++
	}
	c.n--
	if c.ring != nil && c.first() == nil {
		c.advance()
		if c.n < c.ring.built/2 {
			c.layOut()
		}
	}
	return e.key, time.Unix(0, e.at).UTC(), true
}

// first is the first entry, in the list or in near; nil if both are empty, which
// they are only for the length of a call, or if the calendar is.
func (c *Calendar[K]) first() *entry[K] {
	r := c.ring
	if r == nil || r.todo == len(r.list) {
		if len(c.near) == 0 {
			return nil
		}
		return &c.near[0]
	}
	e := &r.list[r.todo]
	if len(c.near) > 0 && c.near[0].before(e) {
		return &c.near[0]
	}
	return e
}

// enter puts an entry where it waits.
func (c *Calendar[K]) enter(e entry[K]) {
	r := c.ring
	if r == nil {
		c.near.push(e)
		return
	}
	switch day := e.at >> r.shift; {
	case day <= r.today:
		c.near.push(e)
	case day-r.today > r.size:
		r.far.push(e)
	default:
		r.fresh = append(r.fresh, e)
		if len(r.fresh) == cap(r.fresh) {
			r.file()
		}
	}
}

// file puts the fresh entries onto sheets. To do so for several of them at
// once lets the processor wait once for the memory of all.
func (r *ring[K]) file() {
	for _, e := range r.fresh {
		i := e.at >> r.shift & (r.size - 1)
		s := r.days[i]
		if s == 0 || r.sheets[s-1].n == sheetHolds {
			s = r.takeSheet(s)
			r.days[i] = s
		}
		p := &r.sheets[s-1]
		p.entries[p.n] = e
		p.n++
		r.busy[i/64] |= 1 << (i % 64)
	}
	r.inRing += len(r.fresh)
	clear(r.fresh)
	r.fresh = r.fresh[:0]
}

// takeSheet returns an empty sheet that goes before next.
func (r *ring[K]) takeSheet(next int32) int32 {
	s := r.unused
	if s == 0 {
		r.sheets = append(r.sheets, sheet[K]{})
		s = int32(len(r.sheets))
	} else {
		r.unused = r.sheets[s-1].next
	}
	r.sheets[s-1].next = next
	return s
}

// advance makes the next day that has entries today.
func (c *Calendar[K]) advance() {
	r := c.ring
	r.file()
	switch {
	case r.inRing > 0:
		r.today = r.nextBusy()
		i := r.today & (r.size - 1)
		r.list, r.todo = r.list[:0], 0
		for s := r.days[i]; s != 0; {
			p := &r.sheets[s-1]
			r.list = append(r.list, p.entries[:p.n]...)
			r.inRing -= int(p.n)
			clear(p.entries[:p.n])
			p.n = 0
			s, p.next, r.unused = p.next, r.unused, s
		}
		r.days[i] = 0
		r.busy[i/64] &^= 1 << (i % 64)
		sortEntries(r.list)
	case len(r.far) > 0:
		r.today = r.far[0].at >> r.shift
	default:
		return
	}
	for len(r.far) > 0 && r.far[0].at>>r.shift-r.today <= r.size {
		c.enter(r.far.pop())
	}
}

// nextBusy is the first day after today that has entries in the ring.
func (r *ring[K]) nextBusy() int64 {
	mask := r.size - 1
	day := r.today + 1
	for {
		i := day & mask
		if w := r.busy[i/64] >> (i % 64); w != 0 {
			return day + int64(bits.TrailingZeros64(w))
		}
		day += 64 - i%64
	}
}

// layOut chooses the length of a day for the present entries, and puts them in
// their places.
func (c *Calendar[K]) layOut() {
	all := make([]entry[K], 0, c.n)
	all = append(all, c.near...)
	if r := c.ring; r != nil {
		all = append(all, r.list[r.todo:]...)
		all = append(all, r.far...)
		all = append(all, r.fresh...)
		for _, first := range r.days {
			for s := first; s != 0; s = r.sheets[s-1].next {
				all = append(all, r.sheets[s-1].entries[:r.sheets[s-1].n]...)
			}
		}
	}
	*c = Calendar[K]{n: len(all), seq: c.seq, near: c.near[:0]}
	if len(all) >= ringFrom {
		// Nine tenths of the entries, and a quarter more time, shall find
		// room in the ring: a few far ones must not make the days long.
		var at [samples]int64
		for i := range at {
			at[i] = all[i*len(all)/samples].at
		}
		slices.Sort(at[:])
		span := (at[samples*9/10] - at[0]) / 4 * 5
		days := max(64, 1<<bits.Len(uint(len(all)/dayHolds-1)))
		r := &ring[K]{
			size: int64(days), built: len(all), days: make([]int32, days), busy: make([]uint64, days/64),
			fresh: make([]entry[K], 0, freshHolds),
		}
		for span>>r.shift >= int64(days) {
			r.shift++
		}
		r.today = at[0] >> r.shift
		c.ring = r
	}
	for _, e := range all {
		c.enter(e)
	}
	if c.ring != nil && c.first() == nil {
		c.advance()
	}
}

// Sooner returns the earlier of two wishes to be run, where the zero time is
// none.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
