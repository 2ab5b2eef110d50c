package feedtree

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A window is what readers see of a feed.
type window struct {
	log       difference.Window // items of the log, up to the entry applied
	applied   owner.Hash        // last entry that the window includes
	shownUpTo owner.Hash        // entries up to this one are not reported as news: they were shown in an earlier life
	shown     shownCache
	extras    []extraItem // items shown although the log does not have them, the newest first
	// signed holds items whose version signed by a trusted key was followed in the log by a version signed by an
	// untrusted one. The window shows the former.
	signed     map[feed.ID]difference.Entry
	head       *feed.Head // from the log, or from a fetched document if the log has brought none
	unreadable []uint64   // sequence numbers of entries that cannot be read, or not completely
	version    uint64
}

// An extraItem is an item that is shown although the log does not have it (yet): it was fetched, or comes from a
// branch that was replaced.
type extraItem struct {
	feed.Entry
	publication *difference.Publication // the signed envelope of the item; nil: the item is unsigned
	seq         uint64                  // number of its entry in the replaced branch; 0: it was fetched
	// replaced is the version in the log whose place a fetched item took; zero: the log had none.
	replaced feed.Hash
}

// maxFetchedAge bounds how long a fetched item is shown if the log never gets it. Logs keep entries for the same
// time, and longer only if they are short.
const maxFetchedAge = 7 * 24 * time.Hour

// hasShown reports whether the window shows this version of an item, or has shown it.
func (w *window) hasShown(it *feed.Item) bool {
	if plant.ShowTwice {
		return false
	}
	if e, ok := w.log.Entry(it.ID); ok && e.Hash == it.Hash {
		return true
	}
	return w.shown.has(it.ID, it.Hash)
}

// itemCount returns the number of items in the window.
func (w *window) itemCount() int {
	n := w.log.Len()
	for _, e := range w.extras {
		if _, ok := w.log.Entry(e.Item.ID); !ok {
			n++
		}
	}
	return n
}

// Newest returns when the newest item of a feed was found, or the zero time if the feed has no items.
func (f *FeedTree) Newest(key overlay.ID) (at time.Time) {
	c := f.feeds[key]
	if c == nil {
		return at
	}
	at = c.window.log.Newest()
	for _, e := range c.window.extras {
		if e.Arrived.After(at) {
			at = e.Arrived
		}
	}
	return at
}

// VisibleChanged updates the window of a feed, because owner.Owners.Visible has changed.
func (f *FeedTree) VisibleChanged(key overlay.ID) {
	if c := f.feeds[key]; c != nil && c.subscribed {
		c.confirmed = f.clock.Now()
		f.markHeard(c)
		f.sync(c, nil)
	}
}

// sync updates a window from its log and then calls then. The worker reads the bodies; entries are applied in their
// order.
func (f *FeedTree) sync(c *channel, then func()) {
	if then != nil {
		c.waiters = append(c.waiters, then)
	}
	if c.syncing {
		return // the update in progress continues with the new entries
	}
	if c.rebuild {
		c.rebuild = false
		c.window.reset()
	}
	fresh, replaced := entriesAfter(f.owners.Visible(c.key), c.window.applied)
	if len(fresh) == 0 && !replaced {
		waiting := c.waiters
		c.waiters = nil
		for _, then := range waiting {
			then()
		}
		return
	}
	c.syncing = true
	var orphaned []*owner.Entry
	if replaced {
		orphaned = f.owners.Orphaned(c.key, c.window.applied)
	}
	f.decodeEntries(slices.Concat(orphaned, fresh), func(got []decodedEntry) {
		c.syncing = false
		if replaced {
			f.stats.Anew++
			c.window.switchLog(orphaned, got[:len(orphaned)])
		}
		f.apply(c, fresh, got[len(orphaned):])
		f.owners.Release(c.key, c.window.applied)
		f.sync(c, nil)
	})
}

// entriesAfter returns the entries of a log after have. If the log does not contain have, it has been replaced, and
// all its entries are returned.
func entriesAfter(log []*owner.Entry, have owner.Hash) (fresh []*owner.Entry, replaced bool) {
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].Hash == have {
			return log[i+1:], false
		}
	}
	return log, have != (owner.Hash{})
}

// A decodedEntry is the content of an entry, as far as it could be read.
type decodedEntry struct {
	difference.Delta
	// unreadable is set if part of the body or all of it could not be read: the disk has lost it, or the sequencer
	// signed something other than a delta.
	unreadable bool
	bodyLost   bool // the disk does not have the body
}

// decodeEntries reads the bodies of entries as far as possible, and counts and reports those that are unreadable.
func (f *FeedTree) decodeEntries(entries []*owner.Entry, then func([]decodedEntry)) {
	f.owners.Bodies(entries, func(bodies [][]byte) {
		got := make([]decodedEntry, len(entries))
		f.worker.Do(func() {
			for i, b := range bodies {
				d, err := difference.Decode(b)
				if f.signedForFeed(entries[i].Key, d) {
					got[i].Delta = d
				} else {
					err = errOtherFeed
				}
				got[i].unreadable, got[i].bodyLost = err != nil || b == nil, b == nil
			}
		}, func() {
			for i, e := range entries {
				if got[i].unreadable {
					f.stats.Unread++
					if c := f.feeds[e.Key]; c != nil {
						f.addRefusal(Refusal{URL: c.url, Why: "an entry of the log cannot be read, or holds an item that the publisher has not signed for this feed"})
					}
				}
			}
			then(got)
		})
	})
}

// errOtherFeed reports an entry with a publication that was signed for another feed.
var errOtherFeed = errors.New("the publication belongs to another feed")

// signedForFeed reports whether all publications in a delta were signed for this feed. A publisher may use one key
// for several feeds, and its items must not be moved from one to another.
func (f *FeedTree) signedForFeed(key overlay.ID, d difference.Delta) bool {
	return !slices.ContainsFunc(d.Changes, func(ch difference.Change) bool {
		return ch.Publication != nil && overlay.Key(f.node.Network(), ch.Publication.URL) != key
	})
}

// switchLog empties a window because another branch has replaced its log. Items of the orphaned entries stay
// visible as extra items until the new log has them: branches that meet are merged, so most items come again, and
// the others would be lost.
func (w *window) switchLog(orphaned []*owner.Entry, deltas []decodedEntry) {
	index := map[uint64]int{}
	for i, e := range orphaned {
		index[e.At.Seq] = i
	}
	isExtra := map[feed.ID]bool{} // items that are extra items already
	for _, e := range w.extras {
		isExtra[e.Item.ID] = true
	}
	for _, e := range w.log.Entries() {
		w.shown.add(e.ID, e.Hash)
		if i, ok := index[e.Ref]; ok && e.Change < len(deltas[i].Changes) && !isExtra[e.ID] {
			ch := deltas[i].Changes[e.Change]
			w.extras = append(w.extras, extraItem{Entry: feed.Entry{Item: ch.Item, Arrived: e.Arrived}, publication: ch.Publication, seq: e.Ref})
		}
	}
	w.log, w.applied, w.unreadable, w.signed = difference.Window{}, owner.Hash{}, nil, nil
	w.version++
}

// apply adds entries to a window and reports news.
func (f *FeedTree) apply(c *channel, fresh []*owner.Entry, deltas []decodedEntry) {
	w := &c.window
	var lost []*owner.Entry
	defer func() { f.recoverBodies(c, lost) }()
	shownBefore := false
	for _, e := range fresh {
		shownBefore = shownBefore || e.Hash == w.shownUpTo // everything up to that entry was shown before
	}
	for i, e := range fresh {
		var news []difference.Change
		w.keepSigned(deltas[i].Delta, c.trust)
		for _, ch := range deltas[i].Changes {
			_, kept := w.signed[ch.Item.ID]
			switch {
			case kept && provenance(ch.Publication, c.trust) == Unconfirmed:
			case !w.log.Accepts(ch):
				if ch.Publication != nil {
					f.addRefusal(Refusal{URL: c.url, Seq: ch.Publication.Seq, Key: ch.Publication.Key, Why: "the log has this older version of an item after a newer one, against the publisher's order: its sequencer has put it there"})
				}
			case !shownBefore && !w.hasShown(&ch.Item):
				news = append(news, ch)
			}
		}
		if shownBefore && e.Hash == w.shownUpTo {
			shownBefore, w.shownUpTo = false, owner.Hash{}
		}
		missingBefore := w.log.Missing()
		w.log.Apply(deltas[i].Delta, e.Time, e.At.Seq)
		switch {
		case deltas[i].bodyLost:
			lost = append(lost, e)
		case deltas[i].unreadable:
			f.scheduleOriginFetch(c)
		}
		if deltas[i].unreadable {
			w.unreadable = append(w.unreadable, e.At.Seq)
		}
		if deltas[i].Pin != nil {
			f.considerPin(c, deltas[i].Pin)
		}
		f.noteMissing(c, w.log.Missing()-missingBefore)
		for _, ch := range deltas[i].Changes {
			if p := f.pushes[publicationHash(ch.Publication)]; p != nil {
				f.endPush(p, nil) // a quorum stores what is shown
			}
			if ch.Publication != nil {
				f.forgetRefusal(c, ch.Publication, e.Time) // another sequencer may have accepted it
			}
		}
		if deltas[i].Head != nil {
			w.head = deltas[i].Head
		}
		w.applied = e.Hash
		w.version++
		if len(news) > 0 {
			f.stats.Shown += uint64(len(news))
			f.app.News(c.key, news, e.Time)
		} else if deltas[i].Head != nil {
			f.app.StateChanged(c.key, c.state, f.clock.Now()) // readers may be waiting for the first head
		}
	}
	f.confirmPin(c)
	log := f.owners.Visible(c.key)
	if len(log) == 0 {
		return
	}
	first := log[0].At.Seq
	if plant.ForgetWindow {
		first = log[len(log)-1].At.Seq
	}
	for _, e := range w.log.Forget(first) {
		w.shown.add(e.ID, e.Hash)
	}
	w.unreadable = slices.DeleteFunc(w.unreadable, func(seq uint64) bool { return seq < first })
	oldest := f.clock.Now().Add(-maxFetchedAge)
	if c.alone {
		oldest = time.Time{} // no other node has these items
	}
	w.dropReplaced(first, oldest)
	if head := log[len(log)-1]; head.Hash == w.applied && owner.Hash(w.log.Hash()) != head.Set {
		f.stats.Unlike++
		f.log.Warn("items differ from those of the sequencer", "url", c.url, "at", head.At)
	}
}

// noteMissing counts and reports publications that are missing from a log. The sequencer may have withheld them,
// and only followers can notice that. The origin may still show the items, so it is asked for them.
func (f *FeedTree) noteMissing(c *channel, n uint64) {
	if n == 0 {
		return
	}
	f.stats.Lacking += n
	f.addRefusal(Refusal{URL: c.url, Why: fmt.Sprintf("items that its publisher signed are missing from its log (%d); the web server is asked for them", n)})
	f.scheduleOriginFetch(c)
}

// scheduleOriginFetch asks the origin, within a polling interval, for items that the log should have.
func (f *FeedTree) scheduleOriginFetch(c *channel) {
	if !c.needsOrigin {
		c.needsOrigin = true
		f.scheduleFetch(c)
	}
}

// keepSigned remembers items signed by a trusted key that a delta is about to replace by versions signed by an
// untrusted one.
func (w *window) keepSigned(d difference.Delta, trust *difference.Pin) {
	for _, ch := range d.Changes {
		e, known := w.log.Entry(ch.Item.ID)
		if _, kept := w.signed[e.ID]; kept || !known || !e.Signed || ch.Publication == nil || trust == nil || provenance(ch.Publication, trust) != Unconfirmed {
			continue
		}
		if w.signed == nil {
			w.signed = map[feed.ID]difference.Entry{}
		}
		w.signed[e.ID] = e
	}
}

// dropReplaced removes extra items that are no longer needed. first is the number of the first entry of the log. An
// item of a replaced branch goes when the log has the item, or when its entry would be older than the log. A
// fetched item goes when the log has another version than the one it replaced, or, if the log never had the item,
// when it was fetched before oldest.
func (w *window) dropReplaced(first uint64, oldest time.Time) {
	w.extras = slices.DeleteFunc(w.extras, func(e extraItem) bool {
		o, ok := w.log.Entry(e.Item.ID)
		switch {
		case e.seq != 0:
			return ok || e.seq < first
		case ok:
			return e.replaced == (feed.Hash{}) || o.Hash != e.replaced
		}
		return e.Arrived.Before(oldest)
	})
	w.extras = w.extras[:min(len(w.extras), feed.MaxItems)]
	maps.DeleteFunc(w.signed, func(_ feed.ID, e difference.Entry) bool { return e.Ref < first })
}

// Show shows the items of a document that was fetched because no node of the network had what was missing.
func (f *FeedTree) Show(key overlay.ID, doc *feed.Feed) {
	c := f.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	d := difference.Delta{Head: &doc.Head}
	for _, it := range doc.Items {
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	f.showFetched(c, d)
}

// showFetched shows fetched items as extra items, until the log has them. Only this node vouches for them.
func (f *FeedTree) showFetched(c *channel, d difference.Delta) {
	f.sync(c, func() {
		w := &c.window
		now := f.clock.Now()
		var news []difference.Change
		var found []extraItem
		for _, ch := range d.Changes {
			// A document's short version of an item that the publisher has signed is not news.
			if it := ch.Item; !w.hasShown(&it) && w.log.Accepts(difference.Change{Item: it}) {
				w.shown.add(it.ID, it.Hash)
				w.extras = slices.DeleteFunc(w.extras, func(e extraItem) bool { return e.Item.ID == it.ID })
				before, _ := w.log.Entry(it.ID)
				found = append(found, extraItem{Entry: feed.Entry{Item: it, Arrived: now}, replaced: before.Hash})
				news = append(news, difference.Change{Item: it})
			}
		}
		w.extras = append(found, w.extras...) // documents begin with the newest item
		w.extras = w.extras[:min(len(w.extras), feed.MaxItems)]
		if w.head == nil {
			w.head = d.Head
		}
		if len(news) > 0 {
			w.version++
			f.stats.Shown += uint64(len(news))
			f.app.News(c.key, news, now)
		}
	})
}

// A Document is a reader's view of a feed.
type Document struct {
	Head    *feed.Head // nil: no head is known yet
	Entries []feed.Entry
	Version uint64
	// Pin is the feed's pin according to the log, with the number of the publisher's last item; nil: the feed has
	// no publisher.
	Pin *difference.Pin
}

// Head passes the same Document as Read, without the entries, to then. It reads no items, so it takes the same time
// for a feed of thousands of items as for an empty one.
func (f *FeedTree) Head(key overlay.ID, then func(Document)) {
	c := f.feeds[key]
	if c == nil || !c.subscribed {
		then(Document{})
		return
	}
	f.sync(c, func() {
		then(Document{Head: c.window.head, Version: c.window.version, Pin: c.window.log.Pin()})
	})
}

// Read passes the window of a feed, with the bytes of its items, to then.
func (f *FeedTree) Read(key overlay.ID, then func(Document)) {
	c := f.feeds[key]
	if c == nil || !c.subscribed {
		then(Document{})
		return
	}
	f.sync(c, func() {
		w := &c.window
		d := Document{Head: w.head, Version: w.version, Pin: w.log.Pin()}
		shown := w.log.Entries()
		signed := maps.Clone(w.signed)
		newer := map[feed.ID]bool{}
		var extras []feed.Entry
		for _, e := range w.extras {
			e.Provenance = provenance(e.publication, c.trust)
			extras = append(extras, e.Entry)
			newer[e.Item.ID] = true
		}
		shown = slices.DeleteFunc(shown, func(e difference.Entry) bool { return newer[e.ID] })
		bySeq := map[uint64]*owner.Entry{}
		for _, e := range f.owners.Visible(key) {
			bySeq[e.At.Seq] = e
		}
		var needed []*owner.Entry
		index := map[uint64]int{}
		need := func(e difference.Entry) {
			if _, known := index[e.Ref]; !known && bySeq[e.Ref] != nil {
				index[e.Ref] = len(needed)
				needed = append(needed, bySeq[e.Ref])
			}
		}
		for _, e := range shown {
			need(e)
			if before, kept := signed[e.ID]; kept {
				need(before)
			}
		}
		f.decodeEntries(needed, func(deltas []decodedEntry) {
			entry := func(e difference.Entry) (_ feed.Entry, ok bool) {
				i, ok := index[e.Ref]
				if !ok || e.Change >= len(deltas[i].Changes) {
					return feed.Entry{}, false
				}
				ch := deltas[i].Changes[e.Change]
				return feed.Entry{Item: ch.Item, Arrived: e.Arrived, Provenance: provenance(ch.Publication, c.trust)}, true
			}
			for _, e := range shown {
				current, ok := entry(e)
				if before, kept := signed[e.ID]; kept && current.Provenance != ByPublisher {
					if former, found := entry(before); found {
						current = former
					}
				}
				if ok {
					d.Entries = append(d.Entries, current)
				}
			}
			d.Entries = mergeByTime(d.Entries, extras)
			then(d)
		})
	})
}

// mergeByTime inserts entries that are not in the log into those of the log, whose order stays. Each goes before
// the first entry that is older.
func mergeByTime(log, extras []feed.Entry) []feed.Entry {
	slices.SortStableFunc(extras, func(a, b feed.Entry) int { return b.Arrived.Compare(a.Arrived) })
	all := make([]feed.Entry, 0, len(log)+len(extras))
	for _, e := range log {
		for len(extras) > 0 && !extras[0].Arrived.Before(e.Arrived) {
			all, extras = append(all, extras[0]), extras[1:]
		}
		all = append(all, e)
	}
	return append(all, extras...)
}
