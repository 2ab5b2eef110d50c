package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"tidings/internal/news"
	"tidings/proxy"
)

func TestHealthOfChannels(t *testing.T) {
	since := day(1)
	for name, c := range map[string]struct {
		channel proxy.Channel
		want    news.Health
	}{
		"good":          {proxy.Channel{State: proxy.StateOK, Publisher: "A", KeyChange: "how"}, news.Health{Key: "A", KeyText: "how"}},
		"moved":         {proxy.Channel{State: proxy.StateOK, Moved: "https://new.example/"}, news.Health{Moved: "https://new.example/"}},
		"failing":       {proxy.Channel{State: "unreachable", Error: "no such host", Since: &since, Do: "wait"}, news.Health{Failing: "unreachable: no such host", Since: since, Do: "wait"}},
		"without words": {proxy.Channel{State: "failing"}, news.Health{Failing: "failing"}},
		"gone":          {proxy.Channel{State: "gone", Error: "gone for good"}, news.Health{Failing: "gone for good", Gone: true}},
		"a full disk":   {proxy.Channel{State: proxy.StateUnsaved, Error: "no space"}, news.Health{}},
		"cut off":       {proxy.Channel{State: proxy.StateCutOff, Error: "nothing is heard"}, news.Health{}},
		"another key is claimed": {proxy.Channel{State: stateKeyChanged, Error: "why", Publisher: "A", ClaimedKey: "B", Do: "ask"},
			news.Health{Key: "A", Doubt: "B", KeyText: "why", Do: "ask"}},
		"the web server names another key": {proxy.Channel{State: stateKeyChanged, Error: "why", Publisher: "A"}, news.Health{Key: "A", Doubt: "A", KeyText: "why"}},
	} {
		if got := healthOf(&c.channel); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func day(n int) time.Time { return time.Date(2026, 11, n, 8, 0, 0, 0, time.UTC) }

// A target for the health of feeds is told once that a feed is gone, also if the node is started again.
func TestAFeedThatIsGoneIsToldOnce(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	feed := newFerryFeed(t)
	feed.add("Pier 1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusGone)
			return
		}
		feed.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := founding(t, "health")
	c.Found.PollInterval = time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := server.URL + "/news.xml"
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, url), &struct{}{})
	m.await(t, url, "Pier 1")
	health := newHook(t)
	m.notify(t, fmt.Sprintf(`{"to":%q,"health":true}`, health.URL))
	events := m.listen(t, "", "")
	gone.Store(true)
	within(t, awaitTimeout, "the message", func() error {
		health.mu.Lock()
		defer health.mu.Unlock()
		if len(health.titles) != 1 || health.titles[0] != url+" gone: gone for good (410)" {
			return fmt.Errorf("%q", health.titles)
		}
		return nil
	})
	select {
	case kind := <-events.events:
		if kind != "health" {
			t.Errorf("the stream says %s", kind)
		}
	case <-time.After(awaitTimeout):
		t.Error("the stream says nothing")
	}
	events.close()
	m.stop(t)
	again := running(t, Config{Dir: c.Dir, HTTP: c.HTTP, AllowPrivateOrigins: true})
	within(t, awaitTimeout, "the state", func() error {
		all, err := again.List(t.Context())
		if err == nil && (len(all) != 1 || all[0].State != "gone") {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
	last := again.recorder.journal.Last()
	all, err := again.List(t.Context())
	if err == nil {
		err = again.recorder.recordHealth(&all[0])
	}
	if now := again.recorder.journal.Last(); err != nil || now != last {
		t.Errorf("after a restart the journal has the events %d to %d, %v", last, now, err)
	}
}
