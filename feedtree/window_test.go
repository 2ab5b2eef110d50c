package feedtree

import (
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay/owner"
)

// version returns a version of the item in the tests of windows.
func version(t *testing.T, title string) feed.Item {
	t.Helper()
	it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: "1", Title: title}, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// windowOf returns a window of a log that has some versions of an item and begins with entry 1.
func windowOf(versions ...feed.Item) *window {
	w := new(window)
	for i, it := range versions {
		w.log.Apply(difference.Delta{Changes: []difference.Change{{Item: it}}}, time.Unix(1_800_000_000, 0), uint64(i+1))
	}
	return w
}

// Fetched items give way to the log, however wrong the clocks of the nodes are, and none stays for ever.
func TestFetchedItemsGiveWayToTheLog(t *testing.T) {
	a, b, c := version(t, "A"), version(t, "B"), version(t, "C")
	fetched := time.Unix(1_800_000_000, 0).Add(time.Hour) // later than the times of the log's entries
	for _, k := range []struct {
		what   string
		w      *window
		over   feed.Hash
		oldest time.Time
		stays  bool
	}{
		{"the log has the version before", windowOf(a), a.Hash, time.Time{}, true},
		{"the log has it", windowOf(a, b), a.Hash, time.Time{}, false},
		{"the log has another version", windowOf(a, c), a.Hash, time.Time{}, false},
		{"the log has the item first now", windowOf(c), feed.Hash{}, time.Time{}, false},
		{"the log does not have it", windowOf(), feed.Hash{}, fetched, true},
		{"the log does not have it for long", windowOf(), feed.Hash{}, fetched.Add(1), false},
	} {
		k.w.extras = []extraItem{{Entry: feed.Entry{Item: b, Arrived: fetched}, replaced: k.over}}
		k.w.dropReplaced(1, k.oldest)
		if stays := len(k.w.extras) > 0; stays != k.stays {
			t.Errorf("%s: kept: %v", k.what, stays)
		}
	}
}

// A window shows an item once, even if the item was fetched and a replaced log has an older version of it.
func TestAReplacedLogDoesNotShowAnItemTwice(t *testing.T) {
	a, b := version(t, "A"), version(t, "B")
	w := windowOf(a)
	w.extras = []extraItem{{Entry: feed.Entry{Item: b}, replaced: a.Hash}}
	gone := []*owner.Entry{{At: owner.Position{Seq: 1}}}
	w.switchLog(gone, []decodedEntry{{Delta: difference.Delta{Changes: []difference.Change{{Item: a}}}}})
	if len(w.extras) != 1 || w.extras[0].Item.Hash != b.Hash || w.itemCount() != 1 {
		t.Errorf("%d extra items", len(w.extras))
	}
}

// Extra items are inserted among the log's entries by time, so that the first ten entries are the newest ten.
func TestExtraItemsAreSortedByTime(t *testing.T) {
	entries := func(publisher string) (of []feed.Entry) {
		for name := range strings.FieldsSeq(publisher) {
			of = append(of, feed.Entry{Arrived: time.Unix(int64(name[1]-'0'), 0), Item: feed.Item{Raw: []byte(name)}})
		}
		return of
	}
	for _, c := range []struct{ log, beside, want string }{
		{"", "", ""}, {"a3 b2", "", "a3 b2"}, {"", "x1 y2", "y2 x1"}, {"a5 b3 c1", "x4 y0", "a5 x4 b3 c1 y0"},
		{"a3 b5 c1", "x4", "x4 a3 b5 c1"}, {"a3", "x3 y3", "x3 y3 a3"},
	} {
		var got []string
		for _, e := range mergeByTime(entries(c.log), entries(c.beside)) {
			got = append(got, string(e.Item.Raw))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s beside %s: %s, want %s", c.beside, c.log, got, c.want)
		}
	}
}
