package corona

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay/wedge"
)

// schedule says when the slots of an assignment are. It is a wedge.Assignment in less memory.
type schedule struct {
	Ref      env.Moment
	Interval time.Duration
	Ranks    wedge.Ranks
	Of       int32
}

func (g *schedule) next(after time.Time) time.Time {
	return wedge.Assignment{Ranks: g.Ranks, N: int(g.Of), IntervalStart: g.Ref.Time(), Interval: g.Interval}.Next(after)
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

// nextSlot is the first slot of an assignment after a time.
func (d *assignment) nextSlot(after time.Time) time.Time {
	if d.randomPhase {
		return wedge.Assignment{Ranks: wedge.SingleRank(0), N: 1, IntervalStart: d.schedule.Ref.Time(), Interval: d.schedule.Interval}.Next(after)
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
