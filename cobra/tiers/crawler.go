package tiers

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
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

	feeds   map[string]*crawled
	reading map[string]*crawled // feeds of the list whose records are being read
	lists   uint64              // counts the lists of feeds
	cal     env.Calendar[*crawled]
	polls   map[env.Handle]*crawled
	last    env.Handle
	near    *locality
	hosts   *discovery
}

// crawled is what a crawler knows of a feed.
type crawled struct {
	url    string
	record *tierspb.Crawled
	links  []*outLink // filters that get its articles
	due    time.Time  // of the next poll, or of giving up the one under way
	poll   env.Handle // 0: no poll is under way
	began  time.Time
	gone   bool   // not in the list any more
	list   uint64 // number of the last list that has it
	last   uint64 // position of the last article that was found in it
	failed string // why the last poll failed; "": it did not

	stage   stage
	moving  bool       // it is in the locality's list
	to      env.PeerID // the crawler to which it is leaving
	retryAt time.Time  // of the next message about its move
	settled uint64     // term of its record on disk
}

func newCrawler(b *base, e env.Env, out *outbox) (*crawler, error) {
	c := &crawler{
		base: b, out: out, fetcher: e.Fetcher, worker: e.Worker, feeds: map[string]*crawled{}, reading: map[string]*crawled{},
		polls: map[env.Handle]*crawled{}, near: newLocality(b.plans.plan, b.plans.current, b.clock.Now()),
	}
	return c, cmp.Or(c.borrowed(), c.loadHosts())
}

// SetFeeds gives a crawler its list: canonical URLs of feeds, of which it polls its own part. At other nodes it does
// nothing.
func (t *Tiers) SetFeeds(urls []string) {
	if t.crawler != nil {
		t.crawler.setFeeds(urls)
		t.wake()
	}
}

func (c *crawler) setFeeds(urls []string) {
	c.lists++
	c.setHosts(urls)
	var fresh []*crawled
	for _, url := range urls {
		f := cmp.Or(c.feeds[url], c.reading[url])
		if f == nil {
			if !c.owns(url) {
				continue
			}
			f = &crawled{url: url}
			c.reading[url] = f
			fresh = append(fresh, f)
		}
		f.list = c.lists
	}
	c.dropUnlisted()
	var values [][]byte
	var unwanted []env.Op
	var err error
	number, near := c.lists, c.near
	var listed []uint64
	c.worker.Do(func() {
		values, unwanted, err = c.readRecords(fresh, number == 1, near)
		listed = listOf(urls)
	}, func() {
		if number == c.lists {
			c.hosts.listed = listed
		}
		c.failed("feeds")(err)
		for i, f := range fresh {
			delete(c.reading, f.url)
			if f.list == c.lists && c.owns(f.url) { // otherwise it is not wanted any more
				c.add(f, values[i])
			}
		}
		unwanted = slices.DeleteFunc(unwanted, func(op env.Op) bool { return c.feeds[string(op.Key[len(crawledPrefix):])] != nil })
		if len(unwanted) > 0 {
			c.store.Commit(unwanted, c.failed("feeds"))
		}
		c.wake()
	})
}

// add begins to poll a feed of the list as its record says. One whose record cannot be read is polled as a new one.
func (c *crawler) add(f *crawled, value []byte) {
	read, err := c.open(f.url, value)
	if err != nil {
		c.failed("feeds")(err)
		read, _ = c.open(f.url, nil)
	}
	read.list = f.list
	c.feeds[f.url] = read
	if read.stage == here {
		c.resume(read)
	}
	c.reconcile(read)
}

// dropUnlisted ends the polls of feeds that the list has lost. Those that belong to others go back to them.
func (c *crawler) dropUnlisted() {
	var returned []*crawled
	c.forget(func(f *crawled) bool {
		if f.list != c.lists && !c.owns(f.url) && c.near.self >= 0 && f.stage == here {
			returned = append(returned, f)
		}
		return f.list != c.lists && c.owns(f.url)
	})
	slices.SortFunc(returned, func(a, b *crawled) int { return strings.Compare(a.url, b.url) })
	for _, f := range returned {
		c.leave(f, c.near.crawlers[c.near.home(f.url)].Peer.ID)
	}
}

// readRecords reads the records of feeds. The first time it also returns the operations that delete records of feeds that left the
// list while the node was down.
func (c *crawler) readRecords(fresh []*crawled, first bool, near *locality) (values [][]byte, unwanted []env.Op, err error) {
	wanted := map[string]bool{}
	for _, f := range fresh {
		value, readErr := c.store.Get([]byte(crawledPrefix + f.url))
		err = cmp.Or(err, readErr)
		values, wanted[f.url] = append(values, value), true
	}
	if first {
		err = cmp.Or(err, c.store.Range([]byte(crawledPrefix), func(key, value []byte) bool {
			var m tierspb.Crawled
			url := string(key[len(crawledPrefix):])
			if !wanted[url] && (near.home(url) != near.self || proto.Unmarshal(value, &m) != nil || len(m.To) == 0) {
				unwanted = append(unwanted, env.Op{Key: slices.Clone(key)})
			}
			return true
		}))
	}
	return values, unwanted, err
}

// forget ends the polls of feeds, and deletes what the crawler remembers of them, except to whom it has handed a feed, which
// comes back.
func (c *crawler) forget(which func(f *crawled) bool) {
	var ops []env.Op
	for url, f := range c.feeds {
		if !which(f) {
			continue
		}
		f.gone = true
		delete(c.feeds, url)
		if f.stage == here {
			ops = append(ops, env.Op{Key: c.key(url)})
		}
	}
	if len(ops) > 0 {
		c.store.Commit(ops, c.failed("feeds"))
	}
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
func (c *crawler) owns(url string) bool { return c.near.self >= 0 && c.near.home(url) == c.near.self }

// replan makes the feeds those of a new plan. The list adds others. A feed whose home is another crawler now begins anew there;
// what this one has found is on its way, and repeats are dropped by their ids.
func (c *crawler) replan() {
	before, next := c.near, newLocality(c.plans.plan, c.plans.current, c.clock.Now())
	next.inherit(before)
	var ops []env.Op
	var kept []*crawled
	for url, f := range c.feeds {
		if next.self >= 0 && (!c.owns(url) || next.home(url) == next.self) {
			continue
		}
		ops = append(ops, env.Op{Key: c.key(url)})
		f.gone = true
		if delete(c.feeds, url); next.self >= 0 && f.record.Plan != 0 { // a message about an earlier term may be under way
			f = &crawled{url: url, stage: away, list: f.list, record: &tierspb.Crawled{Term: f.record.Term, To: []byte(next.crawlers[next.home(url)].Peer.ID), Has: true}}
			kept, ops = append(kept, f), append(ops, env.Op{Key: []byte(borrowedPrefix + url), Value: wire.Encode(f.record)})
		}
	}
	for _, f := range kept {
		c.feeds[f.url] = f
	}
	c.near = next
	for url, f := range c.feeds {
		f.links, f.moving = c.plans.linksTo(c.out, url), false
		if next.home(url) == next.self && before.home(url) != before.self { // it comes home
			ops = append(ops, adopt(url, wire.Encode(f.record))...)
		}
		c.reconcile(f)
	}
	if len(ops) > 0 {
		c.store.Commit(ops, c.failed("feeds"))
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
		if f.gone || f.stage != here || f.due.After(now) { // it is in the calendar again
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
	c := t.crawler
	if c == nil {
		return
	}
	if probed := c.near.probes[h]; probed != nil {
		delete(c.near.probes, h)
		c.measured(probed, a)
		return
	}
	if c.hosts.handle == h {
		c.onLook(a)
		return
	}
	f := c.polls[h]
	if f == nil {
		return
	}
	c.measured(c.near.byHash[hostOf(f.url)], a)
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
	if late := f.began.Sub(time.UnixMilli(f.record.NextMs)); late > wait/2 {
		wait += f.spread(wait)
	}
	next := later(f.began.Add(wait), c.clock.Now().Add(minPause))
	f.record.NextMs = next.UnixMilli()
	if !f.gone && f.stage == here {
		c.schedule(f, next)
	}
	if !ok {
		f.record.Fails++
		if a.Err != env.ErrBusy { // the origin was not asked
			f.failed = reason(a, err)
		}
		return
	}
	f.record.Fails, f.failed = 0, ""
	if a.HasDocument() {
		f.record.Etag, f.record.LastModified, f.record.ValidatedUrl, f.record.Document = a.ETag, a.LastModified, a.FinalURL, sum
	}
	if doc == nil {
		return
	}
	var ops []env.Op
	var written []*queued
	articles, turned := f.news(doc)
	if turned {
		c.stats.Turned++
	}
	for _, a := range articles {
		article := a.Encode(maxArticle)
		q, more := c.out.appendTo(f.links, article)
		f.last = c.out.last
		ops, written = append(ops, more...), append(written, q)
		c.stats.Found++
		c.stats.Bytes += uint64(len(article))
	}
	if !f.gone {
		ops = append(ops, env.Op{Key: c.key(f.url), Value: wire.Encode(f.record)})
	}
	c.store.Commit(ops, func(err error) { c.out.written(written, err) })
	c.follow(f.url, doc.Head.Link, articles)
}

// reason says why a poll failed, whose document could not be read if there is an error.
func reason(a env.Answer, err error) string {
	if err != nil {
		return err.Error()
	}
	return cmp.Or(a.Message, a.Err, fmt.Sprintf("the server answered with status %d", a.Status))
}

// spread returns how much longer than an interval the pause after a late poll is. Feeds of a new list, and all feeds after
// the crawler was down or waited for a queue, are polled at the same time. From then on their polls are spread over the
// interval, so that articles do not come in bursts.
func (f *crawled) spread(interval time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(f.url))
	return interval / 256 * time.Duration(sum[0])
}

// news returns the articles of a document that are not known, the oldest first, and remembers them. turned reports that none
// of them was known in a feed that has been polled before: others may have come and gone between the two polls.
func (f *crawled) news(doc *feed.Feed) (articles []*cobra.Article, turned bool) {
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
	turned = len(known) > 0 && len(items) > 0 && !slices.ContainsFunc(items, func(id uint64) bool { return known[id] })
	for i := range slices.Backward(doc.Items) {
		it := &doc.Items[i]
		if id := shortID(it); !known[id] {
			known[id] = true
			if a, err := cobra.NewArticle(f.url, doc.Head.Title, doc.Head.Link, doc.Head.Language, it); err == nil {
				articles = append(articles, a)
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
	return articles, turned
}

func shortID(it *feed.Item) uint64 { return binary.BigEndian.Uint64(it.ID[:]) }
