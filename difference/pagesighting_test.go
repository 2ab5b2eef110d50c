package difference

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/difference/page"
	"tidings/difference/page/pagepb"
	"tidings/internal/feed"
	"tidings/internal/longtest"
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
	read := func(texts ...string) (s *page.Seen) {
		for _, news := range texts {
			c := core(news)
			s = s.Next(&c)
		}
		return s
	}
	seen := func(texts ...string) []Version { return SeenOnPage(read(texts...), address, log, wanted) }
	if of := seen("Another thing has happened", "A third thing has happened"); len(of) != 1 || of[0] != wanted[1] {
		t.Errorf("the newest version shows %d changes", len(of))
	}
	if of := seen("One thing has happened", "Another thing has happened"); len(of) != 1 || of[0] != wanted[0] {
		t.Errorf("the version before shows %d changes", len(of))
	}
	if of := seen("A third thing has happened"); len(of) > 0 {
		t.Errorf("who has not read the removed text sees %d changes", len(of))
	}
	if of := seen("One thing has happened", "Nothing has happened"); len(of) > 0 {
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
	if of := seen("Another thing has happened", "A third thing has happened"); len(of) > 0 {
		t.Errorf("what readers are told wrongly counts as seen: %v", of)
	}

	// A log that begins with a patch says nothing of the versions before.
	if of := SeenOnPage(read("Another thing has happened", "A third thing has happened"), address, log[2:], wanted); len(of) > 0 {
		t.Errorf("%d changes of an unknown version", len(of))
	}
}

// Only the versions that are asked for are compared with those before them.
func TestALongLogOfAPageIsCheapToRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var seen *page.Seen
	var versions [2]*pagepb.Update
	for i := range versions {
		var c page.Core
		for range 4000 {
			c.Lines = append(c.Lines, fmt.Sprint("Line ", rng.IntN(4000)))
		}
		seen, versions[i] = seen.Next(&c), new(pagepb.Update)
		if update, err := c.Update(); err != nil || proto.Unmarshal(update, versions[i]) != nil {
			t.Fatal(err)
		}
	}
	var log []Delta
	for n := range 200 {
		versions[n%2].Number = uint64(n + 1)
		update, err := proto.Marshal(versions[n%2])
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, Delta{Page: update, Changes: []Change{{Item: feed.Item{ID: feed.ID{byte(n)}}}}})
	}
	longtest.Bounded(t, func() {
		if of := SeenOnPage(seen, "http://a.example/", log, []Version{{ID: feed.ID{99}}}); len(of) > 0 {
			t.Errorf("%d items say what the log does not", len(of))
		}
	})
}
