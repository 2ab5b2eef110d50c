package news

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/feed"
)

// dated returns a document of items with dates, the newest first: "id@date", the date in RFC 3339 or empty.
func dated(t *testing.T, items ...string) Document {
	t.Helper()
	all := ""
	for _, item := range items {
		id, date, _ := strings.Cut(item, "@")
		if date != "" {
			date = "<published>" + date + "</published>"
		}
		all += `<entry><id>urn:` + id + `</id><title>Pier ` + id + `</title>` + date + `</entry>`
	}
	f, err := feed.Parse([]byte(`<feed xmlns="http://www.w3.org/2005/Atom"><title>Ferry news</title><id>urn:f</id>`+all+`</feed>`), "")
	if err != nil {
		t.Fatal(err)
	}
	doc := &feed.Document{Base: ferries.URL, Head: f.Head}
	for _, it := range f.Items {
		doc.Entries = append(doc.Entries, feed.Entry{Item: it, Arrived: day})
	}
	return Document{Document: doc, Complete: true}
}

// The journal knows of each new item how long after its date it was seen, and whether here, also after a restart. A date in the future means
// no delay; without a date, or with an old one, the delay is not known.
func TestDelaysOfNewItems(t *testing.T) {
	d := openDesk(t)
	others := Source{URL: "https://other.example/"}
	record := func(s Source, items ...string) {
		t.Helper()
		doc := dated(t, items...)
		doc.FoundHere = func(e *feed.Entry) bool { return e == &doc.Entries[0] }
		if _, err := d.Record(s, doc); err != nil {
			t.Fatal(err)
		}
	}
	record(ferries, "0@2026-11-28T07:00:00Z")
	record(others, "9@2026-11-28T07:00:00Z")
	record(ferries, "1@2026-11-28T07:58:30Z", "0@2026-11-28T07:00:00Z")
	d.now = d.now.Add(time.Hour)
	record(ferries, "5@2026-11-27T08:59:59Z", "4", "3@2026-11-28T10:00:00Z", "2@2026-11-28T08:50:00Z", "1@2026-11-28T07:58:31Z", "0@2026-11-28T07:00:00Z")
	record(others, "10", "9@2026-11-28T07:00:00Z")
	said := func(url string, since time.Time) (all string) {
		d.EachNewItem(url, since, func(i NewItem) {
			all += i.At.Sub(day).String() + " "
			if i.Here {
				all += "here "
			}
			if i.Delay != nil {
				all += fmt.Sprint("after ", *i.Delay, " ")
			}
		})
		return strings.TrimSpace(all)
	}
	for range 2 {
		for _, c := range []struct {
			url   string
			since time.Time
			want  string
		}{
			{ferries.URL, time.Time{}, "1h0m0s here 1h0m0s 1h0m0s after 0s 1h0m0s after 10m0s 0s here after 1m30s"},
			{ferries.URL, d.now, "1h0m0s here 1h0m0s 1h0m0s after 0s 1h0m0s after 10m0s"},
			{others.URL, time.Time{}, "1h0m0s here"},
			{"", d.now, "1h0m0s here 1h0m0s here 1h0m0s 1h0m0s after 0s 1h0m0s after 10m0s"},
		} {
			if got := said(c.url, c.since); got != c.want {
				t.Errorf("%q since %v: %s, want %s", c.url, c.since, got, c.want)
			}
		}
		d.reopen()
	}
}

// The history of a feed's health has its latest events, and no others.
func TestHistoryOfHealth(t *testing.T) {
	d := openDesk(t)
	d.record("1")
	d.record("2", "1")
	health := func(s Source, h Health) {
		t.Helper()
		if _, err := d.RecordHealth(s, h); err != nil {
			t.Fatal(err)
		}
	}
	health(Source{URL: "https://other.example/"}, Health{Failing: "410 Gone", Gone: true})
	health(ferries, Health{Failing: "410 Gone", Gone: true})
	health(ferries, Health{})
	health(ferries, Health{Moved: "https://new.example/"})
	for range 2 {
		for limit, want := range map[int]string{9: "moved recovered gone", 2: "moved recovered"} {
			events, err := d.HealthOf(ferries.URL, limit)
			var kinds []string
			for _, e := range events {
				kinds = append(kinds, e.Health.Kind)
			}
			if got := strings.Join(kinds, " "); err != nil || got != want {
				t.Errorf("%d: %s, %v, want %s", limit, got, err, want)
			}
		}
		d.reopen()
	}
}
