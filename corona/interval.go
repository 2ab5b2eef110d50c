package corona

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const (
	// suspicionPeriod is how long a document is held back that looks as if another feed had
	// replaced this one. A host that lost its database usually has it back by then, and few feeds
	// that replace all items do so again within an hour.
	suspicionPeriod = time.Hour
	// privateSuspicionIntervals is the same for an origin on a private address, in polling
	// intervals.
	privateSuspicionIntervals = 4
	// minPublicInterval and maxPublicInterval bound the polling interval of a public origin,
	// whatever the network or the origin asks for.
	minPublicInterval = 15 * time.Minute
	maxPublicInterval = 24 * time.Hour
	// freeFails is the number of consecutive failures before the interval grows.
	freeFails = 3
	// unreachableRetry is the delay after the first poll that reached no server. It doubles with
	// each further failure.
	unreachableRetry = time.Minute
	// defaultLimit is the first pause for a domain that asks for fewer requests without
	// Retry-After.
	defaultLimit = time.Hour
	// goneIntervals is the time until the next poll of a feed that is gone, in polling intervals. It
	// doubles with each further answer, up to goneRetry. Some origins have been seen to bring such a
	// feed back, most of them soon.
	goneIntervals = 8
	goneRetry     = 7 * 24 * time.Hour
	// privateMaxIntervals bounds the back-off for an origin on a private address, in polling
	// intervals. Such an origin is probably the reader's own and being repaired.
	privateMaxIntervals = 8
)

// Origin returns the registrable domain of an address, or its host if there is none, and whether
// the address literally names a private host. Each port of a private host is an origin of its own.
func Origin(raw string) (domain string, private bool) {
	raw, _ = feed.DocumentURL(raw)
	u, err := url.Parse(raw)
	if err != nil {
		return raw, false
	}
	host := u.Hostname()
	if domain, err = publicsuffix.EffectiveTLDPlusOne(host); err != nil {
		domain = host
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		private = a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()
	} else {
		private = host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	if private {
		domain = u.Host
	}
	return domain, private
}

// Rules are the rules by which a node spares an origin: when to poll it again, after success and after
// failure. They also hold for feeds that a node polls beside the network.
type Rules struct {
	PollInterval time.Duration // as in Config
	Compression  float64       // as in Config, at least 1
}

func (b *base) rules() Rules { return Rules{b.cfg.PollInterval, b.cfg.Compression} }

// scaled shortens a time of politeness in a laboratory.
func (r Rules) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / r.Compression)
}

// Interval returns the time between two polls of a channel by one node, and the rule that gave it.
// private says that the origin has a private address. fresh is the max-age of the last response, and
// before is an inherited interval, which holds until a document sets its own.
func (r Rules) Interval(private bool, hints feed.Hints, fresh, before time.Duration) (interval time.Duration, why string) {
	interval, why = r.PollInterval, "the network's polling interval"
	if private {
		return interval, why
	}
	stretch := func(d time.Duration, rule string) {
		if d > interval {
			interval, why = d, rule
		}
	}
	stretch(r.scaled(minPublicInterval), "the shortest interval for public web servers")
	stretch(hints.TTL, "the feed's ttl")
	stretch(hints.Period, "the feed's sy:updatePeriod")
	stretch(fresh, "max-age of the web server")
	stretch(before, "the interval before another node took over")
	if interval > maxPublicInterval {
		interval, why = maxPublicInterval, "the longest interval"
	}
	return interval, why
}

// skips are the hours and days, in UTC, in which a feed asks not to be polled, one bit each.
type skips struct {
	hours uint32
	days  uint8 // starting with Sunday
}

func skipsOf(h feed.Hints) skips { return skips{h.SkipHours, h.SkipDays} }

// AfterSkips returns the first time, at or after at, that is not within the skipped hours and days of
// a feed.
func AfterSkips(h feed.Hints, at time.Time) time.Time { return skipsOf(h).after(at) }

// after returns the first time, at or after at, that is not skipped.
func (s skips) after(at time.Time) time.Time {
	if s.hours&(1<<24-1) == 1<<24-1 || s.days&(1<<7-1) == 1<<7-1 {
		return at // a feed cannot mean to skip every hour or day, so such hints are ignored
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

// A BackOff is the consequence of a failed poll.
type BackOff struct {
	Wait        time.Duration
	Why         string        // the rule that set Wait
	Asked       bool          // the origin asked for the wait
	LimitDomain time.Duration // pause for the whole domain; 0: none
}

// BackOff returns when to ask an origin again after so many consecutive failures. interval is the
// polling interval of the channel, and domain is the name from Origin.
func (r Rules) BackOff(s State, a env.Answer, fails int, interval time.Duration, private bool, domain string) (o BackOff) {
	o.Wait, o.Why = interval, "the polling interval"
	for range fails - freeFails {
		if o.Wait *= 2; o.Wait >= maxPublicInterval {
			o.Wait = maxPublicInterval
			break
		}
		o.Why = fmt.Sprintf("%d polls failed", fails)
	}
	if !private && s.Kind == coronapb.State_UNREACHABLE {
		// The server was not bothered, and names and connections can recover at any time.
		o.Wait, o.Why = min(unreachableRetry<<min(fails-1, 11), maxPublicInterval), "not reachable at the last poll"
	} else if !private {
		o.Wait = max(o.Wait, r.scaled(minPublicInterval))
	}
	switch {
	case s.Kind == coronapb.State_GONE:
		if !private {
			interval = max(interval, r.scaled(minPublicInterval))
		}
		o.Wait, o.Why = min(goneIntervals*interval<<min(fails-1, 10), goneRetry), "gone for good (410): polled ever more rarely"
	case s.Kind == coronapb.State_LIMITED:
		limit := rateLimitOf(a, fails)
		if a.RetryAfter <= 0 && private {
			limit = interval
		}
		o.Wait, o.Why, o.Asked = max(limit, interval), domain+" asks for fewer requests", true
		if !private || a.RetryAfter > 0 {
			o.LimitDomain = limit
		}
	case min(a.RetryAfter, maxRetryAfter) > o.Wait:
		o.Wait, o.Why, o.Asked = min(a.RetryAfter, maxRetryAfter), "Retry-After of the web server", true
	}
	if private && s.Kind != coronapb.State_LIMITED && s.Kind != coronapb.State_GONE {
		o.Wait = min(o.Wait, privateMaxIntervals*interval)
	}
	return o
}

// maxRetryAfter bounds the pause that an origin can ask for. An origin that names the year 9999 has
// made a mistake or was broken into, and is asked once a week.
const maxRetryAfter = 7 * 24 * time.Hour

// rateLimitOf is the pause for an origin that asks for fewer requests: the time that it names, or
// one that doubles each time.
func rateLimitOf(a env.Answer, fails int) time.Duration {
	if a.RetryAfter > 0 {
		return min(a.RetryAfter, maxRetryAfter)
	}
	return min(defaultLimit<<min(max(fails-1, 0), 5), maxPublicInterval)
}

// maxIdleDomains bounds the rate-limited domains without a channel here that are remembered.
const maxIdleDomains = 10_000

// SuspicionPeriod is how long a suspicious document is held back.
func SuspicionPeriod(private bool, interval time.Duration) time.Duration {
	if private {
		return min(suspicionPeriod, privateSuspicionIntervals*interval)
	}
	return suspicionPeriod
}
