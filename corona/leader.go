package corona

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// leaderState is the state of a channel that this node is the sequencer of. The sequencer collects
// what pollers find and decides how many nodes poll.
type leaderState struct {
	channelBudget
	allocation
	estimates
	known *difference.Known
	page  bool // the channel is a page, not a feed

	order         wedge.Order   // the last order to the channel's wedge; N = 0: there is none
	sentParams    channelParams // parameters last sent to the wedge
	interval      time.Duration
	why           string // the rule that set interval
	hints         feed.Hints
	maxAge        time.Duration // max-age of the last response
	valid         validators
	fingerprints  []fingerprint  // of the document that valid belongs to
	pastSnapshots []pastSnapshot // earlier snapshots, oldest first; at most maxPastSnapshots
	detail        string         // what readers lack of the document
	state         State
	stateSentAt   time.Time // when subscribers last got a state
	failureSentAt time.Time // when subscribers last got a state because another poller failed
	fails         int       // consecutive failed polls
	private       bool
	suspicion     suspicion
	failing       map[env.PeerID]failureReport // pollers whose last poll failed
	recoveredAt   time.Time                    // the last report of a success since the last failure; zero: none

	// The record that the sequencer before left. Its interval holds until a document sets another
	// one, and its readers count until the tree has formed again.
	inherited note

	lastRead     time.Time    // when the channel last had readers
	fetchedAt    time.Time    // when this node last fetched it outside the schedule
	fetching     env.Handle   // handle of that request; 0: none in flight
	inFlight     int          // changes that are being judged or are on their way to a quorum
	judgingPage  bool         // a page view is being judged
	marks        string       // of the page, as in the note
	itemFetches  []*itemFetch // change reports whose items are being fetched; the first one is active
	waiters      []waiter     // pollers to answer when the log holds what they found
	limitedUntil time.Time    // until when all pollers leave the origin alone
	upkeepAt     time.Time    // time of the next upkeep

	ticket     uint64                   // proof of appointment that pollers beyond the leaf set include in reports
	lastReport map[env.PeerID]time.Time // time of each poller's last change report, by the poller's clock
}

// validators are the HTTP validators of a document whose items are all in the log.
type validators struct{ etag, lastModified, url string }

// suspicion is about documents that look as if another feed had replaced this one.
type suspicion struct {
	since time.Time  // zero: there is none
	first *feed.Feed // the first suspicious document; nil: only an earlier sequencer saw it
}

// failureReport is a poller's last report of a failed poll.
type failureReport struct {
	state State
	at    time.Time
}

// Lead makes this node the sequencer of a channel. known holds the items of its log. note is the
// record that an earlier sequencer left, nil if there was none. epoch numbers the sequencer's term;
// a later term has a greater number.
func (c *Corona) Lead(key overlay.ID, url string, epoch uint64, known *difference.Known, note []byte) {
	now := c.clock.Now()
	l := &leaderState{
		channelBudget: channelBudget{key: key, url: url, domain: c.domains.refer(originOf(url)), since: now},
		known:         known, lastRead: now, interval: c.cfg.PollInterval, lastReport: map[env.PeerID]time.Time{},
	}
	_, l.page = feed.AtOrigin(url)
	l.state = State{Kind: coronapb.State_NEW, Since: now}
	l.order.Term.Epoch = epoch
	l.ticket = c.makeTicket(key, epoch)
	c.leaders[key] = l
	if spelled, err := feed.Canonical(url); err != nil || spelled != url {
		// A reader of this node cannot have asked for an address in this spelling.
		c.setState(l, State{Kind: coronapb.State_REFUSED, Detail: "the address is not in its canonical spelling"}, now)
		return
	}
	l.order.IntervalStart = c.permits.firstSlot(&l.channelBudget, l.interval, now)
	first := true
	if n, ok := parseNote(note); ok {
		if n.State.Kind == coronapb.State_REFUSED { // the earlier sequencer refused the address; this node may be configured to fetch it
			n.State, n.fails = State{Kind: coronapb.State_NEW, Since: n.State.Since}, 0
		}
		first = n.State.Polled.IsZero()
		c.inherit(l, n, now)
		if known.Lossy() { // "not modified" would hide what the log has lost
			l.valid, first = validators{}, true
		}
		c.permits.inheritGrant(&l.channelBudget, n.grant, now)
	}
	if d := c.assignments.Get(key); d != nil {
		d.leader = l
		l.learnFrom(d)
		d.setSnapshot(l.snapshot(), l.limitedUntil) // this node's log may lack what a poller was told of
	}
	c.scheduleUpkeep(l, now)
	c.permits.join(&l.channelBudget, now)
	if first {
		c.fetchNow(l, now)
	}
	l.desiredPollers = max(l.inherited.pollers, 1)
	c.order(l, l.desiredPollers, now)
	c.allocator.startDecisions(now)
	c.allocator.decideSoon(now)
}

// inherit continues from the record of the sequencer before.
func (c *Corona) inherit(l *leaderState, n note, now time.Time) {
	l.valid, l.state, l.lag, l.inherited, l.fails, l.private = n.valid, n.State, n.State.Lag, n, n.fails, n.private
	if n.private && !l.domain.privateKnown {
		l.domain.privateKnown, l.domain.private = true, true // until a response says otherwise
	}
	if n.State.Kind == coronapb.State_OK && n.State.Detail != noItems {
		l.detail = n.State.Detail
	}
	if n.State.Kind == coronapb.State_NOT_A_FEED && strings.HasSuffix(n.State.Detail, ifItStays) {
		l.suspicion.since = n.State.Since
		if now.Before(l.suspicion.since) { // the other sequencer's clock was ahead
			l.suspicion.since = now
		}
	}
	l.updateRate, l.meanBytes = n.updateRate, n.meanBytes
	l.known.Page().SetMarks([]byte(n.marks))
	if l.updateRate.at.After(now) { // the other sequencer's clock was ahead
		l.updateRate.at = now
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
		c.domains.limit(l.domain, l.state.Next)
	}
}

// fetchNow asks the origin at once, outside the schedule. The sequencer does this for a channel
// that is new or has readers again.
func (c *Corona) fetchNow(l *leaderState, now time.Time) {
	if !c.domains.exempt(l.domain) && !c.domains.takeUngranted(l.domain, now) {
		l.fetchedAt, l.fetching = time.Time{}, 0 // upkeep tries again
		return
	}
	c.lastHandle++
	l.fetchedAt, l.fetching = now, c.lastHandle
	c.otherRequests[c.lastHandle] = request{key: l.key, kind: initial}
	url, _ := feed.AtOrigin(l.url)
	c.fetcher.Fetch(c.lastHandle, env.Request{
		URL: url, Robots: l.page, Subscribers: c.readers(l),
		ETag: l.valid.etag, LastModified: l.valid.lastModified, ValidatedURL: l.valid.url,
	})
}

// Cease ends Lead. The next sequencer gives its own order to the wedge, so this node's order ends
// here. Otherwise two orders could coexist after a partition.
func (c *Corona) Cease(key overlay.ID) {
	if l := c.leaders[key]; l != nil {
		_ = c.wedges.Enlist(key, wedge.Order{}) // ending an order never fails
		delete(c.leaders, key)
		if d := c.assignments.Get(key); d != nil {
			d.leader = nil
		}
		c.permits.leave(&l.channelBudget)
		c.itemFetchCount -= len(l.itemFetches)
		c.domains.release(l.domain)
	}
}

// Filter returns the part of another branch's changes that is new to the sequencer, and marks it as
// known.
func (c *Corona) Filter(key overlay.ID, d difference.Delta) difference.Delta {
	l := c.leaders[key]
	if l == nil {
		return difference.Delta{}
	}
	fresh := l.known.Unknown(d)
	l.known.Add(fresh)
	return fresh
}

// readers is the number of clients of a channel. A new sequencer uses the earlier sequencer's count
// for two leases if that is larger, because the tree has to form again.
func (c *Corona) readers(l *leaderState) int {
	n := c.app.Weight(l.key)
	if c.clock.Now().Sub(l.since) < 2*c.cfg.MaintenanceInterval {
		n = max(n, l.inherited.weight)
	}
	return n
}

// scheduleUpkeep plans the next upkeep of a channel.
func (c *Corona) scheduleUpkeep(l *leaderState, now time.Time) {
	l.upkeepAt = now.Add(max(idleCheck, c.cfg.MaintenanceInterval/10))
	c.leaderCalendar.Add(l.upkeepAt, l.key)
}

// upkeep checks a channel that is led here. A channel without readers for two leases gets no
// pollers.
func (c *Corona) upkeep(l *leaderState, now time.Time) {
	c.scheduleUpkeep(l, now)
	if c.readers(l) > 0 {
		l.lastRead = now
	}
	if term := c.app.Term(l.key); term > l.order.Term.Epoch {
		// Another node led the channel in between and has ended this node's order.
		l.order.Term, l.order.N = wedge.Term{Epoch: term}, 0
	}
	if l.order.N > 0 && !c.wedges.Leads(l.key) {
		// A second sequencer, on the other side of a partition, gave an order of a later term. That
		// order replaced this one everywhere and ended when the other sequencer gave up.
		l.order.N = 0
	}
	idle, was := now.Sub(l.lastRead) > 2*c.cfg.MaintenanceInterval, l.state.Kind == coronapb.State_IDLE
	switch {
	case idle && !was:
		c.order(l, 0, now)
		l.state.Next, l.state.Why = time.Time{}, ""
		c.setState(l, State{Kind: coronapb.State_IDLE, Detail: "no readers"}, now)
	case !idle && was:
		c.fetchNow(l, now)
		c.order(l, 1, now)
	case !idle && l.fetching != 0 && now.Sub(l.fetchedAt) >= answerTimeout:
		c.stats.Late++
		delete(c.otherRequests, l.fetching)
		c.fetchNow(l, now)
	case !idle && l.fetchedAt.IsZero() && l.state.Kind == coronapb.State_NEW:
		c.fetchNow(l, now) // the domain allowed no request without a grant
	case !idle:
		if l.order.N == 0 {
			c.order(l, l.desiredPollers, now)
		}
		if n := float64(c.readers(l)); l.factors == nil || n >= readersFactor*l.factors.Subscribers || readersFactor*n <= l.factors.Subscribers {
			c.allocator.decideSoon(now)
		}
		c.forgetFailing(l, now)
	}
	if !idle && c.cfg.ExemptPrivate && !l.domain.privateKnown && l.fetching == 0 && now.Sub(l.fetchedAt) > l.interval {
		c.fetchNow(l, now) // a new sequencer that does not poll learns from a response whether the domain is exempt
	}
	if l.permit != nil && !l.permit.expiry.After(now) {
		c.stats.Expired++
		l.permit, l.grant = nil, nil
		c.setInterval(l, nil)
		c.order(l, l.pollers, now)
	}
}

// order tells a channel's wedge the number of pollers and their parameters, if either has changed.
// The permit of the channel bounds the number.
func (c *Corona) order(l *leaderState, pollers int, now time.Time) {
	if most := c.permits.pollerLimit(l.domain, l.permit, c.readers(l), l.interval); most > 0 {
		pollers = min(pollers, most)
	}
	o := l.order
	o.N, o.Interval = pollers, l.interval
	if c.cfg.DAG && pollers > 0 {
		o.N, o.DigitBits = 1, c.digit()
	}
	b := c.paramsOf(l, now)
	if o.N == l.order.N && o.Interval == l.order.Interval && !l.sentParams.differs(b) {
		c.setPollers(l, pollers, now)
		return
	}
	o.IntervalStart = o.IntervalStart.Add(now.Sub(o.IntervalStart) / o.Interval * o.Interval)
	o.Payload = b.payload(l.url)
	o.Term.Seq++
	if err := c.wedges.Enlist(l.key, o); err != nil {
		c.stats.Unlisted++
		c.log.Debug("pollers of a feed could not be informed", "url", l.url, "err", err) // upkeep tries again
		return
	}
	l.order, l.sentParams = o, b
	c.setPollers(l, pollers, now)
}

// enlist implements leading.
func (c *Corona) enlist(key overlay.ID, pollers int, now time.Time) {
	if l := c.leaders[key]; l != nil {
		c.order(l, pollers, now)
	}
}

// active implements leading.
func (c *Corona) active() []allocated {
	of := make([]allocated, 0, len(c.leaders))
	for _, l := range c.leaders {
		if l.pollers > 0 {
			of = append(of, allocated{&l.channelBudget, &l.allocation, &l.estimates, c.readers(l), l.interval})
		}
	}
	slices.SortFunc(of, func(a, b allocated) int { return bytes.Compare(a.key[:], b.key[:]) })
	return of
}

// demand implements claimant.
func (c *Corona) demand(key overlay.ID) (demand, bool) {
	l := c.leaders[key]
	if l == nil || l.pollers == 0 {
		return demand{}, false
	}
	return demand{readers: c.readers(l), interval: l.interval, bytes: l.pollBytes()}, true
}

// granted implements claimant. It tells the pollers of the grant.
func (c *Corona) granted(key overlay.ID, now time.Time) {
	l := c.leaders[key]
	if l == nil {
		return
	}
	c.setInterval(l, nil)
	if l.pollers > 0 {
		c.order(l, l.desiredPollers, now)
	}
	c.note(l)
}

// setPollers notes the number of pollers of a channel, and tells subscribers if it has changed.
func (c *Corona) setPollers(l *leaderState, pollers int, now time.Time) {
	was := l.pollers
	if l.pollers = pollers; pollers > 0 && was > 0 && was != pollers {
		c.setState(l, l.state, now)
	}
}

// snapshot returns what pollers are told about the log; nil if there is nothing yet.
func (l *leaderState) snapshot() *snapshot {
	if l.fingerprints == nil && l.valid == (validators{}) {
		return nil
	}
	return &snapshot{valid: l.valid, fingerprints: l.fingerprints, digest: digest(l.fingerprints)}
}

// notePlanned notes the time of a channel's next poll and the rule that set it, if this node is the
// only poller.
func (c *Corona) notePlanned(l *leaderState, at time.Time, why string) {
	if l.pollers == 1 {
		l.state.Next, l.state.Why = at, cmp.Or(why, l.why)
	}
}

// estimateNext estimates the next poll of a channel with several pollers, or with one other poller.
// Pollers do not announce their times, so the estimate assumes evenly spaced polls. With random
// phases it holds only on average.
func (c *Corona) estimateNext(l *leaderState) {
	if l.pollers > 1 || c.assignments.Get(l.key) == nil {
		l.state.Next, l.state.Why = l.state.Polled.Add(l.interval/time.Duration(max(l.pollers, 1))), l.why
		if c.cfg.Random && l.pollers > 1 {
			l.state.Why = "on average, because phases are random: " + l.why
		}
	}
}

// View is the state of a channel's polls as its sequencer knows it.
type View struct {
	State State
	Known int // number of items
}

// View returns the state of a channel's polls; ok is false if this node does not lead the channel.
func (c *Corona) View(key overlay.ID) (View, bool) {
	l := c.leaders[key]
	if l == nil {
		return View{}, false
	}
	s := l.state
	if d := c.assignments.Get(key); d == nil || l.pollers > 1 {
		now := c.clock.Now()
		s = s.Projected(now, now)
	}
	return View{State: s, Known: l.known.Len()}, true
}
