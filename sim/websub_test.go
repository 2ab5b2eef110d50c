package sim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/script"
)

const hubURL = "http://hub.example/"

// testHub is a hub in the simulated Web, and the feeds that name it.
type testHub struct {
	*Swarm
	down      bool
	forgets   bool          // it confirms subscriptions and delivers nothing
	delay     time.Duration // of a delivery
	lease     time.Duration
	callbacks map[string]hubSubscription
	feeds     []*Feed
	pinged    map[feed.ID]time.Time                // when an item was at the hub
	shown     map[feed.ID]map[string]time.Duration // how much later each reader was shown it, by reader and feed
	requests  int
}

type hubSubscription struct{ topic, secret string }

// newHub returns a swarm of members with a hub; hubs reach the first of the members.
func newHub(seed uint64, members, reachable int) *testHub {
	h := &testHub{
		lease: 10 * 24 * time.Hour, delay: 100 * time.Millisecond, callbacks: map[string]hubSubscription{},
		pinged: map[feed.ID]time.Time{}, shown: map[feed.ID]map[string]time.Duration{},
	}
	h.Swarm = NewSwarm(SwarmConfig{World: Config{Seed: seed, Origin: func(at time.Time, r env.Request) env.Answer {
		if r.Form != "" && r.URL == hubURL {
			return h.request(r.Form)
		}
		return h.serve(at, r)
	}}})
	for i := range members {
		var p *Peer
		if i == 0 {
			p = h.Add(true)
		} else {
			p = h.Add(true, h.members[0])
		}
		p.hubsCall = i < reachable
		h.After(time.Duration(i)*100*time.Millisecond, p.Start)
	}
	h.SetHooks(Hooks{Shown: func(p *Peer, url string, id feed.ID) {
		if at, ok := h.pinged[id]; ok {
			if h.shown[id] == nil {
				h.shown[id] = map[string]time.Duration{}
			}
			h.shown[id][fmt.Sprint(p.Index(), " ", url)] = h.Now().Sub(at)
		}
	}})
	h.World.Run(30 * time.Second)
	return h
}

// request takes the form of a subscriber. The hub asks whether that is meant.
func (h *testHub) request(form string) env.Answer {
	if h.down {
		return env.Answer{Err: env.ErrDial, Message: "connection refused"}
	}
	h.requests++
	r, _ := url.ParseQuery(form)
	h.After(200*time.Millisecond, func() {
		q := url.Values{"hub.mode": {r.Get("hub.mode")}, "hub.topic": {r.Get("hub.topic")}, "hub.challenge": {"meant?"}, "hub.lease_seconds": {fmt.Sprint(int(h.lease.Seconds()))}}
		callback := r.Get("hub.callback")
		h.call(callback, func(p *Peer, path string) {
			switch a := p.node.Corona.Confirm(path, q); {
			case a.Status != 200 || a.Body != "meant?":
			case r.Get("hub.mode") == "subscribe":
				h.callbacks[callback] = hubSubscription{r.Get("hub.topic"), r.Get("hub.secret")}
			default:
				delete(h.callbacks, callback)
			}
		})
	})
	return env.Answer{Status: 202}
}

// call calls a member at a callback address, if it is up.
func (h *testHub) call(callback string, do func(p *Peer, path string)) {
	for _, p := range h.members {
		if path, ok := strings.CutPrefix(callback, p.callbackBase()); ok && p.Up() {
			p.Do(func() { do(p, path) })
		}
	}
}

// A hubScript adds the links to hub and self to the documents of a script.
type hubScript struct {
	script.Script
	url string
}

func (s hubScript) At(t time.Duration) script.Version {
	v := s.Script.At(t)
	links := fmt.Sprintf(`<channel><atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="hub" href="%s"/><atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="self" href="%s?self"/>`, hubURL, s.url)
	v.Body = bytes.Replace(v.Body, []byte("<channel>"), []byte(links), 1)
	return v
}

// publish serves feeds whose publisher pings the hub, and has each member subscribe.
func (h *testHub) publish(feeds int, every time.Duration, limit int) {
	for i := range feeds {
		at := fmt.Sprintf("http://pushed%d.example/feed", i)
		f := h.Serve(at, hubScript{script.NewLively(script.Config{Seed: h.Seed()*1000 + uint64(i), Every: every, Limit: limit, Epoch: h.Now()}), at})
		f.Public = true
		h.feeds = append(h.feeds, f)
		for _, p := range h.members {
			p.SubscribeFeed(at)
		}
		h.watch(f, 0)
	}
}

// watch has the publisher ping the hub after each version.
func (h *testHub) watch(f *Feed, t time.Duration) {
	next, more := f.Script.Next(t)
	if !more {
		return
	}
	h.At(f.Began.Add(next), func() {
		before, after := h.ids(f, t), h.ids(f, next)
		for id := range after {
			if !before[id] {
				h.pinged[id] = h.Now()
			}
		}
		h.ping(f, f.Script.At(next).Body)
		h.watch(f, next)
	})
}

// ids returns the items that a feed has at a time.
func (h *testHub) ids(f *Feed, t time.Duration) map[feed.ID]bool {
	doc, err := feed.Parse(f.Script.At(t).Body, "")
	if err != nil {
		panic(err)
	}
	of := map[feed.ID]bool{}
	for _, it := range doc.Items {
		of[it.ID] = true
	}
	return of
}

// ping delivers a document to the subscribers of a feed.
func (h *testHub) ping(f *Feed, body []byte) {
	for _, callback := range slices.Sorted(maps.Keys(h.callbacks)) {
		s := h.callbacks[callback]
		if h.down || h.forgets || s.topic != f.URL+"?self" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(s.secret))
		mac.Write(body)
		h.After(h.delay, func() {
			h.call(callback, func(p *Peer, path string) {
				p.node.Corona.Notify(path, "sha256="+hex.EncodeToString(mac.Sum(nil)), "application/rss+xml", body)
			})
		})
	}
}

// polls returns the requests for all feeds.
func (h *testHub) polls() (n int) {
	for _, f := range h.feeds {
		n += f.Polls
	}
	return n
}

// pushedFeeds returns the number of feeds that count as pushed.
func (h *testHub) pushedFeeds() (n int) {
	for _, f := range h.feeds {
		if h.state(f).Hub != "" {
			n++
		}
	}
	return n
}

// state returns what the sequencer of a feed says of its polls.
func (h *testHub) state(f *Feed) (s corona.State) {
	for _, p := range h.members {
		if !p.Up() {
			continue
		}
		if v, ok := p.node.Corona.View(h.Key(f.URL)); ok && v.State.Since.After(s.Since) {
			s = v.State
		}
	}
	return s
}

// delays returns how long the items of a period took to all readers, sorted. An item that a reader lacks is reported.
func (h *testHub) delays(t *testing.T, from, to time.Time) (all []time.Duration) {
	t.Helper()
	for id, at := range h.pinged {
		if at.Before(from) || at.After(to) {
			continue
		}
		if n := len(h.shown[id]); n < len(h.members) {
			t.Errorf("an item of %v was shown to %d of %d readers", at.Format("15:04:05"), n, len(h.members))
		}
		all = slices.AppendSeq(all, maps.Values(h.shown[id]))
	}
	slices.Sort(all)
	return all
}

// A feed whose hub delivers is hardly polled, and its items are at all readers within a second. What is left are a poll in
// six hours, and one look of each owner in a day.
func TestAHubPushesInsteadOfPolls(t *testing.T) {
	t.Parallel()
	h := newHub(1, 8, 3)
	h.publish(3, time.Hour, 0)
	h.World.Run(4 * time.Hour)
	from, before, day := h.Now(), h.polls(), longtest.Pick(12*time.Hour, 48*time.Hour)
	h.World.Run(day)
	polls := h.polls() - before
	h.World.Run(time.Minute)
	delays := h.delays(t, from, h.Now().Add(-time.Minute))
	alone := len(h.feeds) * len(h.members) * int(day/(30*time.Minute))
	t.Logf("%d polls, of %d that the readers alone would make; %d deliveries, %v at the median, %v at most", polls, alone, len(delays), delays[len(delays)/2], delays[len(delays)-1])
	if n := h.pushedFeeds(); n != len(h.feeds) || 20*polls > alone || delays[len(delays)-1] > 3*time.Second || delays[len(delays)/2] > time.Second {
		t.Errorf("%d of %d feeds are pushed", n, len(h.feeds))
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
	h := newHub(2, 8, 2)
	h.publish(4, every, 0)
	h.World.Run(4 * time.Hour)
	if n := h.pushedFeeds(); n != len(h.feeds) {
		t.Fatalf("%d of %d feeds are pushed", n, len(h.feeds))
	}
	from := h.Now()
	h.down = true
	h.World.Run(2*every + 5*time.Minute)
	for _, f := range h.feeds {
		if s := h.state(f); s.Hub != "" || !strings.Contains(s.HubFault, "has not delivered") || s.Interval > time.Hour {
			t.Errorf("%s: pushed by %q, polled every %v, fault %q", f.URL, s.Hub, s.Interval, s.HubFault)
		}
	}
	if h.down = false; forgets {
		clear(h.callbacks)
	}
	h.World.Run(2 * time.Hour)
	if n := h.pushedFeeds(); n != len(h.feeds) {
		t.Errorf("%d of %d feeds are pushed after the hub is back", n, len(h.feeds))
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
	h := newHub(3, 8, 2)
	h.forgets = true
	h.publish(2, 30*time.Minute, 0)
	for range 12 {
		h.World.Run(20 * time.Minute)
		if n := h.pushedFeeds(); n != 0 {
			t.Fatalf("%d feeds are pushed", n)
		}
	}
	if len(h.callbacks) != len(h.feeds) {
		t.Errorf("%d subscriptions for %d feeds", len(h.callbacks), len(h.feeds))
	}
	report(t, h.Swarm)
}

// A hub that begins to deliver late is found out by the dates of its items, within some updates.
func TestALateHubIsNotTrusted(t *testing.T) {
	t.Parallel()
	h := newHub(4, 8, 2)
	h.publish(3, 30*time.Minute, 0)
	h.World.Run(4 * time.Hour)
	if n := h.pushedFeeds(); n != len(h.feeds) {
		t.Fatalf("%d of %d feeds are pushed", n, len(h.feeds))
	}
	h.delay = 20 * time.Minute
	h.World.Run(2 * time.Hour)
	for _, f := range h.feeds {
		if s := h.state(f); s.Hub != "" || s.HubFault == "" {
			t.Errorf("%s: pushed by %q, fault %q", f.URL, s.Hub, s.HubFault)
		}
	}
	report(t, h.Swarm)
}

// subscriber returns the member that has subscribed for a feed, as far as the hub knows.
func (h *testHub) subscriber(f *Feed) (p *Peer) {
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
	h := newHub(5, 8, 3)
	h.publish(3, 30*time.Minute, 0)
	h.World.Run(3 * time.Hour)
	f := h.feeds[0]
	dead := h.subscriber(f)
	if dead == nil || h.state(f).Hub == "" {
		t.Fatal("the feed is not pushed")
	}
	from := h.Now()
	dead.Kill(true)
	h.World.Run(5 * time.Minute)
	if spare := h.subscriber(f); spare == nil || spare == dead {
		t.Error("nobody has taken over")
	}
	if h.state(f).Hub == "" {
		t.Errorf("the feed is not pushed any more: %q", h.state(f).HubFault)
	}
	h.World.Run(time.Hour)
	dead.Start()
	h.World.Run(2 * time.Hour)
	h.delays(t, from, h.Now().Add(-time.Minute))
	for _, f := range h.feeds {
		if s := h.state(f); s.Hub == "" {
			t.Errorf("%s is not pushed: %q", f.URL, s.HubFault)
		}
	}
	h.CheckQuiet()
	report(t, h.Swarm)
}

// When the sequencer dies, the next one keeps the subscriber, and the feed is pushed on.
func TestTheNextSequencerKeepsTheSubscriber(t *testing.T) {
	t.Parallel()
	h := newHub(6, 8, 2)
	h.publish(1, 30*time.Minute, 0)
	h.World.Run(3 * time.Hour)
	f := h.feeds[0]
	subscriber, requests, killed := h.subscriber(f), h.requests, 0
	for _, p := range h.members {
		if _, leads := p.node.Corona.View(h.Key(f.URL)); leads && p != subscriber {
			p.Kill(true)
			h.After(20*time.Minute, p.Start)
			killed++
		}
	}
	if killed != 1 || h.state(f).Hub != "" {
		t.Fatalf("%d sequencers were killed: take another seed", killed)
	}
	h.World.Run(10 * time.Minute)
	if h.subscriber(f) != subscriber || h.requests != requests || h.state(f).Hub == "" {
		t.Errorf("%d requests to the hub, pushed by %q", h.requests-requests, h.state(f).Hub)
	}
	report(t, h.Swarm)
}

// Without the secret, a notification only makes the sequencer look, and not more often than in some minutes.
func TestAForgedNotificationIsAHint(t *testing.T) {
	t.Parallel()
	h := newHub(7, 8, 2)
	h.publish(1, 6*time.Hour, 0)
	h.World.Run(20 * time.Minute)
	f := h.feeds[0]
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
