package feed

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// An item keeps its content when it is written in another format.
func TestConvertedItems(t *testing.T) {
	const base = "https://origin.example/dir/feed.xml"
	atom := func(attributes, entry string) string {
		return `<feed xmlns="http://www.w3.org/2005/Atom"` + attributes + `><title>Feed</title><link href="home"/>` + entry + `</feed>`
	}
	rss := func(item string) string {
		return `<rss version="2.0"><channel><title>Feed</title><link>/home</link>` + item + `</channel></rss>`
	}
	for what, c := range map[string]struct {
		doc  string
		want map[Format][]string // what the written document contains; after "!" what it does not
	}{
		"the base of a feed's link": {atom(` xml:base="/blog/"`, `<entry><id>1</id></entry>`), map[Format][]string{
			RSS: {`<link>https://origin.example/blog/home</link>`}, JSON: {`"home_page_url":"https://origin.example/blog/home"`}}},
		"no base of a feed's link": {rss(`<item><guid>1</guid></item>`), map[Format][]string{
			Atom: {`<link rel="alternate" href="https://origin.example/home"/>`}, JSON: {`"home_page_url":"https://origin.example/home"`}}},
		"bases within each other": {atom(` xml:base="/a/"`, `<entry xml:base="b/"><id>1</id><link href="c"/><content type="html" xml:base="d/">&lt;a href="e">e&lt;/a> &lt;a href="#f">f&lt;/a></content></entry>`), map[Format][]string{
			RSS:  {`<link>https://origin.example/a/b/c</link>`, `<a href="https://origin.example/a/b/d/e">`, `<a href="#f">`},
			JSON: {`"url":"https://origin.example/a/b/c"`, `https://origin.example/a/b/d/e`}}},
		"XHTML with a prefix": {atom(` xmlns:x="http://www.w3.org/1999/xhtml"`, `<entry><id>1</id><content type="xhtml"><x:div><x:p>a <x:em>b</x:em><x:br/></x:p></x:div></content></entry>`), map[Format][]string{
			RSS: {`<p>a <em>b</em><br></p>`}, JSON: {`<p>a <em>b</em><br></p>`}}},
		"a permalink for a link": {rss(`<item><title>T</title><guid>https://origin.example/1</guid></item>`), map[Format][]string{
			Atom: {`<link rel="alternate" href="https://origin.example/1"/>`}, JSON: {`"url":"https://origin.example/1"`}}},
		"an id that is no link": {rss(`<item><title>T</title><guid isPermaLink="false">https://origin.example/1</guid></item>`), map[Format][]string{
			Atom: {`!href="https://origin.example/1"`}, JSON: {`!"url"`}}},
		"neither link nor content": {rss(`<item><title>A &amp; B</title></item>`), map[Format][]string{
			Atom: {`<content type="html">A &amp;amp; B</content>`}}},
		"a summary alone": {rss(`<item><description>S</description></item>`), map[Format][]string{
			Atom: {`<content type="html">S</content>`, `!<summary`}}},
		"a summary and content": {rss(`<item xmlns:c="http://purl.org/rss/1.0/modules/content/"><description>&lt;b>S&lt;/b></description><c:encoded>C</c:encoded></item>`), map[Format][]string{
			Atom: {`<content type="html">C</content>`, `<summary type="html">`}, JSON: {`"summary":"S"`, `"content_html":"C"`}}},
		"authors": {atom("", `<entry><id>1</id><author><name>Lee, Ann</name></author><author><name>Bob</name><email>b@example.org</email></author></entry>`), map[Format][]string{
			RSS: {"<dc:creator>Lee, Ann</dc:creator>\n<dc:creator>Bob</dc:creator>"}, JSON: {`"authors":[{"name":"Lee, Ann"},{"name":"Bob"}]`}}},
		"no author": {rss(`<item><guid>1</guid></item>`), map[Format][]string{
			Atom: {`<author><name>Feed</name></author>`}, JSON: {`!"authors"`}}},
		"a date of publication and one of an edit": {atom("", `<entry><id>1</id><published>2026-11-01T10:00:00Z</published><updated>2026-11-02T10:00:00Z</updated></entry>`), map[Format][]string{
			RSS:  {`<pubDate>Sun, 01 Nov 2026 10:00:00 +0000</pubDate>`, `>2026-11-02T10:00:00Z</atom:updated>`},
			JSON: {`"date_published":"2026-11-01T10:00:00Z"`, `"date_modified":"2026-11-02T10:00:00Z"`}}},
		"one date": {atom("", `<entry><id>1</id><updated>2026-11-02T10:00:00Z</updated></entry>`), map[Format][]string{
			RSS: {`<pubDate>Mon, 02 Nov 2026 10:00:00 +0000</pubDate>`, `!atom:updated`}}},
		"a file and its length": {rss(`<item><guid>1</guid><enclosure url="a.mp3" type="audio/mpeg" length="7"/><enclosure url="b.mp3" length="long"/></item>`), map[Format][]string{
			Atom: {`<link rel="enclosure" href="https://origin.example/dir/a.mp3" type="audio/mpeg" length="7"/>`, `b.mp3" type="application/octet-stream"/>`}}},
	} {
		f := parse(t, c.doc)
		for format, parts := range c.want {
			d := Document{Base: base, URL: "http://127.0.0.1:8190/f", Head: f.Head, Entries: []Entry{{Item: f.Items[0], Arrived: time.Unix(1.78e9, 0)}}}
			doc, err := Write(&d, format)
			if err != nil {
				t.Fatal(err)
			}
			got := string(doc)
			if format == JSON {
				if !json.Valid(doc) {
					t.Errorf("%s: not valid: %s", what, doc)
				}
			} else if format == Atom {
				for _, fault := range atomFaults(doc) {
					t.Errorf("%s: %s in\n%s", what, fault, doc)
				}
			}
			for _, part := range parts {
				if without, not := strings.CutPrefix(part, "!"); strings.Contains(got, without) == not {
					t.Errorf("%s as %s: %s in\n%s", what, format, part, got)
				}
			}
		}
	}
}
