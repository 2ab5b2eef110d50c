package corona

import (
	"encoding/binary"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay/wedge"
)

const (
	// idleCheck is how often a channel without readers is checked.
	idleCheck = time.Minute
	// upkeepBatches is the number of batches in which a node that leads at least batchedChannels keeps them up, between two upkeeps
	// of one channel. Fewer channels wake it up less than twenty times a second.
	upkeepBatches   = 64
	batchedChannels = 1000
)

// run keeps up the channels that are due.
func (sq *sequencer) run(now time.Time) {
	for key, at, ok := sq.calendar.Pop(now); ok; key, at, ok = sq.calendar.Pop(now) {
		if l := sq.leaders[key]; l != nil && l.upkeepAt == env.MomentOf(at) {
			sq.upkeep(l, now)
		}
	}
}

// scheduleUpkeep plans the next upkeep of a channel. A node that leads many keeps them up in batches: with a hundred thousand it
// would otherwise wake up a thousand times a second. An upkeep comes up to a batch's time early. The batches of different nodes do
// not come at the same time.
func (sq *sequencer) scheduleUpkeep(l *leaderState, now time.Time) {
	pause := max(idleCheck, sq.cfg.MaintenanceInterval/10)
	at := now.Add(pause)
	if len(sq.leaders) >= batchedChannels {
		batch := pause / upkeepBatches
		self := sq.node.ID()
		phase := time.Duration(binary.BigEndian.Uint64(self[:]) % uint64(batch))
		at = now.Add(pause - phase).Truncate(batch).Add(phase)
	}
	l.upkeepAt = env.MomentOf(at)
	sq.calendar.Add(at, l.key)
}

// upkeep checks a channel that is led here. A channel without readers for two leases gets no
// pollers.
func (sq *sequencer) upkeep(l *leaderState, now time.Time) {
	sq.scheduleUpkeep(l, now)
	l.known.Pack()
	if sq.readers(l) > 0 {
		l.lastRead = env.MomentOf(now)
	}
	if term := sq.app.Term(l.key); term > l.order.Term.Epoch {
		// Another node led the channel in between and has ended this node's order.
		l.order.Term, l.order.N = wedge.Term{Epoch: term}, 0
	}
	if l.order.N > 0 && !sq.wedges.Leads(l.key) {
		// A second sequencer, on the other side of a partition, gave an order of a later term. That
		// order replaced this one everywhere and ended when the other sequencer gave up.
		l.order.N = 0
	}
	idle, was := now.Sub(l.lastRead.Time()) > 2*sq.cfg.MaintenanceInterval, l.state.Kind == coronapb.State_IDLE
	switch {
	case idle && !was:
		sq.order(l, 0, now)
		l.state.Next, l.state.Why = time.Time{}, ""
		sq.monitor.setState(l, State{Kind: coronapb.State_IDLE, Detail: "no readers"}, now)
	case !idle && was:
		sq.fetchNow(l, now)
		sq.order(l, 1, now)
	case !idle && l.fetching != 0 && now.Sub(l.fetchedAt.Time()) >= answerTimeout:
		sq.stats.Late++
		delete(sq.requests.open, l.fetching)
		sq.fetchNow(l, now)
	case !idle && l.fetchedAt == env.Never && (l.fetchAgain || l.state.Kind == coronapb.State_NEW):
		sq.fetchNow(l, now) // this node was busy, or the domain allowed no request without a grant
	case !idle:
		if served, _ := sq.wedges.Served(l.key); served > 0 || l.order.N == 0 || l.order.DigitBits != 0 {
			l.servedAt = env.MomentOf(now)
		} else if now.Sub(l.servedAt.Time()) > l.interval {
			// All members that could poll have declined. An order of a later term asks them again, and this
			// node takes ranks if nobody else does.
			sq.poller.exclusions.forget(l.key)
			l.order.N = 0
		}
		if l.order.N == 0 {
			sq.order(l, l.desiredPollers, now)
		}
		if n := float64(sq.readers(l)); l.factors == nil || n >= readersFactor*l.factors.Subscribers || readersFactor*n <= l.factors.Subscribers {
			sq.allocator.decideSoon(now)
		}
		sq.monitor.forgetFailing(l, now)
		sq.pushes.upkeep(l, now)
	}
	if !idle && sq.cfg.ExemptPrivate && !l.domain.privateKnown && l.fetching == 0 && now.Sub(l.fetchedAt.Time()) > l.interval {
		sq.fetchNow(l, now) // a new sequencer that does not poll learns from a response whether the domain is exempt
	}
	if l.permit != nil && !l.permit.expiry.After(now) {
		sq.stats.Expired++
		l.permit, l.grant = nil, nil
		sq.setInterval(l, nil)
		sq.order(l, l.pollers, now)
	}
}
