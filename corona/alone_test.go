package corona

import (
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/overlay"
)

// localStub records what a node's readers see of one feed, and the states of its lone polls.
type localStub struct {
	*labNode
	known difference.Known
	shown []string
	said  []State
}

func (s *localStub) Recall(_ overlay.ID, then func(*difference.Known)) {
	known := s.known
	then(&known)
}

func (s *localStub) ShowAlone(_ overlay.ID, d difference.Delta) {
	s.known.Add(d)
	for _, c := range d.Changes {
		m, err := c.Item.Meaning("")
		if err != nil {
			s.l.t.Error(err)
		}
		s.shown = append(s.shown, m.Title)
	}
}

func (s *localStub) AloneStateChanged(key overlay.ID) {
	state, _ := s.Alone(key)
	s.said = append(s.said, state)
}

// cutOff returns a node that polls the site alone.
func (l *lab) cutOff(cfg Config) *localStub {
	s := &localStub{labNode: l.poller(cfg)}
	s.ServeReaders(s)
	s.PollAlone(key(site), site, true)
	return s
}

// A lone poll keeps to the interval of a poller, asks with the validators of what it has shown, and shows
// each item once.
func TestLonePollsMatchOnePoller(t *testing.T) {
	l := newLab(t)
	doc := rss("A", "", "one")
	l.origins[site] = serves(doc)
	s := l.cutOff(Config{PollInterval: 30 * time.Minute})
	l.run(30*time.Minute, s.labNode)
	if len(l.asked) != 1 {
		t.Fatalf("%d polls in the first interval", len(l.asked))
	}
	l.origins[site] = serves(rss("A", "", "two", "one"))
	l.run(2*time.Hour, s.labNode)
	if got := strings.Join(s.shown, " "); got != "one two" {
		t.Errorf("shown: %s", got)
	}
	for i, a := range l.asked[1:] {
		if d := a.at.Sub(l.asked[i].at); d < 30*time.Minute || d > 31*time.Minute {
			t.Errorf("poll %d comes %v after the one before", i+1, d)
		}
	}
	s.PollAlone(key(site), site, false)
	polls := len(l.asked)
	if l.run(2*time.Hour, s.labNode); len(l.asked) != polls {
		t.Errorf("it goes on after its end")
	}
	if _, ok := s.Alone(key(site)); ok || len(s.lonePolls.byKey) > 0 || len(s.domains.byName) > 0 {
		t.Errorf("something is left of it: %v", s.domains.byName)
	}
}

// A network that goes down and comes back repeatedly does not increase the rate of requests to an
// origin.
func TestUnstableNetworkKeepsPollsPolite(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(`<rss version="2.0"><channel><title>A</title><ttl>240</ttl><item><guid>1</guid><title>one</title></item></channel></rss>`)
	s := l.cutOff(Config{PollInterval: time.Minute})
	for range 5 * 12 {
		l.run(12*time.Minute, s.labNode)
		s.PollAlone(key(site), site, false)
		l.run(time.Second, s.labNode)
		s.PollAlone(key(site), site, true)
	}
	if len(l.asked) < 2 {
		t.Fatalf("%d polls in twelve hours", len(l.asked))
	}
	for i, a := range l.asked[1:] {
		if d := a.at.Sub(l.asked[i].at); d < 4*time.Hour {
			t.Errorf("poll %d comes %v after the one before", i+1, d)
		}
	}
}

// Lone polls respect an origin's limits as other polls do.
func TestLonePollsArePolite(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	for _, c := range []struct {
		what    string
		network time.Duration
		answer  env.Answer
		hints   string
		from    time.Duration // between the first poll and the second
		to      time.Duration
		kind    coronapb.State_Kind
	}{
		{"the floor of public origins", minute, env.Answer{Status: 200}, "", 15 * minute, 16 * minute, coronapb.State_OK},
		{"a private origin", minute, env.Answer{Status: 200, Private: true}, "", minute, 2 * minute, coronapb.State_OK},
		{"ttl", 30 * minute, env.Answer{Status: 200}, "<ttl>120</ttl>", 2 * hour, 2*hour + minute, coronapb.State_OK},
		{"Retry-After", 30 * minute, env.Answer{Status: 429, RetryAfter: 3 * hour}, "", 3 * hour, 4 * hour, coronapb.State_LIMITED},
		{"gone", 30 * minute, env.Answer{Status: 410}, "", 4 * hour, 5 * hour, coronapb.State_GONE},
	} {
		l := newLab(t)
		c.answer.ContentType = "application/rss+xml"
		if c.answer.Status == 200 {
			c.answer.Body = []byte(`<rss version="2.0"><channel><title>A</title>` + c.hints + `<item><guid>1</guid><title>one</title></item></channel></rss>`)
		}
		l.origins[site] = func(env.Request) env.Answer { return c.answer }
		s := l.cutOff(Config{PollInterval: c.network})
		for len(l.asked) < 2 && l.now.Before(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)) {
			l.run(minute, s.labNode)
		}
		if len(l.asked) < 2 {
			t.Fatalf("%s: it is asked no more", c.what)
		}
		if d := l.asked[1].at.Sub(l.asked[0].at); d < c.from-time.Second || d > c.to || s.said[0].Kind != c.kind {
			t.Errorf("%s: %v after %v", c.what, d, s.said[0].Kind)
		}
	}
}

// A node whose own connection is down reaches no origin. It reports that, keeps polling once an
// interval, and shows news as soon as the connection is back. No feed counts as gone.
func TestLonePollsSurviveALostConnection(t *testing.T) {
	l := newLab(t)
	s := l.cutOff(Config{PollInterval: 30 * time.Minute})
	l.run(24*time.Hour, s.labNode)
	for _, st := range s.said {
		if st.Kind != coronapb.State_UNREACHABLE {
			t.Fatalf("without a line it says %v", st.Kind)
		}
	}
	l.origins[site] = serves(rss("A", "", "one"))
	if l.run(33*time.Minute, s.labNode); len(s.shown) != 1 { // an interval and a twentieth
		t.Errorf("the line is back for an interval, and %d items are shown", len(s.shown))
	}
}

// Another document in place of the feed, such as the login page of a network, is not shown.
func TestLonePollsRejectSuspiciousDocuments(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two", "three", "four", "five", "six"))
	s := l.cutOff(Config{PollInterval: 20 * time.Minute})
	l.run(20*time.Minute, s.labNode)
	l.origins[site] = serves(`<rss version="2.0"><channel><title>Welcome</title><link>http://hotel.example/</link><item><title>log in</title></item></channel></rss>`)
	l.run(40*time.Minute, s.labNode)
	if last := s.said[len(s.said)-1]; len(s.shown) != 6 || last.Kind != coronapb.State_NOT_A_FEED || !strings.HasSuffix(last.Detail, ifItStays) {
		t.Errorf("%d shown; %v: %s", len(s.shown), last.Kind, last.Detail)
	}
}
