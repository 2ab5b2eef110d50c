package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/overlay"
	"tidings/proxy"
)

// TestPollsOfADeadPollerAreNotProjected kills the node that polls a feed for two nodes. The other node
// projects polls only as long as the poller is known to live, then reports that it is gone, and finally polls
// itself.
func TestPollsOfADeadPollerAreNotProjected(t *testing.T) {
	t.Parallel()
	const every = 2 * time.Second
	var last atomic.Int64 // time of the last poll, Unix time in nanoseconds
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		last.Store(time.Now().UnixNano())
		_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><title>T</title><item><guid>1</guid></item></channel></rss>`)
	}))
	defer origin.Close()
	founder := founding(t, "orphans")
	founder.AllowPrivateOrigins, founder.Found.PollInterval = true, every
	founder.Found.Load = 0.5 // so that one of two nodes polls
	a := running(t, founder)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	b.awaitMembers(t, 2)
	url := origin.URL + "/feed"
	for overlay.Nearer(overlay.Key("orphans", url), b.node.Overlay.ID(), a.node.Overlay.ID()) {
		url += "s" // until a, which is to die, is nearest to the key and polls it
	}
	for _, d := range []*member{a, b} {
		if err := d.Subscribe(t.Context(), url, false); err != nil {
			t.Fatal(err)
		}
	}
	listed := func() (proxy.Channel, error) {
		of, err := b.List(t.Context())
		if err == nil && len(of) != 1 {
			err = fmt.Errorf("%d subscriptions", len(of))
		}
		if err != nil {
			return proxy.Channel{}, err
		}
		return of[0], nil
	}
	begun := time.Now()
	within(t, 3*awaitTimeout, "polls by another, told", func() error {
		c, err := listed()
		switch {
		case err != nil:
			return err
		case c.State != proxy.StateOK || c.Rank != nil || c.LastPoll == nil || c.NextPoll == nil:
			return fmt.Errorf("%+v", c)
		case c.LastPoll.Before(begun.Add(2 * every)):
			return fmt.Errorf("polled last %v after the subscription", c.LastPoll.Sub(begun))
		}
		return nil
	})
	if w, err := b.Read(t.Context(), url); err != nil || w.Stale == pollerGoneText || time.Since(w.Fetched) > 2*every {
		t.Errorf("%v, its reader reads that it is stale (%s), as of %v ago", err, w.Stale, time.Since(w.Fetched))
	}

	a.host.Close() // like a process that is killed
	if err := <-a.ran; err == nil {
		t.Error("a node without its host goes on")
	}
	died := time.Unix(0, last.Load())
	tookOver := false
	within(t, 3*awaitTimeout, "words that nobody polls", func() error {
		c, err := listed()
		switch {
		case err != nil:
			return err
		case c.Polls: // on a slow machine the words may be there between two looks only
			tookOver = true
			return nil
		case c.Error != pollerGoneText || c.Why != pollerGoneText || c.NextPoll != nil || c.Pollers != 0:
			return fmt.Errorf("%+v", c)
		case c.LastPoll.After(died.Add(every)):
			t.Errorf("a poll is made up, %v after the last", c.LastPoll.Sub(died))
		}
		return nil
	})
	if tookOver {
		t.Log("the takeover was seen, and not the words before it")
		return
	}
	w, err := b.Read(t.Context(), url)
	if err != nil || w.State != proxy.StateOK || w.Stale != pollerGoneText || w.Fetched.After(died.Add(every)) {
		t.Errorf("%v, its reader reads that it is %s and stale (%s), as of %v ago", err, w.State, w.Stale, time.Since(w.Fetched))
	}
	findings, err := b.Doctor(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprint(findings); !strings.Contains(s, url+": ok: "+pollerGoneText) {
		t.Errorf("the doctor finds %s", s)
	}
	within(t, 2*awaitTimeout, "the takeover", func() error {
		c, err := listed()
		if err == nil && (c.Rank == nil || c.Error != "" || c.LastPoll == nil || c.NextPoll == nil) {
			err = errors.New(c.Why)
		}
		return err
	})
}
