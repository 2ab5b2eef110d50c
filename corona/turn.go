package corona

import (
	"time"

	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// A grid says when a duty has its turns: it is a wedge.Duty, in less room.
type grid struct {
	Ref      moment
	Interval time.Duration
	Ranks    wedge.Ranks
	Of       int32
}

func gridOf(d wedge.Duty) grid { return grid{momentOf(d.Ref), d.Interval, d.Ranks, int32(d.Of)} }

func (g *grid) next(after time.Time) time.Time {
	return wedge.Duty{Ranks: g.Ranks, Of: int(g.Of), Ref: g.Ref.time(), Interval: g.Interval}.Next(after)
}

// breather is the least time between two polls of one node, though its rank changes.
func (g *grid) breather() time.Duration { return g.Interval / 8 }

// A Turn is this node's part in the polls of a channel.
type Turn struct {
	Rank     int           // the first, if it has several,
	Of       int           // of so many
	Phase    time.Duration // how long after the turn of rank 0 it has its own; of random phases, after a whole number of intervals of Unix time
	Interval time.Duration // between two of its polls
	Polled   time.Time     // zero: not yet
	Next     time.Time
	Why      string // the rule that set Next; empty: the interval
}

// Turn returns this node's part in the polls of a channel; ok is false if it has none.
func (c *Corona) Turn(key overlay.ID) (t Turn, ok bool) {
	d := c.duties.Get(key)
	if d == nil {
		return Turn{}, false
	}
	t = Turn{Rank: d.grid.Ranks.At(0), Of: int(d.grid.Of), Interval: d.grid.Interval, Next: d.next.time(), Why: d.extras().why}
	if d.random {
		t.Phase = time.Duration(d.turn(time.Unix(0, 0)).UnixNano()) % t.Interval
	} else {
		t.Phase = time.Duration(wedge.Phase(t.Rank, t.Of) * float64(t.Interval))
	}
	if d.polled {
		t.Polled = d.asked.time()
	}
	return t, true
}

// plan sets the time of the next poll.
func (c *Corona) plan(d *duty, at time.Time, why string) {
	c.expected(d, at, why)
	c.cal.Add(at, d.slot)
}

// expected notes when the next poll is due.
func (c *Corona) expected(d *duty, at time.Time, why string) {
	if d.next = momentOf(at); d.extra != nil || why != "" {
		d.rare().why = why
	}
	if d.lead != nil {
		c.planned(d.lead, at, why)
	}
}

// turn is the first turn of a duty after a time.
func (d *duty) turn(after time.Time) time.Time {
	if d.random {
		return wedge.Duty{Ranks: wedge.RankOf(0), Of: 1, Ref: d.grid.Ref.time(), Interval: d.grid.Interval}.Next(after)
	}
	return d.grid.next(after)
}

// opening is the first turn of a duty after a time at which the feed may be asked.
func (d *duty) opening(after time.Time) (at time.Time, skipped bool) {
	at = d.turn(after)
	if d.private {
		return at, false
	}
	for to := d.said.brief.skips.after(at); !to.Equal(at); to = d.said.brief.skips.after(at) {
		at, skipped = d.turn(to.Add(-1)), true
	}
	return at, skipped
}

// planSlot plans the poll of the next slot after a time.
func (c *Corona) planSlot(d *duty, after time.Time) {
	if plant.MissedTurn && d.polled && d.slot&3 == 0 {
		after = after.Add(d.grid.Interval)
	}
	at, skipped := d.opening(after)
	why := ""
	if skipped {
		why = "the feed's skipHours and skipDays"
	}
	c.plan(d, at, why)
}
