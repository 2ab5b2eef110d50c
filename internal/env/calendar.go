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
	// What most calls touch comes first, in two cache lines.
	list  []entry[K] // what was planned for today, sorted; before todo it is done
	todo  int
	near  pile[K]    // what was added since for today, or for earlier
	fresh []entry[K] // entries for the ring that have not been put there yet
	today int64      // a day is a time shifted right by shift
	shift uint
	ring  int64 // days the ring holds, those after today; 0: there is no ring
	n     int   // entries
	built int   // entries at the last layout
	seq   uint32

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
	if c.first() == nil {
		c.advance()
	}
	if c.n >= ringFrom && c.n > 2*c.built {
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
		c.todo++
	}
	c.n--
	if c.first() == nil {
		c.advance()
		if c.built >= ringFrom && c.n < c.built/4 {
			c.layOut()
		}
	}
	return e.key, time.Unix(0, e.at).UTC(), true
}

// first is the first entry, in the list or in near; nil if both are empty, which
// they are only for the length of a call, or if the calendar is.
func (c *Calendar[K]) first() *entry[K] {
	if c.todo == len(c.list) {
		if len(c.near) == 0 {
			return nil
		}
		return &c.near[0]
	}
	e := &c.list[c.todo]
	if len(c.near) > 0 && c.near[0].before(e) {
		return &c.near[0]
	}
	return e
}

// enter puts an entry where it waits.
func (c *Calendar[K]) enter(e entry[K]) {
	day := e.at >> c.shift
	switch {
	case day <= c.today || c.ring == 0:
		c.near.push(e)
	case day-c.today > c.ring:
		c.far.push(e)
	default:
		c.fresh = append(c.fresh, e)
		if len(c.fresh) == cap(c.fresh) {
			c.file()
		}
	}
}

// file puts the fresh entries into the ring. To do so for several of them at
// once lets the processor wait once for the memory of all.
func (c *Calendar[K]) file() {
	for _, e := range c.fresh {
		i := e.at >> c.shift & (c.ring - 1)
		s := c.days[i]
		if s == 0 || c.sheets[s-1].n == sheetHolds {
			s = c.takeSheet(s)
			c.days[i] = s
		}
		p := &c.sheets[s-1]
		p.entries[p.n] = e
		p.n++
		c.busy[i/64] |= 1 << (i % 64)
	}
	c.inRing += len(c.fresh)
	clear(c.fresh)
	c.fresh = c.fresh[:0]
}

// takeSheet returns an empty sheet that goes before next.
func (c *Calendar[K]) takeSheet(next int32) int32 {
	s := c.unused
	if s == 0 {
		c.sheets = append(c.sheets, sheet[K]{})
		s = int32(len(c.sheets))
	} else {
		c.unused = c.sheets[s-1].next
	}
	c.sheets[s-1].next = next
	return s
}

// advance makes the next day that has entries today.
func (c *Calendar[K]) advance() {
	c.file()
	switch {
	case c.inRing > 0:
		c.today = c.nextBusy()
		i := c.today & (c.ring - 1)
		c.list, c.todo = c.list[:0], 0
		for s := c.days[i]; s != 0; {
			p := &c.sheets[s-1]
			c.list = append(c.list, p.entries[:p.n]...)
			c.inRing -= int(p.n)
			clear(p.entries[:p.n])
			p.n = 0
			s, p.next, c.unused = p.next, c.unused, s
		}
		c.days[i] = 0
		c.busy[i/64] &^= 1 << (i % 64)
		sortEntries(c.list)
	case len(c.far) > 0:
		c.today = c.far[0].at >> c.shift
	default:
		return
	}
	for len(c.far) > 0 && c.far[0].at>>c.shift-c.today <= c.ring {
		c.enter(c.far.pop())
	}
}

// nextBusy is the first day after today that has entries in the ring.
func (c *Calendar[K]) nextBusy() int64 {
	mask := int64(len(c.days) - 1)
	day := c.today + 1
	for {
		i := day & mask
		if w := c.busy[i/64] >> (i % 64); w != 0 {
			return day + int64(bits.TrailingZeros64(w))
		}
		day += 64 - i%64
	}
}

// layOut chooses the length of a day for the present entries, and puts them in
// their places.
func (c *Calendar[K]) layOut() {
	all := make([]entry[K], 0, c.n)
	all = append(all, c.list[c.todo:]...)
	all = append(all, c.near...)
	all = append(all, c.far...)
	all = append(all, c.fresh...)
	for _, first := range c.days {
		for s := first; s != 0; s = c.sheets[s-1].next {
			all = append(all, c.sheets[s-1].entries[:c.sheets[s-1].n]...)
		}
	}
	*c = Calendar[K]{n: len(all), built: len(all), seq: c.seq, near: c.near[:0]}
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
		for span>>c.shift >= int64(days) {
			c.shift++
		}
		c.ring, c.days, c.busy = int64(days), make([]int32, days), make([]uint64, days/64)
		c.fresh = make([]entry[K], 0, freshHolds)
		c.today = at[0] >> c.shift
	}
	for _, e := range all {
		c.enter(e)
	}
	if c.first() == nil {
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
