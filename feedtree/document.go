package feedtree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A Document is a reader's view of a feed.
type Document struct {
	Head    *feed.Head // nil: no head is known yet
	Entries []feed.Entry
	// Vouched holds the versions that owners have vouched for of items whose present versions they have not vouched for.
	Vouched map[feed.ID]feed.Entry
	Version uint64
	Shown   owner.Hash // last entry of the log that it includes
	Changed time.Time  // when the head or an entry was last edited, according to the log; zero: never
	// Pin is the feed's pin according to the log, with the number of the publisher's last item; nil: the feed has
	// no publisher.
	Pin *difference.Pin
}

// maxDocumentBytes bounds the items of a Document: its readers have all of them in memory. The oldest are left out, and people
// are told so.
const maxDocumentBytes = 64 << 20

// A place is that of an item in a log: the number of its entry, and the index of the change in it.
type place struct {
	seq    uint64
	change int
}

// Head passes the same Document as Read, without the entries, to then. It reads no items, so it takes the same time
// for a feed of thousands of items as for an empty one.
func (rd *reader) Head(key overlay.ID, then func(Document)) {
	c := rd.feeds[key]
	if c == nil || !c.subscribed {
		then(Document{})
		return
	}
	first := c.window.version == 0
	rd.sync(c, func() {
		if first { // a list calls Head for many feeds, and does not use their items afterwards
			c.pack()
		}
		then(Document{Head: c.window.head, Version: c.window.version, Pin: c.window.log.Pin()})
	})
}

// Read passes the window of a feed, with the bytes of its items, to then.
func (rd *reader) Read(key overlay.ID, then func(Document)) {
	rd.ReadUnknown(key, nil, then)
}

// ReadUnknown is Read for a caller that has some of the items. Those of which known reports that have only an ID, a hash and what the
// log says of them, but no content, and their entries in the log are not read. known runs on the loop. A feed of which different
// versions are shown to different readers is read as a whole.
func (rd *reader) ReadUnknown(key overlay.ID, known func(difference.Version) bool, then func(Document)) {
	rd.read(key, func(w *window) ([]difference.Entry, func(difference.Version) bool) {
		if len(w.signed) > 0 || len(w.vouched) > 0 {
			return w.log.Entries(), nil
		}
		return w.log.Entries(), known
	}, func(feed.ID) bool { return true }, then)
}

// ReadItems passes those items of a feed to then that are asked for, as Read does. Its time does not depend on the
// length of the feed.
func (rd *reader) ReadItems(key overlay.ID, ids []feed.ID, then func(Document)) {
	wanted := map[feed.ID]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	rd.read(key, func(w *window) (logged []difference.Entry, known func(difference.Version) bool) {
		for id := range wanted {
			if e, ok := w.log.Entry(id); ok {
				logged = append(logged, e)
			}
		}
		slices.SortFunc(logged, func(a, b difference.Entry) int {
			return cmp.Or(cmp.Compare(b.Ref, a.Ref), cmp.Compare(a.Change, b.Change))
		})
		return logged, nil
	}, func(id feed.ID) bool { return wanted[id] }, then)
}

// read reads the items that choose returns of the log, and the extra items for which isWanted is true. Items that are known, if choose
// returns such a function, get no content.
func (rd *reader) read(key overlay.ID, choose func(*window) (logged []difference.Entry, known func(difference.Version) bool), isWanted func(feed.ID) bool, then func(Document)) {
	c := rd.feeds[key]
	if c == nil || !c.subscribed {
		then(Document{})
		return
	}
	rd.sync(c, func() {
		w := &c.window
		d := Document{Head: w.head, Version: w.version, Shown: w.applied, Changed: w.headAt.Time(), Pin: w.log.Pin(), Vouched: map[feed.ID]feed.Entry{}}
		logged, known := choose(w)
		signed, vouched := maps.Clone(w.signed), maps.Clone(w.vouched)
		newer := map[feed.ID]bool{}
		var extras []feed.Entry
		for _, e := range w.extras {
			if !isWanted(e.Item.ID) {
				continue
			}
			e.Provenance = provenance(e.publication, c.trust)
			extras = append(extras, e.Entry)
			newer[e.Item.ID] = true
		}
		shown := slices.DeleteFunc(slices.Clone(logged), func(e difference.Entry) bool { return newer[e.ID] })
		log := rd.owners.Visible(key)
		var needed []*owner.Entry
		refs, places := map[uint64]bool{}, map[place]bool{}
		need := func(e difference.Entry) {
			places[place{e.Ref, e.Change}] = true
			if refs[e.Ref] {
				return
			}
			if i, found := slices.BinarySearchFunc(log, e.Ref, func(of *owner.Entry, seq uint64) int { return cmp.Compare(of.At.Seq, seq) }); found {
				refs[e.Ref] = true
				needed = append(needed, log[i])
			}
		}
		named := map[feed.ID]bool{} // items without content
		for _, e := range shown {
			if e.Changed.After(e.Arrived) && e.Changed.After(d.Changed) {
				d.Changed = e.Changed
			}
			if known != nil && known(difference.Version{ID: e.ID, Hash: e.Hash}) {
				named[e.ID] = true
				continue
			}
			need(e)
			if before, kept := signed[e.ID]; kept {
				need(before)
			}
		}
		for _, e := range logged {
			if before, kept := vouched[e.ID]; kept {
				need(before.Entry)
			}
		}
		slices.SortFunc(needed, func(a, b *owner.Entry) int { return cmp.Compare(b.At.Seq, a.At.Seq) })
		changes, size, oldest := map[place]difference.Change{}, 0, uint64(0)
		rd.entries.walk(needed, rd.entries.rereader(c), func(e *owner.Entry, d *decodedEntry) bool {
			for i, ch := range d.Changes {
				if at := (place{e.At.Seq, i}); places[at] {
					changes[at] = ch
					size += len(ch.Item.Raw)
				}
			}
			if size < maxDocumentBytes || e == needed[len(needed)-1] { // nothing is left out
				return true
			}
			oldest = e.At.Seq
			return false
		}, func() {
			entry := func(e difference.Entry) (_ feed.Entry, ok bool) {
				ch, ok := changes[place{e.Ref, e.Change}]
				if !ok {
					return feed.Entry{}, false
				}
				given := provenance(ch.Publication, c.trust)
				if given == Single {
					given = w.marks.of(difference.Version{ID: e.ID, Hash: e.Hash}).String()
				}
				return feed.Entry{Item: ch.Item, Arrived: e.Arrived, Provenance: given}, true
			}
			for _, e := range shown {
				if named[e.ID] {
					d.Entries = append(d.Entries, feed.Entry{Item: feed.Item{ID: e.ID, Hash: e.Hash}, Arrived: e.Arrived, Withdrawn: e.Withdrawn})
					continue
				}
				current, ok := entry(e)
				if before, kept := signed[e.ID]; kept && current.Provenance != ByPublisher {
					if former, found := entry(before); found {
						current = former
					} else if before.Ref < oldest {
						ok = false // what replaces it does not count
					}
				}
				current.Withdrawn = e.Withdrawn
				if ok {
					d.Entries = append(d.Entries, current)
				}
			}
			for _, e := range logged {
				if before, kept := vouched[e.ID]; kept {
					if former, found := entry(before.Entry); found {
						former.Provenance, former.Withdrawn = before.mark.String(), e.Withdrawn
						d.Vouched[e.ID] = former
					}
				}
			}
			d.Entries = mergeByTime(d.Entries, extras)
			if oldest > 0 {
				rd.refusals.add(Refusal{URL: c.url, Why: fmt.Sprintf("the items of this feed have more than %d MiB, and readers see the newest %d of %d", maxDocumentBytes>>20, len(d.Entries), len(shown)+len(extras))})
			}
			then(d)
		})
	})
}

// Recall passes what this node knows of a feed to then: the items of its copy of the log and its extra items. A
// document is compared with that as a sequencer would compare it.
func (rd *reader) Recall(key overlay.ID, then func(*difference.Known)) {
	c := rd.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	rd.sync(c, func() {
		known := new(difference.Known)
		rd.entries.walk(rd.owners.Visible(key), rd.entries.rereader(c), func(_ *owner.Entry, d *decodedEntry) bool {
			known.AddLogged(d.Delta)
			return true
		}, func() {
			for _, e := range c.window.extras {
				known.Add(difference.Delta{Changes: []difference.Change{{Item: e.Item}}})
			}
			then(known)
		})
	})
}
