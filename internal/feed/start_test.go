package feed

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

// startOf returns the first bytes of a document with many items, whatever its format.
func startOf(format string, size int) string {
	var b strings.Builder
	item := map[string]string{
		"rss":       `<item><guid>%[1]d</guid><title>Ü %[1]d</title><description><![CDATA[<p>a</item>b %[2]s</p>]]></description></item>`,
		"channel":   `<rdf:li/><item rdf:about="%[1]d"><title>Ü %[1]d</title><link>http://a.example/%[1]d</link><description>%[2]s</description></item>`,
		"atom":      `<a:entry><a:id>%[1]d</a:id><a:title>Ü %[1]d</a:title><a:content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">%[2]s</div></a:content></a:entry>`,
		"json":      `{"id":"%[1]d","title":"Ü \"}] %[1]d","tags":["x"],"attachments":[{"url":"http://a.example/"}],"content_text":"%[2]s"},`,
		"unclosed":  `<item><guid>%[1]d</guid><title>Ü & %[1]d</title><description>%[2]s<br></description></item>`,
		"reference": `<item><guid>%[1]d</guid><title>&Uuml; %[1]d</title><description>&lt;p&gt; %[2]s</description></item>`,
	}[format]
	b.WriteString(map[string]string{
		"channel": `<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><channel><title>Many</title></channel>`,
		"atom":    `<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:title>Many</a:title>`,
		"json":    `{"version":"https://jsonfeed.org/version/1.1","title":"Many","authors":[{"name":"a"}],"items":[`,
	}[format])
	if b.Len() == 0 {
		b.WriteString(`<rss version="2.0"><channel><title>Many</title><link>http://a.example/</link>`)
	}
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, item, i, strings.Repeat("word ", 300))
	}
	return b.String()[:size]
}

// The first part of a document that is too large has the items that end within it, wherever it is cut.
func TestStartsHaveTheirWholeItems(t *testing.T) {
	for _, format := range []string{"rss", "channel", "atom", "json", "unclosed", "reference"} {
		for size := 20_000; size < 24_000; size += 97 {
			f, err := ParseStart([]byte(startOf(format, size)), "")
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", format, size, err)
			}
			if f.Head.Title != "Many" || len(f.Items) < 7 || len(f.Items) > 16 || !strings.HasPrefix(titleOf(f, len(f.Items)-1), "Ü") || !strings.Contains(f.Omitted, "beyond the first 10 MiB") {
				t.Fatalf("%s of %d bytes: %q, %d items, %q, %q", format, size, f.Head.Title, len(f.Items), titleOf(f, len(f.Items)-1), f.Omitted)
			}
			checkFeed(t, format, f)
		}
		if _, err := Parse([]byte(startOf(format, 20_000)), ""); !errors.Is(err, ErrTruncated) {
			t.Errorf("%s: as a whole document: %v", format, err)
		}
	}
}

// The items of a start are those of the whole document.
func TestStartsHaveTheSameItems(t *testing.T) {
	doc := startOf("rss", 40_000)
	half, err := ParseStart([]byte(doc[:20_000]), "")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ParseStart([]byte(doc), "")
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range half.Items {
		if it.ID != whole.Items[i].ID || it.Hash != whole.Items[i].Hash {
			t.Errorf("item %d is another one", i)
		}
	}
}

func titleOf(f *Feed, i int) string {
	m, _ := f.Items[i].Meaning("")
	return m.Title
}

// A charset is recognised although the last character is incomplete, and a start that grows in UTF-8 is
// shortened.
func TestStartsInOtherCharsets(t *testing.T) {
	doc := startOf("rss", MaxDocument)
	var wide []byte
	for _, u := range utf16.Encode([]rune("\ufeff" + doc)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	latin := strings.NewReplacer("Ü", "\xdc", "word", "w\xf6rd").Replace(doc)
	for name, c := range map[string]struct{ doc, contentType string }{
		"UTF-16":  {string(wide[:30_001]), ""},
		"Latin-1": {latin, "text/xml; charset=iso-8859-1"},
		"UTF-8":   {doc[:strings.LastIndex(doc[:30_000], "Ü")+1], ""},
	} {
		f, err := ParseStart([]byte(c.doc), c.contentType)
		if err != nil || len(f.Items) < 5 || titleOf(f, 3) != "Ü 3" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStartsWithoutAnItemAreRefused(t *testing.T) {
	for doc, kind := range map[string]error{
		"<rss><channel><item><title>a": ErrLimit, `{"version":"https://jsonfeed.org/version/1","title":"a","items":[{"id":"1"`: ErrLimit,
		"<html><body>": ErrNotFeed, "": ErrEmpty, "<rss>": ErrLimit, "Hello": ErrEmpty, "Hello <b>": ErrNotFeed,
	} {
		if _, err := ParseStart([]byte(doc), ""); !errors.Is(err, kind) {
			t.Errorf("%q: %v", doc, err)
		}
	}
}
