package daemon

import (
	"testing"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay"
)

// An item counts as found here if it is in the last document of the feed that this node has fetched. Neither the feeds nor
// the items that are remembered exceed their limits.
func TestItemsFoundHere(t *testing.T) {
	s := sighted{}
	document := func(from, to int) *feed.Feed {
		f := &feed.Feed{}
		for i := from; i < to; i++ {
			f.Items = append(f.Items, feed.Item{ID: feed.ID{byte(i >> 8), byte(i)}})
		}
		return f
	}
	news := func(items ...int) (changes []difference.Change) {
		for _, i := range items {
			changes = append(changes, difference.Change{Item: feed.Item{ID: feed.ID{byte(i >> 8), byte(i)}}})
		}
		return changes
	}
	key := overlay.ID{1}
	s.saw(key, document(0, 3))
	if found := s.among(key, news(2, 7)); len(found) != 1 || found[0] != news(2)[0].Item.ID {
		t.Errorf("found %v", found)
	}
	s.saw(key, document(5, 5+2*maxSightedItems))
	if found := s.among(key, news(2, 7, 4+maxSightedItems, 5+maxSightedItems)); len(found) != 2 {
		t.Errorf("in the next document: %v", found)
	}
	for i := range 2 * maxSighted {
		s.saw(overlay.ID{2, byte(i >> 8), byte(i)}, document(0, 1))
	}
	if len(s) != maxSighted {
		t.Errorf("%d feeds are remembered", len(s))
	}
}
