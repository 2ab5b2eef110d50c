package daemon

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// privateAnswerTimeout is how long an answer may take. The fetcher answers in less than a minute, unless it is stopped.
const privateAnswerTimeout = 5 * time.Minute

// run polls the private feeds until ctx ends, and then stores what is not stored yet.
func (p *privateFeeds) run(ctx context.Context, rules corona.Rules) {
	p.start(rules, time.Now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Stop()
		timer.Reset(time.Until(p.pollDue(time.Now())))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.wake:
		}
	}
	var unsaved []*privateFeed
	p.mu.Lock()
	for _, f := range p.byName {
		if f.unsaved && !f.trial {
			unsaved = append(unsaved, f)
		}
	}
	p.mu.Unlock()
	for _, f := range unsaved {
		_ = p.save(f) // which logs the error
	}
}

// start takes the rules of the network. Feeds that have been polled lately wait for their interval.
func (p *privateFeeds) start(rules corona.Rules, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = rules
	for _, f := range p.byName {
		p.setInterval(f)
		if f.State.Next.After(now.Add(f.interval)) && f.State.Kind == coronapb.State_OK {
			f.State.Next = now.Add(f.interval) // the network's interval was shortened, or the clock was set back
		}
	}
}

// signal lets run look for polls that are due.
func (p *privateFeeds) signal() {
	select {
	case p.wake <- struct{}{}:
	default: // run will look anyway
	}
}

// pollDue starts the polls that are due, and returns when to look again.
func (p *privateFeeds) pollDue(now time.Time) (next time.Time) {
	var handles []env.Handle
	var requests []env.Request
	next = now.Add(time.Hour)
	p.mu.Lock()
	for _, f := range p.byName {
		if f.poll != 0 && now.Sub(f.asked) < privateAnswerTimeout {
			continue
		}
		domain, _ := corona.Origin(f.URL)
		if until := p.limited[domain]; until.After(now) && !f.trial && until.After(f.State.Next) {
			f.wait(until, domain)
			p.wakeReaders(f)
		}
		if f.State.Next.After(now) {
			if f.State.Next.Before(next) {
				next = f.State.Next
			}
			continue
		}
		delete(p.polled, f.poll)
		p.lastHandle++
		f.poll, f.asked = p.lastHandle|privateHandles, now
		p.polled[f.poll] = f
		handles = append(handles, f.poll)
		requests = append(requests, env.Request{URL: f.URL, ETag: f.ETag, LastModified: f.LastModified, ValidatedURL: f.ValidatedURL, Headers: f.Headers, Subscribers: 1, Partial: f.Fails == 0 && f.contents.head != nil})
	}
	p.mu.Unlock()
	for i, h := range handles {
		p.fetch(h, requests[i]) // which may answer at once
	}
	return next
}

// setInterval sets the interval of a feed. The caller holds the mutex.
func (p *privateFeeds) setInterval(f *privateFeed) {
	rules := p.rules
	if rules.PollInterval == 0 { // not started
		rules = corona.Rules{PollInterval: time.Hour, Compression: 1}
	}
	f.interval, f.why = rules.Interval(f.localOrigin, f.Hints, f.MaxAge, 0)
}

// plan sets the time of the next poll. The caller holds the mutex.
func (f *privateFeed) plan(at time.Time, why string) {
	if to := corona.AfterSkips(f.Hints, at); !f.localOrigin && !to.Equal(at) {
		at, why = to.Add(rand.N(f.interval)), "the feed's skipHours and skipDays"
	}
	f.State.Next, f.State.Why = at, why
}

// wait plans the next poll for when a domain that asks for fewer requests can be asked again.
func (f *privateFeed) wait(until time.Time, domain string) {
	f.State.Next, f.State.Why = until.Add(rand.N(f.interval/4+1)), domain+" asks for fewer requests"
}

// answered takes the answer to a poll. The fetcher calls it from goroutines of its own.
func (p *privateFeeds) answered(h env.Handle, a env.Answer) {
	p.answer.Lock()
	defer p.answer.Unlock()
	p.mu.Lock()
	f := p.polled[h]
	p.mu.Unlock()
	if f == nil {
		return
	}
	var doc *feed.Feed
	var err error
	if a.HasDocument() && len(a.Body) > 0 {
		doc, err = corona.ReadFeed(a.FinalURL, a)
	}
	if p.conclude(h, a, doc, corona.Classify(a, doc, err), time.Now()) {
		_ = p.store(f) // which logs the error; the items are shown, and stored by the next poll that has news
	}
	p.signal()
}

// conclude ends a poll with its answer, and reports whether the file of its feed has to be written. The poll may have
// been given up while the answer was read, because the feed has other headers now. If the origin was not asked, readers
// who wait for the answer go on waiting for the next poll, unless that is far away.
func (p *privateFeeds) conclude(h env.Handle, a env.Answer, doc *feed.Feed, state corona.State, now time.Time) (save bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.polled[h]
	if f == nil {
		return false
	}
	delete(p.polled, h)
	f.poll = 0
	switch domain, _ := corona.Origin(f.URL); {
	case a.Err != env.ErrBusy:
		save = p.take(f, a, doc, state, now) && !f.trial && !f.changing
	case a.RetryAfter <= 0:
		f.plan(now.Add(rand.N(time.Minute)), "waiting for other requests to its host")
		return false
	default:
		p.limit(domain, now.Add(a.RetryAfter), now)
		f.wait(now.Add(a.RetryAfter), domain)
	}
	p.touch(f)
	p.marked(f.Name)
	p.wakeReaders(f)
	return save
}

// take takes the answer of an origin, and reports whether the file of the feed has to be written. The caller holds the
// mutex.
func (p *privateFeeds) take(f *privateFeed, a env.Answer, doc *feed.Feed, state corona.State, now time.Time) (news bool) {
	f.unsaved = true
	f.localOrigin = a.Private || a.Err != "" && f.localOrigin
	state.Polled, state.Since, state.Next, state.Why = now, now, f.State.Next, f.State.Why
	if doc != nil && a.IsPartial() {
		f.complete(doc, now)
	}
	if doc != nil && state.Kind == coronapb.State_OK {
		if reason := f.suspicious(doc, now); reason != "" {
			state.Kind, state.Detail = coronapb.State_NOT_A_FEED, reason+": it is believed if it stays"
		}
	}
	f.NoAccess = a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden && state.Kind == coronapb.State_MISSING
	if state.Kind != coronapb.State_OK {
		state.Detail = p.failure(f, a, state.Detail)
	}
	if state.Kind == f.State.Kind {
		state.Since = f.State.Since
	}
	changed := state.Kind != f.State.Kind
	f.State = state
	if state.Kind != coronapb.State_OK {
		f.Fails++
		domain, _ := corona.Origin(f.URL)
		b := p.rules.BackOff(state, a, f.Fails, f.interval, f.localOrigin, domain)
		if b.LimitDomain > 0 {
			p.limit(domain, now.Add(b.LimitDomain), now)
		}
		f.plan(now.Add(b.Wait+rand.N(b.Wait/20+1)), b.Why)
		return changed
	}
	f.Fails, f.MaxAge = 0, a.MaxAge
	if doc != nil {
		f.Hints = doc.Hints
	}
	p.setInterval(f)
	f.plan(f.asked.Add(f.interval), f.why)
	if doc == nil {
		return changed
	}
	f.ETag, f.LastModified, f.ValidatedURL = a.ETag, a.LastModified, a.FinalURL
	others := 0
	for _, g := range p.byName {
		if g != f {
			others += g.contents.size
		}
	}
	return f.contents.take(doc, now, min(maxPrivateBytes, maxAllPrivateBytes-others)) || changed
}

// complete adds to a partial document what it leaves out: items that are known, the head, and the hints for polls. Items as
// old as those that are forgotten when a document lacks them are not added.
func (f *privateFeed) complete(doc *feed.Feed, now time.Time) {
	changed := map[feed.ID]bool{}
	for _, it := range doc.Items {
		changed[it.ID] = true
	}
	for i, e := range f.contents.entries {
		if !changed[e.Item.ID] && (i < keepPrivateItems || now.Sub(e.Arrived) <= keepPrivateTime) {
			doc.Items = append(doc.Items, e.Item)
		}
	}
	doc.Head, doc.Hints = *f.contents.head, f.Hints
}

// limit notes that a domain asks for fewer requests, and forgets those that do no more.
func (p *privateFeeds) limit(domain string, until, now time.Time) {
	maps.DeleteFunc(p.limited, func(_ string, until time.Time) bool { return until.Before(now) })
	p.limited[domain] = until
}

// suspicious says why a document is not taken for the feed's yet; "" if it is.
func (f *privateFeed) suspicious(doc *feed.Feed, now time.Time) string {
	reason := f.contents.known.Suspicious(doc)
	switch {
	case reason == "":
		f.contents.suspicion = time.Time{}
	case f.contents.suspicion.IsZero():
		f.contents.suspicion = now
	case now.Sub(f.contents.suspicion) >= corona.SuspicionPeriod(f.localOrigin, f.interval):
		f.contents.suspicion = time.Time{}
		return ""
	}
	return reason
}

// failure says in words why a poll failed, without the secret parts of the feed.
func (p *privateFeeds) failure(f *privateFeed, a env.Answer, detail string) string {
	detail = f.hide(withoutPaths(detail))
	from, errFrom := url.Parse(f.URL)
	to, errTo := url.Parse(a.FinalURL)
	switch left := errFrom == nil && errTo == nil && a.FinalURL != "" && (from.Scheme != to.Scheme || from.Host != to.Host); {
	case left && len(f.Headers) > 0 && a.Err == "":
		return fmt.Sprintf("%s: the web server redirects to %s://%s, which does not get the password or the headers; if the feed is there, subscribe to its address there", detail, to.Scheme, to.Host)
	case f.NoAccess && f.User != "":
		return fmt.Sprintf("the web server does not accept the user name and the password (%d)", a.Status)
	case f.NoAccess && len(f.Headers) > 0:
		return fmt.Sprintf("the web server does not accept the headers (%d)", a.Status)
	case f.NoAccess:
		return fmt.Sprintf("the web server does not accept the address (%d): the token in it may be wrong or expired, or it asks for a password", a.Status)
	}
	if a.Err == env.ErrRefused && !p.allowPrivate {
		detail += "; " + allowPrivateRemedy
	}
	return detail
}

// privateContents are the items of a private feed that readers see.
type privateContents struct {
	known     difference.Known
	head      *feed.Head
	entries   []feed.Entry // in the order of documents, new ones first in most feeds
	size      int          // of the entries, in bytes
	cut       bool         // items of the last document are left out, because of the size
	suspicion time.Time    // since when documents look like another feed; zero: they do not
}

const (
	// Items that a document no longer shows are kept for keepPrivateTime, and keepPrivateItems of them in any case,
	// as readers of shared feeds get them.
	keepPrivateItems = 200
	keepPrivateTime  = 7 * 24 * time.Hour
	// maxPrivateBytes bounds the items of a private feed, in bytes: those of the largest document and some older
	// ones. Beyond it the last items are dropped, first those that no document shows any more.
	maxPrivateBytes = feed.MaxDocument + feed.MaxDocument/2
	// maxAllPrivateBytes bounds the items of all private feeds together, which are kept in memory: 1 MiB for each
	// of maxPrivateFeeds, several times what most feeds have. A feed keeps what the others leave.
	maxAllPrivateBytes = maxPrivateFeeds << 20
)

// take takes what is new in a document, and reports whether anything is. The entries then have at most limit bytes.
func (c *privateContents) take(doc *feed.Feed, now time.Time, limit int) (news bool) {
	c.known.Recognise(doc)
	d := c.known.Diff(doc)
	changed := c.head == nil || c.head.Hash() != doc.Head.Hash() // costs no entry in a log, so it does not wait
	if changed {
		head := doc.Head
		if h, err := feed.ReadHead(head.Format, append([]byte(nil), head.Raw...)); err == nil { // does not keep the document in memory
			head = h
		}
		c.head = &head
	}
	for _, change := range d.Changes {
		c.put(change, now)
	}
	c.known.Add(d)
	c.known.Touch(doc)
	c.forget(doc, now, limit)
	return changed || len(d.Changes) > 0
}

// put adds an item behind its predecessor in the document, or replaces an earlier version at its place.
func (c *privateContents) put(change difference.Change, now time.Time) {
	it := change.Item
	it.Raw = append([]byte(nil), it.Raw...) // does not keep the document in memory
	if i := c.index(it.ID); i >= 0 {
		c.entries[i].Item = it
		return
	}
	at := c.index(change.After) + 1
	c.entries = append(c.entries, feed.Entry{})
	copy(c.entries[at+1:], c.entries[at:])
	c.entries[at] = feed.Entry{Item: it, Arrived: now}
}

// index returns the place of an item, or -1.
func (c *privateContents) index(id feed.ID) int {
	for i := range c.entries {
		if c.entries[i].Item.ID == id {
			return i
		}
	}
	return -1
}

// forget drops old items that the document does not show, and the last ones beyond the limit.
func (c *privateContents) forget(doc *feed.Feed, now time.Time, limit int) {
	shown := map[feed.ID]bool{}
	for _, it := range doc.Items {
		shown[it.ID] = true
	}
	size, whole := 0, len(shown)
	for _, e := range c.entries {
		if shown[e.Item.ID] {
			if size += privateSize(&e.Item); size > limit {
				delete(shown, e.Item.ID)
			}
		}
	}
	kept, older := c.entries[:0:0], 0
	c.size, c.cut = 0, len(shown) < whole
	for _, e := range c.entries {
		if !shown[e.Item.ID] {
			older++
			if size += privateSize(&e.Item); size > limit || older > keepPrivateItems && now.Sub(e.Arrived) > keepPrivateTime || older > feed.MaxItems {
				continue
			}
		}
		kept = append(kept, e)
		c.size += privateSize(&e.Item)
	}
	c.entries = kept
}

// privateSize returns the size of an item. Twice as much room suffices in a file for its bytes in base64, and for the
// names of its scope with all their characters escaped.
func privateSize(it *feed.Item) (size int) {
	size = len(it.Raw)
	for _, b := range it.Scope {
		size += 3*(len(b.Prefix)+len(b.URI)) + 16
	}
	return size
}

// newest returns when the newest item arrived; zero: there is none.
func (c *privateContents) newest() (at time.Time) {
	for _, e := range c.entries {
		if e.Arrived.After(at) {
			at = e.Arrived
		}
	}
	return at
}
