package news

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
)

// An event that is read later is the one that would have been read at once: it has the item's addresses, dates and provenance, and its
// content is safe.
func TestAnItemThatIsReadLaterIsTheSame(t *testing.T) {
	for _, doc := range []string{
		`<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xml:base="https://pier.example/a/"><channel><title>T</title><link>https://ferry.example/</link><description/>
<item><guid isPermaLink="false">1</guid><title>Pier 1 &amp; 2</title><link>one</link><dc:date>2026-11-28T07:59:00Z</dc:date><dc:creator>Ann</dc:creator><category>c</category><description>&lt;p onclick="x"&gt;&lt;a href="two"&gt;two&lt;/a&gt;
lines&lt;/p&gt;</description><enclosure url="a.mp3" type="audio/mpeg" length="7"/></item></channel></rss>`,
		`<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>urn:f</id><updated>2026-11-28T07:00:00Z</updated><entry><id>urn:1</id><title>A</title><published>2026-11-28T07:58:00Z</published><updated>2026-11-28T07:59:00Z</updated><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><b>x</b></div></content></entry></feed>`,
		`{"version":"https://jsonfeed.org/version/1.1","title":"T","items":[{"id":"1","url":"/one","title":"A","content_html":"<b>x</b>","date_published":"2026-11-28T07:59:00Z","tags":["a","b"]}]}`,
		`<rss version="2.0"><channel><title>T</title><link>https://ferry.example/</link><description/><item><guid>same</guid><title>A</title></item><item><guid>same</guid><title>B</title></item></channel></rss>`,
	} {
		f, err := feed.Parse([]byte(doc), "")
		if err != nil {
			t.Fatal(err)
		}
		d := openDesk(t)
		d.sanitise = func(m *feed.Meaning) { m.Content = strings.ReplaceAll(m.Content, "x", "safe") }
		d.record("0")
		entry := feed.Entry{Item: f.Items[0], Arrived: day.Add(-time.Minute), Provenance: "witnessed 3/5"}
		if _, err := d.Record(ferries, Document{Document: &feed.Document{Base: ferries.URL, Entries: []feed.Entry{entry}}, Part: true}); err != nil {
			t.Fatal(err)
		}
		events, _, err := d.After(0, 10)
		if err != nil || len(events) != 1 || events[0].kept == nil {
			t.Fatalf("%v, %+v", err, events)
		}
		e := &events[0]
		want := (&feed.Document{Base: ferries.URL, Sanitise: d.sanitise}).ItemJSON(&entry)
		var whole EventJSON
		if err := json.Unmarshal(e.JSON(), &whole); err != nil || string(e.Item()) != string(want) || string(whole.Item) != string(want) || e.Shortened() {
			t.Errorf("%v\n%s\n%s, not\n%s", err, e.JSON(), e.Item(), want)
		}
		dated := strings.Contains(doc, "2026-11-28T07:59")
		if whole.Number != 1 || whole.Title != ferries.Title || (whole.DelayS != nil) != dated || dated && (*whole.DelayS < 60 || *whole.DelayS > 120) || strings.Contains(string(e.JSON()), "kept") {
			t.Errorf("the event is %s", e.JSON())
		}
	}
}

// The address of a private feed's document may be secret, and is not stored.
func TestTheAddressOfAPrivateFeedIsNotStored(t *testing.T) {
	d := openDesk(t)
	private := Source{URL: "private/pod", Title: "Pod"}
	for _, items := range [][]string{{"1"}, {"2", "1"}} {
		doc := document(t, items...)
		doc.Base = "https://pod.example/SECRET/feed.xml"
		if _, err := d.Record(private, doc); err != nil {
			t.Fatal(err)
		}
	}
	events, _, err := d.After(0, 10)
	if err != nil || len(events) != 1 || strings.Contains(string(events[0].Stored()), "SECRET") || !strings.Contains(string(events[0].Item()), "Pier 2") {
		t.Errorf("%v, %q", err, events[0].Stored())
	}
}

// The stored form of an event does not depend on how a version of the program renders it. The ids of messages are hashes of it, and
// survive an upgrade.
func TestTheStoredFormOfAnEventStays(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	d.record("2=text", "1")
	read := func() (stored, said string) {
		events, _, err := d.After(0, 10)
		if err != nil || len(events) != 1 {
			t.Fatalf("%v, %+v", err, events)
		}
		return string(events[0].Stored()), string(events[0].JSON())
	}
	stored, said := read()
	d.sanitise = func(m *feed.Meaning) { m.Summary = "other " + m.Summary }
	if again, other := read(); again != stored || other == said {
		t.Errorf("stored %q, then %q; said %q, then %q", stored, again, said, other)
	}
	if e := NewEvent(Event{Number: 1}, []byte(`{"id":"a"}`)); string(e.Stored()) != string(e.JSON()) {
		t.Errorf("an event that is not in the journal: %q", e.Stored())
	}
}

// No event takes more than maxEventBytes in the store, whatever its item has.
func TestEventsAreBounded(t *testing.T) {
	d := openDesk(t)
	d.record("0")
	for size := maxEventBytes - 600; size < maxEventBytes+100; size += 50 {
		d.record(fmt.Sprintf("%d=%s", size, strings.Repeat("x", size)), "0")
		if last := d.kept[len(d.kept)-1]; last.size > maxEventBytes || last.size < 100 {
			t.Errorf("an item of %d bytes takes %d", size, last.size)
		}
	}
}

// Events that a version before this one has stored are read still.
func TestOldEventsAreRead(t *testing.T) {
	d := openDesk(t)
	old := `{"number":7,"time":"2026-11-28T08:00:00Z","url":"https://ferry.example/news","title":"Ferry news","key":"00","item":{"id":"1","content_html":"x"}}`
	if err := d.commit([]env.Op{{Key: eventKey(7), Value: []byte(old), Body: true}}); err != nil {
		t.Fatal(err)
	}
	d.reopen()
	events, missed, err := d.After(0, 10)
	if err != nil || !missed || len(events) != 1 || string(events[0].JSON()) != old || string(events[0].Item()) != `{"id":"1","content_html":"x"}` || events[0].URL != ferries.URL {
		t.Errorf("%v, %+v", err, events)
	}
}

// A stored value is either rejected, or becomes an event whose JSON is valid.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"number":1,"kept":{"format":1,"base":"http://a/","arrived":"2026-11-28T08:00:00Z"}}` + "\n<item><title>A</title></item>",
		`{"number":1,"kept":{"format":4}}` + "\n{", `{"kept":{}}`, `{"health":{}}`, "", "\n",
	} {
		f.Add([]byte(s))
	}
	j := &Journal{sanitise: func(*feed.Meaning) {}}
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := j.decode(value)
		if err != nil {
			return
		}
		if e.JSON(); e.kept != nil && !json.Valid(e.JSON()) {
			t.Errorf("%q became %q", value, e.JSON())
		}
	})
}
