package tiers

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// handRetry is the time until a message about a feed that changes its crawler is sent again.
const handRetry = 5 * time.Second

// A stage is where a feed is, as one crawler knows it. Only in the first does this crawler poll it.
type stage uint8

const (
	here     stage = iota
	leaving        // what was found is still on its way to the filters
	handing        // the other crawler's answer is awaited
	away           // another crawler has it
	recalled       // likewise, and it was asked for it, for this crawler or for a third
)

const borrowedPrefix = "tiers/borrowed/" // then the address: of a feed that belongs to the share of another crawler

func (c *crawler) key(url string) []byte {
	if c.owns(url) {
		return []byte(crawledPrefix + url)
	}
	return []byte(borrowedPrefix + url)
}

// adopt returns the operations that make the record of a feed which this crawler has borrowed that of one of its share.
func adopt(url string, record []byte) []env.Op {
	return []env.Op{{Key: []byte(borrowedPrefix + url)}, {Key: []byte(crawledPrefix + url), Value: record}}
}

// open returns a feed as its record says.
func (c *crawler) open(url string, value []byte) (*crawled, error) {
	f := &crawled{url: url, record: &tierspb.Crawled{}, links: c.plans.linksTo(c.out, url), last: c.out.last}
	err := proto.Unmarshal(value, f.record)
	if len(value) == 0 && c.owns(url) {
		f.record.Term = uint64(c.clock.Now().UnixMilli())
	}
	f.settled = f.record.Term
	switch {
	case len(f.record.To) == 0:
	case f.record.Has:
		f.stage = away
	default:
		f.stage = handing
	}
	return f, err
}

// borrowed reads the feeds of other crawlers' shares that this one polls or has polled.
func (c *crawler) borrowed() error {
	var broken error
	var ops []env.Op
	err := c.store.Range([]byte(borrowedPrefix), func(key, value []byte) bool {
		url := string(key[len(borrowedPrefix):])
		if c.near.self < 0 { // the record would count if the crawler came back
			ops = append(ops, env.Op{Key: slices.Clone(key)})
			return true
		}
		var f *crawled
		if f, broken = c.open(url, value); broken != nil {
			return false
		}
		if c.owns(url) { // since the plan has changed
			ops = append(ops, adopt(url, slices.Clone(value))...)
		}
		c.feeds[url] = f
		if f.stage == here {
			c.resume(f)
		}
		c.reconcile(f)
		return true
	})
	if len(ops) > 0 {
		c.store.Commit(ops, c.failed("feeds"))
	}
	return cmp.Or(err, broken)
}

// reconcile goes on with a feed that was last handed over by another plan. The crawlers of both plans may not agree on who
// has it, and some may have been down for several changes: so it goes home, and its home asks for it.
func (c *crawler) reconcile(f *crawled) {
	l := c.near
	switch {
	case f.record.Plan == c.plan():
	case !c.owns(f.url):
		if home := l.crawlers[l.home(f.url)].Peer.ID; f.stage != away && !(f.stage == handing && env.PeerID(f.record.To) == home) {
			c.leave(f, home)
		}
	case f.stage != here && l.index(env.PeerID(f.record.To)) < 0: // nobody else has it
		f.stage, f.record.To, f.record.Has = here, nil, false
		c.resume(f)
	case f.stage != here:
		c.recall(f, l.crawlers[l.self].Peer.ID)
	}
	if f.stage != here && f.stage != away {
		l.add(f)
	}
}

// plan returns a number that stands for the plan in the records of feeds.
func (c *crawler) plan() uint64 { return hashOf(c.plans.plan.Digest) }

// resume polls a feed when its record says.
func (c *crawler) resume(f *crawled) {
	c.schedule(f, later(c.clock.Now(), time.UnixMilli(f.record.NextMs)))
}

// leave begins to hand a feed to another crawler.
func (c *crawler) leave(f *crawled, to env.PeerID) {
	f.stage, f.to = leaving, to
	c.near.add(f)
}

// recall asks for a feed that another crawler has, for this one or for a third.
func (c *crawler) recall(f *crawled, to env.PeerID) {
	f.stage, f.to, f.retryAt = recalled, to, time.Time{}
	c.near.add(f)
}

// add lets move go on with a feed.
func (l *locality) add(f *crawled) {
	if !f.moving {
		f.moving = true
		l.moving = append(l.moving, f)
	}
}

// drained reports whether everything that was found in a feed is with the filters, durably, so that what another crawler
// finds comes after it.
func (c *crawler) drained(f *crawled, now time.Time) bool {
	if f.poll != 0 && f.due.After(now) {
		return false
	}
	delete(c.polls, f.poll) // its answer never came
	f.poll = 0
	return !slices.ContainsFunc(f.links, func(l *outLink) bool { return len(l.pending) > 0 && l.pending[0].position <= f.last })
}

// settle makes the record of a feed durable, and then does something.
func (c *crawler) settle(f *crawled, then func()) {
	term := f.record.Term
	c.store.Commit([]env.Op{{Key: c.key(f.url), Value: wire.Encode(f.record)}}, func(err error) {
		c.failed("feeds")(err)
		if err == nil {
			f.settled = max(f.settled, term)
			then()
		}
		c.wake()
	})
}

// move goes on with the feeds that are changing their crawler.
func (c *crawler) move(now time.Time) (next time.Time) {
	c.near.moving = slices.DeleteFunc(c.near.moving, func(f *crawled) bool {
		switch {
		case f.gone || f.stage == here || f.stage == away:
			f.moving = false
			return true
		case f.stage == leaving:
			if !c.drained(f, now) {
				return false // the acknowledgement or the answer wakes the node
			}
			f.stage = handing
			f.record.Term++
			f.record.To, f.record.Has, f.record.Plan = []byte(f.to), false, c.plan()
			c.stats.Handed++
			f.retryAt = now.Add(handRetry)
			c.settle(f, func() { f.retryAt = time.Time{} })
		case !f.retryAt.After(now):
			f.retryAt = now.Add(handRetry)
			switch to := c.near.index(env.PeerID(f.record.To)); {
			case f.stage == recalled:
				c.sendTo(to, &tierspb.Message{Body: &tierspb.Message_Recall{Recall: &tierspb.Recall{Url: f.url, Term: f.record.Term}}})
			case f.settled < f.record.Term: // the disk has failed
				c.settle(f, func() { f.retryAt = time.Time{} })
			default:
				record := proto.CloneOf(f.record)
				record.To, record.Plan = nil, 0
				c.sendTo(to, &tierspb.Message{Body: &tierspb.Message_Hand{Hand: &tierspb.Hand{Url: f.url, Record: record}}})
			}
		}
		next = env.Sooner(next, f.retryAt)
		return false
	})
	return next
}

func (c *crawler) sendTo(crawler int, m *tierspb.Message) {
	c.send(c.near.crawlers[crawler].Peer, env.Control, m)
}

// onHand takes a feed, or says that it was taken before.
func (c *crawler) onHand(from int, m *tierspb.Hand) error {
	term, home := m.GetRecord().GetTerm(), c.near.home(m.Url)
	if term == 0 {
		c.stats.Garbage++
		return nil
	}
	f, err := c.known(m.Url)
	if err != nil || f == nil {
		return err
	}
	lent := c.owns(m.Url) && (f.stage == handing || f.stage == away || f.stage == recalled)
	if lent && c.near.index(env.PeerID(f.record.To)) != from { // it has got the feed by an earlier plan
		c.taken(from, m.Url, term)
		return nil
	}
	switch {
	case term > f.record.Term || lent && term == f.record.Term: // or each has handed it to the other
		c.take(f, from, m.Record)
	case f.stage == away && home == from: // which counts from an earlier term: it gets the feed back with a later one
		c.leave(f, c.near.crawlers[home].Peer.ID)
		return nil
	case term <= f.settled:
		c.taken(from, m.Url, term)
		return nil
	}
	c.settle(f, func() {
		c.taken(from, m.Url, term)
		if !f.gone && f.stage == here {
			c.resume(f)
		}
	})
	return nil
}

// take takes the record of a feed, and what this crawler knows of an earlier term, or because the other's record is lost.
func (c *crawler) take(f *crawled, from int, record *tierspb.Crawled) {
	c.stats.Taken++
	home, onward := c.near.home(f.url), f.stage == recalled && c.near.index(f.to) != c.near.self
	for _, id := range f.record.Items {
		if !slices.Contains(record.Items, id) {
			record.Items = append(record.Items, id)
		}
	}
	f.record, f.stage = record, here
	f.record.To, f.record.Has, f.record.Plan = nil, false, 0
	switch {
	case onward:
		c.leave(f, f.to)
	case home == from || home == c.near.self:
		f.record.Plan = c.plan()
	default: // it was handed to this crawler by an earlier plan
		c.leave(f, c.near.crawlers[home].Peer.ID)
	}
}

func (c *crawler) taken(by int, url string, term uint64) {
	c.sendTo(by, &tierspb.Message{Body: &tierspb.Message_Taken{Taken: &tierspb.Taken{Url: url, Term: term}}})
}

// known returns a feed that this crawler polls, has polled, or is to poll. One of its own share that its list lacks is
// kept on disk only. It returns nil while the record is being read: the other crawler sends its message again.
func (c *crawler) known(url string) (*crawled, error) {
	if f := c.feeds[url]; f != nil || c.reading[url] != nil {
		return f, nil
	}
	if !c.owns(url) {
		f, err := c.open(url, nil)
		c.feeds[url] = f
		return f, err
	}
	value, err := c.store.Get(c.key(url))
	if err != nil {
		return nil, err
	}
	f, err := c.open(url, value)
	f.gone = true
	return f, err
}

func (c *crawler) onTaken(from int, m *tierspb.Taken) {
	f := c.feeds[m.Url]
	if f == nil || f.stage != handing || f.record.Term != m.Term || c.near.index(env.PeerID(f.record.To)) != from {
		return
	}
	f.stage, f.record.Has = away, true
	c.settle(f, func() {})
}

// onRecall hands a feed back to its home. If the home's record or this one is lost, or the plan has changed, the later term
// decides.
func (c *crawler) onRecall(from int, m *tierspb.Recall) error {
	if c.near.home(m.Url) != from { // by an earlier plan
		return nil
	}
	f, err := c.known(m.Url)
	if err != nil || f == nil {
		return err
	}
	if f.stage == here && f.record.Term <= m.Term || f.stage == away {
		f.record.Term = max(f.record.Term, m.Term)
		c.leave(f, c.near.crawlers[from].Peer.ID)
	}
	return nil
}

// onMessage handles a message of another crawler.
func (c *crawler) onMessage(from int, m *tierspb.Message) error {
	c.near.heard[from] = c.clock.Now()
	switch b := m.Body.(type) {
	case *tierspb.Message_Latencies:
		c.onLatencies(from, b.Latencies)
	case *tierspb.Message_Hand:
		return c.onHand(from, b.Hand)
	case *tierspb.Message_Taken:
		c.onTaken(from, b.Taken)
	case *tierspb.Message_Recall:
		return c.onRecall(from, b.Recall)
	case *tierspb.Message_Named:
		c.onNamed(b.Named)
	default:
		c.stats.Garbage++
	}
	return nil
}
