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
	"time"

	"tidings/corona"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/script"
)

const hubURL = "http://hub.example/"

// A Hub is a hub in the simulated Web, and the feeds that name it.
type Hub struct {
	*Swarm
	Down      bool
	Forgets   bool          // it confirms subscriptions and delivers nothing
	Delay     time.Duration // of a delivery
	Feeds     []*Feed
	lease     time.Duration
	callbacks map[string]hubSubscription
	pinged    map[feed.ID]time.Time                // when an item was at the hub
	shown     map[feed.ID]map[string]time.Duration // how much later each reader was shown it, by reader and feed
	requests  int
}

type hubSubscription struct{ topic, secret string }

// NewHub returns a swarm of members with a hub; hubs reach the first of the members.
func NewHub(seed uint64, members, reachable int) *Hub {
	h := &Hub{
		lease: 10 * 24 * time.Hour, Delay: 100 * time.Millisecond, callbacks: map[string]hubSubscription{},
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
func (h *Hub) request(form string) env.Answer {
	if h.Down {
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
func (h *Hub) call(callback string, do func(p *Peer, path string)) {
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

// Publish serves feeds whose publisher pings the hub, and has each member subscribe.
func (h *Hub) Publish(feeds int, every time.Duration, limit int) {
	for i := range feeds {
		at := fmt.Sprintf("http://pushed%d.example/feed", i)
		f := h.Serve(at, hubScript{script.NewLively(script.Config{Seed: h.Seed()*1000 + uint64(i), Every: every, Limit: limit, Epoch: h.Now()}), at})
		f.Public = true
		h.Feeds = append(h.Feeds, f)
		for _, p := range h.members {
			p.SubscribeFeed(at)
		}
		h.watch(f, 0, func(body []byte) { h.ping(f, body) })
	}
}

// watch calls publish at each version of a feed after a time, with the document.
func (h *Hub) watch(f *Feed, t time.Duration, publish func(body []byte)) {
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
		publish(f.Script.At(next).Body)
		h.watch(f, next, publish)
	})
}

// ids returns the items that a feed has at a time.
func (h *Hub) ids(f *Feed, t time.Duration) map[feed.ID]bool {
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
func (h *Hub) ping(f *Feed, body []byte) {
	for _, callback := range slices.Sorted(maps.Keys(h.callbacks)) {
		s := h.callbacks[callback]
		if h.Down || h.Forgets || s.topic != f.URL+"?self" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(s.secret))
		mac.Write(body)
		h.After(h.Delay, func() {
			h.call(callback, func(p *Peer, path string) {
				p.node.Corona.Notify(path, "sha256="+hex.EncodeToString(mac.Sum(nil)), "application/rss+xml", body)
			})
		})
	}
}

// Polls returns the requests for all feeds.
func (h *Hub) Polls() (n int) {
	for _, f := range h.Feeds {
		n += f.Polls
	}
	return n
}

// Pushed returns the number of feeds that count as pushed.
func (h *Hub) Pushed() (n int) {
	for _, f := range h.Feeds {
		if h.State(f).Hub != "" {
			n++
		}
	}
	return n
}

// State returns what the sequencer of a feed says of its polls.
func (h *Hub) State(f *Feed) (s corona.State) {
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

// Delays returns how long the items that the hub was pinged for in a period took to their readers, sorted, and how many were
// not shown to a reader, each counted once for every reader.
func (h *Hub) Delays(from, to time.Time) (all []time.Duration, missing int) {
	for id, at := range h.pinged {
		if at.Before(from) || at.After(to) {
			continue
		}
		all = slices.AppendSeq(all, maps.Values(h.shown[id]))
		missing += len(h.members) - len(h.shown[id])
	}
	slices.Sort(all)
	return all, missing
}
