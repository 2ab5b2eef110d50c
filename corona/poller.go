package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// poller polls the channels in whose wedges this node has ranks.
type poller struct {
	*base
	domains    *domains
	permits    *permits
	allocator  *allocator
	requests   *requests
	lonePolls  *lonePolls
	reports    *reports
	exclusions exclusions
	up         sequencing
	spared     func(key overlay.ID, now time.Time) bool // says whether a channel that this node leads needs no poll now

	assignments *overlay.Index[assignment]
	outstanding []outstandingPoll    // polls without an answer, oldest first
	calendar    env.Calendar[uint32] // polls, by assignment index
}

// sequencing leads channels. It gets directly what a poller of a channel that this node leads would
// report to the sequencer.
type sequencing interface {
	// leads says whether this node leads a channel.
	leads(key overlay.ID) bool

	// begin sets up a new assignment of a channel that this node leads.
	begin(d *assignment, now time.Time)

	// planned says when the next poll of a channel is due, and the rule that set it.
	planned(key overlay.ID, at time.Time, why string)

	// observed takes an observation.
	observed(key overlay.ID, r observation, now time.Time)

	// unreadable returns how many nodes cannot read a channel that this node leads; 0 if others can.
	unreadable(key overlay.ID) int

	// pollFailed takes the state after a failed poll.
	pollFailed(d *assignment, s State, now time.Time)
}

func newPoller(b *base, ds *domains, ps *permits, a *allocator, rq *requests, lp *lonePolls, rs *reports) *poller {
	po := &poller{
		base: b, domains: ds, permits: ps, allocator: a, requests: rq, lonePolls: lp, reports: rs, exclusions: exclusions{},
		assignments: overlay.NewIndex(b.rand.Uint64(), func(d *assignment) *overlay.ID { return &d.target.key }),
	}
	lp.lastPoll = po.lastPoll
	rs.fetchWhole = func(key overlay.ID) {
		if d := po.assignments.Get(key); d != nil {
			d.ensureExtra().inFull = true
		}
	}
	return po
}

// run makes the polls that are due.
func (po *poller) run(now time.Time) {
	for slot, at, ok := po.calendar.Pop(now); ok; slot, at, ok = po.calendar.Pop(now) {
		if d := po.assignments.At(slot); d.next == env.MomentOf(at) && d.waiting == 0 {
			po.due(d, now)
		}
	}
}

// lastPoll returns when this node last polled a channel as one of its pollers.
func (po *poller) lastPoll(key overlay.ID) (at time.Time, ok bool) {
	d := po.assignments.Get(key)
	if d == nil || !d.polled {
		return time.Time{}, false
	}
	return d.polledAt.Time(), true
}

// HandOver reports what lone polls have found to the channel's sequencer, as a poller reports its
// changes. known are some items of the log, which show that the items belong to this channel.
func (po *poller) HandOver(key overlay.ID, head *feed.Head, items []feed.Item, known []difference.Entry) {
	if head == nil || len(items) == 0 {
		return
	}
	f := &feed.Feed{Head: *head, Items: slices.Clone(items)}
	for _, e := range known {
		f.Items = append(f.Items, feed.Item{ID: e.ID, Hash: e.Hash})
	}
	f.Items = f.Items[:min(len(f.Items), feed.MaxItems)]
	po.reports.keep(key, observation{f: f, handedOver: true}, po.assignments.Get(key), po.clock.Now())
}

// Valid says whether a payload is one that this node would poll by or pass on.
func (po *poller) Valid(key overlay.ID, payload []byte) bool {
	s, _ := po.parsePayload(key, payload)
	return s != nil
}

// Serve gives this node ranks of a channel, or changes the ranks that it has.
func (po *poller) Serve(key overlay.ID, duty wedge.Assignment) {
	s, grant := po.parsePayload(key, duty.Payload)
	if s == nil {
		po.stats.Garbage++
		return
	}
	now := po.clock.Now()
	d := po.assignments.Get(key)
	if d == nil {
		d = po.addAssignment(assignment{target: s, randomPhase: po.cfg.Random})
		if po.domains.budgeted {
			d.domain = po.domains.refer(s.domain, s.private)
			if at := po.permits.takeAllowed(key); at != env.Never {
				d.ensureExtra().allowedAt = at
			}
		}
		if d.randomPhase {
			d.schedule.Ref = env.MomentOf(now.Add(-time.Duration(po.rand.Int64N(int64(duty.Interval)))))
		}
		po.up.begin(d, now)
		if po.cfg.DAG {
			po.allocator.startDecisions(now)
		}
	}
	ref := d.schedule.Ref
	if d.schedule, d.target = (schedule{env.MomentOf(duty.IntervalStart), duty.Interval, duty.Ranks, int32(duty.N)}), s; d.randomPhase {
		d.schedule.Ref = ref
	}
	po.takeAssignmentGrant(d, grant)
	if d.waiting == 0 && (d.domain == nil || !d.domain.awaited(d)) {
		po.planNextSlot(d, po.notBefore(d, now))
	}
}

// notBefore is the earliest time for the next poll of an assignment whose ranks have changed. A
// slot belongs to the node that has its rank when it comes, and nobody makes up for a slot that
// this node skips, so a node skips only if it polled a moment ago. A node without an earlier poll
// starts with the next slot: the sequencer is already fetching a new channel.
func (po *poller) notBefore(d *assignment, now time.Time) time.Time {
	if d.polledAt == env.Never {
		return now
	}
	from := now.Add(-d.schedule.grace())
	if last := d.polledAt.Time().Add(d.schedule.minGap()); last.After(from) {
		from = last
	}
	if i := d.extras().failure; i != nil {
		until := i.state.Next.Add(-1)
		if i.state.Kind != coronapb.State_LIMITED {
			until = until.Add(-d.schedule.Interval / 2) // such a failure lasts longer than minutes
		}
		if until.After(from) {
			from = until
		}
	}
	return from
}

// Release ends this node's assignment for a channel.
func (po *poller) Release(key overlay.ID) {
	if d := po.assignments.Get(key); d != nil {
		po.permits.keepAllowed(key, d.extras().allowedAt)
		if d.domain != nil {
			d.domain.leave(d)
			po.domains.release(d.domain)
		}
		po.assignments.Delete(key)
	}
}

// addAssignment stores an assignment. The calendar refers to it by its index.
func (po *poller) addAssignment(of assignment) *assignment {
	d, slot := po.assignments.Put(of)
	d.index = slot
	return d
}

// due handles an assignment whose next poll is due.
func (po *poller) due(d *assignment, now time.Time) {
	switch domain := po.domainOf(d); {
	case domain != nil && po.waitTurn(d, domain, now):
	case !d.private && d.extra != nil && d.extra.limitedUntil.After(now):
		at, _ := d.nextAllowed(d.extra.limitedUntil.Time())
		po.plan(d, at, d.target.domain+" asks several nodes for fewer requests")
	case d.led && po.spared(d.key(), now):
		po.stats.Skipped++
		po.planNextSlot(d, now)
	default:
		if ok, at, why := po.polite(d, now); !ok {
			po.stats.Skipped++
			po.plan(d, at, why)
			return
		}
		po.poll(d, now)
	}
}

// poll asks the origin.
func (po *poller) poll(d *assignment, now time.Time) {
	d.waiting, d.polledAt, d.polled = po.requests.next(), env.MomentOf(now), true
	if domain := po.domainOf(d); domain != nil {
		domain.asked(now)
	}
	if po.domains.budgeted {
		d.chargePoll(now)
	}
	fails := 0
	if i := d.extras().failure; i != nil {
		fails = i.fails
	}
	_, isPage := feed.DocumentURL(d.target.url)
	r := env.Request{URL: po.requests.address(d.key(), d.target.url, d.target.params.at, fails, now), Robots: isPage, Subscribers: d.target.params.readers}
	var since []fingerprint
	// An owner vouches for what it has fetched itself. "Not modified" would tell it nothing about a document that only
	// another node has fetched. A page it fetches in full when it is asked to look.
	if s := d.snapshot; s != nil && !d.extras().inFull && (isPage || !po.cfg.Witnesses || d.fetched == s.valid.digest() || !po.app.Owns(d.key())) {
		r.ETag, r.LastModified, r.ValidatedURL = s.valid.etag, s.valid.lastModified, s.valid.url
		r.Partial = !isPage && s.fingerprints != nil && fails == 0 && !po.needsWhole(d)
		since = s.fingerprints
	}
	po.outstanding = append(po.outstanding, outstandingPoll{d, d.waiting, d.polledAt, r.URL, since})
	po.setNext(d, d.nextSlot(now), "") // answered or checkOverdue plans the next poll
	po.requests.fetcher.Fetch(d.waiting, r)
}

// next returns the time of the next run.
func (po *poller) next() time.Time {
	if len(po.outstanding) == 0 {
		return po.calendar.Next()
	}
	return env.Sooner(po.calendar.Next(), po.outstanding[0].lateAt())
}

// responded takes the response to a scheduled poll. It returns false if the request was another one.
func (po *poller) responded(h env.Handle, a env.Answer) bool {
	o := po.takeOutstanding(h)
	d := o.assignment
	if d == nil {
		return false
	}
	if d.waiting != h {
		return true // the response came after the timeout
	}
	var m *page.Tracker
	if _, isPage := feed.DocumentURL(d.target.url); isPage && !d.led {
		m = new(page.Tracker)
		if w := d.extras().pageWatch; w != nil {
			*m = w.memory.Clone()
		}
	}
	po.requests.read(request{url: d.target.url, then: func(h env.Handle, a env.Answer, r observation, verdict State, now time.Time) {
		if d.waiting != h {
			return // the response came after the timeout
		}
		r.asked = o.asked
		po.requests.noteMove(d.key(), d.target.url, d.target.params.at, r.asked, r.moved, verdict.Kind)
		if d.domain != nil {
			d.domain.noteAddress(a)
		}
		if r.partial && r.f != nil {
			r.complete(o.since)
		}
		if a.Err == env.ErrBusy || verdict.Kind == coronapb.State_UNREACHABLE {
			d.refundPoll()
		}
		if verdict.Kind == coronapb.State_OK && r.f != nil && !r.partial && !po.up.leads(d.key()) && r.direct(d.target.url) {
			r.tell(po.app, d.key(), d.target.url) // a sequencer does that in takeObservation
		}
		if a.Status == 304 && d.snapshot != nil && d.fetched == d.snapshot.valid.digest() && r.direct(d.target.url) {
			po.app.Saw(d.key(), d.target.url, nil, false)
		}
		po.answered(d, a, r, verdict, now)
	}}, m, h, a)
	return true
}

// answered takes the answer to a scheduled poll. It plans the next poll before it evaluates this
// one.
func (po *poller) answered(d *assignment, a env.Answer, r observation, verdict State, now time.Time) {
	d.waiting = 0
	if verdict.Kind == coronapb.State_MISSING && a.Status == 403 && po.mayBeLimit(d) {
		verdict.Kind = coronapb.State_LIMITED // some limiters answer 403 at times
	}
	limited := verdict.Kind == coronapb.State_LIMITED && a.Err == ""
	if po.takeAnswer(d, a, limited, now); limited {
		a = po.limitOfTurns(d, a)
	}
	if domain := po.domainOf(d); a.Err == env.ErrBusy && domain != nil && po.waitTurn(d, domain, now) {
		return
	}
	if a.Err == env.ErrBusy {
		po.plan(d, now.Add(po.requests.busyPause()), "waiting for other requests to its host")
		return
	}
	if domain := po.domainOf(d); domain != nil {
		domain.leave(d) // a channel that its sequencer fetched outside the schedule may wait for its turn
	}
	d.private = a.Private
	po.stats.Polls++
	if !d.led && (r.page != nil || a.Status == 304) {
		d.updatePageWatch(r.page, now)
	}
	if verdict.Kind != coronapb.State_OK {
		po.stats.Failed++
		po.failed(d, a, verdict, now)
		return
	}
	if d.extra != nil && r.f != nil {
		d.extra.inFull = false
	}
	well := d.extra == nil || d.extra.failure == nil && d.extra.failing == 0 // otherwise the sequencer waits for a success
	if !well {
		d.extra.failure, d.extra.failing = nil, 0
	}
	po.exclusions.forget(d.key())
	from := d.polledAt.Time().Add(min(slotSlack, d.schedule.Interval/8)) // slots may move by milliseconds
	if least := d.polledAt.Time().Add(po.scaled(minPublicInterval) - d.schedule.Interval/2); !d.private && least.After(from) {
		from = least
	}
	if now.After(from) {
		from = now
	}
	po.planNextSlot(d, from)
	if p := po.lonePolls.byKey[d.key()]; p != nil && !p.ended && r.f != nil && r.page == nil && !r.partial {
		po.lonePolls.showAlone(p, r, verdict, now) // this node may be cut off from every node that would distribute the document to its readers
	}
	if r.f != nil && !r.partial && r.direct(d.target.url) {
		d.fetched = r.valid.digest()
	}
	if r.f == nil && !d.led && well {
		po.stats.Unchanged++
		return
	}
	switch {
	case d.led:
		po.up.observed(d.key(), r, now)
	case r.f != nil && d.hasNews(&r, now):
		po.reports.keep(d.key(), r, d, now) // to the sequencer
	case !well:
		po.reportStatus(d, verdict, now)
	}
	if r.f == nil && !d.led {
		po.stats.Unchanged++
	}
}

// Slot returns this node's part in the polls of a channel; ok is false if it has none.
func (po *poller) Slot(key overlay.ID) (t Slot, ok bool) {
	d := po.assignments.Get(key)
	if d == nil {
		return Slot{}, false
	}
	t = Slot{Rank: d.schedule.Ranks.At(0), Of: int(d.schedule.Of), Interval: d.schedule.Interval, Next: d.next.Time(), Why: d.extras().why}
	if d.randomPhase {
		t.Phase = time.Duration(d.nextSlot(time.Unix(0, 0)).UnixNano()) % t.Interval
	} else {
		t.Phase = time.Duration(wedge.Phase(t.Rank, t.Of) * float64(t.Interval))
	}
	if d.polled {
		t.Polled = d.polledAt.Time()
	}
	return t, true
}

// plan schedules the next poll.
func (po *poller) plan(d *assignment, at time.Time, why string) {
	po.setNext(d, at, why)
	po.calendar.Add(at, d.index)
}

// setNext notes when the next poll is due.
func (po *poller) setNext(d *assignment, at time.Time, why string) {
	if d.next = env.MomentOf(at); d.extra != nil || why != "" {
		d.ensureExtra().why = why
	}
	if d.led {
		po.up.planned(d.key(), at, why)
	}
}

// planNextSlot schedules a poll at the next allowed slot after a time.
func (po *poller) planNextSlot(d *assignment, after time.Time) {
	at, skipped := d.nextAllowed(after)
	why := ""
	if skipped {
		why = "the feed's skipHours and skipDays"
	}
	po.plan(d, at, why)
}

// repeatReports repeats the change reports that no sequencer has answered.
func (po *poller) repeatReports(now time.Time) {
	rs := po.reports
	for nonce, _, ok := rs.calendar.Pop(now); ok; nonce, _, ok = rs.calendar.Pop(now) {
		w := rs.byNonce(nonce)
		if w == nil {
			continue
		}
		d := po.assignments.Get(w.key)
		switch {
		case po.up.leads(w.key): // this node has become the sequencer
			rs.drop(w)
			po.up.observed(w.key, w.observation, now)
		case (d != nil || w.handedOver) && now.Sub(w.since) < keepReportFor:
			rs.sendReport(w, d, now)
		default:
			rs.drop(w)
		}
	}
}

// onSnapshot learns which document the log holds completely. A snapshot with the nonce of a pending
// report answers that report.
func (po *poller) onSnapshot(key overlay.ID, t snapshotNotice) {
	if w := po.reports.byNonce(t.nonce); w != nil && w.key == key && w.handedOver {
		po.reports.drop(w)
		return
	}
	d := po.assignments.Get(key)
	if d == nil || d.led { // this node's log may lack what the log of another branch holds
		return
	}
	s := t.snapshot
	if w := po.reports.byNonce(t.nonce); w != nil && w.key == key {
		// Either the document had nothing new, or the log holds all of it by now.
		po.reports.drop(w)
		switch of := digest(w.fingerprints); {
		case w.partial: // only this node knows that the log holds it
			s = &snapshot{valid: w.valid, fingerprints: w.fingerprints, digest: of, head: s.head}
		case w.page != nil:
			d.acknowledgePage()
			s = &snapshot{valid: w.valid, fingerprints: s.fingerprints, digest: s.digest}
		case of != s.digest || !s.coversHead(difference.HeadVersion(&w.f.Head)):
			x := d.ensureExtra()
			x.staleDigest, x.staleSince = of^difference.HeadVersion(&w.f.Head), env.MomentOf(po.clock.Now())
		default:
			s = &snapshot{valid: w.valid, fingerprints: w.fingerprints, digest: s.digest, head: s.head}
		}
	}
	// The limit applies to this channel alone. Its sequencer has no authority over other channels
	// of the domain.
	limitedUntil := env.Never
	if t.limitedFor > 0 {
		limitedUntil = env.MomentOf(po.clock.Now().Add(t.limitedFor))
	}
	d.setSnapshot(s, limitedUntil)
	if t.failing != d.extras().failing {
		d.ensureExtra().failing = t.failing
	}
}

// reportStatus tells the sequencer about a failed poll, or that polls succeed again.
func (po *poller) reportStatus(d *assignment, s State, now time.Time) {
	if po.up.leads(d.key()) {
		po.up.pollFailed(d, s, now)
		return
	}
	i := d.extras().failure
	if i != nil {
		if i.reportedKind == s.Kind && now.Sub(i.reportedAt) < minStateGap && !i.declined {
			return
		}
		i.reportedAt, i.reportedKind = now, s.Kind
	}
	po.tell(d.key(), po.reports.signStatus(d.key(), s, i != nil && i.declined), false)
}

// Delivered takes a snapshot that the sequencer of a channel sent to all pollers. It plans no poll;
// the next poll uses the snapshot.
func (po *poller) Delivered(key overlay.ID, body []byte) {
	t, ok := po.cfg.Payloads.notice(key, body)
	if !ok {
		po.stats.Garbage++
		return
	}
	po.onSnapshot(key, t)
}
