package feedtree

import "tidings/internal/feed"

// Ghosts are items that were shown and are not in the log: of a lineage that ended,
// or older than the log, or fetched when nobody in the network could help. What of
// them comes again is no news. The zero value is empty.
type shownCache struct {
	young, old map[feed.ID]feed.Hash
}

// maxGhosts bounds each of two generations. Who is in neither any more may be shown
// twice, should it come back: as many as a document can have are remembered.
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

// has says whether an item was shown in this version.
func (g *shownCache) has(id feed.ID, h feed.Hash) bool {
	last, ok := g.young[id]
	if !ok {
		last, ok = g.old[id]
	}
	return ok && last == h
}
