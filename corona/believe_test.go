package corona

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
)

// A failed poll removes nothing: whatever an origin serves in place of its feed, the items stay,
// and the feed continues when it is back.
func TestFailedPollsRemoveNoItems(t *testing.T) {
	six := []string{"one", "two", "three", "four", "five", "six"}
	whole := rss("A", "", six...)
	for what, bad := range map[string]origin{
		"500":                   says(env.Answer{Status: 500}),
		"404":                   says(env.Answer{Status: 404}),
		"410":                   says(env.Answer{Status: 410}),
		"429":                   says(env.Answer{Status: 429}),
		"no name":               says(env.Answer{Err: env.ErrDNS}),
		"too large":             says(env.Answer{Err: env.ErrTooLarge}),
		"refused":               says(env.Answer{Err: env.ErrRefused}),
		"a page":                serves("<html><body>Down for maintenance</body></html>"),
		"nothing":               says(env.Answer{Status: 200}),
		"half of it":            serves(whole[:len(whole)/2]),
		"the first item":        serves(whole[:strings.Index(whole, "</item>")+7]),
		"a JSON error":          serves(`{"status":"error","message":"no database"}`),
		"a million nested tags": serves("<rss><channel>" + strings.Repeat("<a>", 1e5)),
	} {
		l := newLab(t)
		l.origins[site] = serves(whole)
		p := l.poller(Config{})
		log := p.lead(site, nil)
		l.run(time.Minute, p)
		if titles(log.items) != strings.Join(six, " ") {
			t.Fatalf("%s: found %q", what, titles(log.items))
		}
		valid := p.leaders[key(site)].valid
		l.origins[site] = bad
		l.run(2*time.Hour, p)
		v, _ := p.View(key(site))
		if v.State.Kind == coronapb.State_OK || v.State.Detail == "" || v.Known != 6 || !v.State.Next.After(l.now) || p.leaders[key(site)].valid != valid {
			t.Errorf("%s: %+v", what, v)
		}
		st := p.Stats()
		if st.Failed == 0 || st.Items != 6 || titles(log.items) != strings.Join(six, " ") {
			t.Errorf("%s: %+v, %q", what, st, titles(log.items))
		}
		// The feed is back, with one more item.
		l.origins[site] = serves(rss("A", "", append([]string{"seven"}, six...)...))
		l.run(8*24*time.Hour, p)
		if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_OK || titles(log.items) != strings.Join(six, " ")+" seven" {
			t.Errorf("%s: after it was back %+v, %q", what, v.State, titles(log.items))
		}
	}
}

// elsewhere is a feed of another site.
func elsewhere(title string, items ...string) string {
	return strings.Replace(rss(title, "", items...), "http://feed.example/", "http://watches.example/", 1)
}

// A document that looks like another feed is not accepted at once: a host that lost its database
// usually has it back within minutes.
func TestAnotherFeedForMinutesIsNotAccepted(t *testing.T) {
	six := []string{"one", "two", "three", "four", "five", "six"}
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", six...))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	valid := p.leaders[key(site)].valid
	l.origins[site] = serves(elsewhere("Cheap watches", "buy", "buy now"))
	l.run(suspicionPeriod, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_NOT_A_FEED || !strings.Contains(v.State.Detail, "none of the 6 items") || p.leaders[key(site)].valid != valid {
		t.Errorf("%+v", v.State)
	}
	l.origins[site] = serves(rss("A", "", append([]string{"seven"}, six...)...))
	l.run(time.Hour, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_OK || titles(log.items) != strings.Join(six, " ")+" seven" {
		t.Errorf("after it was back %+v, %q", v.State, titles(log.items))
	}
	// A new suspicion starts its own period.
	l.origins[site] = serves(elsewhere("Cheap watches", "buy", "buy now"))
	l.run(suspicionPeriod, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_NOT_A_FEED {
		t.Errorf("the second time %+v", v.State)
	}
}

// Another feed is accepted when it stays, even if its poller dies in the meantime, and whatever
// polls fail in between.
func TestAnotherFeedIsAcceptedWhenItStays(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two", "three", "four", "five"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	l.origins[site] = serves(elsewhere("B", "six", "seven"))
	l.run(45*time.Minute, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_NOT_A_FEED {
		t.Fatalf("%+v", v.State)
	}
	p.cease(site)
	second := l.poller(Config{})
	log = second.lead(site, log)
	l.run(suspicionPeriod, second)
	if v, _ := second.View(key(site)); v.State.Kind != coronapb.State_OK || titles(log.items) != "one two three four five six seven" {
		t.Errorf("%+v, %q", v.State, titles(log.items))
	}

	l.origins[site] = serves(elsewhere("C", "eight", "nine"), func(a *env.Answer) { a.Body = []byte(strings.ReplaceAll(string(a.Body), "watches", "clocks")) })
	l.run(45*time.Minute, second)
	l.origins[site] = says(env.Answer{Status: 500})
	l.run(30*time.Minute, second)
	l.origins[site] = serves(rss("C", "", "ten", "nine"), func(a *env.Answer) {
		a.Body = []byte(strings.ReplaceAll(string(a.Body), "feed.example", "clocks.example"))
	})
	l.run(45*time.Minute, second)
	if !strings.HasSuffix(titles(log.items), "seven eight nine ten") {
		t.Errorf("%q: what rolled off while it was in doubt is lost", titles(log.items))
	}
}

// The suspicion period of a private origin is only some polls long.
func TestAnotherFeedOfAPrivateOriginIsAcceptedSooner(t *testing.T) {
	l := newLab(t)
	private := func(a *env.Answer) { a.Private = true }
	l.origins[site] = serves(rss("A", "", "one", "two", "three", "four", "five"), private)
	p := l.poller(Config{PollInterval: 10 * time.Second})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	l.origins[site] = serves(elsewhere("B", "six"), private)
	l.run(25*time.Second, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_NOT_A_FEED {
		t.Errorf("%+v", v.State)
	}
	l.run(90*time.Second, p)
	if titles(log.items) != "one two three four five six" {
		t.Errorf("found %q", titles(log.items))
	}
}

// The clock of the earlier sequencer may have been ahead. Its suspicion still ends.
func TestSuspicionFromAWrongClockEnds(t *testing.T) {
	l := newLab(t)
	right := l.now
	l.origins[site] = serves(rss("A", "", "one", "two", "three", "four", "five"))
	l.now = right.AddDate(1, 0, 0)
	first := l.poller(Config{})
	log := first.lead(site, nil)
	l.run(time.Minute, first)
	l.origins[site] = serves(elsewhere("B", "six", "seven"))
	l.run(40*time.Minute, first)
	first.cease(site)
	l.now = right.Add(time.Hour)
	second := l.poller(Config{})
	log = second.lead(site, log)
	l.run(3*time.Hour, second)
	if titles(log.items) != "one two three four five six seven" {
		t.Errorf("found %q", titles(log.items))
	}
}

// If title, site and items change together each time, this is how the feed works: everything is
// news, from the second change on at once.
func TestAFeedThatReplacesAllItemsLosesNothing(t *testing.T) {
	for _, every := range []time.Duration{30 * time.Minute, 2 * time.Hour, 24 * time.Hour} {
		l := newLab(t)
		var want []string
		began := l.now
		l.origins[site] = func(r env.Request) env.Answer {
			day := int(l.now.Sub(began) / every)
			var items []string
			for i := range 6 {
				items = append(items, fmt.Sprintf("%d.%d", day, i))
			}
			doc := strings.ReplaceAll(rss(fmt.Sprintf("Headlines of day %d", day), "", items...), "feed.example", fmt.Sprintf("day%d.example", day))
			return serves(doc)(r)
		}
		p := l.poller(Config{PollInterval: 20 * time.Minute})
		log := p.lead(site, nil)
		l.run(7*every, p)
		for i := range 7 * 6 {
			want = append(want, fmt.Sprintf("%d.%d", i/6, i%6))
		}
		if got := titles(log.items); got != strings.Join(want, " ") {
			t.Errorf("every %v: found %q", every, got)
		}
	}
}

// Feeds of alerts are empty most of the time. An empty feed is a success that removes nothing, and
// the next poll finds the next alert.
func TestAnEmptyFeedIsASuccess(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("Alerts", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	valid := p.leaders[key(site)].valid
	l.origins[site] = serves(rss("Alerts", ""))
	l.run(5*24*time.Hour, p)
	v, _ := p.View(key(site))
	if v.State.Kind != coronapb.State_OK || v.State.Detail != noItems || v.Known != 1 || p.Stats().Failed != 0 || p.leaders[key(site)].valid != valid {
		t.Errorf("%+v", v)
	}
	if n := len(l.polls(site)); n < 5*48-10 {
		t.Errorf("%d polls in five days: it backs off", n)
	}
	l.origins[site] = serves(rss("Alerts", "", "two"))
	l.run(31*time.Minute, p)
	if v, _ := p.View(key(site)); titles(log.items) != "one two" || v.State.Detail != "" {
		t.Errorf("found %q, %q", titles(log.items), v.State.Detail)
	}
}
