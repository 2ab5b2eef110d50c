package tiers

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra"
	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// Handles marks the handles of a crawler's fetches. Those of other layers lack this bit.
const Handles env.Handle = 1 << 62

const (
	crawledPrefix = "tiers/feed/" // then the address
	// maxPolls bounds the polls under way, and so what a crawler may still find after its queue is full.
	maxPolls = 64
	// pollTimeout is how long an answer may take. The fetcher answers in less than a minute.
	pollTimeout = 5 * time.Minute
	// minPause is the least time between the answer to a poll and the next poll, whatever the rules say.
	minPause = time.Second
	// keptItems is the least number of items of a feed that are remembered: many times what a document shows
	// (ten in the paper's Figure 5), in case old ones come back.
	keptItems = 256
)

// A crawler polls the feeds of its list (section 3.1).
type crawler struct {
	*base
	out     *outbox
	fetcher env.Fetcher
	worker  env.Worker

	feeds map[string]*crawled
	cal   env.Calendar[*crawled]
	polls map[env.Handle]*crawled
	last  env.Handle
}

// crawled is what a crawler knows of a feed.
type crawled struct {
	url    string
	record *tierspb.Crawled
	links  []*outLink // filters that get its articles
	due    time.Time  // of the next poll, or of giving up the one under way
	poll   env.Handle // 0: no poll is under way
	began  time.Time
	gone   bool // not in the list any more
}

func newCrawler(b *base, e env.Env, out *outbox) *crawler {
	return &crawler{
		base: b, out: out, fetcher: e.Fetcher, worker: e.Worker,
		feeds: map[string]*crawled{}, polls: map[env.Handle]*crawled{},
	}
}

// SetFeeds gives a crawler its list: canonical URLs of feeds, of which it polls its own part. At other nodes it does
// nothing.
func (t *Tiers) SetFeeds(urls []string) error {
	if t.crawler == nil {
		return nil
	}
	defer t.wake()
	return t.crawler.setFeeds(urls)
}

func (c *crawler) setFeeds(urls []string) error {
	wanted := map[string]bool{}
	now := c.clock.Now()
	var fresh []*crawled
	for _, url := range urls {
		if !c.owns(url) || wanted[url] {
			continue
		}
		wanted[url] = true
		if c.feeds[url] == nil {
			f := &crawled{url: url, record: &tierspb.Crawled{}, links: c.plans.linksTo(c.out, url)}
			c.feeds[url] = f
			fresh = append(fresh, f)
		}
	}
	for _, f := range fresh {
		value, err := c.store.Get([]byte(crawledPrefix + f.url))
		if err != nil {
			return err
		}
		if err := proto.Unmarshal(value, f.record); err != nil {
			return err
		}
		c.schedule(f, later(now, time.UnixMilli(f.record.NextMs)))
	}
	for url, f := range c.feeds {
		if !wanted[url] { // its record stays, in case the feed comes back
			f.gone = true
			delete(c.feeds, url)
		}
	}
	return nil
}

func (c *crawler) schedule(f *crawled, at time.Time) {
	f.due = at
	c.cal.Add(at, f)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// owns reports whether a feed is in this crawler's part of the list.
func (c *crawler) owns(url string) bool {
	n := &c.plans.current
	return n.of > 0 && share(url, n.of) == n.index
}

// replan makes the feeds those of a new plan. The list adds others.
func (c *crawler) replan() {
	for url, f := range c.feeds {
		if f.links = c.plans.linksTo(c.out, url); !c.owns(url) {
			f.gone = true
			delete(c.feeds, url)
		}
	}
}

// run begins the polls that are due, unless a queue is full.
func (c *crawler) run(now time.Time) (next time.Time) {
	if c.out.waiting() != nil {
		return time.Time{} // the acknowledgement that makes room wakes the node
	}
	for len(c.polls) < maxPolls {
		f, _, ok := c.cal.Pop(now)
		if !ok {
			return c.cal.Next()
		}
		if f.gone || f.due.After(now) { // it is in the calendar again
			continue
		}
		if f.poll != 0 { // its answer never came
			delete(c.polls, f.poll)
		}
		c.last++
		f.poll, f.began = c.last|Handles, now
		c.polls[f.poll] = f
		c.schedule(f, now.Add(pollTimeout))
		c.fetcher.Fetch(f.poll, env.Request{
			URL: f.url, ETag: f.record.Etag, LastModified: f.record.LastModified, ValidatedURL: f.record.ValidatedUrl,
		})
	}
	return time.Time{}
}

// Answered handles the answer to a poll, whose handle has the bit Handles. Documents are read outside the loop.
func (t *Tiers) Answered(h env.Handle, a env.Answer) {
	if t.crawler == nil || t.crawler.polls[h] == nil {
		return
	}
	c, f := t.crawler, t.crawler.polls[h]
	sum := sha256.Sum256(a.Body)
	if !a.HasDocument() || f.record.Fails == 0 && bytes.Equal(sum[:], f.record.Document) {
		c.concluded(h, a, nil, nil, sum[:])
		return
	}
	var doc *feed.Feed
	var err error
	c.worker.Do(func() { doc, err = c.cfg.Rules.Read(f.url, a) }, func() { c.concluded(h, a, doc, err, sum[:]) })
}

// concluded ends a poll. New articles and what the crawler remembers of the feed are written together, so that after a
// crash no article is missing and none is queued twice.
func (c *crawler) concluded(h env.Handle, a env.Answer, doc *feed.Feed, err error, sum []byte) {
	f := c.polls[h]
	if f == nil {
		return
	}
	delete(c.polls, h)
	f.poll = 0
	defer c.wake()
	c.stats.Polls++
	if a.HasDocument() {
		c.stats.Documents++
		c.stats.DocumentBytes += uint64(len(a.Body))
	}
	ruled := a
	if a.HasDocument() && doc == nil && err == nil { // it is the last one, byte for byte
		ruled.Status, ruled.Body = 304, nil
	}
	wait, ok := c.cfg.Rules.Next(f.url, ruled, doc, err, int(f.record.Fails))
	next := later(f.began.Add(wait), c.clock.Now().Add(minPause))
	f.record.NextMs = next.UnixMilli()
	if !f.gone {
		c.schedule(f, next)
	}
	if !ok {
		f.record.Fails++
		return
	}
	f.record.Fails = 0
	if a.HasDocument() {
		f.record.Etag, f.record.LastModified, f.record.ValidatedUrl, f.record.Document = a.ETag, a.LastModified, a.FinalURL, sum
	}
	if doc == nil {
		return
	}
	var ops []env.Op
	var written []*queued
	for _, article := range f.news(doc) {
		q, more := c.out.appendTo(f.links, article)
		ops, written = append(ops, more...), append(written, q)
		c.stats.Found++
		c.stats.Bytes += uint64(len(article))
	}
	ops = append(ops, env.Op{Key: []byte(crawledPrefix + f.url), Value: wire.Encode(f.record)})
	c.store.Commit(ops, func(err error) { c.out.written(written, err) })
}

// news returns the articles of a document that are not known, the oldest first, and remembers them.
func (f *crawled) news(doc *feed.Feed) (articles [][]byte) {
	known := map[uint64]bool{}
	for _, id := range f.record.Items {
		known[id] = true
	}
	shown := map[uint64]bool{}
	items := make([]uint64, 0, len(doc.Items))
	for i := range doc.Items {
		if id := shortID(&doc.Items[i]); !shown[id] {
			shown[id] = true
			items = append(items, id)
		}
	}
	for i := range slices.Backward(doc.Items) {
		it := &doc.Items[i]
		if id := shortID(it); !known[id] {
			known[id] = true
			if a, err := cobra.NewArticle(f.url, doc.Head.Title, doc.Head.Link, doc.Head.Language, it); err == nil {
				articles = append(articles, a.Encode(maxArticle))
			}
		}
	}
	for _, id := range f.record.Items {
		if len(items) >= max(keptItems, 2*len(shown)) {
			break
		}
		if !shown[id] {
			items = append(items, id)
		}
	}
	f.record.Items = items
	return articles
}

func shortID(it *feed.Item) uint64 { return binary.BigEndian.Uint64(it.ID[:]) }
