package corona

import (
	"cmp"
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// takeObservation takes an observation of a poller; from is the zero peer if that is this node. It
// returns true if the log has its news or will have it, or if the document is held back as
// suspicious; false if the news could not be taken now.
func (sq *sequencer) takeObservation(l *leaderState, from env.Peer, r observation, now time.Time) (taken bool) {
	if l.page && r.f != nil && r.verdict == nil && (!l.sameText(&r) || l.known.Page().NeedsRecheck()) {
		return sq.judgePage(l, from, r, now)
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
		if reason := sq.suspicious(l, from, &r, now); reason != "" {
			sq.stats.Failed++
			sq.monitor.noteFailure(l, from.ID, State{Kind: l.suspiciousKind(), Detail: reason, Polled: now}, false, now)
			return true // handled, though not accepted
		}
	}
	delete(l.failing, from.ID)
	l.fails, l.maxAge = 0, r.maxAge
	if from.ID == "" && r.f != nil {
		sq.pushes.named(l, r.topic, now)
	}
	if from.ID == "" && !l.known.Empty() { // the first document is large, and fetched in full only once
		weight := min(l.interval.Seconds()/(costDecay*sq.cfg.MaintenanceInterval.Seconds()), maxWeight)
		l.meanBytes += weight * (float64(r.size) - l.meanBytes)
	}
	if from.ID == "" && !l.page {
		l.moved.note(l.url, r.asked, r.moved, r.valid.url, now) // only this node's own fetch counts, because pollers are sent there
	}
	if verdict.Moved = l.moved.to; r.moved != "" && r.moved != l.url {
		verdict.Moved = r.moved
	}
	sq.setInterval(l, r.f)
	switch {
	case r.f == nil:
		verdict.Detail = l.detail
	case len(r.f.Items) > 0:
		l.detail = verdict.Detail
	}
	if r.f != nil && from.ID == "" && r.direct(l.url) {
		r.tell(sq.app, l.key, l.url)
	}
	// The items go out before the state that all is well.
	taken = sq.takeChanges(l, from, r, now)
	sq.order(l, max(l.pollers, 1), now)
	sq.monitor.setState(l, verdict, now)
	return taken
}

// ifItStays ends the description of a document that is not accepted yet. A new sequencer recognises
// a suspicion in the earlier note by this suffix.
const ifItStays = ": it is believed if it stays"

// suspicious says why a document is not accepted as the feed's; "" if it is. A document that looks
// like another feed is accepted when it stays for the suspicion period. It is accepted at once when
// yet another document replaces it: then the feed replaces all its items each time, and the
// held-back document was news.
func (sq *sequencer) suspicious(l *leaderState, from env.Peer, r *observation, now time.Time) string {
	if l.page {
		reason := r.verdict.reason()
		if reason != "" && r.verdict.Kind == page.Failed {
			sq.setPageMemory(l, r.verdict) // the memory accepts the text if it stays
		}
		return reason
	}
	f := r.f
	reason := l.known.Suspicious(f)
	if reason == "" {
		l.suspicion = suspicion{}
		return ""
	}
	if l.suspicion.since == env.Never {
		l.suspicion.since = env.MomentOf(now)
	}
	if l.suspicion.first == nil {
		l.suspicion.first = f
	}
	first := l.suspicion.first
	if now.Sub(l.suspicion.since.Time()) < SuspicionPeriod(l.private, l.interval) && !difference.Unrelated(first, f) {
		return reason + ifItStays
	}
	l.suspicion = suspicion{}
	if first != f {
		sq.takeChanges(l, from, observation{f: first}, now)
	}
	return ""
}

// takeChanges compares a document with the known items and hands over the changes. It returns false
// if they were not accepted.
func (sq *sequencer) takeChanges(l *leaderState, from env.Peer, r observation, now time.Time) (taken bool) {
	f := r.f
	if f == nil { // not modified (304)
		sq.stats.Unchanged++
		valid := r.valid
		if l.page {
			valid = r.validAfter(l.known.Page())
		} else if valid == l.valid {
			l.known.SightLatest()
		}
		if l.page || l.valid != (validators{}) { // otherwise the request was made before takeHanded forgot them
			sq.setValidators(l, valid, l.fingerprints)
		}
		return true
	}
	shown := fingerprintsOf(f)
	if l.page {
		return sq.detectPage(l, r, shown)
	}
	l.known.Recognise(f)
	l.hideCounters(shown)
	behind := l.known.IsBehind(f)
	d := sq.diff(l, from, f, behind, now)
	if sq.pushes.polled(l, d, from.ID == "", now); from.ID == "" && l.push != nil {
		l.push.unsettled = behind
	}
	l.known.Touch(f)
	if d.Empty() {
		sq.stats.Unchanged++
		if behind {
			return true // see commitAfterLast
		}
		if len(f.Items) > 0 {
			// Validators of an empty document save nothing, because the document is small. Their
			// date could also hide an older document with items.
			sq.setValidators(l, r.valid, shown)
		}
		return true
	}
	sq.stats.Updates++
	sq.stats.Items += uint64(len(d.Changes))
	first := l.known.Len() == 0
	if !sq.handOver(l, d, f, func() { sq.commitAfterLast(l, f, r.valid, shown) }) {
		return false // the next poll finds the changes again
	}
	l.noteAll(d, from)
	sq.learn(l, d, first)
	return true
}

// noteAll notes who has reported changes; from is the zero peer if that is this node.
func (l *leaderState) noteAll(d difference.Delta, from env.Peer) {
	if from.ID == "" {
		return
	}
	for i := range d.Changes {
		l.note(difference.Version{ID: d.Changes[i].Item.ID, Hash: d.Changes[i].Item.Hash}, from.ID)
	}
}

// diff returns the news in a document. Only documents that this node fetches show that an edit was taken back, because
// the pollers that still see the edit report nothing. A sequencer that does not poll asks the origin for that, at each
// report of an earlier version.
func (sq *sequencer) diff(l *leaderState, from env.Peer, f *feed.Feed, behind bool, now time.Time) difference.Delta {
	if from.ID == "" {
		period := SuspicionPeriod(l.private, l.interval)
		l.known.Sight(f, 2*max(period, l.interval), now)
		return l.known.DiffWithTakenBack(f, period, now)
	}
	if behind && l.fetching == 0 && sq.poller.assignments.Get(l.key) == nil {
		sq.fetchNow(l, now)
	}
	return l.known.Diff(f)
}

// handOver hands changes over to the log. It calls then when the log holds them, as long as this
// node leads the channel. It returns false if the changes were not accepted.
func (sq *sequencer) handOver(l *leaderState, d difference.Delta, f *feed.Feed, then func()) (taken bool) {
	l.inFlight++
	known, held := false, false
	if !sq.app.Found(l.key, d, f, func(ok bool) {
		l.inFlight--
		if held = ok && !l.ceased; held && known {
			then()
		}
	}) {
		l.inFlight--
		return false
	}
	l.known.Add(d)
	if known = true; held { // the log had all of it
		then()
	}
	return true
}

// commitAfterLast commits a snapshot if no changes are under way: "not modified" means that nothing
// is missing only once a quorum holds all items. It commits none of a document with an earlier
// version of an item or of the head, which may have to be reported later: "not modified" would hide it
// then. It commits none of a feed without items, as takeChanges.
func (sq *sequencer) commitAfterLast(l *leaderState, f *feed.Feed, valid validators, shown []fingerprint) {
	switch empty := len(f.Items) == 0 && !l.page; {
	case l.inFlight != 0 || empty && l.snapshot() == nil:
	case empty || l.known.IsBehind(f):
		sq.answerAll(l)
	default:
		sq.commitSnapshot(l, valid, shown)
	}
}

// learn updates the update rate and the lag of a channel. The first document is not an update; the
// dates in it set the expected rate.
func (sq *sequencer) learn(l *leaderState, d difference.Delta, first bool) {
	now := sq.clock.Now()
	if !first {
		l.updateRate.addUpdate(now)
	}
	var dates []time.Time
	sq.worker.Do(func() { dates = datesOf(d.Changes) }, func() {
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
func (sq *sequencer) setValidators(l *leaderState, valid validators, shown []fingerprint) {
	if valid == l.valid && counters(shown) <= counters(l.fingerprints) || l.inFlight != 0 {
		return
	}
	now, sum := sq.clock.Now(), digest(shown)
	switch {
	case l.fingerprints != nil && sum == digest(l.fingerprints):
		if d := sq.poller.assignments.Get(l.key); d != nil {
			d.setSnapshot(&snapshot{valid: valid, fingerprints: shown, digest: sum, head: l.head}, l.limitedUntil)
		}
	case slices.ContainsFunc(l.pastSnapshots, func(p pastSnapshot) bool {
		return p.digest == sum && now.Sub(p.until) < SuspicionPeriod(l.private, l.interval)
	}):
	default:
		sq.commitSnapshot(l, valid, shown)
	}
}

// accept takes an observation whose new items are all here. It answers the poller at once if
// nothing is new, and otherwise when the log holds the news. from is empty if this node is the
// poller.
func (sq *sequencer) accept(l *leaderState, from env.Peer, r observation, nonce uint64, now time.Time) {
	switch {
	case r.handedOver || r.partial:
		sq.takeHanded(l, from, r, now, func() {
			if from.ID != "" {
				sq.send(from, env.Control, l.snapshotMessage(nonce, sq.clock.Now()))
			}
		})
	case !sq.takeObservation(l, from, r, now) || from.ID == "":
		// The poller repeats its report, or this node is the poller and needs no answer.
	case l.inFlight == 0 && l.snapshot() != nil:
		sq.send(from, env.Control, l.snapshotMessage(nonce, sq.clock.Now()))
	default:
		l.wait(waiter{from, nonce})
	}
}

// commitSnapshot notes that the log holds all items of a document, and tells the pollers.
func (sq *sequencer) commitSnapshot(l *leaderState, valid validators, shown []fingerprint) {
	if l.fingerprints != nil {
		l.pastSnapshots = append(l.pastSnapshots, pastSnapshot{digest(l.fingerprints), sq.clock.Now()})
		l.pastSnapshots = l.pastSnapshots[max(len(l.pastSnapshots)-maxPastSnapshots, 0):]
	}
	l.valid, l.fingerprints, l.head = valid, shown, l.known.HeadVersion()
	sq.note(l)
	if d := sq.poller.assignments.Get(l.key); d != nil {
		d.setSnapshot(l.snapshot(), l.limitedUntil)
	}
	if l.order.N > 0 {
		// A poller that misses the message learns the snapshot when it reports a known document.
		_ = sq.wedges.Broadcast(l.key, wire.Encode(l.snapshotMessage(0, sq.clock.Now())))
	}
	sq.answerAll(l)
	l.known.PackSmall()
}

// answerAll answers the pollers that wait: the log holds what they reported.
func (sq *sequencer) answerAll(l *leaderState) {
	for _, w := range l.waiters {
		sq.send(w.to, env.Control, l.snapshotMessage(w.nonce, sq.clock.Now()))
	}
	l.waiters = nil
}

// takeHanded takes items that a node found while it was cut off, those that a hub has sent, or those of a partial document.
// The origin may no longer show them, or shows others, too, so the sequencer learns nothing about the feed's document from
// them: its own next poll of the document goes on as before. It calls answer when the log holds them.
func (sq *sequencer) takeHanded(l *leaderState, from env.Peer, r observation, now time.Time, answer func()) {
	if l.page || l.known.Suspicious(r.f) != "" {
		if r.pushed {
			sq.pushes.hint(l, now)
		}
		return
	}
	l.known.Recognise(r.f)
	d := l.known.Diff(r.f)
	d.Head = nil
	switch {
	case d.Empty() && r.partial && l.inFlight > 0: // the poller reports them again
	case d.Empty():
		answer()
	case !sq.handOver(l, d, r.f, answer):
		return // the node offers them again
	default:
		// The validators are those of a document without these items: "not modified" would hide that the origin takes them back.
		l.valid = validators{}
		sq.note(l)
		if d := sq.poller.assignments.Get(l.key); d != nil {
			d.setSnapshot(l.snapshot(), l.limitedUntil)
		}
		sq.stats.Items += uint64(len(d.Changes))
		if r.partial {
			sq.stats.Updates++
			l.noteAll(d, from)
			sq.learn(l, d, false)
		}
	}
	if r.pushed && l.push.isMember(cmp.Or(from.ID, sq.node.Self().Peer.ID)) {
		sq.pushes.delivered(l, d, now)
	}
}
