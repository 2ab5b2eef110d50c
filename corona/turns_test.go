package corona

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
)

// A limitedHost serves feeds, and allows one request in a minute for all of them together.
type limitedHost struct {
	l       *lab
	refuses []int          // statuses of what it answers to others, one after the other
	held    time.Time      // until when the fetcher holds the host back
	says    bool           // it says beside a document when the next request is allowed
	next    time.Time      // when it allows the next request
	served  map[string]int // documents, by URL
	first   map[string]time.Time
	refused int
}

func (o *limitedHost) answer(r env.Request) env.Answer {
	if left := o.held.Sub(o.l.now); left > 0 {
		return env.Answer{Err: env.ErrBusy, Message: "held back", RetryAfter: left}
	}
	if o.next.After(o.l.now) {
		status := o.refuses[o.refused%len(o.refuses)]
		if o.refused++; status == 429 {
			o.held = o.l.now.Add(time.Minute)
		}
		return env.Answer{Status: status}
	}
	o.next = o.l.now.Add(time.Minute)
	if o.served[r.URL]++; o.served[r.URL] == 1 {
		o.first[r.URL] = o.l.now
	}
	a := serves(rss(r.URL, "", "one"))(r)
	a.Private = strings.Contains(r.URL, "localhost")
	if o.says {
		a.RetryAfter, o.held = time.Minute, o.next
	}
	return a
}

// The feeds of a host that allows one request in a minute are polled in turns: all of them are read soon,
// none is shown as failing, and the host hardly ever refuses.
func TestFeedsOfALimitedHostTakeTurns(t *testing.T) {
	for _, c := range []struct {
		name     string
		host     string
		interval time.Duration
		says     bool
		refuses  []int
		within   time.Duration // until each of the twenty has been read
		refused  int           // in a day
		fewest   int           // documents of each feed in a day
	}{
		{"it says so", "www.example.org", 15 * time.Minute, true, nil, 22 * time.Minute, 0, 60},
		{"a private host with a hasty network", "localhost:8000", 3 * time.Second, true, nil, 22 * time.Minute, 0, 60},
		{"429", "www.example.org", 15 * time.Minute, false, []int{429}, 2 * time.Hour, 40, 50},
		{"429, and 403 at times", "www.example.org", 15 * time.Minute, false, []int{429, 403, 403}, 2 * time.Hour, 40, 50},
	} {
		l := newLab(t)
		p := l.poller(Config{PollInterval: c.interval})
		o := &limitedHost{l: l, refuses: c.refuses, says: c.says, served: map[string]int{}, first: map[string]time.Time{}}
		start := l.now
		for i := range 20 {
			url := fmt.Sprintf("http://%s/%c.xml", c.host, 'a'+i)
			l.origins[url] = o.answer
			p.lead(url, nil)
		}
		l.run(24*time.Hour, p)
		var last time.Time
		var counts []int
		for url, at := range o.first {
			if at.After(last) {
				last = at
			}
			counts = append(counts, o.served[url])
		}
		slices.Sort(counts)
		if len(o.first) != 20 || last.Sub(start) > c.within || o.refused > c.refused || counts[0] < c.fewest {
			t.Errorf("%s: read after %v, refused %d, documents %v", c.name, last.Sub(start), o.refused, counts)
		}
		for _, s := range p.said {
			if c.says && s.Kind != coronapb.State_OK && s.Kind != coronapb.State_NEW {
				t.Errorf("%s: it is said that a feed is %v: %s", c.name, s.Kind, s.Detail)
			}
		}
	}
}

// An answer says how long the host's next feed waits, and how long each one waits after it. A full queue
// of this node's own says nothing about the host.
func TestPausesAfterAnswers(t *testing.T) {
	for _, c := range []struct {
		name       string
		gap        time.Duration // before the answer
		answer     env.Answer
		pause, now time.Duration
	}{
		{"no limits", 0, env.Answer{Status: 200}, 0, 0},
		{"its quota is exhausted", 0, env.Answer{Status: 200, RetryAfter: time.Hour}, time.Hour, quotaGap},
		{"a short pause", 0, env.Answer{Status: 200, RetryAfter: 3 * time.Second}, 3 * time.Second, 3 * time.Second},
		{"a longer gap stays", time.Minute, env.Answer{Status: 200, RetryAfter: time.Hour}, time.Hour, time.Minute},
		{"held back", time.Hour, env.Answer{Err: env.ErrBusy, RetryAfter: time.Minute}, time.Minute, time.Hour},
		{"a full queue", time.Hour, env.Answer{Err: env.ErrBusy}, 0, time.Hour},
		{"not reachable", time.Hour, env.Answer{Err: env.ErrTimeout}, time.Hour, time.Hour},
		{"a document", time.Hour, env.Answer{Status: 200}, time.Hour / 2, time.Hour / 2},
	} {
		d := turns{gap: c.gap, asking: true}
		if pause := d.answered(c.answer); pause != c.pause || d.gap != c.now || d.asking {
			t.Errorf("%s: a pause of %v, and a gap of %v; want %v and %v; still asking: %v", c.name, pause, d.gap, c.pause, c.now, d.asking)
		}
	}
}

// A feed that its sequencer fetches outside the schedule, while it waits for its turn, holds up no other.
func TestAFeedThatIsFetchedAtOnceLeavesTheQueue(t *testing.T) {
	l := newLab(t)
	p := l.poller(Config{PollInterval: 30 * time.Minute})
	const a, b = "http://www.example.org/a", "http://www.example.org/b"
	for _, url := range []string{a, b} {
		l.origins[url] = serves(rss(url, "", "one"))
		p.lead(url, nil)
	}
	l.run(2*time.Hour, p)
	l.origins[b] = says(env.Answer{Status: 429})
	d := p.assignments.Get(key(a))
	waits := func() bool {
		domain := p.domainOf(d)
		return domain != nil && len(domain.queue) > 0 && domain.queue[0] == d
	}
	for range 24 * 60 * 60 {
		if l.run(time.Second, p); waits() {
			break
		}
	}
	if !waits() {
		t.Fatal("the feed has not waited for its turn")
	}
	l.origins[a], l.origins[b] = says(env.Answer{Status: 410}), serves(rss(b, "", "one"))
	p.sequencer.fetchNow(p.leaders[key(a)], l.now)
	before := len(l.polls(b))
	if l.run(12*time.Hour, p); len(l.polls(b))-before < 12 {
		t.Errorf("the other feed was polled %d times in twelve hours", len(l.polls(b))-before)
	}
}

// A host that refuses no longer is asked without turns after some time.
func TestTurnsEnd(t *testing.T) {
	var d turns
	d.refused(env.Answer{Status: 429}, false)
	if d.refused(env.Answer{Status: 429}, false); d.gap != 2*minTurnGap {
		t.Errorf("a pause of %v", d.gap)
	}
	if d.refused(env.Answer{Status: 429}, true); d.gap != 2*minTurnGap {
		t.Errorf("a pause of %v, because one channel is refused again", d.gap)
	}
	n := 0
	for ; d.gap > 0; n++ {
		d.answered(env.Answer{Status: 200})
	}
	if n < 500 || n > 5000 {
		t.Errorf("after %d answers", n)
	}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	if d.asked(now); d.turnTaken(nil, now) {
		t.Error("a turn is taken although there are none")
	}
	d.answered(env.Answer{Status: 200, RetryAfter: time.Minute})
	if d.asked(now); !d.turnTaken(nil, now) || d.turnTaken(nil, now.Add(answerTimeout)) {
		t.Error("an answer that never comes keeps the turn")
	}
}

// One feed that is always refused does not slow down the others of its host.
func TestAFeedThatIsRefusedDelaysNoOther(t *testing.T) {
	for name, refusal := range map[string]env.Answer{"for a while": {Status: 429, RetryAfter: 2 * time.Minute}, "without a time": {Status: 429}} {
		l := newLab(t)
		p := l.poller(Config{PollInterval: 30 * time.Minute})
		for i := range 10 {
			url := fmt.Sprintf("http://www.example.org/%d", i)
			if l.origins[url] = serves(rss(url, "", "one")); i == 3 {
				l.origins[url] = says(refusal)
			}
			p.lead(url, nil)
		}
		l.run(10*24*time.Hour, p)
		for i := range 10 {
			if polls := len(l.polls(fmt.Sprintf("http://www.example.org/%d", i))); i != 3 && polls < 400 {
				t.Errorf("%s: feed %d is polled %d times in ten days", name, i, polls)
			}
		}
	}
}
