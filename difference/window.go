package difference

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"tidings/internal/feed"
)

// A Window is the union of the items in a log, as far as the log is kept: what readers are shown. Its items and
// their versions are a function of the kept deltas, the same for every node, whenever it joined. A window has
// references to the deltas and no content. The zero value is empty.
//
// A feed may publish thousands of items within minutes. The cost of Apply, Forget and Hash therefore depends
// only on the number of items that they add or drop.
type Window struct {
	first          *node // in document order
	oldest, newest *node // in the order of their references
	byID           map[feed.ID]*node
	sum            sum    // over all entries
	head           uint64 // reference of the delta that brought the head
	pin            *Pin   // according to the deltas
	pinRef         uint64 // reference of the delta that brought the pin
	gaps           []gap  // in the order of their references
	missing        uint64 // number of missing publications in all gaps
	packing               // of first, oldest, newest and byID
}

// A gap is a place where publications are missing between two that the log has.
type gap struct {
	n   uint64
	ref uint64 // reference of the delta after the gap
}

// A node is an entry in two lists: in document order and in the order of references.
type node struct {
	Entry
	before, next *node
	older, newer *node
}

// An Entry is an item in a window.
type Entry struct {
	ID   feed.ID
	Hash feed.Hash
	// Arrived is when the item first arrived, Changed when this version did.
	Arrived, Changed time.Time
	// Ref is the caller's reference of the delta that brought this version, and Change the index in that delta.
	Ref    uint64
	Change int
	// Signed says that this version came in a publisher's envelope.
	Signed bool
	// Withdrawn says that the origin no longer shows the item, although it still shows items around it.
	Withdrawn bool
	Number    uint64 // highest number of a publication of the item; 0: none
}

// Apply adds a delta. ref is the caller's reference, not 0 and higher than those before. A new item goes behind
// its predecessor in the document, or to the front if that is missing here. A known item keeps its place.
// Changes that [Window.Accepts] refuses are left out.
func (w *Window) Apply(d Delta, at time.Time, ref uint64) {
	if w.unpack(); w.byID == nil {
		w.byID = map[feed.ID]*node{}
	}
	if d.Head != nil {
		w.head = ref
	}
	w.countGaps(d, ref)
	if d.Pin != nil {
		w.pin, w.pinRef = d.Pin, ref
	}
	for i, c := range d.Changes {
		e := Entry{ID: c.Item.ID, Hash: c.Item.Hash, Arrived: at, Changed: at, Ref: ref, Change: i}
		accepted := w.Accepts(c)
		if p := c.Publication; p != nil {
			e.Signed = true
			if w.pin.Valid(p.Key) { // a stranger could use a number that the publisher never reaches
				e.Number = p.Seq
			}
			w.pin = w.pin.Advance(p)
		}
		if p := w.byID[e.ID]; p != nil {
			if !accepted {
				p.Withdrawn = false // as Known says of each item that a document has
				continue
			}
			e.Arrived, e.Number = p.Arrived, max(e.Number, p.Number)
			if e.Hash == p.Hash {
				e.Changed = p.Changed
			}
			w.unlinkRef(p)
			w.sum.sub(&p.Entry)
			p.Entry = e
			w.sum.add(&p.Entry)
			w.linkNewest(p)
			continue
		}
		w.insert(&node{Entry: e}, w.byID[c.After])
	}
	w.mark(d.Withdrawn, true)
	w.mark(d.Standing, false)
}

// mark notes that items were withdrawn, or stand again.
func (w *Window) mark(ids []feed.ID, withdrawn bool) {
	for _, id := range ids {
		if p := w.byID[id]; p != nil {
			p.Withdrawn = withdrawn
		}
	}
}

// insert puts a node behind another one of the document, or to the front if before is nil.
func (w *Window) insert(p, before *node) {
	link := &w.first
	if before != nil {
		link = &before.next
	}
	p.before, p.next = before, *link
	if p.next != nil {
		p.next.before = p
	}
	*link = p
	w.byID[p.ID] = p
	w.sum.add(&p.Entry)
	w.linkNewest(p)
}

// linkNewest makes a node the newest one.
func (w *Window) linkNewest(p *node) {
	p.older, p.newer = w.newest, nil
	if w.newest != nil {
		w.newest.newer = p
	} else {
		w.oldest = p
	}
	w.newest = p
}

// unlinkRef removes a node from the order of references.
func (w *Window) unlinkRef(p *node) {
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		w.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		w.newest = p.older
	}
}

// remove removes a node from the window.
func (w *Window) remove(p *node) {
	w.unlinkRef(p)
	w.sum.sub(&p.Entry)
	delete(w.byID, p.ID)
	if p.before != nil {
		p.before.next = p.next
	} else {
		w.first = p.next
	}
	if p.next != nil {
		p.next.before = p.before
	}
}

// countGaps records the publications that are missing before or within a delta, or that its pin says exist.
func (w *Window) countGaps(d Delta, ref uint64) {
	at, n := w.pin, uint64(0)
	if d.Pin != nil { // the new pin counts from what is known here
		now := *d.Pin
		if now.Seq, now.Head = 0, (feed.Hash{}); at != nil {
			now.Seq, now.Head = at.Seq, at.Head
		}
		at = &now
	}
	for _, c := range d.Changes {
		if c.Publication != nil {
			n += at.missing(c.Publication)
			at = at.Advance(c.Publication)
		}
	}
	if d.Pin != nil && at.Seq != 0 && d.Pin.Seq > at.Seq {
		n += d.Pin.Seq - at.Seq
	}
	if n > 0 {
		w.gaps = append(w.gaps, gap{n, ref})
		w.missing += n
	}
}

// Accepts reports whether Apply would take a change. A signed version is not replaced by another version from
// the origin, which may have headlines only. It is not replaced by an earlier publication, which the author of
// the log has put behind it, nor by one that a stranger signed.
func (w *Window) Accepts(c Change) bool {
	w.unpack()
	switch p := w.byID[c.Item.ID]; {
	case p == nil:
		return true
	case c.Publication != nil:
		return p.Number == 0 || w.pin.Valid(c.Publication.Key) && c.Publication.Seq >= p.Number
	default:
		return !p.Signed || p.Hash == c.Item.Hash
	}
}

// Missing returns how many publications the log lacks between two that it has. Its sequencer has withheld them,
// or they had been forgotten when two branches met.
func (w *Window) Missing() uint64 { return w.missing }

// Forget removes the entries of deltas before first, because the log keeps these deltas no longer. It returns
// the removed entries.
func (w *Window) Forget(first uint64) (removed []Entry) {
	w.unpack()
	if w.head < first {
		w.head = 0
	}
	n := 0
	for ; n < len(w.gaps) && w.gaps[n].ref < first; n++ {
		w.missing -= w.gaps[n].n
	}
	w.gaps = slices.Delete(w.gaps, 0, n)
	for w.oldest != nil && w.oldest.Ref < first {
		removed = append(removed, w.oldest.Entry)
		w.remove(w.oldest)
	}
	return removed
}

// OlderThan returns the items whose versions come from deltas before first, in document order.
func (w *Window) OlderThan(first uint64) (ids []feed.ID) {
	w.unpack()
	for p := w.first; p != nil; p = p.next {
		if p.Ref < first {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Renew adds to a delta the items of a document whose versions come from deltas before first, so that the log
// repeats them before it forgets these deltas. A feed may therefore show an item for years, or more items than
// a log keeps, and a node that joins later still gets them from the log. Items that the document shows in
// another version are left out, because a replica may lag.
func (w *Window) Renew(d Delta, f *feed.Feed, first uint64) Delta {
	w.unpack()
	found := make(map[feed.ID]Change, len(d.Changes))
	for _, c := range d.Changes {
		found[c.Item.ID] = c
	}
	all := Delta{Head: d.Head, Withdrawn: d.Withdrawn, Standing: d.Standing}
	var before feed.ID
	for _, it := range f.Items {
		if c, ok := found[it.ID]; ok {
			all.Changes = append(all.Changes, c)
		} else if p := w.byID[it.ID]; p != nil && p.Ref < first && p.Hash == it.Hash { // without its signature, if it had one
			all.Changes = append(all.Changes, Change{Item: it, After: before})
		}
		before = it.ID
	}
	return all
}

// Len returns the number of entries.
func (w *Window) Len() int {
	if w.packed != nil {
		return int(w.count)
	}
	return len(w.byID)
}

// Entries returns the items in document order.
func (w *Window) Entries() []Entry {
	w.unpack()
	entries := make([]Entry, 0, len(w.byID))
	for p := w.first; p != nil; p = p.next {
		entries = append(entries, p.Entry)
	}
	return entries
}

// Latest yields the items, those with the highest references first.
func (w *Window) Latest(yield func(Entry) bool) {
	w.unpack()
	for p := w.newest; p != nil && yield(p.Entry); p = p.older {
	}
}

// Newest returns when the newest item arrived, or the zero time if there is none. Edits do not count.
func (w *Window) Newest() (at time.Time) {
	for e := range w.packedEntries {
		if e.Arrived.After(at) {
			at = e.Arrived
		}
	}
	for p := w.first; p != nil; p = p.next {
		if p.Arrived.After(at) {
			at = p.Arrived
		}
	}
	return at
}

// Entry returns the entry of an item.
func (w *Window) Entry(id feed.ID) (Entry, bool) {
	w.unpack()
	if p := w.byID[id]; p != nil {
		return p.Entry, true
	}
	return Entry{}, false
}

// Version returns the content hash of an item; zero: there is no such item.
func (w *Window) Version(id feed.ID) feed.Hash {
	e, _ := w.Entry(id)
	return e.Hash
}

// Pin returns the publisher's key, with the number of its last known publication; nil: none.
func (w *Window) Pin() *Pin { return w.pin }

// PinRef returns the reference of the delta that brought the pin, or 0.
func (w *Window) PinRef() uint64 { return w.pinRef }

// HeadRef returns the reference of the delta that brought the head, or 0.
func (w *Window) HeadRef() uint64 { return w.head }

// Hash returns a hash of the set of items and versions in the window, independent of their order.
func (w *Window) Hash() feed.Hash { return w.sum.hash() }

// A sum adds up the hashes of a window's entries, modulo 2²⁵⁶, so that adding or removing an entry is one step.
// An attacker who chooses the items can construct two sets with the same sum, and gains nothing: the hash of a
// log entry covers its body and the preceding entry. The sum detects mistakes and not attacks.
type sum [4]uint64 // least significant part first

// entryHash returns the hash of one entry.
func (sum) entryHash(e *Entry) (s sum) {
	b := make([]byte, 0, 128)
	b = append(b, "tidings/window/2"...)
	b = append(b, e.ID[:]...)
	b = append(b, e.Hash[:]...)
	h := sha256.Sum256(b)
	for i := range s {
		s[i] = binary.BigEndian.Uint64(h[8*i:])
	}
	return s
}

func (s *sum) add(e *Entry) {
	var carry uint64
	for i, n := range s.entryHash(e) {
		s[i], carry = bits.Add64(s[i], n, carry)
	}
}

func (s *sum) sub(e *Entry) {
	var borrow uint64
	for i, n := range s.entryHash(e) {
		s[i], borrow = bits.Sub64(s[i], n, borrow)
	}
}

func (s *sum) hash() (h feed.Hash) {
	for i, n := range s {
		binary.BigEndian.PutUint64(h[8*i:], n)
	}
	return h
}
