package difference

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"tidings/internal/feed"
)

const (
	// Keep and KeepItems are what a window holds at least: all items that came in
	// the last seven days, and the last two hundred.
	Keep      = 7 * 24 * time.Hour
	KeepItems = 200

	// MaxEntries is what a window holds at most, so that a feed that makes up
	// items costs its readers no more than it costs to remember them. Those
	// that came first go first.
	MaxEntries = MaxKnown
)

// A Window is the union of the items that a log has brought: what a reader is
// shown. It is a function of the deltas applied and their times, the same for
// everybody. It holds no bodies, only where they came from. The zero value is
// empty.
type Window struct {
	first *place
	byID  map[feed.ID]*place
	head  uint64 // reference of the delta that brought the head
	known Known
}

// A place is an entry and the one behind it in document order.
type place struct {
	Entry
	next *place
}

// An Entry is an item in a window.
type Entry struct {
	ID   feed.ID
	Hash feed.Hash
	// At is when the item came first, Changed when this version did.
	At, Changed time.Time
	// Ref names, for the caller, the delta that brought this version, and Change
	// is its place there.
	Ref    uint64
	Change int
}

// NewWindow makes a window of what another one holds.
func NewWindow(entries []Entry, head uint64, known *Known) *Window {
	w := &Window{head: head, known: *known.Clone(), byID: make(map[feed.ID]*place, len(entries))}
	for _, e := range slices.Backward(entries) {
		w.first = &place{e, w.first}
		w.byID[e.ID] = w.first
	}
	return w
}

// Apply brings a delta in. ref is a name the caller has for it, not 0. A new item
// goes behind the one that was before it in its document, to the front if that
// is not here; a new version goes where the old one was. Versions that were here
// before are passed over.
func (w *Window) Apply(d Delta, at time.Time, ref uint64) {
	if w.byID == nil {
		w.byID = map[feed.ID]*place{}
	}
	if d.Head != nil {
		w.head = ref
	}
	for i, c := range d.Changes {
		if _, version := w.known.Has(c.Item.ID, c.Item.Hash); version {
			continue
		}
		e := Entry{c.Item.ID, c.Item.Hash, at, at, ref, i}
		if p := w.byID[e.ID]; p != nil {
			e.At = p.At
			p.Entry = e
			continue
		}
		link := &w.first
		if before := w.byID[c.After]; before != nil {
			link = &before.next
		}
		*link = &place{e, *link}
		w.byID[e.ID] = *link
	}
	w.known.Add(d)
	w.prune(at)
}

// prune drops the entries that are both too old and too many.
func (w *Window) prune(now time.Time) {
	if len(w.byID) <= KeepItems {
		return
	}
	latest := w.Entries()
	// Of those that came at one time the first in the document are the latest.
	slices.SortStableFunc(latest, func(a, b Entry) int { return b.Changed.Compare(a.Changed) })
	gone := map[feed.ID]bool{}
	for i, e := range latest[KeepItems:] {
		if i+KeepItems >= MaxEntries || e.Changed.Before(now.Add(-Keep)) {
			gone[e.ID] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	for link := &w.first; *link != nil; {
		if p := *link; gone[p.ID] {
			delete(w.byID, p.ID)
			*link = p.next
		} else {
			link = &p.next
		}
	}
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

// Entry returns an item's entry.
func (w *Window) Entry(id feed.ID) (Entry, bool) {
	if p := w.byID[id]; p != nil {
		return p.Entry, true
	}
	return Entry{}, false
}

// Head is the reference of the delta that brought the head, 0 if none did.
func (w *Window) Head() uint64 { return w.head }

// Known returns the fingerprints of all that was applied, also of items that the
// window has dropped but the feed's document may still show: whoever goes on with
// a log starts from them.
func (w *Window) Known() *Known { return w.known.Clone() }

// Hash stands for the set of items and versions in the window, in whatever order.
func (w *Window) Hash() feed.Hash {
	entries := w.Entries()
	slices.SortFunc(entries, func(a, b Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	h := sha256.New()
	h.Write([]byte("tidings/window/1"))
	for _, e := range entries {
		h.Write(e.ID[:])
		h.Write(e.Hash[:])
	}
	return feed.Hash(h.Sum(nil))
}
