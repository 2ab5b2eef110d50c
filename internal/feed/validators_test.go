package feed

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

// sources are documents as publishers write them, valid and invalid.
var sources = map[string]string{
	"rss with extensions": `<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="/style.xsl"?>
<!DOCTYPE rss [<!ENTITY copy "c">]>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:content="http://purl.org/rss/1.0/modules/content/"
  xmlns:media="http://search.yahoo.com/mrss/" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel>
  <title>News &amp; more</title>
  <link>https://example.org/</link>
  <description>What is new</description>
  <atom:link href="https://example.org/feed.xml" rel="self" type="application/rss+xml"/>
  <atom:link href="https://hub.example.org/" rel="hub"/>
  <lastBuildDate>Mon, 02 Nov 2026 10:00:00 GMT</lastBuildDate>
  <item>
    <title>Second</title><link>/2?utm_source=rss</link>
    <guid isPermaLink="false">tag:2</guid>
    <pubDate>Sun, 01 Nov 2026 10:00:00 +0100</pubDate>
    <dc:creator>Ann</dc:creator>
    <description><![CDATA[<p>Hello <b>world</b> & all</p>]]></description>
    <content:encoded>&lt;p&gt;Hello world&lt;/p&gt;</content:encoded>
    <media:content url="https://cdn.example.org/a.jpg"><media:title>A</media:title></media:content>
    <enclosure url="https://cdn.example.org/a.mp3?sig=1" type="audio/mpeg" length="7"/>
    <category>a &lt; b</category>
  </item>
  <item><title>First</title><link>https://example.org/1</link></item>
</channel>
</rss>`,
	"rss that is broken": "<rss version='2.0'><channel><title>R&D &nbsp; x</title><item><title>A < B & C</title>" +
		"<link>https://example.org/?a=1&b=2</link><media:thumbnail url=x.png><description>one<br>two</description>\x01</item></channel></rss>",
	"rss 1.0": `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="https://example.org/"><title>T</title><link>https://example.org/</link><description>D</description>
<items><rdf:Seq><rdf:li rdf:resource="https://example.org/1"/></rdf:Seq></items></channel>
<item rdf:about="https://example.org/1"><title>One</title><link>https://example.org/1</link><dc:date>2026-11-01T10:00:00Z</dc:date></item>
</rdf:RDF>`,
	"atom": `<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en" xml:base="https://example.org/blog/"><title type="html">A &amp;amp; B</title>
<id>tag:example.org,2026:feed</id><updated>2026-11-01T10:00:00Z</updated><link rel="self" href="atom.xml"/><author><name>Ann</name></author>
<entry><title>One</title><id>tag:example.org,2026:1</id><updated>2026-11-01T10:00:00Z</updated><link href="1"/>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Hello <em>you</em>.</p></div></content></entry>
<entry xml:lang="de"><title>Zwei</title><id>tag:example.org,2026:2</id><updated>2026-11-01T11:00:00Z</updated><summary>S</summary></entry></feed>`,
	"atom with prefixes": `<a:feed xmlns:a="http://www.w3.org/2005/Atom" xmlns:x="http://www.w3.org/1999/xhtml"><a:title>P</a:title><a:id>tag:p</a:id><a:updated>2026-11-01T10:00:00Z</a:updated>
<a:entry><a:title>P1</a:title><a:id>tag:p1</a:id><a:updated>2026-11-01T10:00:00Z</a:updated><a:content type="xhtml"><x:div>Hi</x:div></a:content></a:entry></a:feed>`,
	"atom that lacks": `<feed xmlns="http://www.w3.org/2005/Atom"><title>L</title><entry><link href="https://example.org/l"/></entry><entry><summary>s</summary></entry></feed>`,
	"json": `{"version":"https://jsonfeed.org/version/1.1","title":"J","home_page_url":"https://example.org/","feed_url":"https://example.org/feed.json",
"items":[{"id":7,"title":"Seven \u0000","content_text":"a < b\nc","date_published":"2026-11-01T10:00:00+01:00","_x":{"y":[1]}},{"id":"8","content_html":"<p>8</p>","authors":[{"name":"Ann"},null]}]}`,
}

// withPublisher ends the names of sources that name their publisher.
const withPublisher = " with a publisher"

// written returns the sources in all formats, separately and together, each also with a publisher in its head.
func written(t testing.TB) map[string][]byte {
	docs := map[string][]byte{}
	var all []Entry
	sources := maps.Clone(sources)
	for name, src := range maps.Clone(sources) {
		sources[name+withPublisher] = string(claimed(t, src, itsPublisher()))
	}
	for name, src := range sources {
		f, err := Parse([]byte(src), "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var entries []Entry
		for _, it := range f.Items {
			entries = append(entries, Entry{Item: it, Arrived: time.Unix(1.78e9, 0), Provenance: "witnessed 3/5"})
		}
		if !strings.HasSuffix(name, withPublisher) {
			all = append(all, entries...)
		}
		writeAll(t, docs, name, &Document{URL: "http://127.0.0.1:8190/f/x", Base: "https://example.org/feed.xml", Head: f.Head, Entries: entries})
	}
	for name, src := range sources {
		f, _ := Parse([]byte(src), "")
		writeAll(t, docs, "all in "+name, &Document{Head: f.Head, Entries: all})
	}
	return docs
}

func writeAll(t testing.TB, docs map[string][]byte, name string, d *Document) {
	t.Helper()
	for format := RSS; format <= JSON; format++ {
		doc, err := Write(d, format)
		if err != nil {
			t.Fatalf("%s as %s: %v", name, format, err)
		}
		docs[fmt.Sprintf("%s as %s", name, format)] = doc
	}
}

// files writes the documents of a format to disk and returns the names of the files.
func files(t testing.TB, docs map[string][]byte, suffix string) []string {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for name, doc := range docs {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		file := filepath.Join(dir, strings.ReplaceAll(strings.ReplaceAll(name, " ", "_"), "/", "_"))
		if err := os.WriteFile(file, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, file)
	}
	return names
}

// python is the interpreter for which Debian packages its modules.
const python = "/usr/bin/python3"

// needsFeedparser ends a test that lacks feedparser.
func needsFeedparser(t *testing.T, why string) {
	t.Helper()
	if exec.Command(python, "-c", "import feedparser").Run() != nil {
		checktest.Lacks(t, "python3-feedparser is not installed: %s", why)
	}
}

// parsesAll is a program that prints feedparser's complaints about files.
const parsesAll = `
import sys, feedparser
for name in sys.argv[1:]:
    f = feedparser.parse(name)
    if f.bozo:
        print(name, repr(f.bozo_exception))
`

// bozos returns feedparser's complaints about files.
func bozos(t *testing.T, names []string) string {
	t.Helper()
	needsFeedparser(t, "it judges what is written")
	out, err := exec.Command(python, append([]string{"-c", parsesAll}, names...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

func TestFeedparserAcceptsWrittenFeeds(t *testing.T) {
	docs := written(t)
	for _, format := range []Format{RSS, RDF, Atom} { // feedparser cannot read JSON Feed
		if out := bozos(t, files(t, docs, "as "+format.String())); out != "" {
			t.Errorf("as %s:\n%s", format, out)
		}
	}
}

func TestWrittenFeedsNeedNoRepair(t *testing.T) {
	for name, doc := range written(t) {
		f, err := Parse(doc, "")
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, doc)
		} else if f.Repaired != "" {
			t.Errorf("%s: %s\n%s", name, f.Repaired, doc)
		}
		if bytes.Contains(doc, []byte("<!DOCTYPE")) || bytes.Contains(doc, []byte("xml-stylesheet")) {
			t.Errorf("%s: with what belongs to the source alone\n%s", name, doc)
		}
	}
}
