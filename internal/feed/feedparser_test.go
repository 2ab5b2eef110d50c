package feed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// parsedAt is the address that the documents are read from.
const parsedAt = "https://example.org/feed"

// A testDocument is one of those that tests of parsers have collected.
type testDocument struct {
	name  string
	Bytes []byte
	Type  string // the media type that its comment gives it, if any
}

// declaredType finds the media type in the comment of a test document.
var declaredType = regexp.MustCompile(`(?mi)^\s*Header:\s*Content-type:\s*(\S.*?)\s*$`)

// testDocuments returns all test documents in formats that feedparser reads.
func testDocuments(t *testing.T) (all []testDocument) {
	for _, archive := range []string{"gofeed", "feedparser-70pct", "feedvalidator-70pct"} {
		shared(t, "feeds/"+archive+".tar.zst", func(name string, doc []byte) {
			if suffix := filepath.Ext(name); suffix != ".xml" && suffix != ".rdf" {
				return
			}
			d := testDocument{name: name, Bytes: doc}
			if m := declaredType.FindSubmatch(doc); m != nil {
				d.Type = string(m[1])
			}
			all = append(all, d)
		})
	}
	return all
}

// The following types hold feedparser's reading of a document, of an item and of a text.
type (
	foundDocument struct {
		Fault    string
		IsKnown  bool // feedparser knows the format
		ID, Link string
		Title    foundText
		Pages    []string
		Items    []foundItem
	}
	foundItem struct {
		ID, Link, Date             string
		Title, Text, Summary       foundText
		Pages, Authors, Enclosures []string
	}
	foundText struct{ Type, Value string }
)

// words returns a text as a reader sees it.
func (x foundText) words() string {
	if x.Type == "text/plain" {
		return strings.Join(strings.Fields(x.Value), " ")
	}
	return visibleWords(x.Value)
}

func visibleWords(s string) string {
	return strings.Join(strings.Fields(string(AppendText(nil, s))), " ")
}

// saysNothing reports whether feedparser finds at most a date and an author in each item.
func (d *foundDocument) saysNothing() bool {
	return !slices.ContainsFunc(d.Items, func(it foundItem) bool {
		return it.ID+it.Link+it.Title.words()+it.Text.words()+strings.Join(it.Enclosures, "") != ""
	})
}

// A disagreement is a field for which feedparser finds something else than this package.
type disagreement struct {
	document, field string
	ours, theirs    string
	found           *foundDocument
	id              string   // what feedparser finds as the id of the item, or of the feed
	pages           []string // and as its pages
	summary         string   // of the item
}

// compare calls differ for the fields of a document for which feedparser finds something else.
func compare(doc testDocument, found *foundDocument, differ func(disagreement)) {
	check := func(d disagreement) {
		if d.document, d.found = doc.name, found; d.ours != d.theirs {
			differ(d)
		}
	}
	f, err := Parse(doc.Bytes, doc.Type)
	switch {
	case found.Fault != "":
		check(disagreement{field: "fault", theirs: found.Fault})
		return
	case err != nil && (found.IsKnown || len(found.Items) > 0):
		check(disagreement{field: "refused", ours: err.Error(), theirs: fmt.Sprintf("%d items", len(found.Items))})
		return
	case err != nil:
		return // neither can read it
	}
	check(disagreement{field: "feed title", ours: f.Head.Title, theirs: found.Title.words()})
	check(disagreement{field: "feed link", ours: AbsoluteLink(parsedAt, f.Head.Link), theirs: found.Link, id: found.ID, pages: found.Pages})
	if len(f.Items) != len(found.Items) {
		check(disagreement{field: "items", ours: fmt.Sprint(len(f.Items)), theirs: fmt.Sprint(len(found.Items))})
		return
	}
	for i, it := range f.Items {
		m, err := it.Meaning(parsedAt)
		if err != nil {
			check(disagreement{field: "item", ours: err.Error()})
		}
		ours, theirs := fieldsOf(&m), found.Items[i].fields()
		for field := range ours {
			check(disagreement{
				field: field, ours: ours[field], theirs: theirs[field],
				id: found.Items[i].ID, pages: found.Items[i].Pages, summary: found.Items[i].Summary.words(),
			})
		}
	}
}

// fields returns what feedparser finds in an item, by the names of fields.
func (it *foundItem) fields() map[string]string {
	for i, s := range it.Enclosures {
		it.Enclosures[i] = strings.TrimSpace(s)
	}
	return map[string]string{
		"title": it.Title.words(), "link": strings.TrimSpace(it.Link), "text": it.Text.words(), "date": it.Date,
		"authors": strings.Join(it.Authors, ", "), "enclosures": strings.Join(it.Enclosures, " "),
	}
}

// fieldsOf returns the same of an item that this package has read.
func fieldsOf(m *Meaning) map[string]string {
	text, at, date := m.Content, m.Published, ""
	if text == "" {
		text = m.Summary
	}
	if at.IsZero() {
		at = m.Updated
	}
	if !at.IsZero() {
		date = at.Format(time.RFC3339)
	}
	var enclosures []string
	for _, e := range m.Enclosures {
		enclosures = append(enclosures, e.URL)
	}
	return map[string]string{
		"title": m.Title, "link": m.Link, "text": visibleWords(text), "date": date,
		"authors": m.Author(), "enclosures": strings.Join(enclosures, " "),
	}
}

// TestDocumentsAreReadAsFeedparserReadsThem compares what this package and feedparser find in each test document, item
// by item. A difference has a reason, or is a fault of this package. A reason that no document needs is out of date.
func TestDocumentsAreReadAsFeedparserReadsThem(t *testing.T) {
	documents := testDocuments(t)
	needsFeedparser(t, "it reads the same documents")
	in, err := json.Marshal(documents)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, filepath.Join("testdata", "read.py"))
	var words bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(in), &words
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &words)
	}
	var found []foundDocument
	if err := json.Unmarshal(out, &found); err != nil || len(found) != len(documents) {
		t.Fatalf("feedparser reads %d documents of %d: %v", len(found), len(documents), err)
	}
	seen := map[string]int{}
	for i, doc := range documents {
		compare(doc, &found[i], func(d disagreement) {
			for _, r := range allowedDifferences {
				if key, ok := r.explains(&d); ok {
					seen[key]++
					return
				}
			}
			t.Errorf("%s: %s:\n  ours        %.200q\n  feedparser  %.200q", d.document, d.field, d.ours, d.theirs)
		})
	}
	for _, a := range allowedDifferences {
		times := 0
		for _, key := range a.keys() {
			if seen[key] == 0 {
				t.Errorf("no document needs the reason %q", key)
			}
			times += seen[key]
		}
		t.Logf("%3d × %s: %s", times, cmp.Or(a.field, "any field"), a.reason)
	}
}
