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

// Answered takes the answer to a request.
func (c *Corona) Answered(h env.Handle, a env.Answer) {
	var p poll
	if d := c.home(h); d != nil {
		if d.waiting != h {
			return // it came too late, for a channel that this node may poll no more
		}
		p = poll{key: d.key(), kind: scheduled, duty: d}
	} else if other, ok := c.polls[h]; ok {
		p = other
		delete(c.polls, h)
	} else {
		return
	}
	r := readingOf(a)
	if a.Status != 200 || len(a.Body) == 0 {
		c.judge(p, h, a, r, nil)
		return
	}
	c.parse(p, h, a, r)
}

// parse reads a document off the loop.
func (c *Corona) parse(p poll, h env.Handle, a env.Answer, r reading) {
	if _, isPage := c.atOrigin(p); isPage {
		c.parsePage(p, h, a, r)
		return
	}
	var err error
	c.worker.Do(func() {
		if r.f, err = feed.Parse(a.Body, a.ContentType); err != nil && p.kind == solo {
			r.offer = offerOf(a)
		}
	}, func() { c.judge(p, h, a, r, err) })
}

// judge makes of an answer what it means.
func (c *Corona) judge(p poll, h env.Handle, a env.Answer, r reading, err error) {
	now := c.clock.Now()
	verdict := judge(a, r.f, err)
	verdict.Since, verdict.Polled = now, now
	if d := p.duty; d != nil {
		if d.waiting != h {
			return // it came too late
		}
		if d.domain != nil {
			d.domain.see(a)
		}
		if a.Err == env.ErrBusy || verdict.Kind == coronapb.State_UNREACHABLE {
			d.unspend()
		}
		if l := c.leads[p.key]; l == nil && verdict.Kind == coronapb.State_OK && r.f != nil {
			c.app.Saw(p.key, &r.f.Head, r.secure(d.said.url)) // one that leads says so when the reading is its own
		}
		c.answered(d, a, r, verdict, now)
		return
	}
	if p.kind == lone {
		c.loneAnswered(h, p.key, a, r, verdict, now)
		return
	}
	d, l := c.duties.Get(p.key), c.leads[p.key]
	if d != nil && d.domain != nil {
		d.domain.see(a)
	} else if l != nil {
		l.domain.see(a)
	}
	switch {
	case p.kind == solo:
		url := c.asked[p.key]
		delete(c.asked, p.key)
		switch {
		case verdict.Kind != coronapb.State_OK:
			r.f = nil
		case r.page != nil:
			r.f.Items = nil // of a page there are changes to be read
		default:
			c.app.Saw(p.key, &r.f.Head, r.secure(url))
		}
		c.app.Fetched(p.key, r.f, r.offer, verdict)
	case p.kind == first && l != nil && l.looking == h:
		l.looking = 0
		switch {
		case d != nil && d.waiting == 0:
			c.answered(d, a, r, verdict, now)
		case a.Err == env.ErrBusy:
			l.looked = time.Time{}
		case verdict.Kind == coronapb.State_OK:
			c.read(l, env.Peer{}, r, now)
		default:
			if verdict.Kind == coronapb.State_LIMITED && !a.Private {
				c.spare(l.domain, now.Add(limitOf(a, 1)))
			}
			c.heard(l, "", verdict, now)
		}
	}
}

// readingOf is what an answer says, but for its document.
func readingOf(a env.Answer) reading {
	r := reading{valid: validators{a.ETag, a.LastModified, a.FinalURL}, fresh: a.MaxAge, private: a.Private, size: len(a.Body)}
	if a.Moved {
		r.moved = a.FinalURL
	}
	return r
}

// secure says whether nobody on the way could have changed a document that this node has got from
// an address. What begins without HTTPS anybody could redirect to a server of his own.
func (r *reading) secure(url string) bool {
	return r.private || strings.HasPrefix(url, "https://") && strings.HasPrefix(r.valid.url, "https://")
}

// read takes what a poller has read; from is the zero peer if that was this node. It says
// whether the log has what was new in it, or will: false if it could not be taken now.
func (c *Corona) read(l *lead, from env.Peer, r reading, now time.Time) (taken bool) {
	if l.page && r.f != nil && r.judged == nil && (!l.same(&r) || l.known.Page().Waits()) {
		return c.judgePage(l, from, r, now)
	}
	if l.page && from.ID == "" && r.judged == nil {
		l.known.Page().Unchanged(now)
	}
	if l.state.Polled = now; from.ID == "" {
		l.private = r.private // which no other member may say: floors and budgets go by it
	}
	verdict := State{Kind: coronapb.State_OK, Polled: now}
	if r.f != nil {
		verdict.Words = r.words()
		if odd := c.odd(l, &r, now); odd != "" {
			c.stats.Failed++
			c.heard(l, from.ID, State{Kind: l.oddness(), Words: odd, Polled: now}, now)
			return true // as far as it is believed
		}
	}
	delete(l.ill, from.ID)
	l.fails, l.fresh = 0, r.fresh
	if from.ID == "" && !l.known.Blank() { // the first document is asked for once only
		weight := min(l.interval.Seconds()/(costFade*c.cfg.MaintenanceInterval.Seconds()), maxWeight)
		l.cost += weight * (float64(r.size) - l.cost)
	}
	if r.moved != l.url {
		verdict.Moved = r.moved
	}
	c.pace(l, r.f)
	switch {
	case r.f == nil:
		verdict.Words = l.words
	case len(r.f.Items) > 0:
		l.words = verdict.Words
	}
	if r.f != nil && !l.page && from.ID == "" {
		c.app.Saw(l.key, &r.f.Head, r.secure(l.url))
	}
	// The items go before the word that all is well.
	taken = c.detect(l, r)
	c.enlist(l, max(l.pollers, 1), now)
	c.say(l, verdict, now)
	return taken
}

const (
	// pollOverhead is about how many bytes a poll costs without a document: a connection, with
	// the handshake of TLS 1.3 and its certificates, the request, and the words that it has not
	// changed.
	pollOverhead = 4 << 10
	// costFade is the time, in maintenance intervals, in which what polls have cost comes to
	// count for 1/e: much longer than it takes sums to reach everybody. maxWeight is how much
	// the last poll counts at most.
	costFade  = 36
	maxWeight = 1. / 8
)

// bytes is what a poll of a channel costs, as measured.
func (l *lead) bytes() float64 { return pollOverhead + l.cost }

// ifItStays ends the words about a document that is not believed yet.
const ifItStays = ": it is believed if it stays"

// odd says, in words, why a document is not believed to be the feed; "" if it is. What
// looks like another feed is believed when it stays. It is at once when it is replaced
// by yet another: then all of this feed is new each time, and what was not believed was
// news.
func (c *Corona) odd(l *lead, r *reading, now time.Time) string {
	if l.page {
		words := r.judged.reason()
		if words != "" && r.judged.Kind == page.Failed {
			c.remember(l, r.judged) // it may be believed if it stays
		}
		return words
	}
	f := r.f
	words := l.known.Suspicious(f)
	if words == "" {
		l.doubt = doubt{}
		return ""
	}
	if l.doubt.since.IsZero() {
		l.doubt.since = now
	}
	if l.doubt.first == nil {
		l.doubt.first = f
	}
	first := l.doubt.first
	if now.Sub(l.doubt.since) < doubted(l.private, l.interval) && !difference.Unlike(first, f) {
		return words + ifItStays
	}
	l.doubt = doubt{}
	if first != f {
		c.detect(l, reading{f: first})
	}
	return ""
}

// doubted is how long a document is not believed.
func doubted(private bool, interval time.Duration) time.Duration {
	if private {
		return min(doubtFor, privateDoubt*interval)
	}
	return doubtFor
}

// detect compares a document with what is known, and hands over what is new. It says whether
// that was taken.
func (c *Corona) detect(l *lead, r reading) (taken bool) {
	f := r.f
	if f == nil { // 304
		c.stats.Unchanged++
		valid := r.valid
		if l.page {
			valid = r.validAfter(l.known.Page())
		}
		c.validate(l, valid, l.prints)
		return true
	}
	shown := prints(f)
	if l.page {
		return c.detectPage(l, r, shown)
	}
	l.known.Recognise(f)
	d := l.known.Diff(f)
	l.known.See(f)
	if d.Empty() {
		c.stats.Unchanged++
		if len(f.Items) > 0 {
			// Those of an empty document are worth nothing, as it is small; and they
			// could hide, by their date, an older document with items.
			c.validate(l, r.valid, shown)
		} else if d.Head != nil && len(d.Head.Raw) > 0 && !l.known.Headed() {
			// The log has nothing yet. An entry with the head alone lets readers have the feed,
			// empty as it is, before its first item. A changed head alone is no entry, as before.
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
	l.handing++
	taken = c.app.Found(l.key, d, f, func(ok bool) {
		l.handing--
		// Only when all is held does "not modified" mean that nothing is missing.
		if ok && l.handing == 0 && c.leads[l.key] == l {
			c.stand(l, r.valid, shown)
		}
	})
	if !taken {
		l.handing--
		return false // the next poll finds it again
	}
	l.known.Add(d)
	c.learn(l, d, first)
	return true
}

// learn learns from changes how often a channel changes, and how late that is found. The
// first document is no change: the dates in it say what is to be expected.
func (c *Corona) learn(l *lead, d difference.Delta, first bool) {
	now := c.clock.Now()
	if !first {
		l.rhythm.update(now)
	}
	var dates []time.Time
	c.worker.Do(func() { dates = datesOf(d.Changes) }, func() {
		if first {
			l.rhythm.date(dates, now)
		} else {
			l.late(dates, now)
		}
	})
}

// validate takes a document that brought nothing new. Its validators are for all, unless it is
// that of another replica of the origin: the same one with other validators, which stay with
// who polls that, or one that stood before.
func (c *Corona) validate(l *lead, valid validators, shown []imprint) {
	if valid == l.valid || l.handing != 0 {
		return
	}
	now, sum := c.clock.Now(), digest(shown)
	switch {
	case l.prints != nil && sum == digest(l.prints):
		if d := c.duties.Get(l.key); d != nil {
			d.know(&standing{valid: valid, prints: shown, digest: sum}, l.rest)
		}
	case slices.ContainsFunc(l.past, func(p past) bool {
		return p.digest == sum && now.Sub(p.until) < doubted(l.private, l.interval)
	}):
	default:
		c.stand(l, valid, shown)
	}
}

// note replicates what a new sequencer goes on with.
func (c *Corona) note(l *lead) {
	c.app.SetNote(l.key, note{
		valid: l.valid, interval: l.interval, State: l.state, fails: l.fails, weight: c.readers(l),
		pollers: l.pollers, ref: l.order.Ref, rhythm: l.rhythm, cost: l.cost, grant: string(l.grant), private: l.private, marks: l.marks,
	}.append())
}

// heard takes what a poller says of a poll that failed; from is empty if it was this
// node's. As long as most pollers are well, so is the channel.
func (c *Corona) heard(l *lead, from env.PeerID, s State, now time.Time) {
	if l.ill == nil {
		l.ill = map[env.PeerID]illness{}
	}
	if _, known := l.ill[from]; known || len(l.ill) < maxIll {
		l.ill[from] = illness{s, now}
	}
	l.wellAt = time.Time{}
	if s.Kind == coronapb.State_LIMITED {
		c.limited(l, now)
	}
	if 2*len(l.ill) < l.pollers && l.state.Kind != coronapb.State_NEW {
		return
	}
	if from != "" {
		if now.Sub(l.heard) < retell {
			return // others say nothing oftener, whatever they say
		}
		l.heard = now
	}
	l.state.Polled = now
	c.say(l, s, now)
}

// limited spares an origin the polls of all when two have seen that it asks to be left
// alone: one liar must not starve a feed. Reports are routed, and anybody can write one;
// so one of the two is this node, which looks when somebody else has said so.
func (c *Corona) limited(l *lead, now time.Time) {
	seen := func(i illness) bool {
		return i.state.Kind == coronapb.State_LIMITED && now.Sub(i.at) <= l.interval
	}
	others := 0
	for from, i := range l.ill {
		if from != "" && seen(i) {
			others++
		}
	}
	switch own, polled := l.ill[""]; {
	case others == 0:
	case polled && seen(own):
		if until := l.domain.rest.time(); until.After(l.rest) {
			l.rest = until
			_ = c.wedges.Down(l.key, marshal(c.standingOf(l, 0))) // of no wedge: nobody polls
		}
	case l.looking == 0 && now.Sub(l.looked) > l.interval:
		c.look(l, now)
	}
}

// maxIll bounds the pollers of one channel that are remembered to have failed.
const maxIll = 1024

// forgetIll forgets pollers that have not said again that their polls fail.
func (c *Corona) forgetIll(l *lead, now time.Time) {
	for from, i := range l.ill {
		if now.Sub(i.at) > 2*max(l.interval, min(i.state.Next.Sub(i.at), ceiling)) {
			delete(l.ill, from)
		}
	}
	c.mend(l, now) // who is forgotten may have kept it ill: he polls no longer, and another does
}

// mend says that the polls of a channel go well again, when somebody has said so after the last one that failed, and most are not ill.
func (c *Corona) mend(l *lead, now time.Time) {
	if !l.wellAt.IsZero() && 2*len(l.ill) < l.pollers && l.state.Kind != coronapb.State_OK {
		l.state.Polled = l.wellAt
		c.say(l, State{Kind: coronapb.State_OK, Words: l.words}, now)
	}
}

// say notes how the polls of a channel go, and tells if that has changed.
func (c *Corona) say(l *lead, s State, now time.Time) {
	if c.expect(l); s.Kind == coronapb.State_OK || c.duties.Get(l.key) != nil && l.pollers == 1 {
		s.Next, s.Why = l.state.Next, l.state.Why
	} // else as the poller says that has failed
	s.Polled, s.Since, s.Readers = l.state.Polled, now, c.readers(l)
	s.Pollers, s.Interval, s.Lag = l.pollers, l.interval, l.lag
	s.Budget = c.most(l.domain, l.permit, s.Readers, l.interval)
	if c.cfg.Cut == honeycomb.Levels {
		s.Level = l.level + 1
	}
	same := s.Kind == l.state.Kind && s.Words == l.state.Words && s.Moved == l.state.Moved
	if same {
		s.Since = l.state.Since
	}
	if was := l.state.Readers; (s.Readers-was)*16 <= was && (was-s.Readers)*16 <= was {
		s.Readers = was // not worth a message
	}
	haste := NoHaste
	switch {
	case !same:
		haste = AtOnce
	case s.Readers != l.state.Readers, apart(float64(s.Pollers), float64(l.state.Pollers)),
		s.Lag > 2*l.state.Lag || l.state.Lag > 2*s.Lag, s.Kind != coronapb.State_OK && now.Sub(l.told) >= retell:
		haste = Soon
	}
	if haste != NoHaste {
		l.told = now
	}
	l.state = s
	c.app.Said(l.key, s.Append(), haste)
	if !same {
		c.note(l)
	}
}
