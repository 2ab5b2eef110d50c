package difference

import (
	"slices"

	"tidings/difference/page"
	"tidings/internal/feed"
)

// SeenOnPage returns which of the wanted items in the log of a page are true by a version of the page that this node has
// fetched itself. An item is true if the page shows the change that the log has with it, and if it says just that to
// readers. address is that of the page. The log has the oldest delta first.
func SeenOnPage(seen *page.Core, address string, log []Delta, wanted []Version) (of []Version) {
	var m page.Tracker
	for _, d := range log {
		if d.Page == nil {
			continue
		}
		change, err := m.Replay(d.Page)
		if err != nil || len(d.Changes) != 1 {
			continue // the log begins with a patch, or readers were told nothing
		}
		v := Version{d.Changes[0].Item.ID, d.Changes[0].Item.Hash}
		if !slices.Contains(wanted, v) || !change.ShownBy(seen) {
			continue
		}
		told, err := feed.ReadItem(feed.Atom, change.Entry(address), nil, 0)
		if err == nil && v == (Version{told.ID, told.Hash}) {
			of = append(of, v)
		}
	}
	return of
}
