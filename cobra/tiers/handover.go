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

// open returns a feed as its record says.
func (c *crawler) open(url string, value []byte) (*crawled, error) {
	f := &crawled{url: url, record: &tierspb.Crawled{}, links: c.plans.linksTo(c.out, url), last: c.out.last}
	err := proto.Unmarshal(value, f.record)
	if len(value) == 0 && c.owns(url) {
		f.record.Term = uint64(c.clock.Now().UnixMilli())
	}
	f.settled = f.record.Term
	switch to := c.near.index(env.PeerID(f.record.To)); {
	case len(f.record.To) == 0 || to < 0: // or that crawler has left the plan
		f.record.To = nil
	case f.record.Has:
		f.stage = away
	default:
		f.stage = handing
		c.near.moving = append(c.near.moving, f)
	}
	return f, err
}

// read returns a feed from the disk.
func (c *crawler) read(url string) (*crawled, error) {
	value, err := c.store.Get(c.key(url))
	if err != nil {
		return nil, err
	}
	return c.open(url, value)
}

// borrowed reads the feeds of other crawlers' shares that this one polls or has polled.
func (c *crawler) borrowed() error {
	var broken error
	var stale []env.Op
	err := c.store.Range([]byte(borrowedPrefix), func(key, value []byte) bool {
		url := string(key[len(borrowedPrefix):])
		home := c.near.home(url)
		if c.owns(url) || c.near.self < 0 {
			stale = append(stale, env.Op{Key: slices.Clone(key)}) // since the plan has changed; it would count if that changed back
			return true
		}
		var f *crawled
		if f, broken = c.open(url, value); broken != nil {
			return false
		}
		c.feeds[url] = f
		if f.stage == here {
			if owner := c.near.crawlers[home].Peer.ID; owner != env.PeerID(f.record.From) { // since the plan has changed
				c.leave(f, owner)
			}
			c.resume(f)
		}
		return true
	})
	if len(stale) > 0 {
		c.store.Commit(stale, c.failed("feeds"))
	}
	return cmp.Or(err, broken)
}

// resume polls a feed when its record says.
func (c *crawler) resume(f *crawled) {
	c.schedule(f, later(c.clock.Now(), time.UnixMilli(f.record.NextMs)))
}

// leave begins to hand a feed to another crawler.
func (c *crawler) leave(f *crawled, to env.PeerID) {
	f.stage, f.to = leaving, to
	if !slices.Contains(c.near.moving, f) { // it may have been recalled
		c.near.moving = append(c.near.moving, f)
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
			return true
		case f.stage == leaving:
			if !c.drained(f, now) {
				return false // the acknowledgement or the answer wakes the node
			}
			f.stage = handing
			f.record.Term++
			f.record.To, f.record.Has = []byte(f.to), false
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
				record.To, record.From = nil, nil
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
	f, err := c.known(m.Url)
	if err != nil || f == nil || m.Record == nil {
		return err
	}
	term := m.Record.Term
	if term > f.record.Term {
		known := f.record.Items
		onward := f.stage == recalled && c.near.index(f.to) != c.near.self
		f.record, f.stage = m.Record, here
		f.record.To, f.record.Has, f.record.From = nil, false, []byte(c.near.crawlers[from].Peer.ID)
		for _, id := range known { // of an earlier term, or because the other's record is lost
			if !slices.Contains(m.Record.Items, id) {
				f.record.Items = append(f.record.Items, id)
			}
		}
		c.stats.Taken++
		if onward {
			c.leave(f, f.to)
		}
	}
	taken := func() {
		c.sendTo(from, &tierspb.Message{Body: &tierspb.Message_Taken{Taken: &tierspb.Taken{Url: m.Url, Term: term}}})
	}
	if term <= f.settled {
		taken()
		return nil
	}
	c.settle(f, func() {
		taken()
		if !f.gone && f.stage == here {
			c.resume(f)
		}
	})
	return nil
}

// known returns a feed that this crawler polls, has polled, or is to poll. One of its own share that its list lacks is
// kept on disk only. It returns nil while the record is being read: the other crawler sends its message again.
func (c *crawler) known(url string) (*crawled, error) {
	if f := c.feeds[url]; f != nil || c.reading[url] != nil {
		return f, nil
	}
	f, err := c.read(url)
	if err != nil {
		return nil, err
	}
	if f.gone = c.owns(url); !f.gone {
		c.feeds[url] = f
	}
	return f, nil
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
	f, err := c.known(m.Url)
	if err != nil || f == nil || c.near.home(m.Url) != from {
		return err
	}
	switch back := f.stage == away && c.near.index(env.PeerID(f.record.To)) == from; {
	case back && f.record.Term > m.Term:
		f.stage, f.retryAt = handing, time.Time{}
		c.near.moving = append(c.near.moving, f)
	case f.stage == here && f.record.Term <= m.Term, f.stage == away && !(back && f.record.Term == m.Term):
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
