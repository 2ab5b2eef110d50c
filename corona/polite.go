package corona

import (
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
)

// takeAssignmentGrant takes the grant in the payload of an assignment.
func (po *poller) takeAssignmentGrant(d *assignment, b []byte) {
	if len(b) == 0 || po.domains.exempt(d.domain) {
		return
	}
	if g, err := openGrant(b); err != nil || g.key != d.key() || g.domain != d.domain.name {
		po.stats.Forged++
	} else {
		po.permits.acceptGrant(&d.ensureExtra().permitState, d.domain, g, po.clock.Now())
	}
}

// permitted says whether an assignment's grant covers its polls.
func (po *poller) permitted(d *assignment, now time.Time) bool {
	x := d.ensureExtra()
	po.permits.verifyGrant(&x.permitState, d.domain)
	p := x.permit
	if p != nil && !p.expiry.After(now) {
		po.stats.Expired++
		x.permit, p = nil, nil
	}
	return p != nil && int(d.schedule.Of) <= p.pollers && d.schedule.Interval >= p.interval && po.nearEnough(d.key(), p.pollers)
}

// polite says whether an assignment may poll now. If not, it returns when to check again and the
// rule.
func (po *poller) polite(d *assignment, now time.Time) (ok bool, at time.Time, why string) {
	if po.domains.exempt(d.domain) {
		return true, now, ""
	}
	if free := d.extras().allowedAt.Time().Add(d.schedule.minGap() - maxAhead*d.schedule.Interval); now.Before(free) {
		at, _ = d.nextAllowed(free)
		return false, at, "it was polled recently"
	}
	if po.permitted(d, now) {
		return true, now, ""
	}
	at, _ = d.nextAllowed(now)
	own := d.schedule.Of == 1 && po.app.Owns(d.key()) && po.nearEnough(d.key(), 1) && d.schedule.Interval >= max(po.cfg.PollInterval, po.scaled(minPublicInterval))
	if !own && (d.domain.privateKnown || !po.cfg.ExemptPrivate) { // otherwise the domain may be exempt, which a response will show
		return false, at, d.domain.name + " has not granted a poll"
	}
	if po.domains.takeUngranted(d.domain, now) {
		return true, now, ""
	}
	// A domain's channels go one after the other. At its next slot each channel would come too late
	// again.
	if next := d.domain.lastUngranted.Time().Add(po.scaled(ungrantedGap)); next.Before(at) {
		at = next
	}
	return false, at, "without a grant " + d.domain.name + " is polled rarely"
}

// domainOf returns the domain of an assignment; nil if there is nothing to know about it.
func (po *poller) domainOf(d *assignment) *domain {
	if d.domain == nil && po.domains.anyLimited {
		return po.domains.byName[d.target.domain]
	}
	return d.domain
}

// limitDomainOf stops this node's polls of an assignment's domain until a time.
func (po *poller) limitDomainOf(d *assignment, until time.Time) {
	if d.domain == nil {
		d.domain = po.domains.refer(d.target.domain, d.target.private)
	}
	po.domains.limit(d.domain, until)
}

// failed plans the next poll after a failure, and tells the sequencer.
func (po *poller) failed(d *assignment, a env.Answer, s State, now time.Time) {
	x := d.ensureExtra()
	if x.failure == nil {
		x.failure = &failure{}
	}
	i := x.failure
	i.fails++
	interval := d.schedule.Interval
	b := po.rules().BackOff(s, a, i.fails, interval, d.private, d.target.domain)
	wait, why := b.Wait, b.Why
	if again := i.state.Kind == coronapb.State_LIMITED; again && a.RetryAfter <= 0 && d.domain != nil {
		b.LimitDomain = min(b.LimitDomain, max(d.domain.gap, minTurnGap)) // the other feeds need not wait as long as this one
	}
	if b.LimitDomain > 0 {
		po.limitDomainOf(d, now.Add(b.LimitDomain))
	}
	var at time.Time
	switch {
	case wait < interval:
		at = now.Add(wait + time.Duration(po.rand.Int64N(int64(wait/20)+1)))
	case b.Asked:
		at, _ = d.nextAllowed(now.Add(wait - 1))
	default: // at the node's own slot, so that its polls stay apart from the others'
		at, _ = d.nextAllowed(now.Add(wait - interval/2))
	}
	s.Polled, s.Next, s.Why = now, at, why
	i.state = s
	po.plan(d, at, why)
	i.declined = po.turnedAway(d)
	po.reportStatus(d, s, now)
	if i.declined {
		po.decline(d.key(), wait, now)
	}
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
	x.allowedAt = max(x.allowedAt, env.MomentOf(now)) + env.Moment(d.schedule.Interval)
}

// refundPoll takes back a charge for a poll that did not reach the origin.
func (d *assignment) refundPoll() {
	if d.extra != nil && d.extra.allowedAt != env.Never {
		d.extra.allowedAt -= env.Moment(d.schedule.Interval)
	}
}
