package tiers

import (
	"fmt"
	"testing"
	"time"

	"tidings/internal/env"
)

// TestAStateNamesTheFirstFailures: a crawler counts the feeds whose last poll failed, and says why of ten. A poll that the node was
// too busy for says nothing about the feed.
func TestAStateNamesTheFirstFailures(t *testing.T) {
	m := newMemory()
	n := start(t, "c", m, nil)
	var urls []string
	for i := range 2*maxFailures + 1 {
		urls = append(urls, fmt.Sprintf("http://%02d.example/", i))
	}
	n.SetFeeds(urls)
	poll := func(answer func(url string) env.Answer) State {
		m.now = m.now.Add(2 * time.Hour)
		n.Run(m.now)
		for h, f := range n.crawler.polls {
			n.Answered(h, answer(f.url))
		}
		n.Run(m.now)
		return n.State()
	}
	works := env.Answer{Status: 200, Body: []byte(`<rss version="2.0"><channel><title>A</title></channel></rss>`), ContentType: "application/rss+xml"}
	fails := env.Answer{Err: env.ErrDNS, Message: "the host has no address"}
	s := poll(func(url string) env.Answer {
		if url == urls[0] {
			return works
		}
		return fails
	})
	if want := (Failure{urls[1], fails.Message}); s.Feeds != len(urls) || s.Failing != len(urls)-1 || len(s.Failures) != maxFailures || s.Failures[0] != want || s.Failures[maxFailures-1].URL != urls[maxFailures] {
		t.Errorf("%d of %d feeds fail: %+v", s.Failing, s.Feeds, s.Failures)
	}
	if s := poll(func(string) env.Answer { return env.Answer{Err: env.ErrBusy} }); s.Failing != len(urls)-1 {
		t.Errorf("a busy node counts %d failures", s.Failing)
	}
	if s := poll(func(string) env.Answer { return works }); s.Failing != 0 || len(s.Failures) != 0 {
		t.Errorf("still failing: %d, %+v", s.Failing, s.Failures)
	}
	s = poll(func(string) env.Answer {
		return env.Answer{Status: 200, Body: []byte("no feed"), ContentType: "text/plain"}
	})
	if s.Failing != len(urls) || s.Failures[0].Why == "" {
		t.Errorf("%d feeds cannot be read: %+v", s.Failing, s.Failures)
	}
}
