package corona

import (
	"fmt"
	"net/url"
	"time"

	"golang.org/x/net/publicsuffix"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const (
	// freeFails is how many polls may fail in a row before the interval grows.
	freeFails = 3
	// unreachableFirst is waited after the first poll that reached nobody, then
	// twice as long each time.
	unreachableFirst = time.Minute
	// limitedFor is how long a domain is left alone that does not say how long.
	limitedFor = time.Hour
	// goneFor is the time between two looks at a feed that is gone: origins have
	// been seen to take that back.
	goneFor = 7 * 24 * time.Hour
	// privateMost is how many intervals failures of an origin on a private
	// address may stretch the next to: it is likely the reader's own, and being
	// mended.
	privateMost = 8
)

// originOf is what answers for an origin, and whether its address names a private one.
func originOf(url string) (domain string, private bool) { return domainOf(url), privateHost(url) }

// domainOf is what answers for an origin: its registrable domain, or its address.
func domainOf(raw string) string {
	raw, _ = feed.AtOrigin(raw)
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	host := u.Hostname()
	if d, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return d
	}
	return host
}

// pace sets the interval of a channel's polls, and says by which rule. f is nil after "not
// modified": the hints of the document before still hold.
func (c *Corona) pace(l *lead, f *feed.Feed) {
	if f != nil {
		l.hints, l.heritage.interval = f.Hints, 0
	}
	interval, why := c.intervalOf(l.private, l.hints, l.fresh, l.heritage.interval)
	l.paced = interval
	if p := l.permit; p != nil && p.interval > interval {
		interval, why = p.interval, "the budget of "+l.domain.name
	}
	l.interval, l.why = interval.Truncate(time.Millisecond), why // as orders tell it
}

// intervalOf returns the time between two polls of a channel, and the rule that sets it. before is the
// interval that held until a document says its own.
func (c *Corona) intervalOf(private bool, hints feed.Hints, fresh, before time.Duration) (interval time.Duration, why string) {
	interval, why = c.cfg.PollInterval, "the network's polling interval"
	if private {
		return interval, why
	}
	stretch := func(d time.Duration, rule string) {
		if d > interval {
			interval, why = d, rule
		}
	}
	stretch(c.scaled(floor), "the shortest interval for public web servers")
	stretch(hints.TTL, "the feed's ttl")
	stretch(hints.Period, "the feed's sy:updatePeriod")
	stretch(fresh, "max-age of the web server")
	stretch(before, "the interval before another node took over")
	if interval > ceiling {
		interval, why = ceiling, "the longest interval"
	}
	return interval, why
}

// skips are the hours and days, in UTC, in which a feed asks to be left alone: a bit for each.
type skips struct {
	hours uint32
	days  uint8 // from Sunday
}

func skipsOf(h feed.Hints) skips { return skips{h.SkipHours, h.SkipDays} }

// after moves a time out of them.
func (s skips) after(at time.Time) time.Time {
	if s.hours&(1<<24-1) == 1<<24-1 || s.days&(1<<7-1) == 1<<7-1 {
		return at // all of them cannot be meant
	}
	for range 24 * 8 {
		u := at.UTC()
		switch {
		case s.days&(1<<u.Weekday()) != 0:
			at = u.Truncate(24 * time.Hour).Add(24 * time.Hour)
		case s.hours&(1<<u.Hour()) != 0:
			at = u.Truncate(time.Hour).Add(time.Hour)
		default:
			return at
		}
	}
	return at
}

// failed plans the next poll after one that failed, and tells the sequencer.
func (c *Corona) failed(d *duty, a env.Answer, s State, now time.Time) {
	x := d.rare()
	if x.ailment == nil {
		x.ailment = &ailment{}
	}
	i := x.ailment
	i.fails++
	interval := d.grid.Interval
	b := c.backOff(s, a, i.fails, interval, d.private, d.said.domain)
	wait, why := b.wait, b.why
	if b.spare > 0 {
		c.spareOf(d, now.Add(b.spare))
	}
	var at time.Time
	switch {
	case wait < interval:
		at = now.Add(wait + time.Duration(c.rand.Int64N(int64(wait/20)+1)))
	case b.asked:
		at, _ = d.opening(now.Add(wait - 1))
	default: // at its own slot, so that the others' polls and its stay apart
		at, _ = d.opening(now.Add(wait - interval/2))
	}
	s.Polled, s.Next, s.Why = now, at, why
	i.state = s
	c.plan(d, at, why)
	c.report(d, s, now)
}

// A backOff is what a poll that failed means for the next one.
type backOff struct {
	wait  time.Duration
	why   string        // the rule that set it
	asked bool          // by the origin
	spare time.Duration // how long its whole domain is to be left alone; 0: it is not
}

// backOff says when an origin is asked again after so many polls in a row that failed.
func (c *Corona) backOff(s State, a env.Answer, fails int, interval time.Duration, private bool, domain string) (b backOff) {
	b.wait, b.why = interval, "the polling interval"
	for range fails - freeFails {
		if b.wait *= 2; b.wait >= ceiling {
			b.wait = ceiling
			break
		}
		b.why = fmt.Sprintf("%d polls failed", fails)
	}
	if !private && s.Kind == coronapb.State_UNREACHABLE {
		// It was not bothered, and a name or a line comes back at any time.
		b.wait, b.why = min(unreachableFirst<<min(fails-1, 11), ceiling), "not reachable at the last poll"
	} else if !private {
		b.wait = max(b.wait, c.scaled(floor))
	}
	switch {
	case s.Kind == coronapb.State_GONE:
		b.wait, b.why = goneFor, "gone for good (410)"
	case s.Kind == coronapb.State_LIMITED:
		limit := limitOf(a, fails)
		if a.RetryAfter <= 0 && private {
			limit = interval
		}
		b.wait, b.why, b.asked = max(limit, interval), domain+" asks for fewer requests", true
		if !private {
			b.spare = limit
		}
	case min(a.RetryAfter, longestRest) > b.wait:
		b.wait, b.why, b.asked = min(a.RetryAfter, longestRest), "Retry-After of the web server", true
	}
	if private && s.Kind != coronapb.State_LIMITED {
		b.wait = min(b.wait, privateMost*interval)
	}
	return b
}

// longestRest bounds how long an origin is left alone that asked for it: one that names the
// year 9999 has made a mistake, or was broken into, and is asked once a week.
const longestRest = 7 * 24 * time.Hour

// limitOf is how long an origin is left alone that asked for it: as long as it says, or
// longer each time.
func limitOf(a env.Answer, fails int) time.Duration {
	if a.RetryAfter > 0 {
		return min(a.RetryAfter, longestRest)
	}
	return min(limitedFor<<min(max(fails-1, 0), 5), ceiling)
}

// maxResting bounds the domains without a channel here that are remembered to have asked
// for rest.
const maxResting = 10_000
