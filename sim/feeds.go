package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/corona"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// feeds are what origins serve, and who read what of it.
type feeds struct {
	by   map[string]*Feed
	urls []string
	logs map[overlay.ID]*history
	past map[feed.ID]bool // items that a reader got past the log, from the origin
}

// A Feed is what an origin serves at a URL.
type Feed struct {
	URL    string
	Script script.Script
	Began  time.Time
	Polls  int // requests that reached the origin
	Full   int // of which it answered with the document

	index int // of the version read last
	read  *feed.Feed
}

// A reading is a peer's subscription to a feed.
type reading struct {
	url   string
	key   overlay.ID
	since time.Time                      // of the subscription, or the present life
	got   map[feed.ID]map[feed.Hash]bool // what it was shown as news in this life
	at    map[feed.ID]time.Time          // when first, in any life
	last  owner.Position                 // of the log's head, as seen last
}

// Serve has the origins of the world serve a feed from now on.
func (s *Swarm) Serve(url string, sc script.Script) *Feed {
	f := &Feed{URL: url, Script: sc, Began: s.Now(), index: -1}
	s.feeds.by[url] = f
	s.feeds.urls = append(s.feeds.urls, url)
	return f
}

// serve is the world's origin.
func (s *Swarm) serve(at time.Time, r env.Request) env.Answer {
	f := s.feeds.by[r.URL]
	if f == nil {
		return env.Answer{Status: 404, FinalURL: r.URL, Private: true}
	}
	f.Polls++
	v := f.Script.At(at.Sub(f.Began))
	a := env.Answer{Status: 200, FinalURL: r.URL, Private: true, ContentType: v.ContentType, ETag: fmt.Sprintf("%q", fmt.Sprint(v.Index))}
	if r.ETag == a.ETag {
		a.Status = 304
		return a
	}
	f.Full++
	a.Body = v.Body
	return a
}

// Now is the document as it stands, read.
func (s *Swarm) document(f *Feed, at time.Time) *feed.Feed {
	v := f.Script.At(at.Sub(f.Began))
	if f.index != v.Index {
		doc, err := feed.Parse(v.Body, v.ContentType)
		if err != nil {
			panic(fmt.Sprintf("sim: feed %s: %v", f.URL, err))
		}
		f.index, f.read = v.Index, doc
	}
	return f.read
}

// Read subscribes a peer to a feed.
func (p *Peer) Read(url string) {
	r := &reading{
		url: url, key: p.swarm.Key(url), since: p.swarm.Now(),
		got: map[feed.ID]map[feed.Hash]bool{}, at: map[feed.ID]time.Time{},
	}
	p.reads[url] = r
	p.Do(func() {
		p.node.Feeds.Subscribe(url, 1, nil, func(err error) {
			if err != nil {
				panic(fmt.Sprintf("sim: host %d: %v", p.Index(), err))
			}
		})
	})
}

// died begins the readings of a peer anew: what it was shown in a life that ended
// before it was durable may be shown again.
func (f *feeds) died(p *Peer) {
	for _, r := range p.reads {
		r.got = map[feed.ID]map[feed.Hash]bool{}
		r.last = owner.Position{}
	}
}

// A reader is a peer as its node's application.
type reader struct{ p *Peer }

func (r reader) Deliver(d scribe.Delivery) { r.p.swarm.mail.arrived(r.p, d) }
func (r reader) Told(overlay.ID)           {}

func (r reader) Fetched(_ overlay.ID, f *feed.Feed, _ corona.State) {
	if f != nil {
		for _, it := range f.Items {
			r.p.swarm.feeds.past[it.ID] = true
		}
	}
}

func (r reader) News(key overlay.ID, of []difference.Change, at time.Time) {
	s := r.p.swarm
	for _, rd := range r.p.reads {
		if rd.key != key {
			continue
		}
		for _, c := range of {
			if rd.got[c.Item.ID] == nil {
				rd.got[c.Item.ID] = map[feed.Hash]bool{}
			}
			if rd.got[c.Item.ID][c.Item.Hash] {
				s.violated(ShownTwice, "host %d was shown an item of %s again", r.p.Index(), rd.url)
			}
			rd.got[c.Item.ID][c.Item.Hash] = true
			if _, known := rd.at[c.Item.ID]; !known {
				rd.at[c.Item.ID] = s.Now()
			}
		}
	}
}

// Invariants of feeds.
const (
	// ShownTwice: no reader is shown one version of an item twice.
	ShownTwice = "item shown twice"
	// NotShown: after quiet, readers have what the origin serves.
	NotShown = "item not shown"
	// Forgotten: what any reader was shown, all have in the end, also when it is
	// no more in the origin's document.
	Forgotten = "item shown and gone"
	// TakenBack: what a reader was shown it has as long as its node lives.
	TakenBack = "item taken back"
	// TwoEntries: a position of a log is signed once.
	TwoEntries = "position signed twice"
	// TwoSequencers: an epoch has one sequencer.
	TwoSequencers = "two sequencers"
	// WentBack: within a lineage, a reader's log only grows.
	WentBack = "position went back"
)

// history is what was seen of a log, by anybody.
type history struct {
	at         map[owner.Position]owner.Hash
	sequencers map[[2]uint64]env.PeerID
}

// checkLogs looks at the new entries of all logs.
func (s *Swarm) checkLogs() {
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		for _, key := range p.node.Owners.Keys() {
			s.checkLog(p, key)
		}
		for _, r := range p.reads {
			log := p.node.Owners.Shown(r.key)
			if v, ok := p.node.Owners.View(r.key); !ok || v.Owns || len(log) == 0 {
				r.last = owner.Position{} // what an owner holds may yet be dropped; nobody was shown it
				continue
			}
			if head := log[len(log)-1].At; head.Before(r.last) {
				s.violated(WentBack, "host %d, %s: from %v to %v", p.Index(), r.url, r.last, head)
			} else {
				r.last = head
			}
		}
	}
}

func (s *Swarm) checkLog(p *Peer, key overlay.ID) {
	h := s.feeds.logs[key]
	if h == nil {
		h = &history{map[owner.Position]owner.Hash{}, map[[2]uint64]env.PeerID{}}
		s.feeds.logs[key] = h
	}
	log := p.node.Owners.Log(key)
	for _, e := range slices.Backward(log) {
		known, ok := h.at[e.At]
		if ok && known == e.Hash {
			break // and so are those before it
		}
		if ok {
			s.violated(TwoEntries, "%s at %v", key.Short(), e.At)
		}
		h.at[e.At] = e.Hash
		epoch := [2]uint64{e.At.Lineage, uint64(e.At.Epoch)}
		if by, ok := h.sequencers[epoch]; ok && by != e.Signer {
			s.violated(TwoSequencers, "%s at %v", key.Short(), e.At)
		}
		h.sequencers[epoch] = e.Signer
	}
}

// CheckReaders checks, when all origins have been still for a while, that every
// live reader has what they serve, as its proxy would show it, and what any reader
// was shown, as long as that is less than a window keeps.
func (s *Swarm) CheckReaders() {
	shown := map[string]map[feed.ID]bool{}
	for _, p := range s.members {
		for url, r := range p.reads {
			if shown[url] == nil {
				shown[url] = map[feed.ID]bool{}
			}
			for id := range r.at {
				if !s.feeds.past[id] {
					shown[url][id] = true
				}
			}
		}
	}
	for url, of := range shown {
		if len(of) > owner.KeepItems {
			delete(shown, url)
		}
	}
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		for _, url := range s.feeds.urls {
			r := p.reads[url]
			if r == nil {
				continue
			}
			want := s.document(s.feeds.by[url], s.Now())
			has := p.shows(r)
			lacks, gone := 0, 0
			for _, it := range want.Items {
				if has[it.ID] != it.Hash {
					lacks++
				}
			}
			for id := range shown[url] {
				if _, ok := has[id]; !ok {
					gone++
				}
			}
			if gone > 0 {
				s.violated(Forgotten, "host %d lacks %d items of %s that somebody was shown", p.Index(), gone, url)
			}
			if lacks > 0 {
				sub, _ := p.node.Feeds.Subscription(r.key)
				s.violated(NotShown, "host %d lacks %d of %d items of %s (%d in its window)", p.Index(), lacks, len(want.Items), url, sub.Items)
			}
		}
	}
}

// CheckKept checks that every live reader still has what it was shown in this life,
// whatever else goes on, as long as that is less than a window keeps.
func (s *Swarm) CheckKept() {
	for _, p := range s.members {
		for _, url := range s.feeds.urls {
			r := p.reads[url]
			if r == nil || !p.Up() || len(r.got) > owner.KeepItems {
				continue
			}
			was := maps.Clone(r.got)
			has := p.shows(r)
			gone := 0
			for id := range was {
				if _, ok := has[id]; !ok {
					gone++
				}
			}
			if gone > 0 {
				s.violated(TakenBack, "host %d lacks %d of %d items of %s that it was shown", p.Index(), gone, len(was), url)
			}
		}
	}
}

// shows is what a reader's proxy would show it now.
func (p *Peer) shows(r *reading) map[feed.ID]feed.Hash {
	has, answered := map[feed.ID]feed.Hash{}, false
	p.Do(func() {
		p.node.Feeds.Read(r.key, func(d feedtree.Document) {
			answered = true
			for _, e := range d.Entries {
				has[e.Item.ID] = e.Item.Hash
			}
		})
	})
	p.swarm.World.RunUntil(func() bool { return answered }, 10*time.Millisecond, time.Second)
	return has
}

// FeedStats sums up what became of feeds.
type FeedStats struct {
	Polls, Full           int // requests to origins
	Readings, News        int
	Entries, Epochs       uint64
	Jumps, Merged         uint64
	Gaps, Filled, Fetches uint64
	Unlike, Unread        uint64
	Garbage, Untrusted    uint64
}

// FeedStats returns them; of peers those that are up.
func (s *Swarm) FeedStats() (sum FeedStats) {
	for _, f := range s.feeds.by {
		sum.Polls += f.Polls
		sum.Full += f.Full
	}
	for _, p := range s.members {
		for _, r := range p.reads {
			sum.Readings++
			sum.News += len(r.at)
		}
		if !p.Up() {
			continue
		}
		o, t := p.node.Owners.Stats(), p.node.Feeds.Stats()
		sum.Entries += o.Held
		sum.Epochs += o.Epochs
		sum.Jumps += o.Jumps
		sum.Merged += o.Merged
		sum.Gaps += t.Gaps
		sum.Filled += t.Filled
		sum.Fetches += t.Fetches
		sum.Unlike += t.Unlike
		sum.Unread += t.Unread
		sum.Garbage += o.Garbage + t.Garbage
		sum.Untrusted += o.Untrusted + t.Untrusted
	}
	return sum
}
