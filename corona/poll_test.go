package corona

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const site = "http://www.a.example/feed"

// "A failed poll is a failed poll": what an origin says in place of its feed takes
// nothing away, and the feed goes on where it was when it is back.
func TestNothingInPlaceOfAFeedTakesItsItemsAway(t *testing.T) {
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
		valid := p.leads[key(site)].valid
		l.origins[site] = bad
		l.run(2*time.Hour, p)
		v, _ := p.View(key(site))
		if v.State.Kind == coronapb.State_OK || v.State.Words == "" || v.Known != 6 || !v.State.Next.After(l.now) || p.leads[key(site)].valid != valid {
			t.Errorf("%s: %+v", what, v)
		}
		st := p.Stats()
		if st.Failed == 0 || st.Items != 6 || titles(log.items) != strings.Join(six, " ") {
			t.Errorf("%s: %+v, %q", what, st, titles(log.items))
		}
		// It is back, with one more.
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

// What looks like another feed is not believed at once: a host that lost its database has
// it back in minutes.
func TestAnotherFeedForMinutesIsNotBelieved(t *testing.T) {
	six := []string{"one", "two", "three", "four", "five", "six"}
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", six...))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	valid := p.leads[key(site)].valid
	l.origins[site] = serves(elsewhere("Cheap watches", "buy", "buy now"))
	l.run(doubtFor, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_NOT_A_FEED || !strings.Contains(v.State.Words, "none of the 6 items") || p.leads[key(site)].valid != valid {
		t.Errorf("%+v", v.State)
	}
	l.origins[site] = serves(rss("A", "", append([]string{"seven"}, six...)...))
	l.run(time.Hour, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_OK || titles(log.items) != strings.Join(six, " ")+" seven" {
		t.Errorf("after it was back %+v, %q", v.State, titles(log.items))
	}
	// Another doubt begins anew.
	l.origins[site] = serves(elsewhere("Cheap watches", "buy", "buy now"))
	l.run(doubtFor, p)
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_NOT_A_FEED {
		t.Errorf("the second time %+v", v.State)
	}
}

// It is believed when it stays, also where its poller dies meanwhile, and whatever fails
// in between.
func TestAnotherFeedIsBelievedWhenItStays(t *testing.T) {
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
	l.run(doubtFor, second)
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

// A reader's own origin is not doubted for longer than some polls.
func TestAnotherFeedOfAPrivateOriginIsBelievedSooner(t *testing.T) {
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

// The poller before may have had a clock that was ahead: its doubt does not last for
// ever.
func TestADoubtOfAWrongClock(t *testing.T) {
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

// Where title, site and items change together each time, that is how the feed is: all of
// it is news, from the second time on at once.
func TestAFeedThatTurnsAllOverLosesNothing(t *testing.T) {
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

// Feeds of alerts are empty most of the time: that is a good answer, which takes nothing
// away, and the next alert is seen at the next poll.
func TestAnEmptyFeedIsAGoodOne(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("Alerts", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	valid := p.leads[key(site)].valid
	l.origins[site] = serves(rss("Alerts", ""))
	l.run(5*24*time.Hour, p)
	v, _ := p.View(key(site))
	if v.State.Kind != coronapb.State_OK || v.State.Words != noItems || v.Known != 1 || p.Stats().Failed != 0 || p.leads[key(site)].valid != valid {
		t.Errorf("%+v", v)
	}
	if n := len(l.polls(site)); n < 5*48-10 {
		t.Errorf("%d polls in five days: it backs off", n)
	}
	l.origins[site] = serves(rss("Alerts", "", "two"))
	l.run(31*time.Minute, p)
	if v, _ := p.View(key(site)); titles(log.items) != "one two" || v.State.Words != "" {
		t.Errorf("found %q, %q", titles(log.items), v.State.Words)
	}
}

// What readers lack is said as long as it is so, "not modified" included, whoever polls.
func TestWhatReadersLackIsSaidAsLongAsItIsSo(t *testing.T) {
	l := newLab(t)
	long := "<item><title>long</title><description>" + strings.Repeat("x", feed.MaxItem) + "</description></item>"
	l.origins[site] = serves(rss("A", long, "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(2*time.Hour, p)
	const lost = "1 item larger than 256 KiB lost its largest parts"
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_OK || v.State.Words != lost || p.Stats().Unchanged == 0 {
		t.Errorf("%+v", v.State)
	}
	p.cease(site)
	second := l.poller(Config{})
	second.lead(site, log)
	l.run(time.Hour, second)
	if v, _ := second.View(key(site)); v.State.Words != lost || second.Stats().Findings != 0 {
		t.Errorf("after a takeover %+v", v.State)
	}
	l.origins[site] = serves(rss("A", "", "one"))
	l.run(time.Hour, second)
	if v, _ := second.View(key(site)); v.State.Words != "" {
		t.Errorf("when it is gone %+v", v.State)
	}
}

// That the fetcher has no room for a poll says nothing of the origin: it is asked a
// little later.
func TestAPollWithoutRoomJustWaits(t *testing.T) {
	l := newLab(t)
	busy := says(env.Answer{Err: env.ErrBusy, Words: "too many requests wait"})
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	l.origins[site] = busy
	before, said := len(l.polls(site)), len(p.said)
	l.run(2*time.Hour, p)
	v, _ := p.View(key(site))
	if st := p.Stats(); v.State.Kind != coronapb.State_OK || v.State.Words != "" || v.State.Why == "" || st.Failed != 0 || st.Polls != 1 || st.Busy == 0 {
		t.Errorf("%+v, %+v", v.State, st)
	}
	if n := len(l.polls(site)) - before; n < 60 || n > 180 {
		t.Errorf("tried %d times in an hour and a half", n)
	}
	for _, h := range p.haste[said:] {
		if h != NoHaste {
			t.Errorf("told with haste %d", h)
		}
	}
	l.origins[site] = serves(rss("A", "", "two", "one"))
	l.run(2*time.Minute, p)
	if titles(log.items) != "one two" {
		t.Errorf("found %q when there was room", titles(log.items))
	}
}

// Subscribers cannot know when a poll that fails is due again: each is told, though not
// more often than is worth it.
func TestPollsThatFailAreTold(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	p.lead(site, nil)
	l.run(time.Hour, p)
	l.origins[site] = says(env.Answer{Status: 500})
	said := len(p.said)
	l.run(12*time.Hour, p)
	if len(p.said)-said < 5 {
		t.Fatalf("%d words", len(p.said)-said)
	}
	for i, s := range p.said[said:] {
		if h := p.haste[said+i]; s.Kind == coronapb.State_FAILING && h == NoHaste || h == AtOnce && i > 0 {
			t.Errorf("word %d, %v, is told with haste %d", i, s, h)
		}
	}
	quick := l.poller(Config{PollInterval: time.Second})
	quick.lead(site, nil)
	l.origins[site] = serves(rss("A", "", "one"), func(a *env.Answer) { a.Private = true })
	l.run(time.Minute, quick)
	l.origins[site] = says(env.Answer{Status: 500, Private: true})
	l.run(24*time.Hour, quick)
	soon := 0
	for _, h := range quick.haste {
		if h == Soon {
			soon++
		}
	}
	if soon < 12*60 || soon > 24*60 {
		t.Errorf("%d hasty words a day", soon)
	}
}

// A poll asks with the validators of the last document; "not modified" is a good
// answer that brings nothing.
func TestNotModifiedIsAGoodAnswer(t *testing.T) {
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
	if st := p.Stats(); st.Polls < 5 || st.Unchanged != st.Polls-1 || st.Findings != 1 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// Validators are sent only after the finding that came with them is held: else
// "not modified" would hide what was lost.
func TestValidatorsComeAfterTheFindingIsHeld(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	p.slow = true
	l.run(time.Minute, p)
	if n, _ := parseNote(log.note); n.valid != (validators{}) {
		t.Errorf("the record has validators %+v before anything is held", n.valid)
	}
	l.run(time.Hour, p)
	if r := l.last(); r.ETag != "" {
		t.Errorf("asked with %q while the finding is on its way", r.ETag)
	}
	if st := p.Stats(); st.Findings != 1 {
		t.Errorf("found %d times while it was on its way", st.Findings)
	}
	p.hold(true)
	if n, _ := parseNote(log.note); n.valid.etag == "" || n.valid.url != site {
		t.Errorf("the record has no validators when all is held")
	}
	l.run(time.Hour, p)
	if r := l.last(); r.ETag == "" {
		t.Error("not asked with the validators then")
	}
}

// A finding that no quorum came to hold leaves no validators: whoever polls next
// gets the whole document, and finds it again.
func TestAFindingThatWasLostIsFoundAgain(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	first := l.poller(Config{})
	log := first.lead(site, nil)
	first.slow = true
	l.run(time.Minute, first)
	first.hold(false)
	first.cease(site)

	second := l.poller(Config{})
	log = second.lead(site, log)
	l.run(time.Hour, second)
	if titles(log.items) != "one two" {
		t.Errorf("the next one found %q", titles(log.items))
	}
}

// A poller that takes over goes on with what the one before left: items are not
// found again, and "not modified" is understood.
func TestTakeoverGoesOnWithTheRecord(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	first := l.poller(Config{})
	log := first.lead(site, nil)
	l.run(2*time.Hour, first)
	first.cease(site)
	last := l.last()

	second := l.poller(Config{})
	log = second.lead(site, log)
	began := l.now
	l.run(time.Hour, first, second)
	polls := l.asked[len(l.polls(site))-1]
	if polls.by != second || polls.ETag != last.ETag || polls.ValidatedURL != site {
		t.Errorf("asks with %+v, where the one before asked with %+v", polls.Request, last)
	}
	if st := second.Stats(); st.Items != 0 || st.Unchanged == 0 || titles(log.items) != "one two" {
		t.Errorf("%+v, %q", st, titles(log.items))
	}
	if v, _ := second.View(key(site)); v.State.Kind != coronapb.State_OK || !v.State.Since.Before(began) {
		t.Errorf("well since %v", v.State.Since)
	}

	// Failures go on being counted, too.
	l.origins[site] = says(env.Answer{Status: 500})
	l.run(10*time.Hour, second)
	fails := second.leads[key(site)].fails
	third := l.poller(Config{})
	third.lead(site, log)
	if fails < 4 || third.leads[key(site)].fails == 0 {
		t.Errorf("%d failures became %d", fails, third.leads[key(site)].fails)
	}
}

// Until it has a document of its own, who takes over does not know the feed's ttl:
// it keeps to the interval of the one before, and to its count of readers while the
// tree forms anew.
// A poller whose clock is a year ahead says so in the record; the next one does not
// wait a year.
func TestTakeoverFromAWrongClock(t *testing.T) {
	for _, wrong := range []struct {
		name  string
		says  env.Answer
		waits time.Duration // at most, from taking over
	}{
		{"failing", env.Answer{Status: 500}, 45 * time.Minute},
		{"limited", env.Answer{Status: 429, RetryAfter: 3 * time.Hour}, 4 * time.Hour},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			l := newLab(t)
			l.origins[site] = says(wrong.says)
			right := l.now
			l.now = right.AddDate(1, 0, 0)
			first := l.poller(Config{})
			log := first.lead(site, nil)
			l.run(time.Minute, first)
			first.cease(site)

			l.now = right.Add(time.Minute)
			second := l.poller(Config{})
			second.lead(site, log)
			before := len(l.polls(site))
			l.run(wrong.waits, second)
			if n := len(l.polls(site)) - before; n != 1 {
				t.Errorf("%d polls within %v of taking over, want 1", n, wrong.waits)
			}
		})
	}
}

func TestTakeoverKeepsTheIntervalAndTheReaders(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "<ttl>240</ttl>", "one", "two"))
	first := l.poller(Config{})
	first.readers = 7
	log := first.lead(site, nil)
	l.run(9*time.Hour, first)
	first.cease(site)

	second := l.poller(Config{})
	second.readers = 0
	second.lead(site, log)
	began := len(l.polls(site))
	l.run(10*time.Minute, second)
	if n := second.readersOf(site); n != 7 {
		t.Errorf("%d readers while the tree forms anew", n)
	}
	second.readers = 3
	l.run(12*time.Hour, second)
	if n := len(l.polls(site)) - began; n < 2 || n > 4 {
		t.Errorf("%d polls in 12 h of a feed with a ttl of 4 h", n)
	}
	if n := second.readersOf(site); n != 3 {
		t.Errorf("%d readers at last", n)
	}
}

// A record that makes no sense is as good as none.
func TestARecordThatMakesNoSenseIsNone(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, &channelLog{note: []byte("\xff\xffnonsense")})
	l.run(time.Minute, p)
	if titles(log.items) != "one" {
		t.Errorf("found %q", titles(log.items))
	}
}

// A channel that nobody reads for two leases is polled no more, and again as soon
// as somebody does.
func TestNobodyPollsWhatNobodyReads(t *testing.T) {
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
	if v, _ := p.View(key(site)); v.State.Kind != coronapb.State_IDLE || v.State.Words == "" {
		t.Errorf("it is %v, %q", v.State.Kind, v.State.Words)
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

// 429 stops the polls of all channels of the registrable domain, for as long as
// the origin says, and of no others.
func TestADomainThatAsksForRestIsLeftAlone(t *testing.T) {
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
	if v, _ := p.View(key(urls[1])); !strings.Contains(v.State.Why, "a.example asked to be left alone") {
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

// Whatever it answers, a public origin is asked for a channel once in an interval
// at most.
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

// An answer that never comes is given up after some minutes.
func TestAnAnswerThatNeverComesIsNotWaitedFor(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	p.Run(l.now)
	l.under = nil // lost
	l.run(patience-time.Second, p)
	if n := len(l.asked); n != 1 {
		t.Errorf("asked %d times before patience ended", n)
	}
	l.run(time.Minute, p)
	if st := p.Stats(); st.Late != 1 || titles(log.items) != "one" {
		t.Errorf("%+v, %q", st, titles(log.items))
	}
}

// Of the same channel led again, an answer to the former life means nothing.
func TestAnAnswerOfAFormerLeadMeansNothing(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	p.lead(site, nil)
	p.Run(l.now)
	p.cease(site)
	l.run(time.Second, p)
	if st := p.Stats(); st.Polls != 0 || st.Channels != 0 {
		t.Errorf("%+v", st)
	}
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	if st := p.Stats(); st.Polls != 1 || titles(log.items) != "one" {
		t.Errorf("%+v, %q", st, titles(log.items))
	}
}

// A reader's own question is asked once, however many ask it, and leaves the
// channel's schedule alone.
func TestAReadersQuestionIsNoPoll(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	next := p.duties[key(site)].next
	for range 3 {
		p.Ask(key(site), site)
	}
	l.run(time.Second, p)
	if len(p.fetched) != 1 || len(p.fetched[0].Items) != 2 || p.duties[key(site)].next != next || titles(log.items) != "one two" {
		t.Errorf("answered %d times", len(p.fetched))
	}
	l.origins[site] = serves("<html>")
	p.Ask(key(site), site)
	l.run(time.Second, p)
	if len(p.fetched) != 2 || p.fetched[1] != nil {
		t.Error("a page was handed over as a feed")
	}
}

// Subscribers are told at once of another state, and of nothing while it stays.
func TestAStateIsSaidWhenItChanges(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	p.lead(site, nil)
	l.run(5*time.Hour, p)
	l.origins[site] = says(env.Answer{Status: 500})
	l.run(5*time.Hour, p)
	var at []string
	for i, s := range p.said {
		if p.haste[i] == AtOnce {
			at = append(at, s.String())
		}
	}
	if strings.Join(at, ", ") != "ok, failing" {
		t.Errorf("said at once: %v", at)
	}
	last := p.said[len(p.said)-1]
	if !last.Since.Before(last.Polled) || !last.Next.After(last.Polled) {
		t.Errorf("%+v", last)
	}

	// Readers that come or go are worth a message only if they are many.
	l.origins[site] = serves(rss("A", "", "one"))
	p.readers = 100
	l.run(30*time.Hour, p)
	p.haste = nil
	p.readers = 103
	l.run(time.Hour, p)
	for _, h := range p.haste {
		if h != NoHaste {
			t.Errorf("three more readers beside a hundred are told with haste %d", h)
		}
	}
	p.haste, p.readers = nil, 120
	l.run(time.Hour, p)
	if len(p.haste) == 0 || p.haste[0] != Soon {
		t.Errorf("twenty more are told with haste %v", p.haste)
	}
}

// A feed that has moved for good says where to, and keeps its channel.
func TestAMovedFeedSaysWhereTo(t *testing.T) {
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

// What another lineage of the log brought is no news to the poller any more.
func TestWhatAnotherLineageBroughtIsFilteredOnce(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	l.origins[site] = serves(rss("A", "", "three", "two", "one"))
	other := l.poller(Config{})
	their := other.lead(site, nil)
	l.run(time.Minute, other)

	f, err := feed.Parse([]byte(rss("A", "", "three", "two", "one")), "")
	if err != nil {
		t.Fatal(err)
	}
	all := new(difference.Known).Diff(f)
	if len(their.items) != 3 || len(all.Changes) != 3 {
		t.Fatalf("the other found %q", titles(their.items))
	}
	if d := p.Filter(key(site), all); len(d.Changes) != 1 {
		t.Errorf("%d of them are new here", len(d.Changes))
	}
	if d := p.Filter(key(site), all); !d.Empty() {
		t.Error("new twice")
	}
	l.run(time.Hour, p)
	if titles(log.items) != "one two" {
		t.Errorf("found again: %q", titles(log.items))
	}
	if d := p.Filter(key("http://nobody.example/"), all); !d.Empty() {
		t.Error("new where nobody leads")
	}
}
