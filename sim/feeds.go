package sim

import (
	"fmt"
	"time"

	"tidings/corona"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// feeds are what origins serve, and who read what of it.
type feeds struct {
	by    map[string]*Feed
	urls  []string
	logs  map[overlay.ID]*history
	amiss map[string]time.Time // since when logs or their sequencers were seen not to be right, by invariant and channel
	past  map[feed.ID]bool     // items that a reader got past the log, from the origin
	watch Watch
}

// A Watch is told what readers are shown, and when their nodes start and end, as it happens:
// often in a node's turn, so it may look, and nothing else.
type Watch struct {
	Shown      func(p *Peer, url string, id feed.ID)
	Came, Went func(p *Peer)
}

// Watch has w told all from now on.
func (s *Swarm) Watch(w Watch) { s.feeds.watch = w }

// A Feed is what an origin serves at a URL.
type Feed struct {
	URL    string
	Script script.Script
	Began  time.Time
	Public bool // it is on a public address, so its domain has a budget
	Polls  int  // requests that reached the origin
	Full   int  // of which it answered with the document

	version     script.Version // the last that At of the script returned
	from, until time.Duration  // it is what the script has between these times
	index       int            // of the version read last
	read        *feed.Feed
}

// at is what the script has at a time since the feed began. It asks the script once for each version, since
// most polls find nothing new and a script makes its document anew each time. A script without a next version
// is asked each time: a test may change what it has.
func (f *Feed) at(now time.Time) script.Version {
	t := now.Sub(f.Began)
	if t < f.from || t >= f.until {
		next, more := f.Script.Next(t)
		if !more {
			next = t
		}
		f.version, f.from, f.until = f.Script.At(t), t, next
	}
	return f.version
}

// A reading is a peer's subscription to a feed.
type reading struct {
	url   string
	key   overlay.ID
	since time.Time                      // of the subscription, or the present life
	got   map[feed.ID]map[feed.Hash]bool // what it was shown as news in this life
	at    map[feed.ID]time.Time          // when first, in any life
	last  owner.Position                 // of the log's head, as seen last
	in    uint64                         // the lineage that it was in then
	anew  uint64                         // how often its node had left a log for another
	acked bool                           // the node has said that it will not forget it
}

// Serve has the origins of the world serve a feed from now on.
func (s *Swarm) Serve(url string, sc script.Script) *Feed {
	f := &Feed{URL: url, Script: sc, Began: s.Now(), index: -1}
	s.groups[s.Key(url)] = true
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
	v := f.at(at)
	a := env.Answer{Status: 200, FinalURL: r.URL, Private: !f.Public, ContentType: v.ContentType, ETag: fmt.Sprintf("%q", fmt.Sprint(v.Index))}
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
	v := f.at(at)
	if f.index != v.Index {
		doc, err := feed.Parse(v.Body, v.ContentType)
		if err != nil {
			panic(fmt.Sprintf("sim: feed %s: %v", f.URL, err))
		}
		f.index, f.read = v.Index, doc
	}
	return f.read
}

// Read subscribes a peer to a feed, for one reader. If its disk refuses, the reader
// tries again in a while.
func (p *Peer) Read(url string) {
	if p.reads[url] != nil {
		return
	}
	r := &reading{
		url: url, key: p.swarm.Key(url), since: p.swarm.Now(),
		got: map[feed.ID]map[feed.Hash]bool{}, at: map[feed.ID]time.Time{},
	}
	p.reads[url] = r
	p.ask(r)
}

// askPause is after what time a reader asks again whose subscription was refused.
const askPause = 30 * time.Second

func (p *Peer) ask(r *reading) {
	life := p.lives
	p.Do(func() {
		p.node.Feeds.Subscribe(r.url, 1, nil, func(err error) {
			if r.acked = err == nil; r.acked {
				return
			}
			p.swarm.After(askPause, func() {
				if p.Up() && p.lives == life {
					p.ask(r)
				}
			})
		})
	})
}

// weight is how many clients stand behind a peer in a group, or the tree of a feed.
func (p *Peer) weight(g overlay.ID) int {
	w := p.wants[g]
	for _, r := range p.reads {
		if r.key == g && r.acked {
			w++
		}
	}
	return w
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
func (r reader) StateChanged(overlay.ID)   {}

func (r reader) Fetched(_ overlay.ID, f *feed.Feed, _ corona.Offer, _ corona.State) {
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
		if sub, _ := r.p.node.Feeds.Subscription(key); sub.Alone { // it is this node's own word
			for _, c := range of {
				s.feeds.past[c.Item.ID] = true
			}
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
			if s.feeds.watch.Shown != nil {
				s.feeds.watch.Shown(r.p, rd.url, c.Item.ID)
			}
		}
	}
}

// Invariants of feeds.
const (
	// ShownTwice (I1): no reader is shown one version of an item twice.
	ShownTwice = "item shown twice"
	// NotShown (I1): after quiet, readers have what the origin serves.
	NotShown = "item not shown"
	// Forgotten (I1, I10): what any reader was shown, all have in the end, also when it is
	// no more in the origin's document.
	Forgotten = "item shown and gone"
	// TakenBack (I1): what a reader was shown it has as long as its node lives.
	TakenBack = "item taken back"
	// TwoEntries (I4): a position of a log is signed once.
	TwoEntries = "position signed twice"
	// TwoSequencers (I5): an epoch has one sequencer.
	TwoSequencers = "two sequencers"
	// WentBack (I2): as long as it stays in a lineage, a reader's log only grows.
	WentBack = "position went back"
	// Unsubscribed (I6, I10): a subscription that was acknowledged is there, in every life that
	// has the disk.
	Unsubscribed = "subscription lost"
)

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
		sum.Entries += o.Committed
		sum.Epochs += o.Epochs
		sum.Jumps += o.ForcedReconfigs
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
