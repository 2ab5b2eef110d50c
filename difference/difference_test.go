package difference

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/internal/feed"
)

// An article is an item of a publisher, in a version.
type article struct{ id, version int }

// document returns a document as an origin shows it.
func document(t testing.TB, title string, articles ...article) *feed.Feed {
	var b strings.Builder
	b.WriteString(`<rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>` + title + "</title>")
	for _, a := range articles {
		fmt.Fprintf(&b, "<item><guid>%d</guid><dc:creator>A</dc:creator><title>version %d</title></item>", a.id, a.version)
	}
	b.WriteString("</channel></rss>")
	f, err := feed.Parse([]byte(b.String()), "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// changesOf formats the changes of a delta: an id, a version, and ' if it is an edit.
func changesOf(t testing.TB, d Delta) string {
	var s []string
	for _, c := range d.Changes {
		m, err := c.Item.Meaning("")
		if err != nil {
			t.Fatal(err)
		}
		edited := ""
		if c.Edited {
			edited = "'"
		}
		s = append(s, m.GUID+"."+strings.TrimPrefix(m.Title, "version ")+edited)
	}
	return strings.Join(s, " ")
}

func TestDiffFindsNewAndEditedItems(t *testing.T) {
	a, b, c := article{1, 1}, article{2, 1}, article{3, 1}
	b2 := article{2, 2}
	for _, s := range []struct {
		name string
		docs [][]article
		want []string
	}{
		{"all of a first document", [][]article{{a, b}}, []string{"1.1 2.1"}},
		{"nothing", [][]article{{a, b}, {a, b}}, []string{"1.1 2.1", ""}},
		{"new ones", [][]article{{a}, {c, b, a}}, []string{"1.1", "3.1 2.1"}},
		{"a new version", [][]article{{a, b}, {a, b2}}, []string{"1.1 2.1", "2.2'"}},
		{"not another order", [][]article{{a, b}, {b, a}}, []string{"1.1 2.1", ""}},
		{"not what rolled off", [][]article{{a, b}, {a}, {c, a}}, []string{"1.1 2.1", "", "3.1"}},
		{"not what comes back", [][]article{{a, b}, {a}, {a, b}}, []string{"1.1 2.1", "", ""}},
		{"replicas that flap, once each", [][]article{{b}, {b2}, {b}, {b2}, {b}}, []string{"2.1", "2.2'", "", "", ""}},
		{"an empty document", [][]article{{a}, {}, {a}}, []string{"1.1", "", ""}},
	} {
		var k Known
		for i, doc := range s.docs {
			d := k.Diff(document(t, "T", doc...))
			if got := changesOf(t, d); got != s.want[i] {
				t.Errorf("%s: document %d tells %q, want %q", s.name, i, got, s.want[i])
			}
			k.Add(d)
		}
	}
}

func TestKnownChangesOfOthersAreDropped(t *testing.T) {
	var k, other Known
	k.Add(k.Diff(document(t, "T", article{1, 1}, article{2, 1})))
	rest := k.Unknown(other.Diff(document(t, "T", article{3, 1}, article{2, 2}, article{1, 1})))
	if got := changesOf(t, rest); got != "3.1 2.2'" || rest.Head != nil {
		t.Errorf("%q is left, and head %v", got, rest.Head)
	}
	if rest = k.Unknown(other.Diff(document(t, "U", article{1, 1}))); !rest.Empty() {
		t.Error("the head of another branch is told without an item")
	}
	if rest = k.Unknown(other.Diff(document(t, "U", article{4, 1}))); rest.Head == nil {
		t.Error("the head of another branch is not told with its item")
	}
}

func TestSuspiciousDocuments(t *testing.T) {
	articles := func(from, n int) (list []article) {
		for i := range n {
			list = append(list, article{from + i, 1})
		}
		return list
	}
	for _, c := range []struct {
		name      string
		known     []article
		title     string
		now       []article
		suspicion string
	}{
		{"first document, empty", nil, "T", nil, ""},
		{"empty, as feeds of alerts are", articles(1, 9), "U", nil, ""},
		{"all new, same title", articles(1, 9), "T", articles(10, 9), ""},
		{"another title", articles(1, 9), "U", articles(9, 9), ""},
		{"another feed", articles(1, 9), "U", articles(10, 9), "another title, another site and none of the 9 items"},
		{"hardly known", articles(1, 2), "U", articles(10, 9), ""},
	} {
		var k Known
		if c.known != nil {
			k.Add(k.Diff(document(t, "T", c.known...)))
		}
		if got := k.Suspicious(document(t, c.title, c.now...)); (got == "") != (c.suspicion == "") || !strings.HasPrefix(got, c.suspicion) {
			t.Errorf("%s: %q, want %q", c.name, got, c.suspicion)
		}
	}
}

// A feed of one site stays the same feed, even if its title changes every day.
func TestAnotherTitleOfTheSameSiteIsTheSameFeed(t *testing.T) {
	headlines := func(day int, head string) *feed.Feed {
		var items strings.Builder
		for i := range 6 {
			fmt.Fprintf(&items, "<item><guid>%d-%d</guid><title>t</title></item>", day, i)
		}
		f, err := feed.Parse(fmt.Appendf(nil, `<rss xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>Headlines of day %d</title>%s%s</channel></rss>`, day, head, &items), "")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		name, was, is string
		suspicious    bool
	}{
		{"no site", "", "", true},
		{"the same site", "<link>http://www.a.example/news/1</link>", "<link>https://a.example/news/2</link>", false},
		{"the same address", `<atom:link rel="self" href="http://a.example/feed"/>`, `<atom:link rel="self" href="http://a.example/feed"/>`, false},
		{"its address at its site", "<link>http://a.example/</link>", `<link>http://b.example/</link><atom:link rel="self" href="http://a.example/feed"/>`, false},
		{"another site", "<link>http://a.example/</link>", "<link>http://b.example/</link>", true},
		{"a site named", "", "<link>http://b.example/</link>", true},
	} {
		var k Known
		k.Add(k.Diff(headlines(1, c.was)))
		if got := k.Suspicious(headlines(2, c.is)); (got != "") != c.suspicious {
			t.Errorf("%s: %q", c.name, got)
		}
		if Unrelated(headlines(1, c.was), headlines(2, c.is)) != c.suspicious {
			t.Errorf("%s: they are unlike, or not, where one is suspicious after the other, or not", c.name)
		}
	}
}

// No item is reported twice because several items have its id, whichever comes first, and when one leaves.
func TestItemsOfOneIDAreReportedOnce(t *testing.T) {
	x := func(title, date string) string {
		return "<item><guid>x</guid><title>" + title + "</title><pubDate>" + date + "</pubDate></item>"
	}
	a, b, c := x("a", "1"), x("b", "2"), x("c", "3")
	for _, s := range []struct {
		name string
		docs []string
		want []string // reported titles, and ' for an edit
	}{
		{"newest first", []string{a, b + a, c + b + a, c + b, c, c + b + a}, []string{"a", "b", "c", "", "", ""}},
		{"newest last", []string{a, a + b, a + b + c, b + c, c, a + b + c}, []string{"a", "b", "c", "", "", ""}},
		{"two at first", []string{b + a, c + b + a, b, a}, []string{"b a", "c", "", ""}},
		{"one in place of the other, then both", []string{a, b, b + a, c + b + a}, []string{"a", "b'", "", "c"}},
		{"alike but for the date", []string{x("a", "1"), x("a", "2") + x("a", "1"), x("a", "2"), x("a", "1")}, []string{"a", "a", "", ""}},
		{"further apart", []string{a, x("a", "2") + a, b + x("a", "2") + a, a}, []string{"a", "a", "b", ""}},
	} {
		var k Known
		var w Window
		for i, items := range s.docs {
			f, err := feed.Parse([]byte("<rss><channel><title>T</title>"+items+"</channel></rss>"), "")
			if err != nil {
				t.Fatal(err)
			}
			k.Recognise(f)
			d := k.Diff(f)
			var told []string
			for _, c := range d.Changes {
				m, err := c.Item.Meaning("")
				if err != nil {
					t.Fatal(err)
				}
				if c.Edited {
					m.Title += "'"
				}
				told = append(told, m.Title)
			}
			if got := strings.Join(told, " "); got != s.want[i] {
				t.Errorf("%s: document %d tells %q, want %q", s.name, i, got, s.want[i])
			}
			k.Add(d)
			k.Touch(f)
			w.Apply(d, time.Unix(int64(i), 0), uint64(i+1))
			for _, it := range f.Items {
				if again, err := feed.ReadItem(it.Format, it.Raw, it.Scope, it.Qualifiers); err != nil || again.ID != it.ID {
					t.Errorf("%s: document %d: read by itself it is another: %v", s.name, i, err)
				}
				if _, ok := w.Entry(it.ID); !ok {
					t.Errorf("%s: document %d: an item that readers do not have", s.name, i)
				}
			}
		}
	}
}

// A publisher publishes, edits and reorders articles. The origin shows the first of them, and sometimes an old
// document, like a replica that lags.
type publisher struct {
	articles []article
	last     int
	shown    [][]article
}

func (p *publisher) step(t *rapid.T) []article {
	switch rapid.SampledFrom([]string{"publish", "publish", "edit", "reorder", "lag", "nothing"}).Draw(t, "what") {
	case "publish":
		for range rapid.IntRange(1, 3).Draw(t, "n") {
			p.last++
			p.articles = slices.Insert(p.articles, 0, article{p.last, 1})
		}
	case "edit":
		if len(p.articles) > 0 {
			p.articles[rapid.IntRange(0, min(len(p.articles), 8)-1).Draw(t, "which")].version++
		}
	case "reorder":
		slices.Reverse(p.articles[:min(len(p.articles), 4)])
	case "lag":
		if n := len(p.shown); n > 0 {
			return p.shown[max(0, n-1-rapid.IntRange(0, 2).Draw(t, "by"))]
		}
	}
	doc := slices.Clone(p.articles[:min(len(p.articles), 8)])
	p.shown = append(p.shown, doc)
	return doc
}

// An entry is a delta in a log.
type entry struct {
	Delta
	at  time.Time
	ref uint64
}

// Each version that an origin shows is reported once, to a reader that follows the log and to one that joined
// with a snapshot. All windows are the same.
func TestEachVersionIsReportedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var (
			p        publisher
			k        Known
			a, b     Window
			seen     = map[article]int{}
			at       = time.Unix(1.7e9, 0)
			joinedAt = rapid.IntRange(0, 20).Draw(rt, "join")
			log      []entry
		)
		for i := range rapid.IntRange(1, 40).Draw(rt, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(0, 100).Draw(rt, "hours")) * time.Hour)
			doc := p.step(rt)
			f := document(t, "T", doc...)
			d := k.Diff(f)
			for _, x := range doc {
				if _, ok := seen[x]; !ok {
					seen[x] = 0
				}
			}
			if i == joinedAt {
				for _, d := range log {
					b.Apply(d.Delta, d.at, d.ref)
				}
			}
			if d.Empty() {
				continue
			}
			packed, err := d.Encode()
			if err != nil {
				rt.Fatal(err)
			}
			if d, err = Decode(packed); err != nil {
				rt.Fatal(err)
			}
			for _, c := range d.Changes {
				var x article
				m, _ := c.Item.Meaning("")
				fmt.Sscanf(m.GUID+" "+m.Title, "%d version %d", &x.id, &x.version)
				seen[x]++
			}
			k.Add(d)
			for j, part := range d.Split(200) {
				e := entry{part, at, uint64(100*i + j + 1)}
				log = append(log, e)
				a.Apply(e.Delta, e.at, e.ref)
				if i >= joinedAt {
					b.Apply(e.Delta, e.at, e.ref)
				}
			}
			if n := rapid.IntRange(0, len(log)/4).Draw(rt, "dropped"); n > 0 {
				log = log[n:]
				a.Forget(log[0].ref)
				b.Forget(log[0].ref)
			}
			if i >= joinedAt && a.Hash() != b.Hash() {
				rt.Fatalf("windows differ: %v %v", a.Entries(), b.Entries())
			}
		}
		for x, n := range seen {
			if n != 1 {
				rt.Fatalf("%v was told %d times", x, n)
			}
		}
	})
}

func TestWindowKeepsDocumentOrder(t *testing.T) {
	var k Known
	var w Window
	at := time.Unix(1.7e9, 0)
	show := func(ref uint64, articles ...article) {
		d := k.Diff(document(t, "T", articles...))
		k.Add(d)
		w.Apply(d, at, ref)
	}
	show(1, article{2, 1}, article{1, 1})
	show(2, article{4, 1}, article{3, 1}, article{2, 2}) // 1 dropped off
	show(3, article{5, 1}, article{4, 1}, article{6, 1}) // 6 arrives late
	ids := func(articles ...article) (list []feed.ID) {
		for _, it := range document(t, "T", articles...).Items {
			list = append(list, it.ID)
		}
		return list
	}
	var got []feed.ID
	var refs []string
	for _, e := range w.Entries() {
		got = append(got, e.ID)
		refs = append(refs, fmt.Sprintf("%d.%d", e.Ref, e.Change))
	}
	if want := ids(article{5, 1}, article{4, 1}, article{6, 1}, article{3, 1}, article{2, 1}, article{1, 1}); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if got, want := strings.Join(refs, " "), "3.0 2.0 3.1 2.1 2.2 1.1"; got != want {
		t.Errorf("references %s, want %s", got, want)
	}
	if e, ok := w.Entry(ids(article{2, 1})[0]); !ok || e.Ref != 2 || w.HeadRef() != 1 {
		t.Errorf("entry %+v, head %d", e, w.HeadRef())
	}
}

func TestWindowForgetsWhatItsLogForgets(t *testing.T) {
	var k Known
	var w Window
	show := func(ref uint64, articles ...article) {
		d := k.Diff(document(t, "T", articles...))
		k.Add(d)
		w.Apply(d, time.Unix(int64(ref), 0), ref)
	}
	show(1, article{3, 1}, article{2, 1}, article{1, 1})
	show(2, article{4, 1}, article{3, 1}, article{2, 2}, article{1, 1})
	if w.Forget(2); w.Len() != 2 || w.HeadRef() != 0 {
		t.Errorf("%d items, head %d: items 4 and 2 were brought, or brought anew, by the second delta", w.Len(), w.HeadRef())
	}
	if e := w.Entries()[1]; !e.Arrived.Before(e.Changed) {
		t.Errorf("an edit changed when the item came: %+v", e)
	}
}

// Items that a document still shows are renewed before the log forgets them. A node that continues with the log
// then finds nothing new in the document.
func TestItemsOfTheDocumentAreRenewed(t *testing.T) {
	var k, later Known
	var w Window
	sticky := article{1, 1}
	doc := document(t, "T", sticky, article{3, 1}, article{2, 1})
	d := k.Diff(doc)
	k.Add(d)
	w.Apply(d, time.Unix(1, 0), 1)
	doc = document(t, "T", sticky, article{5, 1}, article{4, 1}, article{3, 2})
	d = k.Diff(doc)
	if got, want := changesOf(t, w.Renew(d, doc, 1)), changesOf(t, d); got != want {
		t.Errorf("%q, though the log keeps all; want %q", got, want)
	}
	k.Add(d)
	d = w.Renew(d, doc, 2)
	if got, want := changesOf(t, d), "1.1 5.1 4.1 3.2'"; got != want {
		t.Errorf("%q, want %q: 2 is in the document no longer", got, want)
	}
	w.Apply(d, time.Unix(2, 0), 2)
	w.Forget(2)
	d.Head = &doc.Head // a log repeats it
	later.Add(d)
	if w.Len() != 4 || !w.Entries()[0].Arrived.Equal(time.Unix(1, 0)) {
		t.Errorf("window %+v", w.Entries())
	}
	var late Window // of a node that joins later
	late.Apply(d, time.Unix(2, 0), 2)
	for i, e := range w.Entries() {
		if late.Entries()[i].ID != e.ID {
			t.Errorf("who comes later has another order: %v there", late.Entries()[i].ID)
		}
	}
	if d := later.Diff(doc); !d.Empty() {
		t.Errorf("who goes on with the log finds %q", changesOf(t, d))
	}
}

func TestTheOldestOfTooManyItemsAreForgotten(t *testing.T) {
	var k Known
	const n = feed.MaxItems
	for i := range 4 {
		var doc []article
		for j := range n {
			doc = append(doc, article{(i+1)*n - j, 1})
		}
		f := document(t, "T", doc...)
		if i == 1 {
			f.Items = append(f.Items[:n-1], document(t, "T", article{1, 1}).Items...)
		}
		d := k.Diff(f)
		k.Touch(f)
		k.Add(d)
	}
	if k.Len() > MaxKnown || k.Len() < MaxKnown*7/8-1 {
		t.Errorf("%d known", k.Len())
	}
	last := document(t, "T", article{4 * n, 1}, article{3*n + 1, 1})
	if !k.Diff(last).Empty() {
		t.Error("an item of the last document is forgotten")
	}
}

func TestSplitKeepsOrderAndSize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var k Known
		var doc []article
		for i := range rapid.IntRange(0, 20).Draw(rt, "n") {
			doc = append(doc, article{i, 1})
		}
		d := k.Diff(document(t, strings.Repeat("T", rapid.IntRange(1, 300).Draw(rt, "title")), doc...))
		limit := rapid.IntRange(1, 1500).Draw(rt, "limit")
		var all Delta
		for i, part := range d.Split(limit) {
			size := 0
			if part.Head != nil {
				size += headSize(part.Head)
				all.Head = part.Head
			}
			for _, c := range part.Changes {
				size += changeSize(&c)
			}
			if size > limit && len(part.Changes) > 1 || i > 0 && part.Empty() {
				rt.Fatalf("part %d: %d bytes, %d changes", i, size, len(part.Changes))
			}
			all.Changes = append(all.Changes, part.Changes...)
		}
		if all.Head != d.Head || changesOf(t, all) != changesOf(t, d) {
			rt.Fatalf("parts are %q, want %q", changesOf(t, all), changesOf(t, d))
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	d := benchmarkDelta(b)
	for b.Loop() {
		if _, err := d.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	packed, err := benchmarkDelta(b).Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(packed)), "bytes")
	for b.Loop() {
		if _, err := Decode(packed); err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkDelta returns one new item of 3 KB.
func benchmarkDelta(b *testing.B) Delta {
	f, err := feed.Parse([]byte("<rss><channel><item><guid>1</guid><description><![CDATA["+strings.Repeat("<p>Some words of a text.</p>\n", 100)+"]]></description></item></channel></rss>"), "")
	if err != nil {
		b.Fatal(err)
	}
	return new(Known).Diff(f)
}
