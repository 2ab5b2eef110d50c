package feedtree

import "tidings/internal/feed"

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
