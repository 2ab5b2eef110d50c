package corona

import (
	"time"

	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// schedule says when the slots of an assignment are. It is a wedge.Assignment in less memory.
type schedule struct {
	Ref      moment
	Interval time.Duration
	Ranks    wedge.Ranks
	Of       int32
}

func scheduleOf(d wedge.Assignment) schedule {
	return schedule{momentOf(d.IntervalStart), d.Interval, d.Ranks, int32(d.N)}
}

func (g *schedule) next(after time.Time) time.Time {
	return wedge.Assignment{Ranks: g.Ranks, N: int(g.Of), IntervalStart: g.Ref.time(), Interval: g.Interval}.Next(after)
}

// minGap is the least time between two polls of one node, even if its rank changes.
func (g *schedule) minGap() time.Duration { return g.Interval / 8 }

// Slot is this node's part in the polls of a channel, for display.
type Slot struct {
	Rank     int           // the first one, if the node has several
	Of       int           // number of ranks
	Phase    time.Duration // delay of this node's slot after that of rank 0; with random phases, after a multiple of the interval in Unix time
	Interval time.Duration // between two polls of this node
	Polled   time.Time     // zero: not yet
	Next     time.Time
	Why      string // the rule that set Next; empty: the interval
}

// Slot returns this node's part in the polls of a channel; ok is false if it has none.
func (c *Corona) Slot(key overlay.ID) (t Slot, ok bool) {
	d := c.assignments.Get(key)
	if d == nil {
		return Slot{}, false
	}
	t = Slot{Rank: d.schedule.Ranks.At(0), Of: int(d.schedule.Of), Interval: d.schedule.Interval, Next: d.next.time(), Why: d.extras().why}
	if d.randomPhase {
		t.Phase = time.Duration(d.nextSlot(time.Unix(0, 0)).UnixNano()) % t.Interval
	} else {
		t.Phase = time.Duration(wedge.Phase(t.Rank, t.Of) * float64(t.Interval))
	}
	if d.polled {
		t.Polled = d.polledAt.time()
	}
	return t, true
}

// plan schedules the next poll.
func (c *Corona) plan(d *assignment, at time.Time, why string) {
	c.setNext(d, at, why)
	c.pollCalendar.Add(at, d.index)
}

// setNext notes when the next poll is due.
func (c *Corona) setNext(d *assignment, at time.Time, why string) {
	if d.next = momentOf(at); d.extra != nil || why != "" {
		d.ensureExtra().why = why
	}
	if d.leader != nil {
		c.notePlanned(d.leader, at, why)
	}
}

// nextSlot is the first slot of an assignment after a time.
func (d *assignment) nextSlot(after time.Time) time.Time {
	if d.randomPhase {
		return wedge.Assignment{Ranks: wedge.SingleRank(0), N: 1, IntervalStart: d.schedule.Ref.time(), Interval: d.schedule.Interval}.Next(after)
	}
	return d.schedule.next(after)
}

// nextAllowed is the first slot of an assignment after a time that the feed's skipHours and
// skipDays allow.
func (d *assignment) nextAllowed(after time.Time) (at time.Time, skipped bool) {
	at = d.nextSlot(after)
	if d.private {
		return at, false
	}
	for to := d.target.params.skips.after(at); !to.Equal(at); to = d.target.params.skips.after(at) {
		at, skipped = d.nextSlot(to.Add(-1)), true
	}
	return at, skipped
}

// planNextSlot schedules a poll at the next allowed slot after a time.
func (c *Corona) planNextSlot(d *assignment, after time.Time) {
	if plant.SkippedSlot && d.polled && d.index&3 == 0 {
		after = after.Add(d.schedule.Interval)
	}
	at, skipped := d.nextAllowed(after)
	why := ""
	if skipped {
		why = "the feed's skipHours and skipDays"
	}
	c.plan(d, at, why)
}
