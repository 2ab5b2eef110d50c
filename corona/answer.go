package corona

import (
	"slices"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Answered takes the response to a request.
func (c *Corona) Answered(h env.Handle, a env.Answer) {
	var p request
	if d := c.takeOutstanding(h); d != nil {
		if d.waiting != h {
			return // the response came after the timeout
		}
		p = request{key: d.key(), kind: scheduled, assignment: d}
	} else if other, ok := c.otherRequests[h]; ok {
		p = other
		delete(c.otherRequests, h)
	} else {
		return
	}
	r := observationOf(a)
	if a.Status != 200 || len(a.Body) == 0 {
		c.handleAnswer(p, h, a, r, nil)
		return
	}
	c.parse(p, h, a, r)
}

// parse reads a document off the loop.
func (c *Corona) parse(p request, h env.Handle, a env.Answer, r observation) {
	if _, isPage := c.atOrigin(p); isPage {
		c.parsePage(p, h, a, r)
		return
	}
	var err error
	c.worker.Do(func() {
		if r.f, err = feed.Parse(a.Body, a.ContentType); err != nil && p.kind == onDemand {
			r.offer = offerOf(a)
		}
	}, func() { c.handleAnswer(p, h, a, r, err) })
}

// handleAnswer classifies a response and passes it to the part that made the request.
func (c *Corona) handleAnswer(p request, h env.Handle, a env.Answer, r observation, err error) {
	now := c.clock.Now()
	verdict := classify(a, r.f, err)
	verdict.Since, verdict.Polled = now, now
	if d := p.assignment; d != nil {
		if d.waiting != h {
			return // the response came after the timeout
		}
		if d.domain != nil {
			d.domain.noteAddress(a)
		}
		if a.Err == env.ErrBusy || verdict.Kind == coronapb.State_UNREACHABLE {
			d.refundPoll()
		}
		if l := c.leaders[p.key]; l == nil && verdict.Kind == coronapb.State_OK && r.f != nil {
			c.app.Saw(p.key, &r.f.Head, r.secure(d.target.url)) // a sequencer calls Saw in takeObservation
		}
		c.answered(d, a, r, verdict, now)
		return
	}
	if p.kind == lone {
		c.loneAnswered(h, p.key, a, r, verdict, now)
		return
	}
	d, l := c.assignments.Get(p.key), c.leaders[p.key]
	if d != nil && d.domain != nil {
		d.domain.noteAddress(a)
	} else if l != nil {
		l.domain.noteAddress(a)
	}
	switch {
	case p.kind == onDemand:
		url := c.onDemandURLs[p.key]
		delete(c.onDemandURLs, p.key)
		switch {
		case verdict.Kind != coronapb.State_OK:
			r.f = nil
		case r.page != nil:
			r.f.Items = nil // of a page, readers read the changes only
		default:
			c.app.Saw(p.key, &r.f.Head, r.secure(url))
		}
		c.app.Fetched(p.key, r.f, r.offer, verdict)
	case p.kind == initial && l != nil && l.fetching == h:
		l.fetching = 0
		switch {
		case d != nil && d.waiting == 0:
			c.answered(d, a, r, verdict, now)
		case a.Err == env.ErrBusy:
			l.fetchedAt = time.Time{}
		case verdict.Kind == coronapb.State_OK:
			c.takeObservation(l, env.Peer{}, r, now)
		default:
			if verdict.Kind == coronapb.State_LIMITED && !a.Private {
				c.domains.limit(l.domain, now.Add(rateLimitOf(a, 1)))
			}
			c.noteFailure(l, "", verdict, now)
		}
	}
}

// observationOf returns what a response says, without its document.
func observationOf(a env.Answer) observation {
	r := observation{valid: validators{a.ETag, a.LastModified, a.FinalURL}, maxAge: a.MaxAge, private: a.Private, size: len(a.Body)}
	if a.Moved {
		r.moved = a.FinalURL
	}
	return r
}

// secure says whether nobody on the way could have changed a document fetched from url. Without
// HTTPS at the start, anybody on the way could redirect to a server of their own.
func (r *observation) secure(url string) bool {
	return r.private || strings.HasPrefix(url, "https://") && strings.HasPrefix(r.valid.url, "https://")
}

// takeObservation takes an observation of a poller; from is the zero peer if that is this node. It
// returns true if the log has its news or will have it, and false if the news could not be taken
// now.
func (c *Corona) takeObservation(l *leaderState, from env.Peer, r observation, now time.Time) (taken bool) {
	if l.page && r.f != nil && r.verdict == nil && (!l.sameText(&r) || l.known.Page().Waits()) {
		return c.judgePage(l, from, r, now)
	}
	if l.page && from.ID == "" && r.verdict == nil {
		l.known.Page().Unchanged(now)
	}
	if l.state.Polled = now; from.ID == "" {
		l.private = r.private // only this node's own fetch counts, because floors and budgets depend on it
	}
	verdict := State{Kind: coronapb.State_OK, Polled: now}
	if r.f != nil {
		verdict.Detail = r.detail()
		if reason := c.suspicious(l, &r, now); reason != "" {
			c.stats.Failed++
			c.noteFailure(l, from.ID, State{Kind: l.suspiciousKind(), Detail: reason, Polled: now}, now)
			return true // handled, though not accepted
		}
	}
	delete(l.failing, from.ID)
	l.fails, l.maxAge = 0, r.maxAge
	if from.ID == "" && !l.known.Blank() { // the first document is large, and fetched in full only once
		weight := min(l.interval.Seconds()/(costDecay*c.cfg.MaintenanceInterval.Seconds()), maxWeight)
		l.meanBytes += weight * (float64(r.size) - l.meanBytes)
	}
	if r.moved != l.url {
		verdict.Moved = r.moved
	}
	c.setInterval(l, r.f)
	switch {
	case r.f == nil:
		verdict.Detail = l.detail
	case len(r.f.Items) > 0:
		l.detail = verdict.Detail
	}
	if r.f != nil && !l.page && from.ID == "" {
		c.app.Saw(l.key, &r.f.Head, r.secure(l.url))
	}
	// The items go out before the state that all is well.
	taken = c.takeChanges(l, r)
	c.order(l, max(l.pollers, 1), now)
	c.setState(l, verdict, now)
	return taken
}

// ifItStays ends the description of a document that is not accepted yet. A new sequencer recognises
// a suspicion in the earlier note by this suffix.
const ifItStays = ": it is believed if it stays"

// suspicious says why a document is not accepted as the feed's; "" if it is. A document that looks
// like another feed is accepted when it stays for the suspicion period. It is accepted at once when
// yet another document replaces it: then the feed replaces all its items each time, and the
// held-back document was news.
func (c *Corona) suspicious(l *leaderState, r *observation, now time.Time) string {
	if l.page {
		reason := r.verdict.reason()
		if reason != "" && r.verdict.Kind == page.Failed {
			c.setPageMemory(l, r.verdict) // the memory accepts the text if it stays
		}
		return reason
	}
	f := r.f
	reason := l.known.Suspicious(f)
	if reason == "" {
		l.suspicion = suspicion{}
		return ""
	}
	if l.suspicion.since.IsZero() {
		l.suspicion.since = now
	}
	if l.suspicion.first == nil {
		l.suspicion.first = f
	}
	first := l.suspicion.first
	if now.Sub(l.suspicion.since) < suspicionPeriodOf(l.private, l.interval) && !difference.Unlike(first, f) {
		return reason + ifItStays
	}
	l.suspicion = suspicion{}
	if first != f {
		c.takeChanges(l, observation{f: first})
	}
	return ""
}

// suspicionPeriodOf is how long a suspicious document is held back.
func suspicionPeriodOf(private bool, interval time.Duration) time.Duration {
	if private {
		return min(suspicionPeriod, privateSuspicionIntervals*interval)
	}
	return suspicionPeriod
}

// takeChanges compares a document with the known items and hands over the changes. It returns false
// if they were not accepted.
func (c *Corona) takeChanges(l *leaderState, r observation) (taken bool) {
	f := r.f
	if f == nil { // not modified (304)
		c.stats.Unchanged++
		valid := r.valid
		if l.page {
			valid = r.validAfter(l.known.Page())
		}
		c.setValidators(l, valid, l.fingerprints)
		return true
	}
	shown := fingerprintsOf(f)
	if l.page {
		return c.detectPage(l, r, shown)
	}
	l.known.Recognise(f)
	d := l.known.Diff(f)
	l.known.See(f)
	if d.Empty() {
		c.stats.Unchanged++
		if len(f.Items) > 0 {
			// Validators of an empty document save nothing, because the document is small. Their
			// date could also hide an older document with items.
			c.setValidators(l, r.valid, shown)
		} else if d.Head != nil && len(d.Head.Raw) > 0 && !l.known.Headed() {
			// The log is still empty. An entry with the head alone lets readers see the empty feed
			// before its first item. Later changes of the head alone make no entry.
			if !c.app.Found(l.key, d, f, func(bool) {}) {
				return false
			}
			l.known.Add(d)
		}
		return true
	}
	c.stats.Findings++
	c.stats.Items += uint64(len(d.Changes))
	first := l.known.Len() == 0
	l.inFlight++
	taken = c.app.Found(l.key, d, f, func(ok bool) {
		l.inFlight--
		// "Not modified" means that nothing is missing only once a quorum holds all items.
		if ok && l.inFlight == 0 && c.leaders[l.key] == l {
			c.commitSnapshot(l, r.valid, shown)
		}
	})
	if !taken {
		l.inFlight--
		return false // the next poll finds the changes again
	}
	l.known.Add(d)
	c.learn(l, d, first)
	return true
}

// learn updates the update rate and the lag of a channel. The first document is not an update; the
// dates in it set the expected rate.
func (c *Corona) learn(l *leaderState, d difference.Delta, first bool) {
	now := c.clock.Now()
	if !first {
		l.updateRate.addUpdate(now)
	}
	var dates []time.Time
	c.worker.Do(func() { dates = datesOf(d.Changes) }, func() {
		if first {
			l.updateRate.addDates(dates, now)
		} else {
			l.updateLag(dates, l.interval, now)
		}
	})
}

// setValidators commits the validators of a document without news. It does not commit those of
// another replica of the origin: the same document with other validators (they stay with the node
// that polls that replica), or an earlier snapshot.
func (c *Corona) setValidators(l *leaderState, valid validators, shown []fingerprint) {
	if valid == l.valid || l.inFlight != 0 {
		return
	}
	now, sum := c.clock.Now(), digest(shown)
	switch {
	case l.fingerprints != nil && sum == digest(l.fingerprints):
		if d := c.assignments.Get(l.key); d != nil {
			d.setSnapshot(&snapshot{valid: valid, fingerprints: shown, digest: sum}, l.limitedUntil)
		}
	case slices.ContainsFunc(l.pastSnapshots, func(p pastSnapshot) bool {
		return p.digest == sum && now.Sub(p.until) < suspicionPeriodOf(l.private, l.interval)
	}):
	default:
		c.commitSnapshot(l, valid, shown)
	}
}

// note replicates what a new sequencer continues from.
func (c *Corona) note(l *leaderState) {
	c.app.SetNote(l.key, note{
		valid: l.valid, interval: l.interval, State: l.state, fails: l.fails, weight: c.readers(l),
		pollers: l.pollers, ref: l.order.IntervalStart, updateRate: l.updateRate, meanBytes: l.meanBytes, grant: string(l.grant), private: l.private, marks: l.marks,
	}.append())
}

// noteFailure takes a report of a failed poll; from is empty if this node made the poll. The
// channel counts as failing when at least half of its pollers fail.
func (c *Corona) noteFailure(l *leaderState, from env.PeerID, s State, now time.Time) {
	if l.failing == nil {
		l.failing = map[env.PeerID]failureReport{}
	}
	if _, known := l.failing[from]; known || len(l.failing) < maxFailing {
		l.failing[from] = failureReport{s, now}
	}
	l.recoveredAt = time.Time{}
	if s.Kind == coronapb.State_LIMITED {
		c.checkRateLimit(l, now)
	}
	if 2*len(l.failing) < l.pollers && l.state.Kind != coronapb.State_NEW {
		return
	}
	if from != "" {
		if now.Sub(l.failureSentAt) < minStateGap {
			return // other nodes cannot cause more messages than this
		}
		l.failureSentAt = now
	}
	l.state.Polled = now
	c.setState(l, s, now)
}

// checkRateLimit stops all pollers of a channel when two nodes have seen that the origin asks for
// fewer requests. A single liar must not be able to stop a feed. Anybody can write a report, so one
// of the two must be this node, which fetches the channel when another node has reported the limit.
func (c *Corona) checkRateLimit(l *leaderState, now time.Time) {
	seen := func(i failureReport) bool {
		return i.state.Kind == coronapb.State_LIMITED && now.Sub(i.at) <= l.interval
	}
	others := 0
	for from, i := range l.failing {
		if from != "" && seen(i) {
			others++
		}
	}
	switch own, polled := l.failing[""]; {
	case others == 0:
	case polled && seen(own):
		if until := l.domain.limitedUntil.time(); until.After(l.limitedUntil) {
			l.limitedUntil = until
			_ = c.wedges.Broadcast(l.key, marshal(c.snapshotMessage(l, 0))) // without a wedge there are no pollers
		}
	case l.fetching == 0 && now.Sub(l.fetchedAt) > l.interval:
		c.fetchNow(l, now)
	}
}

// maxFailing bounds the failing pollers of one channel that are remembered.
const maxFailing = 1024

// forgetFailing forgets pollers that have not repeated that their polls fail.
func (c *Corona) forgetFailing(l *leaderState, now time.Time) {
	for from, i := range l.failing {
		if now.Sub(i.at) > 2*max(l.interval, min(i.state.Next.Sub(i.at), maxPublicInterval)) {
			delete(l.failing, from)
		}
	}
	c.noteRecovery(l, now) // a forgotten poller may have kept the channel failing although it no longer polls
}

// noteRecovery ends the failure of a channel if a poller has reported success since the last
// failure and most pollers do not fail.
func (c *Corona) noteRecovery(l *leaderState, now time.Time) {
	if !l.recoveredAt.IsZero() && 2*len(l.failing) < l.pollers && l.state.Kind != coronapb.State_OK {
		l.state.Polled = l.recoveredAt
		c.setState(l, State{Kind: coronapb.State_OK, Detail: l.detail}, now)
	}
}

// setState sets the state of a channel's polls, and tells subscribers if it has changed.
func (c *Corona) setState(l *leaderState, s State, now time.Time) {
	if c.estimateNext(l); s.Kind == coronapb.State_OK || c.assignments.Get(l.key) != nil && l.pollers == 1 {
		s.Next, s.Why = l.state.Next, l.state.Why
	} // otherwise the failing poller's report has them
	s.Polled, s.Since, s.Readers = l.state.Polled, now, c.readers(l)
	s.Pollers, s.Interval, s.Lag = l.pollers, l.interval, l.lag
	s.Budget = c.permits.pollerLimit(l.domain, l.permit, s.Readers, l.interval)
	if c.cfg.Cut == honeycomb.Levels {
		s.Level = l.level + 1
	}
	same := s.Kind == l.state.Kind && s.Detail == l.state.Detail && s.Moved == l.state.Moved
	if same {
		s.Since = l.state.Since
	}
	if was := l.state.Readers; (s.Readers-was)*16 <= was && (was-s.Readers)*16 <= was {
		s.Readers = was // too small a change for a message
	}
	urgency := NotUrgent
	switch {
	case !same:
		urgency = AtOnce
	case s.Readers != l.state.Readers, differMuch(float64(s.Pollers), float64(l.state.Pollers)),
		s.Lag > 2*l.state.Lag || l.state.Lag > 2*s.Lag, s.Kind != coronapb.State_OK && now.Sub(l.stateSentAt) >= minStateGap:
		urgency = Soon
	}
	if urgency != NotUrgent {
		l.stateSentAt = now
	}
	l.state = s
	c.app.StateChanged(l.key, s.Append(), urgency)
	if !same {
		c.note(l)
	}
}
