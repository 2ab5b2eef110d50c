package difference

import (
	"slices"
	"time"

	"tidings/internal/feed"
)

// Which items the origin has withdrawn (docs/decisions/019-withdrawn-items.md). An item that rolls off the end of a
// document, or off the beginning of one that begins with the oldest, was not withdrawn. One that is missing between items
// that are still there was, or a replica lags.

// standing is what a sequencer knows about the items that the origin shows.
type standing struct {
	order     []feed.ID        // items in document order, without those that rolled off the end of a document
	withdrawn map[shortID]bool // according to the log
	// doubted are the items of which documents show the contrary of the log: that an item is gone, or is back.
	doubted map[shortID]sighting
	sighted bool // order begins with the items of a document
}

// insert puts a new item behind its predecessor in the document, or to the front if that is unknown. at is the index of
// the item that was inserted before: most items of a delta belong behind it. insert returns the index of the new item.
func (s *standing) insert(c *Change, at int) int {
	switch {
	case c.After == (feed.ID{}):
		at = -1
	case at < 0 || s.order[at] != c.After:
		at = slices.Index(s.order, c.After)
	}
	s.order = slices.Insert(s.order, at+1, c.Item.ID)
	return at + 1
}

// mark notes that items were withdrawn, or stand again.
func (s *standing) mark(d Delta) {
	for _, id := range d.Withdrawn {
		if s.withdrawn == nil {
			s.withdrawn = map[shortID]bool{}
		}
		s.withdrawn[shorten(id)] = true
		delete(s.doubted, shorten(id))
	}
	for _, id := range d.Standing {
		s.stand(shorten(id))
	}
}

// stand notes that an item stands.
func (s *standing) stand(id shortID) {
	delete(s.withdrawn, id)
	delete(s.doubted, id)
}

// keepOrder removes items from the order that are not to be kept.
func (s *standing) keepOrder(keep func(feed.ID) bool) {
	s.order = slices.DeleteFunc(s.order, func(id feed.ID) bool { return !keep(id) })
}

// compare returns, for each item of the order, whether a document has it, and the range of indices in which a missing
// item was withdrawn: from the first to behind the last item that the document has. In an empty document it is the
// whole order, if sighted says that the order is what a document had; the order of a log has older items, too.
//
// ok is false if the document proves nothing about missing items: content was omitted from it, it has none of the items,
// or it has them in another order, as a list of the most read articles.
func (s *standing) compare(f *feed.Feed) (has []bool, first, n int, ok bool) {
	if f.Omitted != "" {
		return nil, 0, 0, false
	}
	if has = make([]bool, len(s.order)); len(f.Items) == 0 {
		return has, 0, len(s.order), s.sighted
	}
	at := make(map[shortID]int, len(s.order)) // reports of pollers have no longer identities
	for i, id := range s.order {
		at[shorten(id)] = i + 1
	}
	for i := range f.Items {
		switch j := at[shorten(f.Items[i].ID)]; {
		case j == 0:
		case j <= n:
			return nil, 0, 0, false
		default:
			if n == 0 {
				first = j - 1
			}
			has[j-1], n = true, j
		}
	}
	return has, first, n, n > 0
}

// unlike returns the items of which a document shows the contrary of the log.
func (s *standing) unlike(f *feed.Feed) (ids []feed.ID) {
	has, first, n, ok := s.compare(f)
	if !ok {
		return nil
	}
	for i := first; i < n; i++ {
		if id := s.order[i]; has[i] == s.withdrawn[shorten(id)] {
			ids = append(ids, id)
		}
	}
	return ids
}

// sight records what a document shows, as [Known.Sight] does for versions. An item of which it shows what the log says
// was one of a replica that lags.
func (s *standing) sight(f *feed.Feed, gap time.Duration, now time.Time) {
	_, _, n, ok := s.compare(f)
	if !ok {
		s.sighted = s.sighted || len(s.order) == 0 && len(f.Items) > 0 // all items are about to be added
		clear(s.doubted)
		return
	}
	before := s.doubted
	s.doubted = map[shortID]sighting{}
	for _, id := range s.unlike(f) {
		at, seen := before[shorten(id)]
		if !seen || now.Sub(at.last) > gap {
			at.since = now
		}
		at.last = now
		s.doubted[shorten(id)] = at
	}
	if len(f.Items) > 0 {
		s.order, s.sighted = s.order[:n:n], true
	}
}

// settled returns the items that documents have shown to be withdrawn, or to stand again, for a time: at most MaxItems of
// each, as a delta can have. The others follow with the next document.
func (s *standing) settled(f *feed.Feed, after time.Duration, now time.Time) (withdrawn, standing []feed.ID) {
	for _, id := range s.unlike(f) {
		at, ok := s.doubted[shorten(id)]
		switch {
		case !ok || now.Sub(at.since) < after:
		case !s.withdrawn[shorten(id)] && len(withdrawn) < feed.MaxItems:
			withdrawn = append(withdrawn, id)
		case s.withdrawn[shorten(id)] && len(standing) < feed.MaxItems:
			standing = append(standing, id)
		}
	}
	return withdrawn, standing
}
