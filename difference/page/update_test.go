package page

import (
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/difference/page/pagepb"
	"tidings/internal/feed"
)

// paragraphs returns a core of lines, some of which are the same in another version.
func paragraphs(n, version int) Core {
	of := Core{Title: "A page"}
	for i := range n {
		of.Lines = append(of.Lines, fmt.Sprintf("Paragraph %c of the page says what it has always said, at some length", 'A'+rune(i)))
	}
	if version > 0 {
		of.Lines[version%n] = "A new sentence" + strings.Repeat(", and another", version)
	}
	return of
}

// A node that continues with a page from its log has the visible version, wherever in the log a whole version
// is.
func TestALogRestoresTheVisibleVersion(t *testing.T) {
	var m Tracker
	var log [][]byte
	wholes := 0
	for i := range 100 {
		f := m.Check(paragraphs(20, i), time.Unix(int64(i)*7200, 0))
		if f.Kind != Changed || f.Number != uint64(i+1) {
			t.Fatalf("look %d: %v, version %d", i, f.Kind, f.Number)
		}
		u, err := m.Update()
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, u)
	}
	for from := range log {
		var next Tracker
		err := error(nil)
		for _, u := range log[from:] {
			if err = next.Apply(u); err != nil && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
		}
		if whole := new(Tracker); whole.Apply(log[from]) == nil {
			wholes++
		}
		if from > len(log)-wholeEvery-1 {
			continue
		}
		if got := next.Core(); err != nil || !slices.Equal(got.Lines, m.visible.Lines) || got.Title != "A page" {
			t.Fatalf("from entry %d on: %v, %d lines", from, err, len(got.Lines))
		}
		if f := next.Check(m.last, time.Unix(1e6, 0)); f.Kind != Same {
			t.Fatalf("from entry %d on, what readers have is %v", from, f.Kind)
		}
	}
	if wholes < 100/wholeEvery || wholes > 50 {
		t.Errorf("%d versions of 100 are told whole", wholes)
	}
}

// A replay of a log says of each version what the check that found it said, to the byte that readers see.
func TestAReplayTellsWhatTheChecksTold(t *testing.T) {
	var m, replayed Tracker
	for i := range 100 { // some of which are sent whole
		f := m.Check(paragraphs(20, i), time.Unix(int64(i)*7200, 0))
		u, err := m.Update()
		if err != nil {
			t.Fatal(err)
		}
		got, err := replayed.Replay(u, true)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if got.Kind != Same {
				t.Errorf("the first version is %v", got.Kind)
			}
			continue
		}
		if a, b := f.Entry("http://a.example/"), got.Entry("http://a.example/"); got.Kind != Changed || string(a) != string(b) {
			t.Fatalf("look %d: %v\n%s\n%s", i, got.Kind, a, b)
		}
	}
	if _, err := replayed.Replay([]byte("garbage"), true); err == nil || replayed.known() {
		t.Errorf("garbage: %v, version %d", err, replayed.number)
	}
}

// An invalid update, or one of another page, leaves the tracker empty: the next check begins anew.
func TestAnInvalidUpdateEmptiesTheTracker(t *testing.T) {
	var m Tracker
	m.Check(paragraphs(20, 0), time.Unix(0, 0))
	first, _ := m.Update()
	m.Check(paragraphs(20, 1), time.Unix(7200, 0))
	second, _ := m.Update()
	for name, log := range map[string][][]byte{
		"garbage":    {first, []byte("garbage")},
		"nothing":    {first, nil},
		"no base":    {second},
		"twice":      {first, second, second},
		"other base": {wholeOf(t, paragraphs(3, 0)), second},
	} {
		var next Tracker
		err := error(nil)
		for _, u := range log {
			err = next.Apply(u)
		}
		if err == nil || next.known() || len(next.Core().Lines) > 0 {
			t.Errorf("%s: %v, %d lines", name, err, len(next.Core().Lines))
		}
	}
}

func wholeOf(t *testing.T, c Core) []byte {
	t.Helper()
	var m Tracker
	m.Check(c, time.Unix(0, 0))
	u, err := m.Update()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// An entry shows the removed and added lines with their links, whatever the lines contain.
func TestAnEntryShowsWhatHasChanged(t *testing.T) {
	var m Tracker
	m.Check(Core{Lines: []string{"Stays", "Price: 3 < 4 & more", "Stays too"}}, time.Unix(0, 0))
	f := m.Check(Core{Lines: []string{"Stays", "See [the \"new\" list](/list?a=1&b=2) & [another](x/…)", "\x01odd", "[Win](JavaScript:alert(1)) [win](data:text/html,x)", "Stays too"}}, time.Unix(7200, 0))
	doc := f.Entry("https://example.org/a?b=1&c=2")
	var e struct {
		ID      string `xml:"id"`
		Title   string `xml:"title"`
		Content string `xml:"content"`
		Link    struct {
			Href string `xml:"href,attr"`
		} `xml:"link"`
	}
	if err := xml.Unmarshal(doc, &e); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	want := "<p>Stays</p>\n<p>− <del>Price: 3 &lt; 4 &amp; more</del></p>\n" +
		`<p>+ <ins>See <a href="/list?a=1&amp;b=2">the &#34;new&#34; list</a> &amp; another</ins></p>` + "\n" +
		"<p>+ <ins>\uFFFDodd</ins></p>\n" +
		"<p>+ <ins>[Win](JavaScript:alert(1)) win</ins></p>\n"
	if e.Content != want {
		t.Errorf("content:\n%s\nwant:\n%s", e.Content, want)
	}
	if e.Title != `See the "new" list & another` || e.Link.Href != "https://example.org/a?b=1&c=2" || !strings.HasSuffix(e.ID, ":2") {
		t.Errorf("%+v", e)
	}
}

// The entry of a completely new page is not larger than an item may be.
func TestAnEntryOfALargeChangeIsCut(t *testing.T) {
	var m Tracker
	m.Check(Core{Lines: []string{"Before"}}, time.Unix(0, 0))
	large := Core{}
	for i := range 10000 {
		large.Lines = append(large.Lines, fmt.Sprintf("<<<<<<<< line %d of many, with & and \" in it", i))
	}
	short := Core{}
	for i := range 32 << 10 {
		short.Lines = append(short.Lines, strconv.Itoa(i%90+10))
	}
	for i, now := range []Core{large, short} {
		f := m.Check(now, time.Unix(7200*int64(i+1), 0))
		doc := f.Entry("https://example.org/")
		if len(doc) > feed.MaxItem || !strings.Contains(string(doc), "more lines") {
			t.Errorf("%d bytes", len(doc))
		}
	}
}

// No log makes a page larger than a page may be, however little each update adds.
func TestALogDoesNotMakeAPageGrowWithoutEnd(t *testing.T) {
	var m Tracker
	now := Core{Lines: []string{"It begins"}}
	if err := m.Apply(wholeOf(t, now)); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		old := now
		now.Lines = slices.Concat(now.Lines, slices.Repeat([]string{strings.Repeat("grow ", 100)}, 100))
		p := Diff(&old, &now)
		packed, err := p.Encode(&old)
		if err != nil {
			t.Fatal(err)
		}
		u := updateOf(&now, uint64(i+2))
		u.How = &pagepb.Update_Patch{Patch: packed}
		b, err := encode(u)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(b); err != nil {
			if size := now.size(); !errors.Is(err, ErrLarge) || size < MaxText {
				t.Errorf("%d bytes: %v", size, err)
			}
			return
		}
	}
	t.Errorf("it has grown to %d bytes", now.size())
}
