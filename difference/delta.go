package difference

import (
	"tidings/internal/feed"
)

// A Delta is what changed. Its items may share memory with the document they
// come from.
type Delta struct {
	Head    *feed.Head // nil: as before
	Changes []Change   // in document order
	// Page is, of a channel that is a page, the version in which it is now, as page.Memory has
	// it for the log. The first has no changes with it. Nil: none.
	Page []byte
	// Pin says whose the feed is from here on. Nil: as before.
	Pin *Pin
}

// A Change is a new item, or a new version of one.
type Change struct {
	Item feed.Item
	// After is the item before it in the document; zero: it is the first.
	After feed.ID
	// Edited says that another version of the item was known.
	Edited bool
	// Publication is the publisher's envelope that the item came in; nil: somebody has
	// found it at the origin.
	Publication *Publication
}

// Empty tells whether a delta is no update. A changed head alone is none: it
// travels with the next item; a pin is told by itself.
func (d Delta) Empty() bool { return len(d.Changes) == 0 && d.Pin == nil }

// Split cuts a delta into parts, to be applied in order, each of at most limit bytes
// before it is packed, or of one change if that alone is larger. The head, the
// version of a page and the pin go with the first.
func (d Delta) Split(limit int) []Delta {
	part, size := Delta{Head: d.Head, Page: d.Page, Pin: d.Pin}, len(d.Page)
	if d.Head != nil {
		size += headSize(d.Head)
	}
	var parts []Delta
	for _, c := range d.Changes {
		n := changeSize(&c)
		if size+n > limit && len(part.Changes) > 0 {
			parts = append(parts, part)
			part, size = Delta{}, 0
		}
		part.Changes = append(part.Changes, c)
		size += n
	}
	return append(parts, part)
}
