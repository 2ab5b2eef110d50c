package daemon

import (
	"encoding/binary"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay"
)

const (
	// maxSighted bounds the feeds whose last documents are remembered. At the bound one of them is forgotten, and what it had
	// counts as found by other nodes.
	maxSighted = 4096
	// maxSightedItems bounds the items that are remembered of each, from the front, where new ones mostly stand. Together
	// with maxSighted it is 4 MiB.
	maxSightedItems = 128
)

// sighted holds the items in the last document of each feed that this node has fetched itself. News that is in it was found
// by this node, at least as early as others told of it. The loop owns it.
type sighted map[overlay.ID][]uint64

// saw remembers a document.
func (s sighted) saw(key overlay.ID, doc *feed.Feed) {
	items := s[key][:0]
	for _, it := range doc.Items[:min(len(doc.Items), maxSightedItems)] {
		items = append(items, startOf(it.ID))
	}
	if _, known := s[key]; !known && len(s) >= maxSighted {
		for other := range s {
			delete(s, other)
			break
		}
	}
	s[key] = items
}

// among returns which items of changes this node has found itself.
func (s sighted) among(key overlay.ID, changes []difference.Change) (found []feed.ID) {
	for _, id := range s[key] {
		for i := range changes {
			if startOf(changes[i].Item.ID) == id {
				found = append(found, changes[i].Item.ID)
			}
		}
	}
	return found
}

func startOf(id feed.ID) uint64 { return binary.BigEndian.Uint64(id[:]) }
