package difference

import (
	"tidings/internal/feed"
)

// A Delta is a set of changes of a feed. Its items may share memory with their document.
type Delta struct {
	Head    *feed.Head // nil: not told, see heads.go
	Changes []Change   // in document order
	// Page is, in the channel of a page, an update of the page's version as page.Tracker encodes it for the
	// log. The first version comes without changes. Nil: no update.
	Page []byte
	// Pin is the publisher's key from this delta on. Nil: unchanged.
	Pin *Pin
	// Withdrawn are items that the origin no longer shows, although it still shows items around them. Standing are those
	// that it shows again.
	Withdrawn, Standing []feed.ID
	// Sightings are a certificate: what owners of the feed saw at the origin, one envelope of each, a bare one of the signer of the
	// entry. They say nothing new about the feed.
	Sightings [][]byte
}

// A Change is a new item, or a new version of an item.
type Change struct {
	Item feed.Item
	// After is the preceding item in the document; zero: it is the first.
	After feed.ID
	// Edited says that another version of the item was known.
	Edited bool
	// Publication is the publisher's envelope of the item; nil: the item was found at the origin.
	Publication *Publication
}

// Empty reports whether a delta is no update. A head, a pin, a withdrawal or a certificate alone is an update.
func (d Delta) Empty() bool {
	return len(d.Changes)+len(d.Withdrawn)+len(d.Standing)+len(d.Sightings) == 0 && d.Head == nil && d.Pin == nil
}

// Split splits a delta into parts, to be applied in order. Each has at most limit bytes before compression, or
// one change if that alone is larger. All but the changes goes with the first part.
func (d Delta) Split(limit int) []Delta {
	part := Delta{Head: d.Head, Page: d.Page, Pin: d.Pin, Withdrawn: d.Withdrawn, Standing: d.Standing, Sightings: d.Sightings}
	size := len(d.Page) + (len(d.Withdrawn)+len(d.Standing))*fieldSize(len(feed.ID{}))
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
