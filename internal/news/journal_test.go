package news

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/store"
)

var day = time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)

var ferries = Source{URL: "https://ferry.example/news", Title: "Ferry news"}

// A desk is a journal on a real disk, and the clock that it sees.
type desk struct {
	*Journal
	t    *testing.T
	path string
	disk *store.Disk
	now  time.Time
}

func openDesk(t *testing.T) *desk {
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "news.db"), now: day}
	d.open()
	t.Cleanup(func() { _ = d.disk.Close() })
	return d
}

func (d *desk) open() {
	d.t.Helper()
	var err error
	if d.disk, err = store.Open(d.path, func(f func()) { f() }, store.SecondCopy{}); err == nil {
		d.Journal, err = Open(d.disk, func() time.Time { return d.now }, func(*feed.Meaning) {})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// reopen opens the journal again, as after the end of the process.
func (d *desk) reopen() {
	d.t.Helper()
	if err := d.disk.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.open()
}

// record records a document with items, the newest first: "id" or "id=text".
func (d *desk) record(items ...string) {
	d.t.Helper()
	if _, err := d.Record(ferries, document(d.t, items...)); err != nil {
		d.t.Fatal(err)
	}
}

func document(t *testing.T, items ...string) Document {
	t.Helper()
	all := ""
	for _, item := range items {
		id, text, _ := strings.Cut(item, "=")
		all += fmt.Sprintf(`<item><guid isPermaLink="false">%s</guid><title>Pier %s</title><description>%s</description></item>`, id, id, text)
	}
	f, err := feed.Parse([]byte(`<rss version="2.0"><channel><title>Ferry news</title><link>https://ferry.example/</link><description/>`+all+`</channel></rss>`), "")
	if err != nil {
		t.Fatal(err)
	}
	doc := &feed.Document{Base: ferries.URL, Head: f.Head}
	for _, it := range f.Items {
		doc.Entries = append(doc.Entries, feed.Entry{Item: it, Arrived: day})
	}
	return Document{Document: doc, Complete: true}
}

// said returns the events after a number in short: "id", or "id*" for an edited item.
func (d *desk) said(after uint64) string {
	d.t.Helper()
	events, _, err := d.After(after, 1000)
	if err != nil {
		d.t.Fatal(err)
	}
	var all []string
	for _, e := range events {
		var item struct{ ID string }
		if err := json.Unmarshal(e.Item(), &item); err != nil {
			d.t.Fatal(err)
		}
		if e.Edited {
			item.ID += "*"
		}
		all = append(all, item.ID)
	}
	return strings.Join(all, " ")
}

func TestEventsAreNewAndEditedItemsInOrder(t *testing.T) {
	d := openDesk(t)
	d.record("2", "1")
	if got := d.said(0); got != "" {
		t.Errorf("the first document has the events %s; it is the past", got)
	}
	for _, step := range []struct{ items, want string }{
		{"2 1", ""},
		{"4 3 2 1", "3 4"},
		{"4 3=new 2", "3*"},
		{"5 4 3=new 2", "5"},
		{"5 4 3=new", ""},
	} {
		last := d.Last()
		d.record(strings.Fields(step.items)...)
		if got := d.said(last); got != step.want {
			t.Errorf("the document %s: events %q, want %q", step.items, got, step.want)
		}
		d.reopen()
		if got := d.said(last); got != step.want {
			t.Errorf("the document %s, opened again: events %q, want %q", step.items, got, step.want)
		}
	}
	if got := d.said(0); got != "3 4 3* 5" {
		t.Errorf("all events: %s", got)
	}
}

// New items of feeds are counted: no edits, no health, no articles of searches, none from before, and the same after a restart.
func TestNewItemsAreCounted(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	d.record("2", "1")
	d.now = d.now.Add(time.Hour)
	since := d.now
	d.record("4", "3", "2=edited", "1")
	if _, err := d.Record(Source{Query: "ferry"}, Document{Document: document(t, "9").Document, Fresh: 1, Complete: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.RecordHealth(ferries, Health{Moved: "https://new.example/"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if all, recent := d.NewItems(time.Time{}), d.NewItems(since); all != 3 || recent != 2 {
			t.Errorf("%d new items, %d of them in the last hour", all, recent)
		}
		d.reopen()
	}
}

// A log that lacks its last entries after a crash gets them again, and they are no news then.
func TestAnItemThatComesBackSoonIsNotNew(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	d.record("3", "2", "1")
	d.record("2", "1")
	events, _, err := d.After(0, 10)
	if err != nil || len(events) != 2 {
		t.Fatalf("%v, %v", events, err)
	}
	for i, want := range []bool{true, false} { // of 2 and 3
		if shown, err := d.Shows(&events[i]); shown != want || err != nil {
			t.Errorf("%s is shown: %v, %v", events[i].Item(), shown, err)
		}
	}
	d.record("1")
	d.reopen()
	d.now = d.now.Add(goneTime - time.Minute)
	d.record("2", "1")
	if got := d.said(0); got != "2 3" {
		t.Errorf("events %q, want 2 3", got)
	}
	d.now = d.now.Add(goneTime)
	d.record("3", "2", "1")
	if got := d.said(0); got != "2 3 3" {
		t.Errorf("events %q, want 3 again after a day", got)
	}
}

// The items of a log that is still being read are no news.
func TestAnIncompleteDocumentIsNotTheFirst(t *testing.T) {
	d := openDesk(t)
	part := document(t, "1")
	part.Complete = false
	if _, err := d.Record(ferries, part); err != nil {
		t.Fatal(err)
	}
	d.record("3", "2", "1")
	part = document(t, "4", "3", "2", "1")
	part.Complete = false
	if _, err := d.Record(ferries, part); err != nil {
		t.Fatal(err)
	}
	if got := d.said(0); got != "4" {
		t.Errorf("events %q, want 4", got)
	}
}

func TestAForgottenSourceBeginsAnew(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	if err := d.Forget(ferries); err != nil {
		t.Fatal(err)
	}
	d.record("3", "2", "1")
	d.record("4", "3", "2", "1")
	if got := d.said(0); got != "4" {
		t.Errorf("events %q, want 4", got)
	}
}

// The name of what was recorded is durable with it, also if nothing was new, and goes with the source.
func TestTheStateThatWasRecordedHasAName(t *testing.T) {
	d := openDesk(t)
	state := func(want string) {
		t.Helper()
		if got, err := d.Checkpoint(ferries); err != nil || string(got) != want {
			t.Errorf("recorded up to %q, %v; want %q", got, err, want)
		}
	}
	state("")
	for _, step := range []struct {
		checkpoint, want string
		items            []string
		part             bool
	}{
		{items: []string{"1"}},
		{checkpoint: "a", want: "a", items: []string{"1"}},
		{checkpoint: "b", want: "b", items: []string{"2", "1"}},
		{want: "b", items: []string{"3"}, part: true},
		{checkpoint: "c", want: "c", items: []string{"3"}, part: true},
	} {
		doc := document(t, step.items...)
		if doc.Part = step.part; step.checkpoint != "" {
			doc.Checkpoint = []byte(step.checkpoint)
		}
		if _, err := d.Record(ferries, doc); err != nil {
			t.Fatal(err)
		}
		state(step.want)
	}
	if err := d.Forget(ferries); err != nil {
		t.Fatal(err)
	}
	state("")
}

// An article that a new search has just matched is no past, although the first document has it.
func TestFreshEntriesAreNewsAtOnce(t *testing.T) {
	d := openDesk(t)
	doc := document(t, "3", "2", "1")
	doc.Fresh = 1
	if _, err := d.Record(ferries, doc); err != nil {
		t.Fatal(err)
	}
	if got := d.said(0); got != "3" {
		t.Errorf("events %q, want 3", got)
	}
}

func TestReadersAreWoken(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	changed := d.Changed()
	d.record("1")
	select {
	case <-changed:
		t.Error("a reader is woken for nothing")
	default:
	}
	d.record("2", "1")
	select {
	case <-changed:
	default:
		t.Error("a reader is not woken")
	}
}

// The oldest events go first when there are too many, or they are too old, and a reader that asks for them hears that
// some are missing.
func TestBoundsOfTheJournal(t *testing.T) {
	d := openDesk(t)
	d.record("0")
	fill := func(from, n int) {
		t.Helper()
		items := make([]string, n)
		for i := range items {
			items[n-1-i] = fmt.Sprint(from + i)
		}
		d.record(items...)
	}
	const batch = 1000
	for i := range maxEvents/batch + 1 {
		fill(1+i*batch, batch)
	}
	if len(d.kept) != maxEvents || d.kept[0].number != batch+1 {
		t.Errorf("%d events are kept, from %d on", len(d.kept), d.kept[0].number)
	}
	if _, missed, err := d.After(batch-1, 1); !missed || err != nil {
		t.Errorf("events before the oldest: missed is %v, error %v", missed, err)
	}
	if events, missed, err := d.After(batch, 1); missed || err != nil || events[0].Number != batch+1 {
		t.Errorf("%v %v %v, want the oldest event, and none missed", events, missed, err)
	}
	d.now = d.now.Add(MaxAge + time.Second)
	fill(20_000, 1)
	if got := maxEvents + 1 - maxDropped - 1; len(d.kept) != got {
		t.Errorf("%d events are kept after a week, want %d: some are deleted each time", len(d.kept), got)
	}
	d.reopen()
	if n, size := len(d.kept), d.bytes; n != maxEvents-maxDropped || size <= 0 {
		t.Errorf("%d events of %d bytes are kept when the journal is opened again", n, size)
	}
}

func TestALargeItemLosesItsContent(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	d.record("2="+strings.Repeat("x", maxEventBytes), "1")
	events, _, err := d.After(0, 10)
	if err != nil || len(events) != 1 || !events[0].Shortened() || len(events[0].Item()) > 1000 || !strings.Contains(string(events[0].Item()), "Pier 2") {
		t.Errorf("%v %+v", err, events)
	}
	d.record("3"+strings.Repeat("x", maxEventBytes), "1")
	if events, _, err = d.After(1, 10); err != nil || len(events) != 1 || !events[0].Shortened() || len(events[0].Item()) > maxEventBytes {
		t.Errorf("%v %+v", err, events)
	}
}

// A disk on which nothing can be written.
type fullDisk struct{ env.Store }

func (fullDisk) Commit(_ []env.Op, done func(error)) { done(errors.New("disk full")) }

// Documents of several sources become durable together, unless they are large, and each has the events of its own.
func TestSourcesAreRecordedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		commits uint64
	}{"small": {"x", 1}, "large": {strings.Repeat("x", maxEventBytes/2), 4}} {
		t.Run(name, func(t *testing.T) {
			d := openDesk(t)
			const sources = 10
			all := func(items ...string) (of []Recording) {
				for i := range sources {
					of = append(of, Recording{Source{URL: fmt.Sprintf("https://%d.example/news", i)}, document(t, items...)})
				}
				return of
			}
			if _, err := d.RecordAll(all("1")...); err != nil {
				t.Fatal(err)
			}
			before := d.disk.Stats().Commits
			items := []string{"1"}
			for i := range 12 {
				items = append(items, fmt.Sprintf("%d=%s", 2+i, c.text))
			}
			n, err := d.RecordAll(all(items...)...)
			if commits := d.disk.Stats().Commits - before; err != nil || n != sources*12 || commits != c.commits {
				t.Errorf("%d events in %d commits, %v", n, commits, err)
			}
			d.reopen()
			events, missed, err := d.After(0, 1000)
			if err != nil || missed || len(events) != n {
				t.Fatalf("%d events, %v, %v", len(events), missed, err)
			}
			for i, e := range events {
				if e.Number != uint64(i)+1 || e.URL != fmt.Sprintf("https://%d.example/news", i/12) {
					t.Errorf("event %d is %d of %s", i, e.Number, e.URL)
				}
			}
			if n, err := d.RecordAll(all(items...)...); n != 0 || err != nil {
				t.Errorf("%d events again, %v", n, err)
			}
		})
	}
}

// An item that could not be recorded is recorded later.
func TestAFullDiskLosesNothing(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	d.store = fullDisk{d.disk}
	if _, err := d.Record(ferries, document(t, "2", "1")); err == nil {
		t.Error("recorded on a full disk")
	}
	if got := d.said(0); got != "" {
		t.Errorf("events %q on a full disk", got)
	}
	d.store = d.disk
	d.record("3", "2", "1")
	if got := d.said(0); got != "2 3" {
		t.Errorf("events %q, want 2 3", got)
	}
}

// Merged records hold what a map would: the later sighting of each entry.
func TestRecordsAreMerged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var records [2]seen
		for i := range records {
			records[i] = seen{}
			for range rng.IntN(20) {
				records[i][itemID{byte(rng.IntN(30))}] = sighting{version{byte(rng.Uint32())}, rng.Uint32()}
			}
		}
		want := maps.Clone(records[0])
		maps.Copy(want, records[1])
		if got := merge(records[0].encode(), records[1].encode()); !bytes.Equal(got, want.encode()) {
			t.Fatalf("%v and %v give %x", records[0], records[1], got)
		}
	}
}

// A document that is recorded in parts gives the events of one that is recorded as a whole, however many parts there are.
func TestPartsOfADocument(t *testing.T) {
	d := openDesk(t)
	part := func(items ...string) {
		t.Helper()
		of := document(t, items...)
		of.Part, of.Complete = true, false
		if _, err := d.Record(ferries, of); err != nil {
			t.Fatal(err)
		}
	}
	part("1")
	if got := d.said(0); got != "" {
		t.Errorf("a part was the first document, with the events %q", got)
	}
	d.record("1")
	part("2")
	part("2", "1=new")
	d.reopen()
	part("2", "3")
	if got := d.said(0); got != "2 1* 3" {
		t.Errorf("events %q, want 2 1* 3", got)
	}
	for i := range maxRecent { // the parts no longer fit in the second record
		part(fmt.Sprint(100 + i))
	}
	last := d.Last()
	part("2", "1=new", "3", "100", fmt.Sprint(100+maxRecent-1))
	d.reopen()
	part("355", "4", "101")
	if got := d.said(last); got != "4" {
		t.Errorf("events %q, want 4", got)
	}
	d.record("4", "3", "1=new", "5") // the others are gone
	d.now = d.now.Add(goneTime)
	part("2", "3")
	if got := d.said(last); got != "4 5 2" {
		t.Errorf("events %q, want 4 5 2", got)
	}
	if err := d.Forget(ferries); err != nil {
		t.Fatal(err)
	}
	part("6")
	d.record("7")
	if got := d.said(last); got != "4 5 2" {
		t.Errorf("a feed that was forgotten begins with the events %q", got)
	}
}

// A document needs the content only of what the journal does not know: its events, and what has left it, are the same.
func TestWhatIsKnownNeedsNoContent(t *testing.T) {
	d := openDesk(t)
	short := func(items ...string) (contents int) {
		t.Helper()
		doc := document(t, items...)
		known, err := d.Known(ferries)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range doc.Entries {
			if known(e.Item.ID, e.Item.Hash) {
				doc.Entries[i].Item = feed.Item{ID: e.Item.ID, Hash: e.Item.Hash}
				continue
			}
			contents++
		}
		if _, err := d.Record(ferries, doc); err != nil {
			t.Fatal(err)
		}
		return contents
	}
	for _, step := range []struct {
		items    []string
		contents int
		said     string
	}{
		{[]string{"2", "1"}, 0, ""}, // the past of the feed
		{[]string{"3", "2", "1"}, 1, "3"},
		{[]string{"4", "3", "2=new", "1"}, 2, "3 2* 4"},
		{[]string{"4", "3", "2=new"}, 0, "3 2* 4"},
		{[]string{"4", "3", "2=new", "1"}, 0, "3 2* 4"}, // back soon
		{[]string{"4", "3"}, 0, "3 2* 4"},
	} {
		if contents := short(step.items...); contents != step.contents {
			t.Errorf("%q: the content of %d items is needed, want %d", step.items, contents, step.contents)
		}
		if got := d.said(0); got != step.said {
			t.Errorf("%q: events %q, want %q", step.items, got, step.said)
		}
		d.reopen()
	}
	d.now = d.now.Add(goneTime)
	if contents := short("4", "3", "1"); contents != 1 {
		t.Errorf("the content of %d items is needed after one has been gone for %v", contents, goneTime)
	}
	if got := d.said(0); got != "3 2* 4 1" {
		t.Errorf("events %q after an item has been gone for %v", got, goneTime)
	}
}
