package corona

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// The interval after a success is the network's, within minimum and maximum, stretched by the
// origin's hints. Private origins are exempt from all of that.
func TestTheLongestHintSetsTheInterval(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	for _, c := range []struct {
		what    string
		network time.Duration
		hints   feed.Hints
		maxAge  time.Duration
		private bool
		want    time.Duration
		why     string
	}{
		{"nothing said", 30 * minute, feed.Hints{}, 0, false, 30 * minute, "network"},
		{"a hasty network", minute, feed.Hints{}, 0, false, 15 * minute, "public web servers"},
		{"a hasty origin", 30 * minute, feed.Hints{TTL: minute}, minute, false, 30 * minute, "network"},
		{"ttl", 30 * minute, feed.Hints{TTL: 2 * hour}, 0, false, 2 * hour, "ttl"},
		{"sy:updatePeriod", 30 * minute, feed.Hints{Period: 3 * hour}, 0, false, 3 * hour, "sy:updatePeriod"},
		{"max-age", 30 * minute, feed.Hints{}, hour, false, hour, "max-age"},
		{"ttl before max-age", 30 * minute, feed.Hints{TTL: 4 * hour}, hour, false, 4 * hour, "ttl"},
		{"max-age before ttl", 30 * minute, feed.Hints{TTL: hour}, 4 * hour, false, 4 * hour, "max-age"},
		{"a year", 30 * minute, feed.Hints{TTL: 365 * 24 * hour}, 0, false, 24 * hour, "the longest interval"},
		{"a slow network", 48 * hour, feed.Hints{}, 0, false, 24 * hour, "the longest interval"},
		{"private", minute, feed.Hints{TTL: hour, Period: hour}, hour, true, minute, "network"},
		{"private, at any pace", time.Second, feed.Hints{}, 0, true, time.Second, "network"},
	} {
		l := newLab(t)
		p := l.poller(Config{PollInterval: c.network})
		ld := &leaderState{channelBudget: channelBudget{url: "http://a.example/"}, pacing: pacing{private: c.private, maxAge: c.maxAge}}
		// "Not modified" has no hints; those of the document before still hold.
		for _, f := range []*feed.Feed{{Hints: c.hints}, nil} {
			if p.sequencer.setInterval(ld, f); ld.interval != c.want || !strings.Contains(ld.why, c.why) {
				t.Errorf("%s: %v because of %q", c.what, ld.interval, ld.why)
			}
		}
	}
}

// Slots stay where they are, however long an origin takes to answer: each of n pollers keeps its
// place between the others.
func TestPollsKeepTheirSlots(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{PollInterval: time.Hour})
	p.lead(site, nil)
	l.run(100*time.Hour, p)
	polls := l.polls(site)
	for i, at := range polls {
		if off := at.Sub(polls[0]) % time.Hour; off != 0 {
			t.Fatalf("poll %d is %v beside its slot", i, off)
		}
	}
	if len(polls) != 100 {
		t.Errorf("%d polls in 100 hours", len(polls))
	}
}

func TestSkippedHoursAndDaysAreNotPolled(t *testing.T) {
	day := func(d ...time.Weekday) (bits uint8) {
		for _, w := range d {
			bits |= 1 << w
		}
		return bits
	}
	hours := func(from, to int) (bits uint32) {
		for h := from; h < to; h++ {
			bits |= 1 << h
		}
		return bits
	}
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what     string
		hints    feed.Hints
		at, want time.Duration // after Monday's midnight
	}{
		{"nothing", feed.Hints{}, 90 * time.Minute, 90 * time.Minute},
		{"another hour", feed.Hints{SkipHours: hours(3, 5)}, 2*time.Hour + 59*time.Minute, 2*time.Hour + 59*time.Minute},
		{"the night", feed.Hints{SkipHours: hours(0, 6)}, 90 * time.Minute, 6 * time.Hour},
		{"its last second", feed.Hints{SkipHours: hours(0, 6)}, 6*time.Hour - time.Second, 6 * time.Hour},
		{"over midnight", feed.Hints{SkipHours: hours(22, 24) | hours(0, 6)}, 23 * time.Hour, 30 * time.Hour},
		{"today", feed.Hints{SkipDays: day(time.Monday)}, 10 * time.Hour, 24 * time.Hour},
		{"the week end", feed.Hints{SkipDays: day(time.Saturday, time.Sunday)}, 5*24*time.Hour + time.Hour, 7 * 24 * time.Hour},
		{"today, and the morning", feed.Hints{SkipDays: day(time.Monday), SkipHours: hours(0, 9)}, time.Hour, 33 * time.Hour},
		{"all days but one", feed.Hints{SkipDays: 0x7f &^ day(time.Sunday)}, time.Hour, 6 * 24 * time.Hour},
		{"all hours but one of one day", feed.Hints{SkipDays: 0x7f &^ day(time.Sunday), SkipHours: 1<<24 - 2}, time.Hour, 6 * 24 * time.Hour},
		{"all hours", feed.Hints{SkipHours: 1<<24 - 1}, time.Hour, time.Hour},
		{"all days", feed.Hints{SkipDays: 0x7f}, time.Hour, time.Hour},
	} {
		if got := skipsOf(c.hints).after(monday.Add(c.at)); !got.Equal(monday.Add(c.want)) {
			t.Errorf("%s: at %v, not %v", c.what, got.Sub(monday), c.want)
		}
	}

	// The hours are in UTC whatever the time zone of the argument.
	rome := time.FixedZone("CET", 3600)
	if got := skipsOf(feed.Hints{SkipHours: hours(0, 6)}).after(monday.Add(5 * time.Hour).In(rome)); !got.Equal(monday.Add(6 * time.Hour)) {
		t.Errorf("in another zone: at %v", got)
	}
}

// The interval grows while polls fail, and what the origin asks for takes precedence.
func TestFailuresBackOff(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	failing := env.Answer{Status: 500}
	limited := env.Answer{Status: 429}
	gone := env.Answer{Status: 410}
	dark := env.Answer{Err: env.ErrDial}
	after := func(a env.Answer, d time.Duration) env.Answer {
		a.RetryAfter = d
		return a
	}
	for _, c := range []struct {
		what     string
		a        env.Answer
		before   int // consecutive failures
		interval time.Duration
		private  bool
		want     time.Duration
		why      string
	}{
		{"the first", failing, 0, 30 * minute, false, 30 * minute, "polling interval"},
		{"the third", failing, 2, 30 * minute, false, 30 * minute, "polling interval"},
		{"the fourth", failing, 3, 30 * minute, false, hour, "4 polls failed"},
		{"the sixth", failing, 5, 30 * minute, false, 4 * hour, "6 polls failed"},
		{"the hundredth", failing, 99, 30 * minute, false, 24 * hour, "polls failed"},
		{"the first of a hasty network", failing, 0, minute, false, 15 * minute, "polling interval"},
		{"missing", env.Answer{Status: 404}, 4, 30 * minute, false, 2 * hour, "5 polls failed"},
		{"too large", env.Answer{Err: env.ErrTooLarge}, 4, 30 * minute, false, 2 * hour, "5 polls failed"},

		{"nobody there, once", dark, 0, 30 * minute, false, minute, "not reachable"},
		{"nobody there, the fifth time", dark, 4, 30 * minute, false, 16 * minute, "not reachable"},
		{"nobody there for long", dark, 99, 30 * minute, false, 24 * hour, "not reachable"},

		{"500 with Retry-After", after(failing, 3*hour), 0, 30 * minute, false, 3 * hour, "Retry-After"},
		{"500 with a short Retry-After", after(failing, minute), 0, 30 * minute, false, 30 * minute, "polling interval"},
		{"429 with Retry-After", after(limited, 2*hour), 0, 30 * minute, false, 2 * hour, "fewer requests"},
		{"429 with a short Retry-After", after(limited, minute), 0, 30 * minute, false, 30 * minute, "fewer requests"},
		{"429 without", limited, 0, 30 * minute, false, hour, "fewer requests"},
		{"429 without, again", limited, 2, 30 * minute, false, 4 * hour, "fewer requests"},
		{"429 without, for ever", limited, 99, 30 * minute, false, 24 * hour, "fewer requests"},
		{"403 of a limiter", env.Answer{Status: 403, RetryAfter: 90 * minute}, 0, 30 * minute, false, 90 * minute, "fewer requests"},
		{"410", gone, 0, 30 * minute, false, 4 * hour, "gone"},
		{"410 of a hasty network", gone, 0, minute, false, 2 * hour, "gone"},
		{"410, the fourth time", gone, 3, 30 * minute, false, 32 * hour, "gone"},
		{"410, again", gone, 9, 30 * minute, false, 7 * 24 * hour, "gone"},

		{"private, the first", failing, 0, minute, true, minute, "polling interval"},
		{"private, the hundredth", failing, 99, minute, true, 8 * minute, "polls failed"},
		{"private, 410", gone, 0, minute, true, 8 * minute, "gone"},
		{"private, 410 again", gone, 2, minute, true, 32 * minute, "gone"},
		{"private, 410 for long", gone, 99, time.Hour, true, 7 * 24 * hour, "gone"},
		{"private, nobody there", dark, 9, minute, true, 8 * minute, "polls failed"},
		{"private, 429 without", limited, 5, minute, true, minute, "fewer requests"},
		{"private, 429 with Retry-After", after(limited, hour), 0, minute, true, hour, "fewer requests"},
	} {
		l := newLab(t)
		p := l.poller(Config{PollInterval: c.interval})
		url := "http://www.a.example/"
		p.lead(url, nil)
		d := p.assignments.Get(key(url))
		d.ensureExtra().failure, d.private = &failure{fails: c.before}, c.private
		p.poller.failed(d, c.a, Classify(c.a, nil, nil), l.now)
		// The next poll is at a slot, unless no server was reached.
		if wait := d.next.Time().Sub(l.now); wait < c.want || wait > c.want+max(c.want/20, d.schedule.Interval-1) || !strings.Contains(d.extra.failure.state.Why, c.why) || d.extra.failure.fails != c.before+1 {
			t.Errorf("%s: in %v because of %q", c.what, wait, d.extra.failure.state.Why)
		}
		kind := d.extra.failure.state.Kind
		var until time.Time
		if d.domain != nil {
			until = d.domain.limitedUntil.Time()
		}
		if (kind == coronapb.State_LIMITED && (!c.private || c.a.RetryAfter > 0)) != until.After(l.now) {
			t.Errorf("%s: the domain is left alone until %v", c.what, until)
		}
	}
}

// The domain of an origin is its registrable domain, or its address.
func TestDomainOfAnOriginIsItsRegistrableDomain(t *testing.T) {
	for raw, want := range map[string]string{
		"https://www.example.org/feed":     "example.org",
		"https://a.b.example.co.uk:8443/x": "example.co.uk",
		"https://someone.github.io/feed":   "someone.github.io",
		"http://192.0.2.7:8080/feed":       "192.0.2.7",
		"http://[2001:db8::7]/feed":        "2001:db8::7",
		"http://localhost:8000/":           "localhost:8000",
		"http://%zz/":                      "http://%zz/",
	} {
		if got, _ := Origin(raw); got != want {
			t.Errorf("%s: %q, not %q", raw, got, want)
		}
	}
}

// The number of remembered rate-limited domains is bounded. Those whose limit is over go first.
func TestRateLimitedDomainsAreBounded(t *testing.T) {
	l := newLab(t)
	p := l.poller(Config{})
	rest := func(name string, d time.Duration) {
		at := p.domains.refer(Origin("http://" + name + "/"))
		at.limitedUntil = env.MomentOf(l.now.Add(d))
		p.domains.release(at)
	}
	for i := range maxIdleDomains + 10 {
		rest(fmt.Sprintf("d%d.example", i), time.Hour)
	}
	if len(p.domains.byName) > maxIdleDomains {
		t.Errorf("%d domains rest", len(p.domains.byName))
	}
	l.now = l.now.Add(2 * time.Hour)
	for i := range maxIdleDomains {
		rest(fmt.Sprintf("e%d.example", i), time.Hour)
	}
	if len(p.domains.byName) > maxIdleDomains || p.domains.byName["d1.example"] != nil {
		t.Errorf("%d domains rest after some were over", len(p.domains.byName))
	}
}

// A node with a new rank makes up for a slot that passed while it was being told. With short
// intervals only a small part of the interval counts, so that changes of ranks do not cause extra
// polls.
func TestAJustMissedSlotIsMadeUpFor(t *testing.T) {
	p := newLab(t).poller(Config{PollInterval: time.Hour})
	now := p.clock.Now()
	for interval, want := range map[time.Duration]time.Duration{
		24 * time.Second: 750 * time.Millisecond, time.Minute: 1875 * time.Millisecond, 30 * time.Minute: 10 * time.Second, time.Hour: 10 * time.Second,
	} {
		d := &assignment{polledAt: env.MomentOf(now.Add(-interval * 3 / 4)), schedule: schedule{Interval: interval}}
		if late := now.Sub(p.poller.notBefore(d, now)); late != want {
			t.Errorf("an interval of %v: %v late", interval, late)
		}
	}
}
