package difference

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/feed"
)

// listed returns an RSS document with items of these names.
func listed(t *testing.T, names string) *feed.Feed {
	t.Helper()
	var b strings.Builder
	b.WriteString(`<rss version="2.0"><channel><title>A</title><link>http://a.example/</link><description>d</description>`)
	for _, name := range strings.Fields(names) {
		fmt.Fprintf(&b, `<item><guid isPermaLink="false">%s</guid><title>%[1]s</title></item>`, name)
	}
	b.WriteString(`</channel></rss>`)
	f, err := feed.Parse([]byte(b.String()), "http://a.example/feed")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// follow shows documents to a sequencer, one every 20 minutes, and returns which items the log then marks as withdrawn. The
// document "=" is the one before, "!" begins another sequencer, which only knows the log. Of a document with "~", content
// was omitted.
func follow(t *testing.T, documents ...string) string {
	t.Helper()
	var log []Delta
	known, now, last, name := new(Known), time.Unix(1.7e9, 0), "", map[feed.ID]string{}
	for _, doc := range documents {
		if doc == "!" {
			known = new(Known)
			for _, d := range log {
				known.AddLogged(d)
			}
			continue
		}
		if doc == "=" {
			doc = last
		}
		last = doc
		f := listed(t, strings.Trim(doc, "~"))
		if strings.HasPrefix(doc, "~") {
			f.Omitted = "1 item too large to show left out"
		}
		for i, n := range strings.Fields(strings.Trim(doc, "~")) {
			name[f.Items[i].ID] = n
		}
		known.Sight(f, 2*time.Hour, now)
		if d := known.DiffWithTakenBack(f, time.Hour, now); !d.Empty() {
			body, err := d.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if d, err = Decode(body); err != nil {
				t.Fatal(err)
			}
			known.Add(d)
			log = append(log, d)
		}
		known.Touch(f)
		now = now.Add(20 * time.Minute)
	}
	var w Window
	for i, d := range log {
		w.Apply(d, now, uint64(i+1))
	}
	var marked []string
	for _, e := range w.Entries() {
		if e.Withdrawn {
			marked = append(marked, name[e.ID])
		}
	}
	slices.Sort(marked)
	return strings.Join(marked, " ")
}

// An item was withdrawn when documents of an hour lack it and still show items above and below it.
func TestWithdrawnItemsAreMarked(t *testing.T) {
	for _, c := range []struct {
		name, documents, want string
	}{
		{"an item is gone", "d c b a, d b a, =, =, =", "c"},
		{"the newest one is gone, and no other came", "d c b a, c b a, =, =, =", ""},
		{"the newest one is gone, and another came", "d c b a, c b a, e c b a, =, =, =, =", "d"},
		{"the oldest items come first", "a b c d, b c d e, =, =, =, c d e f, =, =, =", ""},
		{"the oldest items come first, and one is gone", "a b c d, a c d e, =, =, =, c d e f", "b"},
		{"the first of the document was pinned there", "p d c b a, d c b a, =, =, =", ""},
		{"not for an hour yet", "d c b a, d b a, =, =", ""},
		{"under another sequencer", "d c b a, d b a, =, !, =, =, =, =", "c"},
		{"before another sequencer's first document", "d c b a, !, d b a, =, =, =", "c"},
		{"beside news", "d c b a, e d b a, f e d b a, =, =", "c"},
		{"a replica lags for minutes", "c b a, d c b a, c b a, d c b a, c b a, d c b a, c b a, d c b a", ""},
		{"items roll off", "d c b a, d c, =, =, =, e d, =, =, =", ""},
		{"all are new", "d c b a, h g f e, =, =, =", ""},
		{"another order", "d c b a, b d a, =, =, =", ""},
		{"content was omitted", "d c b a, ~d b a, =, =, =", ""},
		{"the feed is empty", "c b a, , =, =, =", "a b c"},
		{"the feed is empty, after items rolled off", "c b a, d c b, , =, =, =", "b c d"},
		{"the feed is empty for minutes", "c b a, , =, c b a, , =, c b a", ""},
		{"it stands again", "d c b a, d b a, =, =, =, d c b a, =, =, =", ""},
		{"a replica still has it", "d c b a, d b a, =, =, =, d c b a, d b a, d c b a, d b a, d c b a", "c"},
		{"it stands again, under another sequencer", "d c b a, d b a, =, =, =, !, d c b a, =, =, =", ""},
		{"it was withdrawn again", "d c b a, d b a, =, =, =, d c b a, =, =, =, d b a, =, =, =", "c"},
	} {
		if got := follow(t, strings.Split(strings.ReplaceAll(c.documents, ", ", ","), ",")...); got != c.want {
			t.Errorf("%s: %q is marked, want %q", c.name, got, c.want)
		}
	}
}

// An item that comes back with another text stands again at once.
func TestANewVersionStands(t *testing.T) {
	f := listed(t, "b a")
	var w Window
	w.Apply(new(Known).Diff(f), time.Unix(1, 0), 1)
	w.Apply(Delta{Withdrawn: []feed.ID{f.Items[0].ID, {1}}}, time.Unix(2, 0), 2)
	if e, _ := w.Entry(f.Items[0].ID); !e.Withdrawn || w.Len() != 2 {
		t.Errorf("%+v of %d items", e, w.Len())
	}
	edited := f.Items[0]
	edited.Hash[0]++
	w.Apply(Delta{Changes: []Change{{Item: edited, Edited: true}}}, time.Unix(3, 0), 3)
	if e, _ := w.Entry(edited.ID); e.Withdrawn {
		t.Errorf("%+v", e)
	}
}

// Of another branch's withdrawals, those of items that are known and stand are new.
func TestUnknownWithdrawals(t *testing.T) {
	f := listed(t, "c b a")
	var k Known
	k.Add(k.Diff(f))
	k.Add(Delta{Withdrawn: []feed.ID{f.Items[0].ID}})
	d := Delta{Withdrawn: []feed.ID{f.Items[0].ID, f.Items[1].ID, {9}}, Standing: []feed.ID{f.Items[2].ID, f.Items[0].ID}}
	if got := k.Unknown(d); !slices.Equal(got.Withdrawn, []feed.ID{f.Items[1].ID}) || !slices.Equal(got.Standing, []feed.ID{f.Items[0].ID}) {
		t.Errorf("%+v", got)
	}
}

// When more items are withdrawn at once than a delta can have, several deltas withdraw them.
func TestManyItemsAreWithdrawn(t *testing.T) {
	names := func(letter string) (list []string) {
		for i := range feed.MaxItems - 2 {
			list = append(list, fmt.Sprintf("%s%04d", letter, i))
		}
		return list
	}
	some, others := names("s"), names("o")
	document := func(names []string) string { return "first " + strings.Join(names, " ") + " last" }
	got := strings.Fields(follow(t, document(some), "~"+document(others), "", "=", "=", "=", "="))
	if want := slices.Concat([]string{"first", "last"}, others, some); !slices.Equal(got, want) {
		t.Errorf("%d items are marked, want %d", len(got), len(want))
	}
}

// A signed version that the origin shows with another text stands, although the window keeps the signed text.
func TestAVersionThatIsNotAcceptedStands(t *testing.T) {
	f := listed(t, "b a")
	d := new(Known).Diff(f)
	d.Changes[0].Publication = &Publication{Seq: 1, Item: &f.Items[0]}
	edited := f.Items[0]
	edited.Hash[0]++
	var k Known
	var w Window
	for i, d := range []Delta{d, {Withdrawn: []feed.ID{edited.ID}}, {Changes: []Change{{Item: edited, Edited: true}}}} {
		k.Add(d)
		w.Apply(d, time.Unix(1, 0), uint64(i+1))
	}
	if e, _ := w.Entry(edited.ID); e.Withdrawn || k.withdrawn[shorten(edited.ID)] || e.Hash != f.Items[0].Hash {
		t.Errorf("%+v", e)
	}
}
