package sim

import (
	"strings"
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/internal/longtest"
)

// delays returns how long the items of a period took to all readers, sorted. An item that a reader lacks is reported.
func (h *Hub) delays(t *testing.T, from, to time.Time) []time.Duration {
	t.Helper()
	all, missing := h.Delays(from, to)
	if missing > 0 {
		t.Errorf("%d times a reader was not shown an item", missing)
	}
	return all
}

// A feed whose hub delivers is hardly polled, and its items are at all readers within a second. What is left are a poll
// and looks of some owners in a day.
func TestAHubPushesInsteadOfPolls(t *testing.T) {
	t.Parallel()
	h := NewHub(1, 8, 3)
	h.Publish(3, time.Hour, 0)
	h.World.Run(4 * time.Hour)
	from, before, day := h.Now(), h.Polls(), longtest.Pick(12*time.Hour, 48*time.Hour)
	h.World.Run(day)
	polls := h.Polls() - before
	h.World.Run(time.Minute)
	delays := h.delays(t, from, h.Now().Add(-time.Minute))
	alone := len(h.Feeds) * len(h.members) * int(day/(30*time.Minute))
	t.Logf("%d polls, of %d that the readers alone would make; %d deliveries, %v at the median, %v at most", polls, alone, len(delays), delays[len(delays)/2], delays[len(delays)-1])
	if n := h.Pushed(); n != len(h.Feeds) || 20*polls > alone || delays[len(delays)-1] > 3*time.Second || delays[len(delays)/2] > time.Second {
		t.Errorf("%d of %d feeds are pushed", n, len(h.Feeds))
	}
	report(t, h.Swarm)
}

// Of a feed that is pushed, each item is witnessed within 40 hours, and all requests for the feed together are at
// most one in a hundred of those without the hub.
func TestPushedItemsAreWitnessed(t *testing.T) {
	t.Parallel()
	h := NewHub(14, 8, 3)
	h.Publish(longtest.Pick(1, 3), 3*time.Hour, 0)
	h.World.Run(9 * time.Hour)
	before, length := h.Polls(), longtest.Pick(60*time.Hour, 96*time.Hour)
	h.World.Run(length)
	polls, alone := h.Polls()-before, len(h.Feeds)*len(h.members)*int(length/(30*time.Minute))
	t.Logf("%d requests, of %d", polls, alone)
	if 100*polls > alone {
		t.Errorf("%d requests; the readers alone would make %d", polls, alone)
	}
	for _, f := range h.Feeds {
		for _, p := range h.members {
			old := 0
			for _, e := range documentAt(h.Swarm, p, f.URL).Entries {
				if e.Arrived.After(h.Now().Add(-40*time.Hour)) || e.Arrived.Before(h.Now().Add(-length)) {
					continue
				}
				if old++; e.Provenance == feedtree.Single {
					t.Errorf("%s: an item that came at %v is %s", f.URL, e.Arrived, e.Provenance)
				}
			}
			if old == 0 {
				t.Errorf("%s: no item is that old", f.URL)
			}
		}
	}
	report(t, h.Swarm)
}

// When a hub has died, polls come back within two update intervals, and nothing is lost. When it is back, it is relied on
// again, also if it has forgotten its subscribers.
func TestAHubThatDiesIsMissed(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		testDyingHub(t, forgets)
	}
}

func testDyingHub(t *testing.T, forgets bool) {
	const every = 30 * time.Minute
	h := NewHub(2, 8, 2)
	h.Publish(4, every, 0)
	h.World.Run(4 * time.Hour)
	if n := h.Pushed(); n != len(h.Feeds) {
		t.Fatalf("%d of %d feeds are pushed", n, len(h.Feeds))
	}
	from := h.Now()
	h.Down = true
	h.World.Run(2*every + 5*time.Minute)
	for _, f := range h.Feeds {
		if s := h.State(f); s.Hub != "" || !strings.Contains(s.HubFault, "has not delivered") || s.Interval > time.Hour {
			t.Errorf("%s: pushed by %q, polled every %v, fault %q", f.URL, s.Hub, s.Interval, s.HubFault)
		}
	}
	if h.Down = false; forgets {
		clear(h.callbacks)
	}
	h.World.Run(2 * time.Hour)
	if n := h.Pushed(); n != len(h.Feeds) {
		t.Errorf("%d of %d feeds are pushed after the hub is back", n, len(h.Feeds))
	}
	delays := h.delays(t, from, h.Now().Add(-time.Hour))
	if most := delays[len(delays)-1]; most > 2*every {
		t.Errorf("an item took %v", most)
	}
	report(t, h.Swarm)
}

// A hub that confirms subscriptions and delivers nothing is never relied on.
func TestAHubThatDeliversNothingIsNotTrusted(t *testing.T) {
	t.Parallel()
	h := NewHub(3, 8, 2)
	h.Forgets = true
	h.Publish(2, 30*time.Minute, 0)
	for range 12 {
		h.World.Run(20 * time.Minute)
		if n := h.Pushed(); n != 0 {
			t.Fatalf("%d feeds are pushed", n)
		}
	}
	if len(h.callbacks) != len(h.Feeds) {
		t.Errorf("%d subscriptions for %d feeds", len(h.callbacks), len(h.Feeds))
	}
	report(t, h.Swarm)
}

// A hub that begins to deliver late is found out by the dates of its items, within some updates.
func TestALateHubIsNotTrusted(t *testing.T) {
	t.Parallel()
	h := NewHub(4, 8, 2)
	h.Publish(3, 30*time.Minute, 0)
	h.World.Run(4 * time.Hour)
	if n := h.Pushed(); n != len(h.Feeds) {
		t.Fatalf("%d of %d feeds are pushed", n, len(h.Feeds))
	}
	h.Delay = 20 * time.Minute
	h.World.Run(2 * time.Hour)
	for _, f := range h.Feeds {
		if s := h.State(f); s.Hub != "" || s.HubFault == "" {
			t.Errorf("%s: pushed by %q, fault %q", f.URL, s.Hub, s.HubFault)
		}
	}
	report(t, h.Swarm)
}

// subscriber returns the member that has subscribed for a feed, as far as the hub knows.
func (h *Hub) subscriber(f *Feed) (p *Peer) {
	for callback, s := range h.callbacks {
		for _, m := range h.members {
			if s.topic == f.URL+"?self" && strings.HasPrefix(callback, m.callbackBase()) && m.Up() {
				p = m
			}
		}
	}
	return p
}

// When the subscribing member dies, another one takes over, long before the lease ends. No reader lacks an item or is shown
// one twice. A member that comes back goes on with its subscriptions.
func TestASpareTakesOverFromADeadSubscriber(t *testing.T) {
	t.Parallel()
	h := NewHub(5, 8, 3)
	h.Publish(3, 30*time.Minute, 0)
	h.World.Run(3 * time.Hour)
	f := h.Feeds[0]
	dead := h.subscriber(f)
	if dead == nil || h.State(f).Hub == "" {
		t.Fatal("the feed is not pushed")
	}
	from := h.Now()
	dead.Kill(true)
	h.World.Run(5 * time.Minute)
	if spare := h.subscriber(f); spare == nil || spare == dead {
		t.Error("nobody has taken over")
	}
	if h.State(f).Hub == "" {
		t.Errorf("the feed is not pushed any more: %q", h.State(f).HubFault)
	}
	h.World.Run(time.Hour)
	dead.Start()
	h.World.Run(2 * time.Hour)
	h.delays(t, from, h.Now().Add(-time.Minute))
	for _, f := range h.Feeds {
		if s := h.State(f); s.Hub == "" {
			t.Errorf("%s is not pushed: %q", f.URL, s.HubFault)
		}
	}
	h.CheckQuiet()
	report(t, h.Swarm)
}

// When the sequencer dies, the next one keeps the subscriber, and the feed is pushed on.
func TestTheNextSequencerKeepsTheSubscriber(t *testing.T) {
	t.Parallel()
	h := NewHub(6, 8, 2)
	h.Publish(1, 30*time.Minute, 0)
	h.World.Run(3 * time.Hour)
	f := h.Feeds[0]
	subscriber, requests, killed := h.subscriber(f), h.requests, 0
	for _, p := range h.members {
		if _, leads := p.node.Corona.View(h.Key(f.URL)); leads && p != subscriber {
			p.Kill(true)
			h.After(20*time.Minute, p.Start)
			killed++
		}
	}
	if killed != 1 || h.State(f).Hub != "" {
		t.Fatalf("%d sequencers were killed: take another seed", killed)
	}
	h.World.Run(10 * time.Minute)
	if h.subscriber(f) != subscriber || h.requests != requests || h.State(f).Hub == "" {
		t.Errorf("%d requests to the hub, pushed by %q", h.requests-requests, h.State(f).Hub)
	}
	report(t, h.Swarm)
}

// Without the secret, a notification only makes the sequencer look, and not more often than in some minutes.
func TestAForgedNotificationIsAHint(t *testing.T) {
	t.Parallel()
	h := NewHub(7, 8, 2)
	h.Publish(1, 6*time.Hour, 0)
	h.World.Run(20 * time.Minute)
	f := h.Feeds[0]
	before := f.Polls
	forged := []byte(`<rss><channel><title>x</title><link>http://lively.example/</link><item><guid>forged</guid><title>forged</title></item></channel></rss>`)
	for range 60 {
		h.World.Run(10 * time.Second)
		for callback := range h.callbacks {
			h.call(callback, func(p *Peer, path string) { p.node.Corona.Notify(path, "sha256=00", "application/rss+xml", forged) })
		}
	}
	h.World.Run(5 * time.Minute)
	if n := f.Polls - before; n < 1 || n > 6 {
		t.Errorf("%d polls", n)
	}
	for raw := range h.members[1].provenances(f.URL) {
		if strings.Contains(raw, "forged") {
			t.Error("a forged item was shown")
		}
	}
	report(t, h.Swarm)
}
