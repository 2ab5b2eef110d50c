package daemon

import (
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/proxy"
)

// Missing items are shown in the state of a feed, unless its polls fail: then that is shown.
func TestMissingItemsAreShown(t *testing.T) {
	c := proxy.Channel{URL: "https://a.example/feed", State: proxy.StateOK}
	if addMissing(&c, feedtree.Subscription{}); c.State != proxy.StateOK || c.Error != "" {
		t.Errorf("nothing is missing: %+v", c)
	}
	addMissing(&c, feedtree.Subscription{Lacks: 3})
	if c.State != stateIncomplete || c.Missing != 3 || !strings.Contains(c.Error, "lacks 3 items") || !strings.Contains(c.Do, c.URL) {
		t.Errorf("three are missing: %+v", c)
	}
	one := proxy.Channel{State: proxy.StateOK}
	if addMissing(&one, feedtree.Subscription{Unreadable: 1}); !strings.HasPrefix(one.Error, "1 entry of") {
		t.Errorf("one entry cannot be read: %+v", one)
	}
	gone := proxy.Channel{URL: "https://a.example/feed", State: "gone", Error: "gone"}
	if addMissing(&gone, feedtree.Subscription{Lacks: 3}); gone.State != "gone" || gone.Error != "gone" || gone.Missing != 3 {
		t.Errorf("gone, and three are missing: %+v", gone)
	}
}

// Pollers of a failing feed report only now and then. A poll that they planned for a time in the past is not
// shown as the next one; a poll that this node has planned is.
func TestNextPollIsInTheFuture(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	in := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name        string
		own, others time.Time
		want        bool
	}{
		{"nobody else has a plan", in(60), time.Time{}, true},
		{"it has none itself", time.Time{}, in(-60), false},
		{"it is first", in(10), in(20), true},
		{"it is not", in(20), in(10), false},
		{"that of others is past", in(60), in(-1), true},
	} {
		if got := comesFirst(c.own, c.others, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestASilentPublisherIsAProblemUnlessThereIsAWorseOne(t *testing.T) {
	since := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	s := feedtree.Subscription{Silent: since, Publisher: &difference.Pin{Beat: time.Hour}}
	well := proxy.Channel{State: proxy.StateOK, URL: "https://a.example/"}
	addSilence(&well, s)
	if well.State != statePublisherSilent || well.PublisherSilent == nil || !well.PublisherSilent.Equal(since) || !strings.Contains(well.Error, "every 1h0m0s") || !strings.Contains(well.Error, "2026-11-01 09:00:00") || well.Do == "" {
		t.Errorf("%+v", well)
	}
	gone := proxy.Channel{State: "gone", Error: "gone"}
	addSilence(&gone, s)
	if gone.State != "gone" || gone.Error != "gone" || gone.PublisherSilent == nil {
		t.Errorf("%+v", gone)
	}
	speaking := proxy.Channel{State: proxy.StateOK}
	if addSilence(&speaking, feedtree.Subscription{Publisher: s.Publisher}); speaking.State != proxy.StateOK || speaking.PublisherSilent != nil {
		t.Errorf("%+v", speaking)
	}
	lacking := proxy.Channel{State: proxy.StateOK}
	addMissing(&lacking, feedtree.Subscription{Unseen: 2, UnseenSince: since})
	if lacking.State != stateIncomplete || lacking.Missing != 2 || !strings.Contains(lacking.Error, "2 items that the publisher signed, since 2026-11-01") {
		t.Errorf("%+v", lacking)
	}
}

// A log that differs from the web server is a problem, whatever the network says about the feed.
func TestAProblemIsShownWithItsEvidence(t *testing.T) {
	first := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	for _, p := range []struct {
		lacked, confirmed bool
		want              string
	}{{true, false, "the network does not have it; no other node has reported the same"}, {false, true, "did not find it at the web server"}, {true, true, "another node reports the same"}} {
		c := proxy.Channel{State: proxy.StateOK, URL: "http://a.example/"}
		addProblem(&c, feedtree.Subscription{Problem: &feedtree.Problem{Title: "A forged item", Lacked: p.lacked, Confirmed: p.confirmed, First: first, Last: first.Add(time.Hour)}})
		for _, part := range []string{p.want, "A forged item", "2026-11-01 09:00:00 UTC", "2026-11-01 10:00:00 UTC"} {
			if !strings.Contains(c.Error, part) {
				t.Errorf("%q lacks %q", c.Error, part)
			}
		}
		if c.State != stateProblem || !c.Failing() || !strings.Contains(c.Do, c.URL) {
			t.Errorf("%+v", c)
		}
	}
	c := proxy.Channel{State: proxy.StateOK}
	if addProblem(&c, feedtree.Subscription{}); c.State != proxy.StateOK {
		t.Errorf("%+v", c)
	}
}
