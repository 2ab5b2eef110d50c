package difference

import (
	"bytes"
	"testing"
	"time"

	"tidings/difference/page"
	"tidings/internal/feed"
)

// An owner vouches for a change of a page if it sees the change, and if the item says just that.
func TestOnlyTrueChangesOfAPageAreSeen(t *testing.T) {
	const address = "http://a.example/"
	core := func(news string) page.Core {
		return page.Core{Title: "News", Lines: []string{"All the news of the day", "From everywhere", news}}
	}
	var m page.Tracker
	var log []Delta
	for i, news := range []string{"One thing has happened", "Another thing has happened", "A third thing has happened"} {
		change := m.Check(core(news), time.Unix(int64(i)*7200, 0))
		update, err := m.Update()
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, Delta{Page: update})
		if i > 0 {
			item, err := feed.ReadItem(feed.Atom, change.Entry(address), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			log[i].Changes = []Change{{Item: item}}
		}
	}
	version := func(d Delta) Version { return Version{d.Changes[0].Item.ID, d.Changes[0].Item.Hash} }
	wanted := []Version{version(log[1]), version(log[2])}
	seen := func(news string) []Version {
		c := core(news)
		return SeenOnPage(&c, address, log, wanted)
	}
	if of := seen("A third thing has happened"); len(of) != 1 || of[0] != wanted[1] {
		t.Errorf("the newest version shows %d changes", len(of))
	}
	if of := seen("Another thing has happened"); len(of) != 1 || of[0] != wanted[0] {
		t.Errorf("the version before shows %d changes", len(of))
	}
	if of := seen("Nothing has happened"); len(of) > 0 {
		t.Errorf("another text shows %d changes", len(of))
	}

	// A sequencer that lies may put a true version into the log, and tell readers something else.
	raw := bytes.ReplaceAll(log[2].Changes[0].Item.Raw, []byte("third"), []byte("false"))
	item, err := feed.ReadItem(feed.Atom, raw, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	log[2].Changes[0].Item = item
	wanted[1] = version(log[2])
	if of := seen("A third thing has happened"); len(of) > 0 {
		t.Errorf("what readers are told wrongly counts as seen: %v", of)
	}

	// A log that begins with a patch says nothing of the versions before.
	c := core("A third thing has happened")
	if of := SeenOnPage(&c, address, log[2:], wanted); len(of) > 0 {
		t.Errorf("%d changes of an unknown version", len(of))
	}
}
