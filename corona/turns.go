package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
)

// turns let the channels of a domain that limits its requests be polled by this node one after the
// other, in the order in which they began to wait. Otherwise all of them would ask when a limit is over,
// and those with the first slots would get all that the domain allows.
type turns struct {
	gap     time.Duration // pause after each answer; 0: the domain has not limited this node, or long ago
	floor   time.Duration // pause with which the domain last refused
	askedAt env.Moment    // of the poll that is in flight
	asking  bool          // there is one
	queue   []*assignment // channels that wait for their turn
}

const (
	// minTurnGap is the first pause between two polls of a domain that asks for fewer requests and does
	// not say for how long. The pause doubles with each further such answer, up to maxTurnGap. With each
	// other answer it shrinks by a sixteenth, or much less near the pause with which the domain refused.
	minTurnGap = time.Minute
	maxTurnGap = 24 * time.Hour
	// longTurnGap is a pause that is halved instead.
	longTurnGap = 10 * time.Minute
	// quotaGap is the first pause for a domain that says when it allows the next request.
	quotaGap = 10 * time.Second
	// noTurnGap is a pause that is not worth a turn any more. The fetcher makes a pause of its own.
	noTurnGap = time.Second
	// turnPause is the time between two attempts of a channel while another one has its turn.
	turnPause = time.Second
)

// asked notes that a poll of the domain is on its way.
func (t *turns) asked(now time.Time) {
	if t.gap > 0 {
		t.asking, t.askedAt = true, env.MomentOf(now)
	}
}

// turnTaken says whether another channel is polled before this one.
func (t *turns) turnTaken(d *assignment, now time.Time) bool {
	return t.gap > 0 && t.asking && now.Before(t.askedAt.Time().Add(answerTimeout)) || len(t.queue) > 0 && t.queue[0] != d
}

// await puts a channel at the end of the queue, unless it waits already.
func (t *turns) await(d *assignment) {
	if !t.awaited(d) {
		t.queue = append(t.queue, d)
	}
}

// awaited says whether a channel waits for its turn.
func (t *turns) awaited(d *assignment) bool { return slices.Contains(t.queue, d) }

// leave takes a channel out of the queue.
func (t *turns) leave(d *assignment) {
	if i := slices.Index(t.queue, d); i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	}
}

// refused takes an answer that asks for fewer requests. again says that the same channel was refused at its
// last poll, too: a host that refuses one address for ever must not slow down its other feeds.
func (t *turns) refused(a env.Answer, again bool) {
	t.asking = false
	if again {
		return
	}
	first := minTurnGap
	if a.RetryAfter > 0 {
		first = min(first, a.RetryAfter)
	}
	t.floor = t.gap
	t.gap = min(max(2*t.gap, first), maxTurnGap)
}

// answered takes another answer to a poll of the domain and returns the pause after it, 0 if there is none.
func (t *turns) answered(a env.Answer) (pause time.Duration) {
	t.asking = false
	switch {
	case a.RetryAfter > 0: // its quota is exhausted, or the fetcher holds the host back
		t.gap = max(t.gap, min(a.RetryAfter, quotaGap))
		return min(a.RetryAfter, maxRetryAfter)
	case a.Err == env.ErrBusy: // this node's own queue was full; the host was not asked
		return 0
	case a.Err != "":
		return t.gap // a host that cannot be reached allows nothing
	case t.gap > longTurnGap:
		t.gap /= 2
	case t.gap > t.floor+t.floor/8:
		t.gap -= t.gap / 16
	default:
		t.gap -= t.gap / 512
	}
	if t.gap < noTurnGap {
		t.gap, t.floor = 0, 0
	}
	return t.gap
}

// waitTurn plans a poll of a channel whose domain is limited or where another channel has its turn. It
// returns false if the channel may be polled. A channel that waits no longer than its polling interval, or
// a few minutes, keeps its place in the queue. After a longer limit each channel has its own slot.
func (po *poller) waitTurn(d *assignment, domain *domain, now time.Time) bool {
	switch until := domain.limitedUntil.Time(); {
	case until.After(now) && until.Sub(now) > max(d.schedule.Interval, minPublicInterval):
		domain.leave(d)
		at, _ := d.nextAllowed(until)
		po.plan(d, at, domain.name+" asks for fewer requests")
	case until.After(now):
		po.awaitTurn(d, domain)
		po.plan(d, until, domain.name+" asks for fewer requests")
	case domain.turnTaken(d, now):
		po.awaitTurn(d, domain)
		po.plan(d, now.Add(turnPause), "the feeds of "+domain.name+" are polled in turns")
	default:
		domain.leave(d)
		return false
	}
	return true
}

// awaitTurn lets an assignment wait for its turn. It refers to its domain from then on, so that Release
// can take it out of the queue.
func (po *poller) awaitTurn(d *assignment, domain *domain) {
	if d.domain == nil {
		d.domain = po.domains.refer(d.target.domain, d.target.private)
	}
	domain.await(d)
}

// takeAnswer lets the domain of an assignment learn from an answer how often it may be asked. A private host
// that does not say for how long it wants rest limits one channel alone.
func (po *poller) takeAnswer(d *assignment, a env.Answer, limited bool, now time.Time) {
	limited = limited && (!d.private || a.RetryAfter > 0)
	if d.domain == nil && (limited || a.RetryAfter > 0) {
		d.domain = po.domains.refer(d.target.domain, d.target.private)
	}
	domain := po.domainOf(d)
	switch {
	case domain == nil:
	case limited:
		i := d.extras().failure
		domain.refused(a, i != nil && i.state.Kind == coronapb.State_LIMITED)
	default:
		if pause := domain.answered(a); pause > 0 {
			po.domains.limit(domain, now.Add(pause))
		}
	}
}

// limitOfTurns completes an answer that asks for fewer requests and does not say for how long: with turns,
// the pause between them is long enough. A channel that is refused again waits longer.
func (po *poller) limitOfTurns(d *assignment, a env.Answer) env.Answer {
	domain, i := po.domainOf(d), d.extras().failure
	if a.RetryAfter == 0 && domain != nil && domain.floor > 0 && (i == nil || i.state.Kind != coronapb.State_LIMITED) {
		a.RetryAfter = domain.gap
	}
	return a
}

// mayBeLimit says whether a refusal to one poll may mean that the domain asks for fewer requests, as it did lately. A
// channel that is refused twice in a row is blocked, or this node is.
func (po *poller) mayBeLimit(d *assignment) bool {
	domain, i := po.domainOf(d), d.extras().failure
	return domain != nil && domain.gap > 0 && (i == nil || i.state.Kind != coronapb.State_LIMITED && i.state.Kind != coronapb.State_MISSING)
}
