package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/cobra"
	"tidings/corona"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// feeds holds what the origins serve, and what the checkers know about readers.
type feeds struct {
	byURL        map[string]*Feed
	urls         []string
	histories    map[overlay.ID]*logHistory
	failingSince map[string]time.Time // since when an invariant of logs has been violated, by invariant and channel
	outsideLog   map[feed.ID]bool     // items that a reader got from the origin, and not from the log
	hooks        Hooks
}

// Hooks are called when a reader is shown an item, when enough owners have seen items of a reader at
// the origin, when a reflector of a hosting centre keeps an article, and when a node starts or stops. They often run within a node's turn, so they may only
// observe.
type Hooks struct {
	Shown            func(p *Peer, url string, id feed.ID)
	Witnessed        func(p *Peer, url string, items []feed.ID)
	Reflected        func(p *Peer, a *cobra.Article)
	Started, Stopped func(p *Peer)
}

// SetHooks replaces the hooks.
func (s *Swarm) SetHooks(w Hooks) { s.feeds.hooks = w }

// A Feed is what an origin serves at a URL.
type Feed struct {
	URL    string
	Script script.Script
	Began  time.Time
	Public bool // the URL is at a public address, so its domain has a budget
	Polls  int  // requests that reached the origin
	Full   int  // requests that were answered with the document
	Parts  int  // requests that were answered with what has changed

	served map[string][]byte // documents by their ETags, since which a request gets what has changed; nil: it gets the document

	version                   script.Version // the last version that the script returned
	versionFrom, versionUntil time.Duration  // the period in which version is current, since Began
	parsedIndex               int            // of the version that parsed holds
	parsed                    *feed.Feed
}

// versionAt returns the feed's version at a time. It asks the script once per version, because most
// polls find nothing new and a script renders its document each time. A script without a next
// version is asked at every poll, because a test may change it.
func (f *Feed) versionAt(now time.Time) script.Version {
	t := now.Sub(f.Began)
	if t < f.versionFrom || t >= f.versionUntil {
		next, more := f.Script.Next(t)
		if !more {
			next = t
		}
		f.version, f.versionFrom, f.versionUntil = f.Script.At(t), t, next
	}
	return f.version
}

// A subscription is a peer's subscription to a feed.
type subscription struct {
	url           string
	key           overlay.ID
	since         time.Time                      // start of the subscription
	shownVersions map[feed.ID]map[feed.Hash]bool // what the reader was shown as new in this life
	firstShown    map[feed.ID]time.Time          // when each item was first shown, in any life
	lastHead      owner.Position                 // head of the log at the last check
	branch        uint64                         // branch of the log at the last check
	logSwitches   uint64                         // how often the node had replaced its log by another at the last check
	acknowledged  bool                           // the node has confirmed that it stored the subscription
	quiet         bool                           // no member is to know who subscribes
}

// Serve makes the origins serve a feed from now on.
func (s *Swarm) Serve(url string, sc script.Script) *Feed {
	f := &Feed{URL: url, Script: sc, Began: s.Now(), parsedIndex: -1}
	s.groups[s.Key(url)] = true
	s.feeds.byURL[url] = f
	s.feeds.urls = append(s.feeds.urls, url)
	return f
}

// serve is the world's Origin.
func (s *Swarm) serve(at time.Time, r env.Request) env.Answer {
	f := s.feeds.byURL[r.URL]
	if f == nil {
		return env.Answer{Status: 404, FinalURL: r.URL, Private: true}
	}
	f.Polls++
	v := f.versionAt(at)
	a := env.Answer{Status: 200, FinalURL: r.URL, Private: !f.Public, ContentType: v.ContentType, ETag: fmt.Sprintf("%q", fmt.Sprint(v.Index))}
	if r.ETag == a.ETag {
		a.Status = 304
		return a
	}
	before := f.served[r.ETag]
	if f.served != nil {
		f.served[a.ETag] = v.Body
	}
	if r.Partial && before != nil {
		f.Parts++
		a.Status, a.Body = 226, changesSince(before, v)
		return a
	}
	f.Full++
	a.Body = v.Body
	return a
}

// changesSince returns a document with what is new or changed in a version since an earlier one, and with as little else as
// an origin may send.
func changesSince(before []byte, v script.Version) []byte {
	old, err := feed.Parse(before, v.ContentType)
	doc, err2 := feed.Parse(v.Body, v.ContentType)
	if err = errors.Join(err, err2); err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	head, err := feed.NewHead(doc.Head.Format, "", "", "", "")
	d := feed.Document{Head: head}
	for _, it := range doc.Items {
		if !slices.ContainsFunc(old.Items, func(o feed.Item) bool { return o.ID == it.ID && o.Hash == it.Hash }) {
			d.Entries = append(d.Entries, feed.Entry{Item: it})
		}
	}
	part, err2 := feed.Write(&d, head.Format)
	if err = errors.Join(err, err2); err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	return part
}

// document returns the feed's parsed document at a time.
func (s *Swarm) document(f *Feed, at time.Time) *feed.Feed {
	v := f.versionAt(at)
	if f.parsedIndex != v.Index {
		doc, err := feed.Parse(v.Body, v.ContentType)
		if err != nil {
			panic(fmt.Sprintf("sim: feed %s: %v", f.URL, err))
		}
		f.parsedIndex, f.parsed = v.Index, doc
	}
	return f.parsed
}

// SubscribeFeed subscribes a peer to a feed, for one reader. If the disk refuses the subscription,
// the reader tries again later.
func (p *Peer) SubscribeFeed(url string) { p.addSubscription(url, false) }

// SubscribeQuietly does the same through members that stand between.
func (p *Peer) SubscribeQuietly(url string) { p.addSubscription(url, true) }

func (p *Peer) addSubscription(url string, quiet bool) {
	if p.subscriptions[url] != nil {
		return
	}
	r := &subscription{
		url: url, key: p.swarm.Key(url), since: p.swarm.Now(), quiet: quiet,
		shownVersions: map[feed.ID]map[feed.Hash]bool{}, firstShown: map[feed.ID]time.Time{},
	}
	p.subscriptions[url] = r
	p.subscribe(r)
}

// resubscribeDelay is the time until a refused subscription is tried again.
const resubscribeDelay = 30 * time.Second

func (p *Peer) subscribe(r *subscription) {
	life := p.lives
	p.Do(func() {
		p.node.Subscribe(r.url, r.quiet, 1, nil, func(err error) {
			if r.acknowledged = err == nil; r.acknowledged {
				return
			}
			p.swarm.After(resubscribeDelay, func() {
				if p.Up() && p.lives == life {
					p.subscribe(r)
				}
			})
		})
	})
}

// groupWeight returns the number of clients behind a peer in a group or in the tree of a feed.
func (p *Peer) groupWeight(g overlay.ID) int {
	w := p.groups[g]
	for _, r := range p.subscriptions {
		if r.key == g && r.acknowledged && !r.quiet {
			w++
		}
	}
	return w
}

// peerDied resets what the peer's readers were shown. Items shown in a life that ended before they
// were durable may be shown again.
func (f *feeds) peerDied(p *Peer) {
	for _, r := range p.subscriptions {
		r.shownVersions = map[feed.ID]map[feed.Hash]bool{}
		r.lastHead = owner.Position{}
	}
}

// An application is the application of a peer's node.
type application struct{ p *Peer }

func (r application) Deliver(d scribe.Delivery) { r.p.swarm.multicasts.arrived(r.p, d) }
func (r application) StateChanged(overlay.ID)   {}

func (r application) Witnessed(key overlay.ID, items []feed.ID) {
	witnessed := r.p.swarm.feeds.hooks.Witnessed
	for _, rd := range r.p.subscriptions {
		if rd.key == key && witnessed != nil {
			witnessed(r.p, rd.url, items)
		}
	}
}

func (r application) Fetched(_ overlay.ID, f *feed.Feed, _ corona.Offer, _ corona.State) {
	if f != nil {
		for _, it := range f.Items {
			r.p.swarm.feeds.outsideLog[it.ID] = true
		}
	}
}

func (r application) News(key overlay.ID, of []difference.Change, at time.Time) {
	s := r.p.swarm
	for _, rd := range r.p.subscriptions {
		if rd.key != key {
			continue
		}
		if sub, _ := r.p.node.NodeOf(key).Feeds.Subscription(key); sub.Alone { // the node polled the feed itself, so the items are not in the log
			for _, c := range of {
				s.feeds.outsideLog[c.Item.ID] = true
			}
		}
		for _, c := range of {
			if rd.shownVersions[c.Item.ID] == nil {
				rd.shownVersions[c.Item.ID] = map[feed.Hash]bool{}
			}
			if rd.shownVersions[c.Item.ID][c.Item.Hash] {
				s.reportViolation(ShownTwice, "host %d was shown an item of %s again", r.p.Index(), rd.url)
			}
			rd.shownVersions[c.Item.ID][c.Item.Hash] = true
			if _, known := rd.firstShown[c.Item.ID]; !known {
				rd.firstShown[c.Item.ID] = s.Now()
			}
			if s.feeds.hooks.Shown != nil {
				s.feeds.hooks.Shown(r.p, rd.url, c.Item.ID)
			}
		}
	}
}

// Invariants of feeds.
const (
	// ShownTwice (I1): a reader was shown one version of an item twice.
	ShownTwice = "item shown twice"
	// NotShown (I1): after quiet, a reader lacks an item that the origin serves.
	NotShown = "item not shown"
	// ShownAndGone (I1, I10): after quiet, a reader lacks an item that some reader was shown, even
	// if the origin no longer serves it.
	ShownAndGone = "item shown and gone"
	// ItemTakenBack (I1): a reader lost an item that it was shown in its node's present life.
	ItemTakenBack = "item taken back"
	// TwoEntries (I4): two entries were signed for one position of a log.
	TwoEntries = "position signed twice"
	// TwoSequencers (I5): an epoch has two sequencers.
	TwoSequencers = "two sequencers"
	// PositionWentBack (I2): a reader's log shrank within one branch.
	PositionWentBack = "position went back"
	// SubscriptionLost (I6, I10): an acknowledged subscription is gone, in a life that has the
	// disk.
	SubscriptionLost = "subscription lost"
)

// FeedStats sums up the counters of all feeds and their nodes.
type FeedStats struct {
	Polls, Full               int // requests to origins
	Subscriptions, ItemsShown int
	Entries, Epochs           uint64
	ForcedReconfigs, Merged   uint64
	Gaps, Filled, Fetches     uint64
	Unlike, Unread            uint64
	Garbage, Untrusted        uint64
}

// FeedStats returns the sums; those of nodes cover only the peers that are up.
func (s *Swarm) FeedStats() (sum FeedStats) {
	for _, f := range s.feeds.byURL {
		sum.Polls += f.Polls
		sum.Full += f.Full
	}
	for _, p := range s.members {
		for _, r := range p.subscriptions {
			sum.Subscriptions++
			sum.ItemsShown += len(r.firstShown)
		}
		if !p.Up() {
			continue
		}
		o, t := p.node.Owners.Stats(), p.node.Feeds.Stats()
		sum.Entries += o.Committed
		sum.Epochs += o.Epochs
		sum.ForcedReconfigs += o.ForcedReconfigs
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
