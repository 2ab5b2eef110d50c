package corona

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const site = "http://www.a.example/feed"

// Items that readers lack are reported for as long as they lack them, also after "not modified", and
// also when another node polls.
func TestDetailsAreReportedAsLongAsTheyHold(t *testing.T) {
	l := newLab(t)
	long := "<item><title>long</title><description>" + strings.Repeat("x", feed.MaxItem) + "</description></item>"
	l.origins[site] = serves(rss("A", long, "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(2*time.Hour, p)
	const lost = "1 item larger than 1 MiB lost its largest parts"
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_OK || v.State.Detail != lost || p.Stats().Unchanged == 0 {
		t.Errorf("%+v", v.State)
	}
	p.cease(site)
	second := l.poller(Config{})
	second.lead(site, log)
	l.run(time.Hour, second)
	if v, _ := second.View(key(site)); v.State.Detail != lost || second.Stats().Updates != 0 {
		t.Errorf("after a takeover %+v", v.State)
	}
	l.origins[site] = serves(rss("A", "", "one"))
	l.run(time.Hour, second)
	if v, _ := second.View(key(site)); v.State.Detail != "" {
		t.Errorf("when it is gone %+v", v.State)
	}
}

// A poll for which the fetcher has no capacity says nothing about the origin; it is repeated a
// little later.
func TestAPollWaitsForABusyFetcher(t *testing.T) {
	l := newLab(t)
	busy := says(env.Answer{Err: env.ErrBusy, Message: "too many requests wait"})
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	l.origins[site] = busy
	before, said := len(l.polls(site)), len(p.said)
	l.run(2*time.Hour, p)
	v, _ := p.View(key(site))
	if st := p.Stats(); v.State.Kind != coronapb.State_OK || v.State.Detail != "" || v.State.Why == "" || st.Failed != 0 || st.Polls != 1 || st.Busy == 0 {
		t.Errorf("%+v, %+v", v.State, st)
	}
	if n := len(l.polls(site)) - before; n < 60 || n > 180 {
		t.Errorf("tried %d times in an hour and a half", n)
	}
	for _, h := range p.urgencies[said:] {
		if h != NotUrgent {
			t.Errorf("sent with urgency %d", h)
		}
	}
	l.origins[site] = serves(rss("A", "", "two", "one"))
	l.run(2*time.Minute, p)
	if titles(log.items) != "one two" {
		t.Errorf("found %q when there was room", titles(log.items))
	}
}

// A busy node fetches a new channel as soon as there is room, also if its part in the polls changes meanwhile: nobody else may
// know yet what the feed is, and only the sequencer's own fetch tells it of a hub.
func TestTheFirstFetchWaitsForABusyFetcher(t *testing.T) {
	l := newLab(t)
	l.origins[site] = says(env.Answer{Err: env.ErrBusy, Message: "too many requests wait"})
	p := l.poller(Config{})
	log := p.lead(site, nil)
	led := p.sequencer.leaders[key(site)]
	for n := range 3 {
		p.sequencer.order(led, n+1, l.now)
		l.run(2*time.Second, p)
	}
	l.origins[site] = serves(rss("A", "", "one"))
	if l.run(2*time.Minute, p); titles(log.items) != "one" {
		t.Errorf("found %q when there was room", titles(log.items))
	}
}

// Subscribers cannot compute when the poll after a failure is due, so they are told of each
// failure, up to one message per minStateGap.
func TestFailedPollsAreReported(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	p.lead(site, nil)
	l.run(time.Hour, p)
	l.origins[site] = says(env.Answer{Status: 500})
	said := len(p.said)
	l.run(12*time.Hour, p)
	if len(p.said)-said < 5 {
		t.Fatalf("%d states", len(p.said)-said)
	}
	for i, s := range p.said[said:] {
		if h := p.urgencies[said+i]; s.Kind == coronapb.State_FAILING && h == NotUrgent || h == AtOnce && i > 0 {
			t.Errorf("state %d, %v, is sent with urgency %d", i, s, h)
		}
	}
	quick := l.poller(Config{PollInterval: time.Second})
	quick.lead(site, nil)
	l.origins[site] = serves(rss("A", "", "one"), func(a *env.Answer) { a.Private = true })
	l.run(time.Minute, quick)
	l.origins[site] = says(env.Answer{Status: 500, Private: true})
	l.run(24*time.Hour, quick)
	soon := 0
	for _, h := range quick.urgencies {
		if h == Soon {
			soon++
		}
	}
	if soon < 12*60 || soon > 24*60 {
		t.Errorf("%d urgent states a day", soon)
	}
}

// A poll sends the validators of the last document. "Not modified" is a success without news.
func TestNotModifiedIsASuccess(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{})
	p.lead(site, nil)
	l.run(time.Minute, p)
	first := l.last()
	if first.ETag != "" || first.LastModified != "" || first.ValidatedURL != "" {
		t.Errorf("the first poll is conditional: %+v", first)
	}
	l.run(3*time.Hour, p)
	if r := l.last(); r.ETag == "" || r.ValidatedURL != site {
		t.Errorf("later polls are not: %+v", r)
	}
	if st := p.Stats(); st.Polls < 5 || st.Unchanged != st.Polls-1 || st.Updates != 1 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// A channel without readers for two leases is no longer polled, and is polled again as soon as it
// has readers.
func TestChannelsWithoutReadersAreNotPolled(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{PollInterval: 15 * time.Minute, MaintenanceInterval: 10 * time.Minute})
	log := p.lead(site, nil)
	l.run(time.Hour, p)
	p.readers = 0
	left := l.now
	l.run(24*time.Hour, p)
	if at := l.polls(site); at[len(at)-1].After(left.Add(20 * time.Minute)) {
		t.Errorf("polled %v after the last reader left", at[len(at)-1].Sub(left))
	}
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_IDLE || v.State.Detail == "" {
		t.Errorf("it is %v, %q", v.State.Kind, v.State.Detail)
	}
	l.origins[site] = serves(rss("A", "", "two", "one"))
	p.readers = 3
	back := l.now
	l.run(2*time.Minute, p)
	if at := l.polls(site); at[len(at)-1].Before(back) {
		t.Error("not polled in the two minutes after a reader came back")
	}
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_OK || titles(log.items) != "one two" || l.last().Subscribers != 3 {
		t.Errorf("it is %v, with %q", v.State.Kind, titles(log.items))
	}
}

// A 429 stops the polls of all channels of the registrable domain for as long as the origin asks,
// and of no other domain.
func TestARateLimitStopsTheDomain(t *testing.T) {
	l := newLab(t)
	urls := []string{"http://www.a.example/1", "http://www.a.example/2", "https://b.a.example/3", "http://other.example/4"}
	p := l.poller(Config{})
	for i, u := range urls {
		l.origins[u] = serves(rss(fmt.Sprint("Feed ", i), "", fmt.Sprint("item ", i)))
		p.lead(u, nil)
	}
	l.run(time.Hour, p)
	l.origins[urls[0]] = says(env.Answer{Status: 429, RetryAfter: 6 * time.Hour})
	var asked time.Time
	for asked.IsZero() {
		l.run(time.Minute, p)
		if v, _ := p.View(key(urls[0])); v.State.Kind == coronapb.State_LIMITED {
			asked = v.State.Polled
		}
	}
	from := len(l.asked)
	l.run(6*time.Hour-2*time.Minute, p)
	others := 0
	for _, a := range l.asked[from:] {
		if a.URL != urls[3] {
			t.Errorf("%s asked %v after the domain had asked for rest", a.URL, a.at.Sub(asked))
		}
		others++
	}
	if others < 10 {
		t.Errorf("the other domain was asked %d times", others)
	}
	if v, _ := p.View(key(urls[1])); !strings.Contains(v.State.Why, "a.example asks for fewer requests") {
		t.Errorf("its other channels wait because of %q", v.State.Why)
	}
	l.origins[urls[0]] = serves(rss("Feed 0", "", "item 0"))
	l.run(2*time.Hour, p)
	for _, u := range urls {
		if v, _ := p.View(key(u)); v.State.Kind != coronapb.State_OK || l.now.Sub(v.State.Polled) > time.Hour {
			t.Errorf("%s: %v, polled %v ago", u, v.State.Kind, l.now.Sub(v.State.Polled))
		}
	}
}

// A pause that is longer than anybody means is cut.
func TestRateLimitsAreBounded(t *testing.T) {
	for _, answer := range []env.Answer{{Status: 429, RetryAfter: 100 * 365 * 24 * time.Hour}, {Status: 500, RetryAfter: 100 * 365 * 24 * time.Hour}} {
		l := newLab(t)
		p := l.poller(Config{})
		l.origins[site] = says(answer)
		p.lead(site, nil)
		l.run(time.Hour, p)
		l.origins[site] = serves(rss("A feed", "", "an item"))
		l.run(maxRetryAfter, p)
		if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_OK {
			t.Errorf("a week after a %d it is %v, next at %v", answer.Status, v.State.Kind, v.State.Next)
		}
	}
}

// Whatever a public origin answers, a node polls a channel at most once in an interval.
func TestNobodyPollsTwiceWithinAnInterval(t *testing.T) {
	l := newLab(t)
	p := l.poller(Config{PollInterval: 20 * time.Minute})
	moods := []env.Answer{
		{Status: 500}, {Status: 404}, {Status: 429, RetryAfter: time.Minute}, {Status: 503},
		{Status: 200, Body: []byte(rss("A", "", "one"))}, {Status: 200, Body: []byte("<html>")}, {Status: 304}, {Err: env.ErrTooLarge},
	}
	var urls []string
	for i := range 20 {
		u := fmt.Sprintf("http://feed%d.example/", i)
		urls = append(urls, u)
		n := i
		l.origins[u] = func(env.Request) env.Answer {
			n += 3
			return moods[n%len(moods)]
		}
		p.lead(u, nil)
	}
	l.run(48*time.Hour, p)
	for _, u := range urls {
		at := l.polls(u)
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < 20*time.Minute-20*time.Minute/40 {
				t.Errorf("%s asked again after %v", u, gap)
			}
		}
		if len(at) < 10 {
			t.Errorf("%s asked %d times in two days", u, len(at))
		}
	}
}

// A poll without an answer is given up after some minutes.
func TestAPollWithoutAnAnswerIsRepeated(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	p.Run(l.now)
	l.under = nil // lost
	l.run(answerTimeout-time.Second, p)
	if n := len(l.asked); n != 1 {
		t.Errorf("asked %d times before patience ended", n)
	}
	l.run(time.Minute, p)
	if st := p.Stats(); st.Late != 1 || titles(log.items) != "one" {
		t.Errorf("%+v, %q", st, titles(log.items))
	}
}

// FetchOnce sends one request for any number of calls, and does not change the channel's schedule.
func TestFetchOnceIsNoPoll(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	next := p.assignments.Get(key(site)).next
	for range 3 {
		p.FetchOnce(key(site), site)
	}
	l.run(time.Second, p)
	if len(p.fetched) != 1 || len(p.fetched[0].Items) != 2 || p.assignments.Get(key(site)).next != next || titles(log.items) != "one two" {
		t.Errorf("answered %d times", len(p.fetched))
	}
	l.origins[site] = serves("<html>")
	p.FetchOnce(key(site), site)
	l.run(time.Second, p)
	if len(p.fetched) != 2 || p.fetched[1] != nil {
		t.Error("a page was handed over as a feed")
	}
}

// Subscribers are told at once of another state, and nothing while the state stays.
func TestStatesAreSentWhenTheyChange(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	p.lead(site, nil)
	l.run(5*time.Hour, p)
	l.origins[site] = says(env.Answer{Status: 500})
	l.run(5*time.Hour, p)
	var at []string
	for i, s := range p.said {
		if p.urgencies[i] == AtOnce {
			at = append(at, s.String())
		}
	}
	if strings.Join(at, ", ") != "ok, failing" {
		t.Errorf("sent at once: %v", at)
	}
	last := p.said[len(p.said)-1]
	if !last.Since.Before(last.Polled) || !last.Next.After(last.Polled) {
		t.Errorf("%+v", last)
	}

	// A change in readers is worth a message only if it is large.
	l.origins[site] = serves(rss("A", "", "one"))
	p.readers = 100
	l.run(30*time.Hour, p)
	p.urgencies = nil
	p.readers = 103
	l.run(time.Hour, p)
	for _, h := range p.urgencies {
		if h != NotUrgent {
			t.Errorf("three more readers beside a hundred are sent with urgency %d", h)
		}
	}
	p.urgencies, p.readers = nil, 120
	l.run(time.Hour, p)
	if len(p.urgencies) == 0 || p.urgencies[0] != Soon {
		t.Errorf("twenty more are sent with urgency %v", p.urgencies)
	}
}

// Readers learn the detection time of news when it is known, and again when it has changed much.
func TestReadersLearnTheLag(t *testing.T) {
	l := newLab(t)
	p := l.poller(Config{})
	l.origins[site] = serves(rss("A", "", "one"))
	p.lead(site, nil)
	l.run(time.Hour, p)
	p.urgencies = nil
	dated := strings.Replace(rss("A", "", "one", "two"), "<title>two</title>", "<title>two</title><pubDate>"+l.now.Format(time.RFC1123Z)+"</pubDate>", 1)
	l.origins[site] = serves(dated)
	l.run(2*time.Hour, p)
	if !slices.Contains(p.urgencies, Soon) || p.said[len(p.said)-1].Lag <= 0 {
		t.Errorf("%v is sent with urgency %v", p.said[len(p.said)-1].Lag, p.urgencies)
	}
	p.urgencies = nil
	if l.run(3*time.Hour, p); slices.Contains(p.urgencies, Soon) {
		t.Error("an unchanged state is sent again")
	}
}

// A document is secure if nobody on the whole way could have changed it; the first response matters
// because it may redirect.
func TestADocumentIsSecureIfItsWholeWayWas(t *testing.T) {
	for _, c := range []struct {
		url, final string
		private    bool
		want       bool
	}{
		{"http://www.a.example/feed", "", false, false},
		{"https://www.a.example/feed", "", false, true},
		{"https://www.a.example/feed", "https://b.example/feed", false, true},
		{"http://www.a.example/feed", "https://b.example/feed", false, false},
		{"http://www.a.example/feed", "", true, true},
	} {
		l := newLab(t)
		l.origins[c.url] = serves(rss("A", "", "one"), func(a *env.Answer) { a.FinalURL, a.Private = c.final, c.private })
		p := l.poller(Config{})
		p.lead(c.url, nil)
		p.FetchOnce(key(c.url), c.url)
		l.run(time.Hour, p)
		if len(p.saw) < 2 || slices.Contains(p.saw, !c.want) {
			t.Errorf("%s, then %q: %v", c.url, c.final, p.saw)
		}
	}
}

// "Not modified" says what a node sees only if it has fetched the document itself.
func TestAnUnchangedDocumentOfOnesOwnIsSeen(t *testing.T) {
	for _, own := range []bool{true, false} {
		l := newLab(t)
		l.origins[site] = serves(rss("A", "", "one"))
		p := l.poller(Config{})
		p.lead(site, nil)
		l.run(time.Hour, p)
		before := p.unchanged
		if d := p.assignments.Get(key(site)); !own {
			d.fetched = 0 // another node has fetched the document of the snapshot
		}
		l.run(2*time.Hour, p)
		if (p.unchanged > before) != own {
			t.Errorf("own document %v: %d answers", own, p.unchanged-before)
		}
	}
}

// A poller that is to look at a document of a domain with a budget waits for its next poll, which fetches the document:
// "not modified" would not show it.
func TestAPollerLooksWithItsNextPoll(t *testing.T) {
	w := newTestNetwork(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	full, unchanged := map[*member]int{}, 0
	serve := serves(rss("A", "", "one"))
	w.origin = func(h *member, r env.Request) env.Answer {
		if r.ETag != "" {
			unchanged++
		} else {
			full[h]++
		}
		return serve(r)
	}
	w.run(2 * time.Hour)
	poller := w.houses[slices.IndexFunc(w.houses, func(h *member) bool { return h.assignments.Get(f.key) != nil && h != f.leader })]
	clear(full)
	unchanged = 0
	if poller.Look(f.key, f.url) {
		t.Error("it asks outside its turn")
	}
	w.run(4 * time.Hour)
	if len(full) != 1 || full[poller] != 1 || unchanged < 20 {
		t.Errorf("%d members fetched the document, the poller %d times, and %d polls had no news", len(full), full[poller], unchanged)
	}
}

// A feed that has moved permanently says where to, and keeps its channel.
func TestAMovedFeedReportsItsNewAddress(t *testing.T) {
	l := newLab(t)
	to := "https://b.example/feed"
	l.origins[site] = serves(rss("A", "", "one"), func(a *env.Answer) { a.FinalURL, a.Moved = to, true })
	p := l.poller(Config{})
	p.lead(site, nil)
	l.run(time.Hour, p)
	if v, _ := p.View(key(site)); v.State.Moved != to || v.State.Kind != coronapb.State_OK {
		t.Errorf("%+v", v.State)
	}
	if r := l.last(); r.URL != site || r.ValidatedURL != to {
		t.Errorf("asked for %+v", r)
	}
}
