package feedtree

import (
	"fmt"
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A reader keeps the windows of feeds that the readers of this node see. It updates the windows from the logs, and adds items that this
// node has fetched itself.
type reader struct {
	*common
	cutOffs  *cutOffs
	repairer *repairer
	trusts   *trusts
	entries  *entries
	pusher   *pusher
	spoken   *statements
	audits   *originAudits
	absorb   func(key overlay.ID, body []byte) // appends items to the log of a feed that this node leads
	cal      plans                             // feeds whose logs were on the disk at the start, and are to be read
}

func newReader(m *common, cutOffs *cutOffs, repairer *repairer, trusts *trusts, entries *entries, pusher *pusher, spoken *statements, audits *originAudits) *reader {
	rd := &reader{common: m, cutOffs: cutOffs, repairer: repairer, trusts: trusts, entries: entries, pusher: pusher, spoken: spoken, audits: audits}
	rd.cal = m.feedPlans(func(c *channel) {
		if c.subscribed {
			rd.sync(c, nil)
		}
	})
	repairer.rebuild = rd.rebuildWindow
	return rd
}

// reading is what a reader keeps of a feed.
type reading struct {
	window  window
	syncing bool           // the window is being updated from the log
	rebuild bool           // the window is to be rebuilt after the current update
	waiters []func()       // called when the window is up to date
	lost    []*owner.Entry // entries whose bodies the disk has lost, as this update has found
}

// Newest returns when the newest item of a feed was found, or the zero time if the feed has no items.
func (rd *reader) Newest(key overlay.ID) (at time.Time) {
	if c := rd.feeds[key]; c != nil {
		at = c.window.newest()
	}
	return at
}

// VisibleChanged updates the window of a feed, because owner.Owners.Visible has changed.
func (rd *reader) VisibleChanged(key overlay.ID) {
	if c := rd.feeds[key]; c != nil && c.subscribed {
		rd.cutOffs.markCertain(c)
		rd.sync(c, nil)
	}
}

// sync updates a window from its log and then calls then. The worker reads the bodies; entries are applied in their
// order.
func (rd *reader) sync(c *channel, then func()) {
	if then != nil {
		c.waiters = append(c.waiters, then)
	}
	if c.syncing {
		return // the update in progress continues with the new entries
	}
	if c.rebuild {
		c.rebuild = false
		c.window.reset()
		c.lost = nil
	}
	fresh, replaced := entriesAfter(rd.owners.Visible(c.key), c.window.applied)
	if len(fresh) == 0 && !replaced {
		lost, waiting := c.lost, c.waiters
		c.lost, c.waiters = nil, nil
		rd.repairer.recover(c, lost)
		for _, then := range waiting {
			then()
		}
		c.packSmall()
		return
	}
	c.syncing = true
	proceed := func(switchLog func()) {
		rd.entries.step(fresh, decodeNew, func(got []decodedEntry) {
			c.syncing = false
			switchLog()
			rd.apply(c, fresh, got)
			rd.owners.Release(c.key, c.window.applied)
			rd.sync(c, nil) // goes on with the other entries
		})
	}
	if !replaced {
		proceed(func() {})
		return
	}
	// The newest of the orphaned entries are read first. The items of those for which there is no room are not shown
	// until the log has them.
	orphaned := rd.owners.Orphaned(c.key, c.window.applied)
	newest := slices.Clone(orphaned)
	slices.Reverse(newest)
	deltas, at, size := make([]decodedEntry, len(orphaned)), len(orphaned), 0
	rd.entries.walk(newest, decodeNew, func(_ *owner.Entry, d *decodedEntry) bool {
		at--
		deltas[at] = *d
		size += d.size()
		return size < maxExtraBytes
	}, func() {
		proceed(func() {
			rd.stats.Rebuilt++
			c.lost = nil
			c.window.switchLog(orphaned, deltas)
		})
	})
}

// rebuildWindow rebuilds a window from its log, after the update in progress if there is one. None of the items is
// news: they were shown in this life of the node or in an earlier one.
func (rd *reader) rebuildWindow(c *channel) {
	c.rebuild = true
	rd.sync(c, nil)
}

// apply adds the first ones of the fresh entries, which have been decoded, to a window and reports news.
func (rd *reader) apply(c *channel, fresh []*owner.Entry, deltas []decodedEntry) {
	w := &c.window
	shownBefore := slices.ContainsFunc(fresh, func(e *owner.Entry) bool { return e.Hash == w.shownUpTo })
	for i, e := range fresh[:len(deltas)] {
		rd.applyEntry(c, e, deltas[i], shownBefore)
		if shownBefore && e.Hash == w.shownUpTo { // everything up to this entry was shown before
			shownBefore, w.shownUpTo = false, owner.Hash{}
		}
		if deltas[i].bodyLost {
			c.lost = append(c.lost, e)
		}
	}
	rd.trusts.confirm(c)
	log := rd.owners.Visible(c.key)
	if len(log) == 0 {
		return
	}
	first, oldest := log[0].At.Seq, rd.clock.Now().Add(-maxFetchedAge)
	if c.alone {
		oldest = time.Time{} // no other node has these items
	}
	w.forget(first, oldest)
	// The log may have an entry that is not visible yet, and have dropped old ones for it.
	if head := log[len(log)-1]; head.Hash == w.applied && len(rd.owners.Log(c.key)) == len(log) && owner.Hash(w.log.Hash()) != head.Set {
		rd.stats.Unlike++
		rd.log.Warn("items differ from those of the sequencer", "url", c.url, "at", head.At)
	}
}

// applyEntry adds an entry to a window and reports its news, unless its items were shown before.
func (rd *reader) applyEntry(c *channel, e *owner.Entry, d decodedEntry, shownBefore bool) {
	w := &c.window
	var news []difference.Change
	w.keepSigned(d.Delta, c.trust)
	for _, ch := range d.Changes {
		_, kept := w.signed[ch.Item.ID]
		switch {
		case kept && provenance(ch.Publication, c.trust) == Unconfirmed:
		case !w.log.Accepts(ch):
			if ch.Publication != nil {
				rd.refusals.add(Refusal{URL: c.url, Seq: ch.Publication.Seq, Key: ch.Publication.Key, Why: "the log has this older version of an item after a newer one, against the publisher's order: its sequencer has put it there"})
			}
		case !shownBefore && !w.hasShown(&ch.Item):
			news = append(news, ch)
		}
	}
	w.keepVouched(d.Delta)
	missingBefore := w.log.Missing()
	w.log.Apply(d.Delta, e.Time, e.At.Seq)
	if d.unreadable {
		w.unreadable = append(w.unreadable, e.At.Seq)
		if !d.bodyLost {
			rd.repairer.fetchMissing(c)
		}
	}
	if d.Pin != nil {
		rd.trusts.consider(c, d.Pin)
	}
	for _, ch := range d.Changes {
		if m, ok := w.marks[ch.Item.ID]; ok && m.hash != w.log.Version(ch.Item.ID) {
			delete(w.marks, ch.Item.ID)
		}
	}
	rd.certified(c, d.sightings, shownBefore)
	rd.spoken.applied(c, &d.Delta, e.Time)
	rd.noteMissing(c, w.log.Missing()-missingBefore)
	for _, ch := range d.Changes {
		if p := ch.Publication; p != nil {
			rd.pusher.committed(p.Hash)          // a quorum stores what is shown
			rd.refusals.forget(c.url, p, e.Time) // another sequencer may have accepted it
		}
	}
	if d.Head != nil {
		if w.head != nil && difference.HeadVersion(w.head) != difference.HeadVersion(d.Head) {
			w.headAt = env.MomentOf(e.Time)
		}
		w.head = d.Head
		c.leader.shareHead(w.head)
	}
	w.applied = e.Hash
	w.version++
	if len(news) > 0 {
		rd.stats.Shown += uint64(len(news))
		rd.app.News(c.key, news, e.Time)
		rd.audits.shown(c, news)
	} else if d.Head != nil || len(d.Sightings) > 0 {
		rd.app.StateChanged(c.key, c.state, rd.clock.Now()) // readers may be waiting for the first head, or for a certificate
	}
}

// noteMissing counts and reports publications that are missing from a log. The sequencer may have withheld them,
// and only followers can notice that. The origin may still show the items, so it is asked for them.
func (rd *reader) noteMissing(c *channel, n uint64) {
	if n == 0 {
		return
	}
	rd.stats.Lacking += n
	rd.refusals.add(Refusal{URL: c.url, Why: fmt.Sprintf("items that its publisher signed are missing from its log (%d); the web server is asked for them", n)})
	rd.repairer.fetchMissing(c)
}

// Show shows the items of a document that was fetched because no node of the network had what was missing.
func (rd *reader) Show(key overlay.ID, doc *feed.Feed) {
	c := rd.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	d := difference.Delta{Head: &doc.Head}
	for _, it := range doc.Items {
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	rd.showFetched(c, d)
}

// ShowAlone shows what this node's own poll of a feed has found, if the node is still cut off from the feed.
func (rd *reader) ShowAlone(key overlay.ID, d difference.Delta) {
	if c := rd.feeds[key]; c != nil && c.subscribed && c.alone {
		rd.showFetched(c, d)
	}
}

// showFetched shows fetched items as extra items, until the log has them. Only this node vouches for them.
func (rd *reader) showFetched(c *channel, d difference.Delta) {
	rd.sync(c, func() {
		now := rd.clock.Now()
		if news := c.window.addFetched(d, now); len(news) > 0 {
			rd.stats.Shown += uint64(len(news))
			rd.app.News(c.key, news, now)
		}
	})
}

// handOverItems brings items that this node found while it was cut off into the logs. The origin usually still
// shows the items, and then the log has them from its pollers.
func (rd *reader) handOverItems(all []*channel, now time.Time) {
	remaining := handOversAtOnce
	for _, c := range all {
		if c.handOversLeft == 0 || c.alone || c.handOverAt.After(now) || c.leader != nil && !c.leader.ready {
			continue
		}
		if remaining--; remaining < 0 {
			return
		}
		c.handOversLeft, c.handOverAt = c.handOversLeft-1, env.MomentOf(now.Add(handOverPause))
		rd.sync(c, func() { rd.handOver(c) })
	}
}

// handOver hands over the items of one feed.
func (rd *reader) handOver(c *channel) {
	found := c.window.fetched()
	// A page's changes depend on the version before them, so the page's sequencer finds them itself.
	if _, isPage := feed.DocumentURL(c.url); isPage || len(found) == 0 || rd.feeds[c.key] != c {
		c.handOversLeft = 0
		return
	}
	rd.stats.Handed += uint64(len(found))
	if c.leader == nil {
		known := c.window.log.Entries()
		rd.app.HandOver(c.key, c.window.head, found, known[:min(len(known), handOverSample)])
		return
	}
	d := difference.Delta{}
	for _, it := range found {
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	for _, part := range d.Split(maxPart) {
		if body, err := part.Encode(); err == nil {
			rd.absorb(c.key, body)
		}
	}
}
