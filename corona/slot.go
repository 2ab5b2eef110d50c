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
	if plant.MissedTurn && d.polled && d.index&3 == 0 {
		after = after.Add(d.schedule.Interval)
	}
	at, skipped := d.nextAllowed(after)
	why := ""
	if skipped {
		why = "the feed's skipHours and skipDays"
	}
	c.plan(d, at, why)
}

// takeAssignmentGrant takes the grant in the payload of an assignment.
func (c *Corona) takeAssignmentGrant(d *assignment, b []byte) {
	if len(b) == 0 || c.domains.exempt(d.domain) {
		return
	}
	if g, err := openGrant(b); err != nil || g.key != d.key() || g.domain != d.domain.name {
		c.stats.Forged++
	} else {
		c.permits.acceptGrant(&d.ensureExtra().permitState, d.domain, g, c.clock.Now())
	}
}

// permitted says whether an assignment's grant covers its polls.
func (c *Corona) permitted(d *assignment, now time.Time) bool {
	x := d.ensureExtra()
	c.permits.verifyGrant(&x.permitState, d.domain)
	p := x.permit
	if p != nil && !p.expiry.After(now) {
		c.stats.Expired++
		x.permit, p = nil, nil
	}
	return p != nil && int(d.schedule.Of) <= p.pollers && d.schedule.Interval >= p.interval && c.nearEnough(d.key(), p.pollers)
}

// polite says whether an assignment may poll now. If not, it returns when to check again and the
// rule.
func (c *Corona) polite(d *assignment, now time.Time) (ok bool, at time.Time, why string) {
	if c.domains.exempt(d.domain) {
		return true, now, ""
	}
	if free := d.extras().allowedAt.time().Add(d.schedule.minGap() - maxAhead*d.schedule.Interval); now.Before(free) {
		at, _ = d.nextAllowed(free)
		return false, at, "it was polled recently"
	}
	if c.permitted(d, now) {
		return true, now, ""
	}
	at, _ = d.nextAllowed(now)
	own := d.schedule.Of == 1 && c.app.Owns(d.key()) && c.nearEnough(d.key(), 1) && d.schedule.Interval >= c.domains.shortestUngranted()
	if !own && (d.domain.privateKnown || !c.cfg.ExemptPrivate) { // otherwise the domain may be exempt, which a response will show
		return false, at, d.domain.name + " has not granted a poll"
	}
	if c.domains.takeUngranted(d.domain, now) {
		return true, now, ""
	}
	// A domain's channels go one after the other. At its next slot each channel would come too late
	// again.
	if next := d.domain.lastUngranted.time().Add(c.scaled(ungrantedGap)); next.Before(at) {
		at = next
	}
	return false, at, "without a grant " + d.domain.name + " is polled rarely"
}

// maxAhead is how many intervals too early a member may poll a channel. Each change of rank moves
// its slot by up to one interval in either direction. A member that refused to poll early would
// lose polls that nobody makes up for.
const maxAhead = 2

// chargePoll counts a poll of an assignment. A member polls a channel once in an interval, and at
// most maxAhead intervals too early, however it is enlisted: with several ranks, repeatedly, or
// with another phase each time.
func (d *assignment) chargePoll(now time.Time) {
	x := d.ensureExtra()
	x.allowedAt = max(x.allowedAt, momentOf(now)) + moment(d.schedule.Interval)
}

// refundPoll takes back a charge for a poll that did not reach the origin.
func (d *assignment) refundPoll() {
	if d.extra != nil && d.extra.allowedAt != never {
		d.extra.allowedAt -= moment(d.schedule.Interval)
	}
}
