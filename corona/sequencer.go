package corona

import (
	"cmp"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// sequencer leads channels: it takes what their pollers observe, hands news over to the log, and has
// wedges polled as the allocator decides.
type sequencer struct {
	*base
	domains   *domains
	permits   *permits
	allocator *allocator
	requests  *requests
	poller    *poller
	intake    *intake
	monitor   *monitor
	pushes    *pushes

	leaders  map[overlay.ID]*leaderState
	calendar env.Calendar[overlay.ID] // upkeep
}

func newSequencer(b *base, ds *domains, ps *permits, a *allocator, rq *requests, po *poller, in *intake, cb *callbacks) *sequencer {
	sq := &sequencer{base: b, domains: ds, permits: ps, allocator: a, requests: rq, poller: po, intake: in, leaders: map[overlay.ID]*leaderState{}}
	sq.monitor = &monitor{base: b, permits: ps, polls: func(key overlay.ID) bool { return po.assignments.Get(key) != nil }, fetch: sq.fetchNow, order: sq.order}
	sq.pushes = &pushes{base: b, callbacks: cb, allocator: a, monitor: sq.monitor, fetch: sq.fetchNow, order: sq.order, setInterval: sq.setInterval}
	cb.status = func(key overlay.ID, m *coronapb.PushStatus) {
		if l := sq.leaders[key]; l != nil {
			sq.pushes.onStatus(l, b.node.Self().Peer.ID, m)
		}
	}
	po.spared = func(key overlay.ID, now time.Time) bool {
		l := sq.leaders[key]
		return l != nil && sq.pushes.proven(l, now)
	}
	ps.up, a.up, po.up, cb.up, in.accept, in.verify = sq, sq, sq, sq, sq.accept, sq.verify
	return sq
}

// Lead makes this node the sequencer of a channel. known holds the items of its log. note is the
// record that an earlier sequencer left, nil if there was none. epoch is the time of the owners'
// epoch in Unix milliseconds, which numbers the term; a later term has a greater number.
func (sq *sequencer) Lead(key overlay.ID, url string, epoch uint64, known *difference.Known, note []byte) {
	now := sq.clock.Now()
	l := &leaderState{
		channelBudget: channelBudget{key: key, url: url, domain: sq.domains.refer(Origin(url)), since: env.MomentOf(now)},
		pacing:        pacing{interval: sq.cfg.PollInterval},
		reporting:     sq.intake.begin(key, epoch),
		committed:     committed{head: known.HeadVersion()},
		known:         known, lastRead: env.MomentOf(now), servedAt: env.MomentOf(now),
	}
	_, l.page = feed.DocumentURL(url)
	l.state = State{Kind: coronapb.State_NEW, Since: now}
	l.order.Term.Epoch = epoch
	if before := sq.leaders[key]; before != nil {
		sq.end(before)
	}
	sq.leaders[key] = l
	if spelled, err := feed.Canonical(url); err != nil || spelled != url {
		// A reader of this node cannot have asked for an address in this spelling.
		sq.monitor.setState(l, State{Kind: coronapb.State_REFUSED, Detail: "the address is not in its canonical spelling"}, now)
		return
	}
	l.order.IntervalStart = sq.permits.firstSlot(&l.channelBudget, l.interval, now)
	first := true
	if n, ok := parseNote(note); ok {
		if n.State.Kind == coronapb.State_REFUSED { // the earlier sequencer refused the address; this node may be configured to fetch it
			n.State, n.fails = State{Kind: coronapb.State_NEW, Since: n.State.Since}, 0
		}
		first = n.State.Polled.IsZero()
		sq.inherit(l, n, now)
		if known.Lossy() { // "not modified" would hide what the log has lost
			l.valid, first = validators{}, true
		}
		sq.permits.inheritGrant(&l.channelBudget, n.grant, now)
		sq.pushes.inherit(l, n.push, now)
	}
	if d := sq.poller.assignments.Get(key); d != nil {
		d.led = true
		l.learnFrom(d)
		d.setSnapshot(l.snapshot(), l.limitedUntil) // this node's log may lack what a poller was told of
	}
	sq.scheduleUpkeep(l, now)
	sq.permits.join(&l.channelBudget, now)
	known.Pack()
	if first {
		sq.fetchNow(l, now)
	}
	if l.push.pushed() {
		sq.setInterval(l, nil)
	}
	l.desiredPollers = max(l.inherited.pollers, 1)
	sq.order(l, l.desiredPollers, now)
	sq.allocator.startDecisions(now)
	sq.allocator.decideSoon(now)
}

// inherit continues from the record of the sequencer before.
func (sq *sequencer) inherit(l *leaderState, n note, now time.Time) {
	l.valid, l.state, l.lag, l.inherited, l.fails, l.private = n.valid, n.State, n.State.Lag, inheritance{n.interval, n.weight, n.pollers}, n.fails, n.private
	if n.private && !l.domain.privateKnown {
		l.domain.privateKnown, l.domain.private = true, true // until a response says otherwise
	}
	if n.State.Kind == coronapb.State_OK && n.State.Detail != noItems {
		l.detail = n.State.Detail
	}
	if n.State.Kind == coronapb.State_NOT_A_FEED && strings.HasSuffix(n.State.Detail, ifItStays) {
		l.suspicion.since = env.MomentOf(n.State.Since)
		if l.suspicion.since.After(now) { // the other sequencer's clock was ahead
			l.suspicion.since = env.MomentOf(now)
		}
	}
	l.updateRate, l.meanBytes, l.moved, l.distrusted = n.updateRate, n.meanBytes, n.move, n.distrusted.at(now)
	if l.moved.since.After(now) { // the other sequencer's clock was ahead
		l.moved.since = env.MomentOf(now)
	}
	if l.page {
		l.known.Page().SetMarks([]byte(n.marks))
	}
	if l.updateRate.at.After(now) { // the other sequencer's clock was ahead
		l.updateRate.at = env.MomentOf(now)
	}
	l.interval = max(l.interval, n.interval)
	// The slots stay where they were, on this node's clock.
	if behind := now.Sub(n.ref) % l.interval; behind >= 0 {
		l.order.IntervalStart = now.Add(-behind)
	} else {
		l.order.IntervalStart = now.Add(-behind - l.interval)
	}
	// A delay that the origin asked for binds any poller. If the clock of the sequencer before was
	// ahead, the delay starts now.
	if longest := now.Add(l.state.Next.Sub(l.state.Polled)); l.state.Next.After(longest) {
		l.state.Next = longest
	}
	if n.fails > 0 && l.state.Kind == coronapb.State_LIMITED {
		sq.domains.limit(l.domain, l.state.Next)
	}
}

// fetchNow asks the origin at once, outside the schedule: for a channel that is new or has readers
// again, whose log has lost entries, or of which it must be known whether others may poll it.
func (sq *sequencer) fetchNow(l *leaderState, now time.Time) {
	if !sq.domains.exempt(l.domain) && !sq.domains.takeUngranted(l.domain, now) {
		l.fetchedAt, l.fetching = env.Never, 0 // upkeep tries again
		return
	}
	at := l.moved.trusted(now)
	url := sq.requests.address(l.key, l.url, at, l.fails, now)
	l.fetchedAt, l.fetching = env.MomentOf(now), sq.requests.add(request{url: l.url, then: func(h env.Handle, a env.Answer, r observation, verdict State, now time.Time) {
		r.asked = url
		l.fetchAgain = false
		sq.requests.noteMove(l.key, l.url, at, url, r.moved, verdict.Kind)
		sq.noteAddress(l.key, a)
		if !l.ceased && l.fetching == h {
			sq.fetched(l, a, r, verdict, now)
		}
	}})
	sq.requests.fetcher.Fetch(l.fetching, env.Request{
		URL: url, Robots: l.page, Subscribers: sq.readers(l),
		ETag: l.valid.etag, LastModified: l.valid.lastModified, ValidatedURL: l.valid.url,
	})
}

// noteAddress notes whether a response for a channel came from a private address.
func (sq *sequencer) noteAddress(key overlay.ID, a env.Answer) {
	if d := sq.poller.assignments.Get(key); d != nil && d.domain != nil {
		d.domain.noteAddress(a)
	} else if l := sq.leaders[key]; l != nil {
		l.domain.noteAddress(a)
	}
}

// fetched takes the response to a request of fetchNow.
func (sq *sequencer) fetched(l *leaderState, a env.Answer, r observation, verdict State, now time.Time) {
	l.fetching = 0
	d := sq.poller.assignments.Get(l.key)
	if d == nil && a.RetryAfter > 0 && verdict.Kind != coronapb.State_LIMITED {
		sq.domains.limit(l.domain, now.Add(min(a.RetryAfter, maxRetryAfter)))
	}
	switch {
	case d != nil && d.waiting == 0 && (a.Err != env.ErrBusy || a.RetryAfter > 0 || l.state.Kind != coronapb.State_NEW):
		sq.poller.answered(d, a, r, verdict, now)
	case a.Err == env.ErrBusy: // the slots of a new channel are still being dealt out, which would cancel another poll
		l.fetchedAt, l.fetchAgain = env.Never, true
		at := now.Add(sq.requests.busyPause())
		l.upkeepAt = env.MomentOf(at)
		sq.calendar.Add(at, l.key)
	case verdict.Kind == coronapb.State_OK:
		sq.takeObservation(l, env.Peer{}, r, now)
	default:
		if verdict.Kind == coronapb.State_LIMITED && !a.Private {
			sq.domains.limit(l.domain, now.Add(rateLimitOf(a, 1)))
		}
		sq.monitor.noteFailure(l, "", verdict, false, now)
	}
}

// Cease ends Lead. The next sequencer gives its own order to the wedge, so this node's order ends
// here. Otherwise two orders could coexist after a partition.
func (sq *sequencer) Cease(key overlay.ID) {
	if l := sq.leaders[key]; l != nil {
		_ = sq.wedges.Enlist(key, wedge.Order{}) // ending an order never fails
		sq.end(l)
	}
}

// end drops the state of a channel.
func (sq *sequencer) end(l *leaderState) {
	delete(sq.leaders, l.key)
	l.ceased = true
	if d := sq.poller.assignments.Get(l.key); d != nil {
		d.led = false
	}
	sq.permits.leave(&l.channelBudget)
	sq.intake.fetching -= len(l.itemFetches)
	sq.domains.release(l.domain)
}

// Filter returns the part of another branch's changes that is new to the sequencer, and marks it as
// known.
func (sq *sequencer) Filter(key overlay.ID, d difference.Delta) difference.Delta {
	l := sq.leaders[key]
	if l == nil {
		return difference.Delta{}
	}
	fresh := l.known.Unknown(d)
	l.known.Add(fresh)
	return fresh
}

// order tells a channel's wedge the number of pollers and their parameters, if either has changed.
// The permit of the channel bounds the number.
func (sq *sequencer) order(l *leaderState, pollers int, now time.Time) {
	if most := sq.permits.pollerLimit(l.domain, l.permit, sq.readers(l), cmp.Or(l.unpushed, l.interval)); most > 0 {
		pollers = min(pollers, most)
	}
	if l.push.pushed() {
		pollers = min(pollers, 1)
	}
	if l.state.Kind == coronapb.State_GONE {
		pollers = min(pollers, 1) // one node finds out as well as many whether it is back
	}
	o := l.order
	o.N, o.Interval = pollers, l.interval
	if sq.cfg.DAG && pollers > 0 {
		o.N, o.DigitBits = 1, sq.digit()
	}
	b := sq.paramsOf(l, now)
	if o.N == l.order.N && o.Interval == l.order.Interval && !l.sentParams.differs(b) {
		sq.setPollers(l, pollers, now)
		return
	}
	o.IntervalStart = o.IntervalStart.Add(now.Sub(o.IntervalStart) / o.Interval * o.Interval)
	o.Payload = b.payload(l.url)
	o.Term.Seq++
	if err := sq.wedges.Enlist(l.key, o); err != nil {
		sq.stats.Unlisted++
		sq.log.Debug("pollers of a feed could not be informed", "url", l.url, "err", err) // upkeep tries again
		return
	}
	o.Payload = nil // sentParams has the same content
	l.order, l.sentParams = o, b
	sq.setPollers(l, pollers, now)
}

// enlist implements leading.
func (sq *sequencer) enlist(key overlay.ID, pollers int, now time.Time) {
	if l := sq.leaders[key]; l != nil {
		sq.order(l, pollers, now)
	}
}

// active implements leading.
func (sq *sequencer) active() []allocated {
	of := make([]allocated, 0, len(sq.leaders))
	for _, l := range sq.leaders {
		if l.pollers > 0 && !(l.push.pushed() && sq.cfg.Objective == honeycomb.Fast) { // Fast would make up for the rare polls with more polls of others
			of = append(of, allocated{&l.channelBudget, &l.allocation, &l.estimates, sq.readers(l), l.interval, l.push.pushed()})
		}
	}
	return of
}

// demand implements claimant.
func (sq *sequencer) demand(key overlay.ID) (readers int, interval time.Duration, pollBytes float64, ok bool) {
	l := sq.leaders[key]
	if l == nil || l.pollers == 0 {
		return 0, 0, 0, false
	}
	return sq.readers(l), cmp.Or(l.unpushed, l.interval), l.pollBytes(), true
}

// granted implements claimant. It tells the pollers of the grant.
func (sq *sequencer) granted(key overlay.ID, now time.Time) {
	l := sq.leaders[key]
	if l == nil {
		return
	}
	sq.setInterval(l, nil)
	if l.pollers > 0 {
		sq.order(l, l.desiredPollers, now)
	}
	sq.note(l)
}

// setPollers notes the number of pollers of a channel, and tells subscribers if it has changed.
func (sq *sequencer) setPollers(l *leaderState, pollers int, now time.Time) {
	was := l.pollers
	if l.pollers = pollers; pollers > 0 && was > 0 && was != pollers {
		sq.monitor.setState(l, l.state, now)
	}
}

// leads implements sequencing.
func (sq *sequencer) leads(key overlay.ID) bool { return sq.leaders[key] != nil }

// begin implements sequencing.
func (sq *sequencer) begin(d *assignment, now time.Time) {
	l := sq.leaders[d.key()]
	if l == nil {
		return
	}
	d.led = true
	d.setSnapshot(l.snapshot(), l.limitedUntil)
	d.private, d.polledAt = l.private, l.fetchedAt
	if l.state.Kind != coronapb.State_OK && l.state.Kind != coronapb.State_NEW {
		d.ensureExtra().failure = &failure{state: l.state, fails: l.fails, reportedKind: l.state.Kind, reportedAt: now}
	}
}

// planned implements sequencing. The plan of one of several pollers says nothing about the channel.
func (sq *sequencer) planned(key overlay.ID, at time.Time, why string) {
	if l := sq.leaders[key]; l != nil && l.pollers == 1 {
		l.state.Next, l.state.Why = at, cmp.Or(why, l.why)
	}
}

// observed implements sequencing.
func (sq *sequencer) observed(key overlay.ID, r observation, now time.Time) {
	sq.accept(sq.leaders[key], env.Peer{}, r, 0, now)
}

// pollFailed implements sequencing.
func (sq *sequencer) pollFailed(d *assignment, s State, now time.Time) {
	l := sq.leaders[d.key()]
	l.private = d.private
	declined := false
	if i := d.extras().failure; i != nil {
		l.fails, declined = i.fails, i.declined
	}
	sq.monitor.noteFailure(l, "", s, declined, now)
}

// unreadable implements sequencing.
func (sq *sequencer) unreadable(key overlay.ID) int { return sq.leaders[key].unreadable() }

// View is the state of a channel's polls as its sequencer knows it.
type View struct {
	State State
	Known int // number of items
}

// Handoff returns the snapshot that a newly enlisted node should know at once; nil if there is
// none.
func (sq *sequencer) Handoff(key overlay.ID) []byte {
	var s *snapshot
	var limitedUntil env.Moment // only what the sequencer said; what this node alone has seen does not count
	failing := 0
	if l := sq.leaders[key]; l != nil {
		s, limitedUntil, failing = l.snapshot(), l.limitedUntil, l.unreadable()
	} else if d := sq.poller.assignments.Get(key); d != nil {
		s, limitedUntil, failing = d.snapshot, d.extras().limitedUntil, d.extras().failing
	}
	if s == nil && failing == 0 {
		return nil
	} else if s == nil {
		s = &snapshot{}
	}
	return sq.cfg.Payloads.snapshotMessage(key, s, limitedUntil.Time().Sub(sq.clock.Now()), failing)
}

// setInterval sets the polling interval of a channel and the rule that gave it. f is nil after "not
// modified"; then the hints of the previous document still hold.
func (sq *sequencer) setInterval(l *leaderState, f *feed.Feed) {
	if f != nil {
		l.hints, l.inherited.interval = f.Hints, 0
	}
	interval, why := sq.rules().Interval(l.private, l.hints, l.maxAge, l.inherited.interval)
	l.desiredInterval = interval
	if p := l.permit; p != nil && p.interval > interval {
		interval, why = p.interval, "the budget of "+l.domain.name
	}
	l.unpushed = interval
	if pushed, by, ok := sq.pushes.interval(l); ok && pushed > interval {
		interval, why = pushed, by
	}
	l.interval, l.why = interval.Truncate(time.Millisecond), why // orders have milliseconds
}

// paramsOf returns the parameters that a channel's pollers should have.
func (sq *sequencer) paramsOf(l *leaderState, now time.Time) channelParams {
	b := channelParams{readers: sq.readers(l), skips: skipsOf(l.hints), grant: l.grant, ticket: l.ticket, at: l.moved.trusted(now)}
	if sq.cfg.DAG {
		b.size, b.update = sq.allocator.relativeSize(l.pollBytes()), l.updateRate.interval(now)
	}
	return b
}
