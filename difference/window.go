package difference

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"tidings/internal/feed"
)

// A Window is the union of the items that a log has brought, as far as the log is
// kept: what a reader is shown. Its items and their versions are a function of the
// deltas that are kept, the same for everybody, whenever he joined. It holds no
// bodies, only where they came from. The zero value is empty.
//
// A feed may publish thousands of items within minutes, so Apply, Forget and Hash take as long as what
// they add or drop, however many items there are.
type Window struct {
	first          *node // in document order
	oldest, newest *node // in the order of their references
	byID           map[feed.ID]*node
	sum            sum    // of all entries
	head           uint64 // reference of the delta that brought the head
	pin            *Pin   // as the deltas say
	pinRef         uint64 // reference of the delta that brought it
	gaps           []gap  // in the order of their references
	missing        uint64 // publications, in all of them
}

// A lack is where publications are missing between two that a log has.
type gap struct {
	n   uint64
	ref uint64 // of the delta that goes on after them
}

// A place is an entry, with its neighbours in document order and in that of references.
type node struct {
	Entry
	before, next *node
	older, newer *node
}

// An Entry is an item in a window.
type Entry struct {
	ID   feed.ID
	Hash feed.Hash
	// At is when the item came first, Changed when this version did.
	Arrived, Changed time.Time
	// Ref names, for the caller, the delta that brought this version, and Change
	// is its place there.
	Ref    uint64
	Change int
	// Signed says that this version came in a publisher's envelope.
	Signed bool
	Number uint64 // the highest that the feed's publisher has given a version of the item; 0: none
}

// Apply brings a delta in. ref is a name the caller has for it, not 0, and higher
// than those before. A new item goes behind the one that was before it in its
// document, to the front if that is not here; what is here already, in whatever
// version, stays in its place. What [Window.Takes] says no to is left out.
func (w *Window) Apply(d Delta, at time.Time, ref uint64) {
	if w.byID == nil {
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
		takes := w.Accepts(c)
		if p := c.Publication; p != nil {
			e.Signed = true
			if w.pin.Valid(p.Key) { // a stranger could give one that the publisher never comes to
				e.Number = p.Seq
			}
			w.pin = w.pin.Advance(p)
		}
		if p := w.byID[e.ID]; p != nil {
			if !takes {
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
}

// insert puts a place behind another one of the document, to the front if that is nil.
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

// push makes a place the newest one.
func (w *Window) linkNewest(p *node) {
	p.older, p.newer = w.newest, nil
	if w.newest != nil {
		w.newest.newer = p
	} else {
		w.oldest = p
	}
	w.newest = p
}

// pull takes a place out of the order of references.
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

// drop takes a place out of the window.
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

// count notes what a delta leaves out between the last publication that is here and those it brings, or says
// that there are.
func (w *Window) countGaps(d Delta, ref uint64) {
	at, n := w.pin, uint64(0)
	if d.Pin != nil { // whose the feed is now; it is counted from what is here
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

// Takes says whether Apply would take a change. What a publisher has signed does not give way to another
// version that was found at the origin, where there may be headlines only; not to one that the publisher
// has signed before it, which who made the log has put behind it; and not to one that a stranger has signed.
func (w *Window) Accepts(c Change) bool {
	switch p := w.byID[c.Item.ID]; {
	case p == nil:
		return true
	case c.Publication != nil:
		return p.Number == 0 || w.pin.Valid(c.Publication.Key) && c.Publication.Seq >= p.Number
	default:
		return !p.Signed || p.Hash == c.Item.Hash
	}
}

// Lacks is how many publications the log leaves out between two that it has: its sequencer has
// withheld them, or they had been forgotten when two lineages met.
func (w *Window) Missing() uint64 { return w.missing }

// Forget drops what the deltas before first brought: the log that the window is
// made of keeps them no longer. It returns what it dropped.
func (w *Window) Forget(first uint64) (gone []Entry) {
	if w.head < first {
		w.head = 0
	}
	n := 0
	for ; n < len(w.gaps) && w.gaps[n].ref < first; n++ {
		w.missing -= w.gaps[n].n
	}
	w.gaps = slices.Delete(w.gaps, 0, n)
	for w.oldest != nil && w.oldest.Ref < first {
		gone = append(gone, w.oldest.Entry)
		w.remove(w.oldest)
	}
	return gone
}

// Before returns the items that only deltas before first brought, in document order.
func (w *Window) OlderThan(first uint64) (of []feed.ID) {
	for p := w.first; p != nil; p = p.next {
		if p.Ref < first {
			of = append(of, p.ID)
		}
	}
	return of
}

// Keep adds to what was found new in a document those of its items that only deltas
// before first brought: they are said again before the log that the window is made of
// keeps these no longer. So a feed may show an item for years, or more items than a log
// keeps, and who comes later, to read or to poll, still has it from the log. What the
// document shows in another version than the window is left out: a replica may lag.
func (w *Window) Renew(d Delta, f *feed.Feed, first uint64) Delta {
	found := make(map[feed.ID]Change, len(d.Changes))
	for _, c := range d.Changes {
		found[c.Item.ID] = c
	}
	all := Delta{Head: d.Head}
	var before feed.ID
	for _, it := range f.Items {
		if c, ok := found[it.ID]; ok {
			all.Changes = append(all.Changes, c)
		} else if p := w.byID[it.ID]; p != nil && p.Ref < first && p.Hash == it.Hash { // unsigned, if it was signed
			all.Changes = append(all.Changes, Change{Item: it, After: before})
		}
		before = it.ID
	}
	return all
}

// Len is the number of entries.
func (w *Window) Len() int { return len(w.byID) }

// Entries are the items in document order.
func (w *Window) Entries() []Entry {
	entries := make([]Entry, 0, len(w.byID))
	for p := w.first; p != nil; p = p.next {
		entries = append(entries, p.Entry)
	}
	return entries
}

// Newest is when the item that is new last came, the zero time if there is none. Edits do not count.
func (w *Window) Newest() (at time.Time) {
	for p := w.first; p != nil; p = p.next {
		if p.Arrived.After(at) {
			at = p.Arrived
		}
	}
	return at
}

// Entry returns an item's entry.
func (w *Window) Entry(id feed.ID) (Entry, bool) {
	if p := w.byID[id]; p != nil {
		return p.Entry, true
	}
	return Entry{}, false
}

// Signed says whether an item is here as its publisher has signed it.
func (w *Window) Signed(id feed.ID) bool {
	p := w.byID[id]
	return p != nil && p.Signed
}

// Pin says whose the feed is, with the last of its publications that are known here; nil: nobody
// has said so.
func (w *Window) Pin() *Pin { return w.pin }

// Pinned is the reference of the delta that said so, 0 if none did.
func (w *Window) PinRef() uint64 { return w.pinRef }

// Head is the reference of the delta that brought the head, 0 if none did.
func (w *Window) HeadRef() uint64 { return w.head }

// Hash stands for the set of items and versions in the window, in whatever order.
func (w *Window) Hash() feed.Hash { return w.sum.hash() }

// A sum adds up a hash of each entry of a window, modulo 2²⁵⁶, so that one entry more or less takes one
// step. Somebody who chooses the items can make two sets with one sum, and gains nothing: an entry of a
// log has the hash of its body, and of the entry before it. The sum finds mistakes, not attacks.
type sum [4]uint64 // the lowest part first

// of is the hash of one entry.
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
