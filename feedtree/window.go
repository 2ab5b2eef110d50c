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
	log       difference.Window // by the log, as far as applied
	applied   owner.Hash        // the last entry in it
	shownUpTo owner.Hash        // up to which nothing is news: it was shown in an earlier life
	shown     shownCache
	extras    []extraItem // ghosts that are still shown
	// signed are versions that the publisher signed and that others have followed in the log, signed
	// by a key that this node does not believe: these are shown in their place.
	signed  map[feed.ID]difference.Entry
	head    *feed.Head // the last that the log brought, or a document that was fetched
	unread  []uint64   // sequence numbers of the log's entries that cannot be read, wholly or in part
	version uint64
}

// An extra is an item that is shown beside those of the log, until the log has it: it
// was fetched, or comes of a log that gave way to another.
type extraItem struct {
	feed.Entry
	publication *difference.Publication // that it came in; nil: it is unsigned
	seq         uint64                  // its place in that log: forgotten with those of the same age; 0: it was fetched
	// over is the version in the log that one that was fetched took the place of; zero: there was none.
	replaced feed.Hash
}

// fetchedFor bounds how long a fetched item is shown that the log never gets. Logs keep their entries for
// as long, and longer only if they have few.
const maxFetchedAge = 7 * 24 * time.Hour

// shows says whether a window shows an item in this version, or has shown it.
func (w *window) hasShown(it *feed.Item) bool {
	if plant.ShowAgain {
		return false
	}
	if e, ok := w.log.Entry(it.ID); ok && e.Hash == it.Hash {
		return true
	}
	return w.shown.has(it.ID, it.Hash)
}

// items is how many items are shown.
func (w *window) itemCount() int {
	n := w.log.Len()
	for _, e := range w.extras {
		if _, ok := w.log.Entry(e.Item.ID); !ok {
			n++
		}
	}
	return n
}

// Newest is when the last new item of a feed was found, the zero time if it has none.
func (f *FeedTree) Newest(key overlay.ID) (at time.Time) {
	c := f.feeds[key]
	if c == nil {
		return at
	}
	at = c.window.log.Newest()
	for _, e := range c.window.extras {
		if e.At.After(at) {
			at = e.At
		}
	}
	return at
}

// Grew brings the window of a feed up to its log.
func (f *FeedTree) VisibleChanged(key overlay.ID) {
	if c := f.feeds[key]; c != nil && c.subscribed {
		c.confirmed = f.clock.Now()
		f.markHeard(c)
		f.sync(c, nil)
	}
}

// sync applies to a window what its log has beyond it, and then goes on. Bodies
// are read, off the loop, in the order of entries.
func (f *FeedTree) sync(c *channel, then func()) {
	if then != nil {
		c.waiters = append(c.waiters, then)
	}
	if c.syncing {
		return // it goes on with what has come meanwhile
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

// since returns the entries of a log after one; anew says that it is not there.
func entriesAfter(log []*owner.Entry, have owner.Hash) (fresh []*owner.Entry, replaced bool) {
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].Hash == have {
			return log[i+1:], false
		}
	}
	return log, have != (owner.Hash{})
}

// A content is what an entry of a log brings.
type decodedEntry struct {
	difference.Delta
	// unread says that some of it, or all, could not be read: the body was lost from the disk,
	// or the sequencer signed something that is no delta.
	unreadable bool
	bodyLost   bool // the body is not on the disk
}

// read reads what entries bring, as far as it can be read.
func (f *FeedTree) decodeEntries(of []*owner.Entry, then func([]decodedEntry)) {
	f.owners.Bodies(of, func(bodies [][]byte) {
		got := make([]decodedEntry, len(of))
		f.worker.Do(func() {
			for i, b := range bodies {
				d, err := difference.Decode(b)
				if f.signedForFeed(of[i].Key, d) {
					got[i].Delta = d
				} else {
					err = errOtherFeed
				}
				got[i].unreadable, got[i].bodyLost = err != nil || b == nil, b == nil
			}
		}, func() {
			for i, e := range of {
				if got[i].unreadable {
					f.stats.Unread++
					if c := f.feeds[e.Key]; c != nil {
						f.addRefusal(Refusal{URL: c.url, Why: "an entry of its log cannot be read, or has what its publisher has not signed, or not for this feed"})
					}
				}
			}
			then(got)
		})
	})
}

// errForeign says that an entry holds a publication that was signed for another feed.
var errOtherFeed = errors.New("a publication of another feed")

// owns says whether all that publishers have signed in a delta was signed for this feed: a
// publisher with several of them may have one key, and what it says in one is not said in another.
func (f *FeedTree) signedForFeed(key overlay.ID, d difference.Delta) bool {
	return !slices.ContainsFunc(d.Changes, func(ch difference.Change) bool {
		return ch.Publication != nil && overlay.Key(f.node.Network(), ch.Publication.URL) != key
	})
}

// leave empties a window, because the log it is made of is another now. What was shown of
// the old one alone, whose entries are gone, is shown until the new one has it: when two
// lineages meet, it comes again, or nobody has it any more.
func (w *window) switchLog(orphaned []*owner.Entry, deltas []decodedEntry) {
	place := map[uint64]int{}
	for i, e := range orphaned {
		place[e.At.Seq] = i
	}
	beside := map[feed.ID]bool{} // items that are shown beside the log already
	for _, e := range w.extras {
		beside[e.Item.ID] = true
	}
	for _, e := range w.log.Entries() {
		w.shown.add(e.ID, e.Hash)
		if i, ok := place[e.Ref]; ok && e.Change < len(deltas[i].Changes) && !beside[e.ID] {
			ch := deltas[i].Changes[e.Change]
			w.extras = append(w.extras, extraItem{Entry: feed.Entry{Item: ch.Item, At: e.At}, publication: ch.Publication, seq: e.Ref})
		}
	}
	w.log, w.applied, w.unread, w.signed = difference.Window{}, owner.Hash{}, nil, nil
	w.version++
}

// apply brings entries into a window and tells what is news.
func (f *FeedTree) apply(c *channel, fresh []*owner.Entry, deltas []decodedEntry) {
	w := &c.window
	var lost []*owner.Entry
	defer func() { f.recoverBodies(c, lost) }()
	quiet := false
	for _, e := range fresh {
		quiet = quiet || e.Hash == w.shownUpTo // all up to it were shown before
	}
	for i, e := range fresh {
		var news []difference.Change
		w.keepSigned(deltas[i].Delta, c.trust)
		for _, ch := range deltas[i].Changes {
			_, held := w.signed[ch.Item.ID]
			switch {
			case held && provenance(ch.Publication, c.trust) == Unconfirmed:
			case !w.log.Takes(ch):
				if ch.Publication != nil {
					f.addRefusal(Refusal{URL: c.url, Seq: ch.Publication.Seq, Key: ch.Publication.Key, Why: "its log has this older version of an item behind a newer one: who leads the feed has put it there"})
				}
			case !quiet && !w.hasShown(&ch.Item):
				news = append(news, ch)
			}
		}
		if quiet && e.Hash == w.shownUpTo {
			quiet, w.shownUpTo = false, owner.Hash{}
		}
		lacked := w.log.Lacks()
		w.log.Apply(deltas[i].Delta, e.Time, e.At.Seq)
		switch {
		case deltas[i].bodyLost:
			lost = append(lost, e)
		case deltas[i].unreadable:
			f.scheduleOriginFetch(c)
		}
		if deltas[i].unreadable {
			w.unread = append(w.unread, e.At.Seq)
		}
		if deltas[i].Pin != nil {
			f.considerPin(c, deltas[i].Pin)
		}
		f.noteMissing(c, w.log.Lacks()-lacked)
		for _, ch := range deltas[i].Changes {
			if p := f.pushes[publicationHash(ch.Publication)]; p != nil {
				f.endPush(p, nil) // a quorum holds what is shown
			}
			if ch.Publication != nil {
				f.forgetRefusal(c, ch.Publication, e.Time) // by another sequencer, perhaps
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
	if plant.ShortMemory {
		first = log[len(log)-1].At.Seq
	}
	for _, e := range w.log.Forget(first) {
		w.shown.add(e.ID, e.Hash)
	}
	w.unread = slices.DeleteFunc(w.unread, func(seq uint64) bool { return seq < first })
	oldest := f.clock.Now().Add(-maxFetchedAge)
	if c.alone {
		oldest = time.Time{} // nobody else has them
	}
	w.dropReplaced(first, oldest)
	if head := log[len(log)-1]; head.Hash == w.applied && owner.Hash(w.log.Hash()) != head.Set {
		f.stats.Unlike++
		f.log.Warn("items differ from those of the sequencer", "url", c.url, "at", head.At)
	}
}

// lacks notes that a log leaves out publications: who leads the feed may have withheld them, and nobody has to
// have noticed but those who follow. The origin may have the items.
func (f *FeedTree) noteMissing(c *channel, n uint64) {
	if n == 0 {
		return
	}
	f.stats.Lacking += n
	f.addRefusal(Refusal{URL: c.url, Why: fmt.Sprintf("items that its publisher signed are missing from its log (%d): the web server is asked for them", n)})
	f.scheduleOriginFetch(c)
}

// lack asks the origin, soon, for items that the log of a feed should have and has not.
func (f *FeedTree) scheduleOriginFetch(c *channel) {
	if !c.needsOrigin {
		c.needsOrigin = true
		f.scheduleFetch(c)
	}
}

// hold keeps what the publisher has signed from being replaced by what somebody else has.
func (w *window) keepSigned(d difference.Delta, trust *difference.Pin) {
	for _, ch := range d.Changes {
		e, known := w.log.Entry(ch.Item.ID)
		if _, held := w.signed[e.ID]; held || !known || !e.Signed || ch.Publication == nil || trust == nil || provenance(ch.Publication, trust) != Unconfirmed {
			continue
		}
		if w.signed == nil {
			w.signed = map[feed.ID]difference.Entry{}
		}
		w.signed[e.ID] = e
	}
}

// settle lets what is shown beside the log, which begins with entry first, give way to what
// is in it, and go when it is older, or was fetched before the oldest time. A version that was fetched
// stays as long as the log has the version that it took the place of.
func (w *window) dropReplaced(first uint64, oldest time.Time) {
	w.extras = slices.DeleteFunc(w.extras, func(e extraItem) bool {
		o, ok := w.log.Entry(e.Item.ID)
		switch {
		case e.seq != 0:
			return ok || e.seq < first
		case ok:
			return e.replaced == (feed.Hash{}) || o.Hash != e.replaced
		}
		return e.At.Before(oldest)
	})
	w.extras = w.extras[:min(len(w.extras), feed.MaxItems)]
	maps.DeleteFunc(w.signed, func(_ feed.ID, e difference.Entry) bool { return e.Ref < first })
}

// Show shows items of a document that was fetched because nobody in the network
// could help.
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

// show shows items that were fetched. They are not in the log, and give way to it; until then they are
// this node's own word, which is one.
func (f *FeedTree) showFetched(c *channel, d difference.Delta) {
	f.sync(c, func() {
		w := &c.window
		now := f.clock.Now()
		var news []difference.Change
		var found []extraItem
		for _, ch := range d.Changes {
			// The headline of what a publisher has signed is no news.
			if it := ch.Item; !w.hasShown(&it) && w.log.Takes(difference.Change{Item: it}) {
				w.shown.add(it.ID, it.Hash)
				w.extras = slices.DeleteFunc(w.extras, func(e extraItem) bool { return e.Item.ID == it.ID })
				before, _ := w.log.Entry(it.ID)
				found = append(found, extraItem{Entry: feed.Entry{Item: it, At: now}, replaced: before.Hash})
				news = append(news, difference.Change{Item: it})
			}
		}
		w.extras = append(found, w.extras...) // documents have the newest first
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

// A Document is what a reader sees of a feed.
type Document struct {
	Head    *feed.Head // nil: nothing is known yet
	Entries []feed.Entry
	Version uint64
	// Pin is whose the feed is, with the publisher's last item in it, as the log says; nil: nobody's.
	Pin *difference.Pin
}

// Head hands to then what Read does, apart from the entries. It reads no item, and so takes as long for
// a feed of thousands of items as for an empty one.
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

// Read hands the window of a feed to then, with the bytes of its items.
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
		var beside []feed.Entry
		for _, e := range w.extras {
			e.Provenance = provenance(e.publication, c.trust)
			beside = append(beside, e.Entry)
			newer[e.Item.ID] = true
		}
		shown = slices.DeleteFunc(shown, func(e difference.Entry) bool { return newer[e.ID] })
		by := map[uint64]*owner.Entry{}
		for _, e := range f.owners.Visible(key) {
			by[e.At.Seq] = e
		}
		var of []*owner.Entry
		place := map[uint64]int{}
		wants := func(e difference.Entry) {
			if _, known := place[e.Ref]; !known && by[e.Ref] != nil {
				place[e.Ref] = len(of)
				of = append(of, by[e.Ref])
			}
		}
		for _, e := range shown {
			wants(e)
			if before, held := signed[e.ID]; held {
				wants(before)
			}
		}
		f.decodeEntries(of, func(deltas []decodedEntry) {
			entry := func(e difference.Entry) (_ feed.Entry, ok bool) {
				i, ok := place[e.Ref]
				if !ok || e.Change >= len(deltas[i].Changes) {
					return feed.Entry{}, false
				}
				ch := deltas[i].Changes[e.Change]
				return feed.Entry{Item: ch.Item, At: e.At, Provenance: provenance(ch.Publication, c.trust)}, true
			}
			for _, e := range shown {
				is, ok := entry(e)
				if before, held := signed[e.ID]; held && is.Provenance != ByPublisher {
					if was, kept := entry(before); kept {
						is = was
					}
				}
				if ok {
					d.Entries = append(d.Entries, is)
				}
			}
			d.Entries = mergeByTime(d.Entries, beside)
			then(d)
		})
	})
}

// among merges entries beside the log into the log's entries, which keep their order. Each goes before the
// first entry that is older.
func mergeByTime(log, beside []feed.Entry) []feed.Entry {
	slices.SortStableFunc(beside, func(a, b feed.Entry) int { return b.At.Compare(a.At) })
	all := make([]feed.Entry, 0, len(log)+len(beside))
	for _, e := range log {
		for len(beside) > 0 && !beside[0].At.Before(e.At) {
			all, beside = append(all, beside[0]), beside[1:]
		}
		all = append(all, e)
	}
	return append(all, beside...)
}
