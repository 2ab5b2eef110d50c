package corona

import (
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Answered takes the answer to a request.
func (c *Corona) Answered(h env.Handle, a env.Answer) {
	p, ok := c.polls[h]
	if !ok {
		return
	}
	delete(c.polls, h)
	if a.Status != 200 || len(a.Body) == 0 {
		c.judge(p, h, a, nil, nil)
		return
	}
	var f *feed.Feed
	var err error
	c.worker.Do(func() { f, err = feed.Parse(a.Body, a.ContentType) }, func() { c.judge(p, h, a, f, err) })
}

// judge makes of an answer what it means.
func (c *Corona) judge(p poll, h env.Handle, a env.Answer, f *feed.Feed, err error) {
	now := c.clock.Now()
	verdict := judge(a, f, err)
	verdict.Since, verdict.Polled = now, now
	if p.solo {
		delete(c.asked, p.key)
		if verdict.Kind != coronapb.State_OK {
			f = nil
		}
		c.app.Fetched(p.key, f, verdict)
		return
	}
	ch := c.channels[p.key]
	if ch == nil || ch.waiting != h {
		return
	}
	ch.waiting = 0
	if a.Err == env.ErrBusy {
		c.busy(ch, now)
		return
	}
	ch.private = a.Private
	c.stats.Polls++
	ch.state.Polled = now
	if verdict.Kind == coronapb.State_OK && f != nil {
		if odd := c.odd(ch, f, now); odd != "" {
			verdict = State{Kind: coronapb.State_NOT_A_FEED, Words: odd}
		}
	}
	if verdict.Kind != coronapb.State_OK {
		c.stats.Failed++
		c.failed(ch, a, verdict, now)
		return
	}
	ch.fails = 0
	ch.fresh = a.MaxAge
	if a.Moved && a.FinalURL != ch.url {
		verdict.Moved = a.FinalURL
	}
	at, why := c.next(ch, f, now)
	c.plan(ch, at, why)
	switch {
	case f == nil:
		verdict.Words = ch.words
	case len(f.Items) > 0:
		ch.words = verdict.Words
	}
	// The items go before the word that all is well.
	c.detect(ch, validators{a.ETag, a.LastModified, a.FinalURL}, f)
	c.say(ch, verdict, now)
}

// ifItStays ends the words about a document that is not believed yet.
const ifItStays = ": it is believed if it stays"

// odd says, in words, why a document is not believed to be the feed; "" if it is. What
// looks like another feed is believed when it stays. It is at once when it is replaced
// by yet another: then all of this feed is new each time, and what was not believed was
// news.
func (c *Corona) odd(ch *channel, f *feed.Feed, now time.Time) string {
	words := ch.known.Suspicious(f)
	if words == "" {
		ch.doubt = doubt{}
		return ""
	}
	if ch.doubt.since.IsZero() {
		ch.doubt.since = now
	}
	if ch.doubt.first == nil {
		ch.doubt.first = f
	}
	long, first := doubtFor, ch.doubt.first
	if ch.private {
		long = min(long, privateDoubt*ch.interval)
	}
	if now.Sub(ch.doubt.since) < long && !difference.Unlike(first, f) {
		return words + ifItStays
	}
	ch.doubt = doubt{}
	if first != f {
		c.detect(ch, validators{}, first)
	}
	return ""
}

// busy plans a poll anew for which the fetcher had no room. The origin was not asked,
// so nothing has become known of it.
func (c *Corona) busy(ch *channel, now time.Time) {
	c.stats.Busy++
	c.plan(ch, now.Add(busyFor/2+time.Duration(c.rand.Int64N(int64(busyFor)))), "other requests to its host go before")
	c.app.Said(ch.key, ch.state.Append(), NoHaste)
}

// detect compares a document with what is known, and hands over what is new. valid are
// its validators.
func (c *Corona) detect(ch *channel, valid validators, f *feed.Feed) {
	if f == nil { // 304
		c.stats.Unchanged++
		c.validate(ch, valid)
		return
	}
	ch.known.Recognise(f)
	d := ch.known.Diff(f)
	ch.known.See(f)
	if d.Empty() {
		c.stats.Unchanged++
		if len(f.Items) > 0 {
			// Those of an empty document are worth nothing, as it is small; and they
			// could hide, by their date, an older document with items.
			c.validate(ch, valid)
		}
		return
	}
	c.stats.Findings++
	c.stats.Items += uint64(len(d.Changes))
	ch.handing++
	taken := c.app.Found(ch.key, d, f, func(ok bool) {
		ch.handing--
		// Only when all is held does "not modified" mean that nothing is missing.
		if ok && ch.handing == 0 && c.channels[ch.key] == ch {
			ch.valid = valid
			c.note(ch)
		}
	})
	if !taken {
		ch.handing--
		return // the next poll finds it again
	}
	ch.known.Add(d)
}

// validate notes the validators of a document that brought nothing new.
func (c *Corona) validate(ch *channel, valid validators) {
	if valid != ch.valid && ch.handing == 0 {
		ch.valid = valid
		c.note(ch)
	}
}

// note replicates what a new poller goes on with.
func (c *Corona) note(ch *channel) {
	c.app.SetNote(ch.key, note{valid: ch.valid, interval: ch.interval, State: ch.state, fails: ch.fails, weight: c.readers(ch)}.append())
}

// say notes how the polls of a channel go, and tells if that has changed.
func (c *Corona) say(ch *channel, s State, now time.Time) {
	s.Polled, s.Next, s.Why, s.Readers = ch.state.Polled, ch.next, ch.state.Why, c.readers(ch)
	s.Since = now
	same := s.Kind == ch.state.Kind && s.Words == ch.state.Words && s.Moved == ch.state.Moved
	if same {
		s.Since = ch.state.Since
	}
	if was := ch.state.Readers; (s.Readers-was)*16 <= was && (was-s.Readers)*16 <= was {
		s.Readers = was // not worth a message
	}
	haste := NoHaste
	switch {
	case !same:
		haste = AtOnce
	case s.Readers != ch.state.Readers, s.Kind != coronapb.State_OK && now.Sub(ch.told) >= retell:
		haste = Soon
	}
	if haste != NoHaste {
		ch.told = now
	}
	ch.state = s
	c.app.Said(ch.key, s.Append(), haste)
	if !same {
		c.note(ch)
	}
}
