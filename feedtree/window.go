package feedtree

import (
	"maps"
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
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
	signed map[feed.ID]difference.Entry
	marks  marks // what certificates in the log prove of the items
	// vouched holds the versions of items that owners have vouched for, while they have not vouched for the present ones.
	vouched    map[feed.ID]vouchedEntry
	head       *feed.Head // from the log, or from a fetched document if the log has brought none
	headAt     env.Moment // when the log brought another head than before; Never: it has not
	unreadable []uint64   // sequence numbers of entries that cannot be read, or not completely
	version    uint64
}

// A vouchedEntry is a former version of an item, and what a certificate proves about it.
type vouchedEntry struct {
	difference.Entry
	mark mark
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

// maxExtraBytes bounds the extra items of a feed, beside their number (feed.MaxItems), because they are in memory. At the
// limit the last ones are not shown until the log has them.
const maxExtraBytes = 32 << 20

// maxFetchedAge bounds how long a fetched item is shown if the log never gets it. Logs keep entries for the same
// time, and longer only if they are short.
const maxFetchedAge = 7 * 24 * time.Hour

// hasShown reports whether the window shows this version of an item, or has shown it.
func (w *window) hasShown(it *feed.Item) bool {
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

// newest returns when the newest item was found, or the zero time if there are none.
func (w *window) newest() time.Time {
	at := w.log.Newest()
	for _, e := range w.extras {
		if e.Arrived.After(at) {
			at = e.Arrived
		}
	}
	return at
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
	w.clear()
}

// reset empties a window that is to be rebuilt.
func (w *window) reset() {
	if w.applied != (owner.Hash{}) {
		w.shownUpTo = w.applied
	}
	w.clear()
}

// clear empties the part of a window that comes from the log.
func (w *window) clear() {
	w.log, w.applied, w.unreadable, w.signed = difference.Window{}, owner.Hash{}, nil, nil
	w.marks, w.vouched = nil, nil
	w.version++
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

// keepVouched remembers versions that owners have vouched for and that a delta is about to replace by others. Otherwise a
// node that reports an edit could hide the item from readers who see only what owners have seen.
func (w *window) keepVouched(d difference.Delta) {
	for _, ch := range d.Changes {
		e, _ := w.log.Entry(ch.Item.ID)
		if m := w.marks.of(difference.Version{ID: e.ID, Hash: e.Hash}); m.vouches() && e.Hash != ch.Item.Hash && w.log.Accepts(ch) {
			if w.vouched == nil {
				w.vouched = map[feed.ID]vouchedEntry{}
			}
			w.vouched[e.ID] = vouchedEntry{e, m}
		}
	}
}

// waiting returns how many items neither the publisher nor owners vouch for. Those that owners contest do not count.
func (w *window) waiting() (n int) {
	for e := range w.log.Latest {
		if !e.Signed && w.marks.of(difference.Version{ID: e.ID, Hash: e.Hash}) == (mark{}) {
			n++
		}
	}
	return n
}

// addFetched adds fetched items that the window has not shown as extra items, and returns them.
func (w *window) addFetched(d difference.Delta, now time.Time) (news []difference.Change) {
	var found []extraItem
	w.keepVouched(d)
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
	w.trimExtras()
	if w.head == nil {
		w.head = d.Head
	}
	if len(news) > 0 {
		w.version++
	}
	return news
}

// fetched returns the items that were fetched and that the log does not have.
func (w *window) fetched() (items []feed.Item) {
	for _, e := range w.extras {
		if o, ok := w.log.Entry(e.Item.ID); e.seq == 0 && (!ok || o.Hash != e.Item.Hash) {
			items = append(items, e.Item)
		}
	}
	return items
}

// forget removes what a log that now begins with the entry first no longer has, and extra items as dropReplaced does.
func (w *window) forget(first uint64, oldest time.Time) {
	for _, e := range w.log.Forget(first) {
		w.shown.add(e.ID, e.Hash)
		delete(w.marks, e.ID)
		delete(w.vouched, e.ID)
	}
	maps.DeleteFunc(w.vouched, func(_ feed.ID, e vouchedEntry) bool { return e.Ref < first })
	w.unreadable = slices.DeleteFunc(w.unreadable, func(seq uint64) bool { return seq < first })
	w.dropReplaced(first, oldest)
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
	w.trimExtras()
	maps.DeleteFunc(w.signed, func(_ feed.ID, e difference.Entry) bool { return e.Ref < first })
}

// trimExtras drops the last extra items beyond their bounds.
func (w *window) trimExtras() {
	size := 0
	for i, e := range w.extras {
		if size += len(e.Item.Raw); i == feed.MaxItems || size > maxExtraBytes {
			w.extras = slices.Delete(w.extras, i, len(w.extras))
			return
		}
	}
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

// The provenance of an item says what vouches for it.
const (
	ByPublisher = "publisher"   // the item's envelope is signed by the feed's publisher
	Witnessed   = "witnessed"   // with the number of the feed's owners that have seen it at the origin, as in "witnessed 3/5"
	Contested   = "contested"   // most owners of the feed have looked for it at the origin and did not find it
	Varies      = "varies"      // the origin shows each node another version of it
	Single      = "single"      // a node found it at the origin
	Revoked     = "revoked"     // signed by a key that the origin has withdrawn since
	Unconfirmed = "unconfirmed" // signed by a key that only the log attributes to the feed
)

// provenance returns what vouches for an item that came in publication p, nil if it is unsigned.
func provenance(p *difference.Publication, trust *difference.Pin) string {
	switch {
	case p == nil:
		return Single
	case trust.Valid(p.Key):
		return ByPublisher
	case trust.Revoked(p.Key):
		return Revoked
	}
	return Unconfirmed
}

// A shownCache remembers items that were shown and are not in the log, because their branch was replaced, the log
// is kept no longer, or they were fetched from the origin. If one of them comes again, it is not news. The zero
// value is empty.
type shownCache struct {
	young, old map[feed.ID]feed.Hash
}

// maxShown bounds each of the cache's two generations. An item that has left both may be reported as news again.
// The generations together remember as many items as a document can have.
const maxShown = feed.MaxItems / 2

func (g *shownCache) add(id feed.ID, h feed.Hash) {
	if len(g.young) >= maxShown {
		g.old, g.young = g.young, nil
	}
	if g.young == nil {
		g.young = map[feed.ID]feed.Hash{}
	}
	g.young[id] = h
}

// has reports whether this version of an item was shown.
func (g *shownCache) has(id feed.ID, h feed.Hash) bool {
	last, ok := g.young[id]
	if !ok {
		last, ok = g.old[id]
	}
	return ok && last == h
}
