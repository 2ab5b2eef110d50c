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

// domainOf is what answers for an origin: its registrable domain, or its address.
func domainOf(raw string) string {
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

// next chooses when to poll again after a good answer, and says by which rule.
// f is nil after "not modified": the hints of the document before still hold.
func (c *Corona) next(ch *channel, f *feed.Feed, now time.Time) (time.Time, string) {
	if f != nil {
		ch.hints, ch.heritage.interval = f.Hints, 0
	}
	interval, why := c.cfg.PollInterval, "the network's polling interval"
	if !ch.private {
		stretch := func(d time.Duration, rule string) {
			if d > interval {
				interval, why = d, rule
			}
		}
		stretch(floor, "no public origin is asked more often")
		stretch(ch.hints.TTL, "the feed's ttl")
		stretch(ch.hints.Period, "the feed's sy:updatePeriod")
		stretch(ch.fresh, "the origin's max-age")
		stretch(ch.heritage.interval, "the interval of the poller before")
		if interval > ceiling {
			interval, why = ceiling, "no channel is left longer"
		}
	}
	ch.interval = interval
	// Each poll is moved a little, within a twentieth, so that channels that began
	// together do not stay together; the mean stays the interval.
	at := now.Add(interval - interval/40 + time.Duration(c.rand.Int64N(int64(interval/20)+1)))
	if ch.private {
		return at, why
	}
	if to := skip(ch.hints, at); !to.Equal(at) {
		return to, "the feed's skipHours and skipDays"
	}
	return at, why
}

// skip moves a time out of the hours and days a feed asks to be left alone.
func skip(h feed.Hints, at time.Time) time.Time {
	if h.SkipHours&(1<<24-1) == 1<<24-1 || h.SkipDays&(1<<7-1) == 1<<7-1 {
		return at // all of them cannot be meant
	}
	for range 24 * 8 {
		u := at.UTC()
		switch {
		case h.SkipDays&(1<<u.Weekday()) != 0:
			at = u.Truncate(24 * time.Hour).Add(24 * time.Hour)
		case h.SkipHours&(1<<u.Hour()) != 0:
			at = u.Truncate(time.Hour).Add(time.Hour)
		default:
			return at
		}
	}
	return at
}

// failed plans the next poll after one that failed, and says why it did.
func (c *Corona) failed(ch *channel, a env.Answer, s State, now time.Time) {
	ch.fails++
	wait, why := ch.interval, "the polling interval"
	for range ch.fails - freeFails {
		if wait *= 2; wait >= ceiling {
			wait = ceiling
			break
		}
		why = fmt.Sprintf("%d polls failed", ch.fails)
	}
	if !ch.private && s.Kind == coronapb.State_UNREACHABLE {
		// It was not bothered, and a name or a line comes back at any time.
		wait, why = min(unreachableFirst<<min(ch.fails-1, 11), ceiling), "it could not be reached"
	} else if !ch.private {
		wait = max(wait, floor)
	}
	switch s.Kind {
	case coronapb.State_GONE:
		wait, why = goneFor, "the origin says it is gone"
	case coronapb.State_LIMITED:
		limit := a.RetryAfter
		if limit <= 0 {
			limit = min(limitedFor<<min(ch.fails-1, 5), ceiling)
			if ch.private {
				limit = ch.interval
			}
		}
		wait, why = max(limit, ch.interval), ch.domain+" asked to be left alone"
		if !ch.private {
			c.pause(ch.domain, now.Add(limit), now)
		}
	default:
		if a.RetryAfter > wait {
			wait, why = a.RetryAfter, "the origin's Retry-After"
		}
	}
	if ch.private && s.Kind != coronapb.State_LIMITED {
		wait = min(wait, privateMost*ch.interval)
	}
	c.plan(ch, now.Add(wait+time.Duration(c.rand.Int64N(int64(wait/20)+1))), why)
	c.say(ch, s, now)
}

// maxPaused bounds the domains that are remembered to have asked for rest.
const maxPaused = 10_000

// pause leaves a domain alone until a time.
func (c *Corona) pause(domain string, until, now time.Time) {
	if len(c.paused) >= maxPaused {
		for d, t := range c.paused {
			if !t.After(now) {
				delete(c.paused, d)
			}
		}
	}
	if len(c.paused) < maxPaused && until.After(c.paused[domain]) {
		c.paused[domain] = until
	}
}
