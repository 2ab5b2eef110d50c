package difference

import (
	"slices"

	"tidings/difference/page"
	"tidings/internal/feed"
)

// SeenOnPage returns which of the wanted items in the log of a page are true by what this node has read of the page itself. An
// item is true if the page shows the change that the log has with it, and if it says just that to readers. address is that
// of the page. The log has the oldest delta first.
func SeenOnPage(seen *page.Seen, address string, log []Delta, wanted []Version) (of []Version) {
	var m page.Tracker
	for _, d := range log {
		if d.Page == nil {
			continue
		}
		var v Version
		if len(d.Changes) == 1 { // otherwise readers were told nothing
			v = Version{d.Changes[0].Item.ID, d.Changes[0].Item.Hash}
		}
		change, err := m.Replay(d.Page, slices.Contains(wanted, v))
		if err != nil || !change.ShownBy(seen) {
			continue // the log begins with a patch, or nobody asks
		}
		told, err := feed.ReadItem(feed.Atom, change.Entry(address), nil, 0)
		if err == nil && v == (Version{told.ID, told.Hash}) {
			of = append(of, v)
		}
	}
	return of
}
