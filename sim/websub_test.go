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

func TestAHubPushesInsteadOfPolls(t *testing.T) {
	t.Parallel()
	h := newHub(1, 8, 3)
	h.publish(20, time.Hour, 0)
	h.World.Run(6 * time.Hour)
	t.Logf("%d of %d feeds are pushed", h.pushedFeeds(), len(h.feeds))
	from, before := h.Now(), h.polls()
	h.World.Run(24 * time.Hour)
	polls := h.polls() - before
	h.World.Run(time.Minute)
	delays := h.delays(t, from, h.Now().Add(-time.Minute))
	t.Logf("%d feeds are pushed; %d polls in a day; %d deliveries, %v at the median, %v at most", h.pushedFeeds(), polls, len(delays), delays[len(delays)/2], delays[len(delays)-1])
	for _, f := range h.feeds[:3] {
		t.Logf("%+v", h.state(f))
	}
	report(t, h.Swarm)
}
