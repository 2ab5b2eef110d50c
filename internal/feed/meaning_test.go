package feed

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const mediaBindings = ` xmlns:media="http://search.yahoo.com/mrss/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:atom="http://www.w3.org/2005/Atom"`

// onlyItem returns the content of the only item of a document at https://site.example/feed.
func onlyItem(t *testing.T, doc string) Meaning {
	t.Helper()
	f := parse(t, doc)
	if len(f.Items) != 1 {
		t.Fatalf("%d items, want 1: %s", len(f.Items), doc)
	}
	m, err := f.Items[0].Meaning("https://site.example/feed")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rssItem(inner string) string {
	return `<rss version="2.0"` + mediaBindings + `><channel><title>F</title><item>` + inner + `</item></channel></rss>`
}

func atomEntry(attrs, inner string) string {
	return `<feed xmlns="http://www.w3.org/2005/Atom"` + mediaBindings[:strings.Index(mediaBindings, " xmlns:atom")] + `><title>F</title><entry` + attrs + `>` + inner + `</entry></feed>`
}

func TestMeaningReadsAnItemInAnyVocabulary(t *testing.T) {
	for _, c := range []struct{ name, doc, field, want string }{
		{"media within a group", atomEntry("", `<title>T</title><media:group><media:description>1 &lt; 2</media:description></media:group>`), "summary", "1 &lt; 2"},
		{"media with HTML", rssItem(`<title>T</title><media:content url="x"><media:description type="html">&lt;b&gt;2&lt;/b&gt;</media:description></media:content>`), "summary", "<b>2</b>"},
		{"an own title beside one of media", rssItem(`<media:title>M</media:title><title>T</title>`), "title", "T"},
		{"a title of media", rssItem(`<media:title>M</media:title>`), "title", "M"},
		{"Dublin Core in Atom", atomEntry("", `<dc:title>T</dc:title>`), "title", "T"},
		{"Atom in RSS", rssItem(`<atom:title type="html">T &amp;amp; U</atom:title>`), "title", "T & U"},
		{"an author of a podcast", rssItem(`<title>T</title><itunes:author>Ann</itunes:author>`), "author", "Ann"},
		{"an author with an address", rssItem(`<title>T</title><author>ann@site.example (Ann)</author>`), "author", "Ann"},
		{"an author with an address behind the name", rssItem(`<title>T</title><author>Ann (ann@site.example)</author>`), "author", "Ann"},
		{"content without a namespace", rssItem(`<title>T</title><encoded>long</encoded><description>short</description>`), "content", "long"},
		{"RSS with a prefix", `<r:rss xmlns:r="http://backend.userland.com/rss2"><r:channel><r:item><r:title>T</r:title><r:description>D</r:description></r:item></r:channel></r:rss>`, "summary", "D"},
	} {
		m := onlyItem(t, c.doc)
		if got := map[string]string{"title": m.Title, "summary": m.Summary, "content": m.Content, "author": m.Author()}[c.field]; got != c.want {
			t.Errorf("%s: the %s is %q, want %q", c.name, c.field, got, c.want)
		}
	}
}

func TestMeaningKnowsThePageOfAnItem(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{rssItem(`<guid>https://site.example/1</guid><title>T</title>`), "https://site.example/1"},
		{rssItem(`<guid isPermaLink="false">https://site.example/1</guid><title>T</title>`), ""},
		{rssItem(`<guid>tag:1</guid><title>T</title>`), ""},
		{rssItem(`<guid isPermaLink="true">/1</guid><title>T</title>`), "https://site.example/1"},
		{rssItem(`<guid>https://site.example/1</guid><link>/2</link>`), "https://site.example/2"},
		{rssItem(`<link xml:base="https://other.example/a/">b</link><title>T</title>`), "https://other.example/a/b"},
		{atomEntry("", `<link rel="alternate" type="application/pdf" href="/1.pdf"/><link type="text/html" href="/1"/>`), "https://site.example/1"},
		{atomEntry("", `<link rel="alternate" type="application/pdf" href="/1.pdf"/>`), "https://site.example/1.pdf"},
		{atomEntry(` xml:base="a/"`, `<title>T</title><link xml:base="b/" href="c"/>`), "https://site.example/a/b/c"},
	} {
		if m := onlyItem(t, c.doc); m.Link != c.want {
			t.Errorf("%s: the link is %q, want %q", c.doc, m.Link, c.want)
		}
	}
}

func TestMeaningTakesTheDateOfPublication(t *testing.T) {
	const created, issued = "<created>2026-04-05T06:07:08Z</created>", "<issued>2026-05-06T07:08:09Z</issued>"
	for _, c := range []struct{ dates, want string }{
		{created + issued, "2026-05-06T07:08:09Z"},
		{issued + created, "2026-05-06T07:08:09Z"},
		{created, "2026-04-05T06:07:08Z"},
	} {
		if m := onlyItem(t, atomEntry("", "<title>T</title>"+c.dates)); m.Published.Format(time.RFC3339) != c.want {
			t.Errorf("%s: published %v, want %s", c.dates, m.Published, c.want)
		}
	}
}

func TestMeaningHasHTMLWithAbsoluteAddresses(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{
			atomEntry("", `<title>T</title><content type="html" xml:base="https://img.example/x/">&lt;img src="p.png"&gt;&lt;a href="#note"&gt;1&lt;/a&gt;</content>`),
			`<img src="https://img.example/x/p.png"><a href="#note">1</a>`,
		},
		{
			atomEntry("", `<title>T</title><content type="xhtml" xmlns:x="http://www.w3.org/1999/xhtml"><x:div><x:p xml:base="/d/">a &lt; <x:a href="e">e</x:a><x:br/></x:p></x:div></content>`),
			`<p>a &lt; <a href="https://site.example/d/e">e</a><br></p>`,
		},
		{atomEntry("", `<title>T</title><content type="xhtml">&lt;p&gt;Hello&lt;/p&gt;</content>`), "<p>Hello</p>"},
		{atomEntry("", `<title>T</title><content type="html"><div>&lt;p&gt;Hello&lt;/p&gt;</div></content>`), "<p>Hello</p>"},
		{atomEntry("", `<title>T</title><content type="xhtml"><div>&lt;p&gt;</div></content>`), "&lt;p&gt;"},
		{atomEntry("", `<title>T</title><content>1 &lt; 2</content>`), "1 &lt; 2"},
		{atomEntry("", "<title>T</title><content>\u0093don\u0092t\u0094</content>"), "“don’t”"},
		{`{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[{"id":"1","content_text":"don\u0092t"}]}`, "don’t"},
		{
			`{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[{"id":"1","content_html":"<img srcset='/a 1x, b 2x'>"}]}`,
			`<img srcset="https://site.example/a 1x, https://site.example/b 2x">`,
		},
	} {
		if m := onlyItem(t, c.doc); m.Content != c.want {
			t.Errorf("%s: the content is\n%s, want\n%s", c.doc, m.Content, c.want)
		}
	}
}

func TestAnAtomFeedMayMistypeItsNamespace(t *testing.T) {
	const doc = `<feed xmlns="http://www.w3.org/2005/%s"><title>F</title><entry><id>1</id><title>T</title><link href="/1"/><content type="html">&lt;b&gt;C&lt;/b&gt;</content></entry></feed>`
	f := parse(t, strings.Replace(doc, "%s", "atom", 1))
	it := &f.Items[0]
	m, err := it.Meaning("https://site.example/feed")
	if err != nil || f.Head.Title != "F" || m.GUID != "1" || m.Title != "T" || m.Link != "https://site.example/1" || m.Content != "<b>C</b>" {
		t.Errorf("%q, %+v, %v", f.Head.Title, m, err)
	}
	if again, err := ReadItem(it.Format, it.Raw, it.Scope, it.Qualifiers); err != nil || again.ID != it.ID {
		t.Errorf("read by itself it is %v, %v", again.ID, err)
	}
	if _, err := Parse([]byte(strings.Replace(doc, "%s", "Other", 1)), ""); !errors.Is(err, ErrNotFeed) {
		t.Errorf("a feed of another namespace: %v", err)
	}
}

func TestMeaningReadsBase64(t *testing.T) {
	entry := func(of, attrs string, text string) string {
		return atomEntry("", `<id>1</id><`+of+` `+attrs+`>`+base64.StdEncoding.EncodeToString([]byte(text))+"\n</"+of+`>`)
	}
	for _, c := range []struct{ name, doc, title, content string }{
		{"as Atom 0.3 says it", entry("content", `mode="base64" type="text/html"`, "<b>a</b>\x01"), "", "<b>a</b>"},
		{"as Atom 1.0 implies it", entry("content", `type="application/octet-stream"`, "<b>a</b>"), "", "<b>a</b>"},
		{"in a title", entry("title", `type="application/octet-stream"`, "<b>a</b> &lt; b"), "a < b", ""},
		{"a picture", entry("content", `type="image/png"`, "\x89PNG"), "", ""},
		{"a picture of no declared type", entry("content", `type="application/octet-stream"`, "\x89PNG\x00"), "", ""},
		{"a text of another kind", atomEntry("", `<id>1</id><content type="application/json">{"a":1}</content>`), "", ""},
	} {
		if m := onlyItem(t, c.doc); m.Title != c.title || m.Content != c.content {
			t.Errorf("%s: the title is %q and the content %q, want %q and %q", c.name, m.Title, m.Content, c.title, c.content)
		}
	}
}

func TestTitlesAreReadAsPlainText(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{rssItem(`<title>Use &lt;p&gt; and &lt;b&gt; well</title>`), "Use <p> and <b> well"},
		{rssItem(`<title>&lt;i&gt;Nature&lt;/i&gt; speaks</title>`), "Nature speaks"},
		{rssItem(`<title>Q&amp;amp;A &amp;#8211; now</title>`), "Q&A – now"},
		{rssItem(`<title>Vec&lt;T&gt; explained</title>`), "Vec<T> explained"},
		{rssItem(`<title>if a &lt;b then c</title>`), "if a <b then c"},
		{rssItem(`<title>&lt;i&gt;drop&lt;/i&gt; a &lt;table&gt; in SQL</title>`), "drop a <table> in SQL"},
		{atomEntry("", `<title>&amp;amp;</title>`), "&amp;"},
		{atomEntry("", `<title type="html">&amp;lt;b&amp;gt; &lt;b&gt;c&lt;/b&gt;</title>`), "<b> c"},
	} {
		if m := onlyItem(t, c.doc); m.Title != c.want {
			t.Errorf("%s: the title is %q, want %q", c.doc, m.Title, c.want)
		}
	}
}

func TestJSONThatIsNearlyRight(t *testing.T) {
	f := parse(t, "{\"version\":\"https://jsonfeed.org/version/1.1\",\"title\":\"J\",\"items\":[null,{\"id\":7.0,\"content_text\":\"a\n\tb\",\"tags\":[1,null,\"x\"],},],}")
	if len(f.Items) != 1 || !strings.Contains(f.Repaired, "JSON mended") {
		t.Fatalf("%d items, repaired: %q", len(f.Items), f.Repaired)
	}
	m, err := f.Items[0].Meaning("")
	if err != nil || m.GUID != "7" || m.Content != "a<br>\n\tb" || strings.Join(m.Categories, ",") != "1,x" {
		t.Errorf("%+v, %v", m, err)
	}
	_, err = Parse([]byte("{\"title\":\"J\",\n \"items\":[,]}"), "")
	if err == nil || !strings.Contains(err.Error(), "line 2, column 11") {
		t.Errorf("a comma instead of an item: %v", err)
	}
}

func TestAFeedThatBreaksOffBehindItsItems(t *testing.T) {
	for doc, want := range map[string]bool{
		"<rss><channel><item><title>T</title></item></channel></rss":               true,
		"<rss><channel><item><title>T</title></item></chan":                        true,
		"<rss><channel><item><title>T</title></item></channel>":                    true,
		"<rss><channel><item><title>T</title></item>":                              false,
		"<rss><channel><item><title>T</title></item":                               false,
		"<rss><channel><item><title>T</title></item><":                             false,
		`<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id></entry></fee`: true,
	} {
		if f, err := Parse([]byte(doc), ""); (err == nil) != want || want && len(f.Items) != 1 {
			t.Errorf("%s: %v, want it read: %t", doc, err, want)
		}
	}
}

func TestTheTitleOfAHeadIsPlainText(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`<rss><channel><TITLE>News &lt;i&gt;of the&lt;/i&gt; R&amp;amp;D</TITLE><item>a</item></channel></rss>`, "News of the R&D"},
		{`<rss><channel><title> </title><title>Second</title><title>Third</title></channel></rss>`, "Second"},
		{`<feed xmlns="http://www.w3.org/2005/Atom"><title type="html">&lt;b&gt;T&lt;/b&gt;</title></feed>`, "T"},
		{`<feed xmlns="http://www.w3.org/2005/Atom"><title>&lt;b&gt;T&lt;/b&gt;</title></feed>`, "<b>T</b>"},
		{`<feed xmlns="http://purl.org/atom/ns#"><title mode="base64">VA==</title></feed>`, "T"},
	} {
		if f := parse(t, c.doc); f.Head.Title != c.want {
			t.Errorf("%s: the title is %q, want %q", c.doc, f.Head.Title, c.want)
		}
	}
}

func TestAHeadWithATitleOfDublinCoreAndABase(t *testing.T) {
	f := parse(t, `<feed xmlns="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/" xml:base="https://other.example/a/"><dc:title>Harbour</dc:title><link href="b"/></feed>`)
	if f.Head.Title != "Harbour" || f.Head.Link != "https://other.example/a/b" {
		t.Errorf("the title is %q and the link %q", f.Head.Title, f.Head.Link)
	}
}

// Each link of a head is made absolute once, from the base in force at it; an empty one leads nowhere.
func TestLinksOfAHeadReferToTheirBase(t *testing.T) {
	for _, c := range []struct{ doc, link, self string }{
		{`<rss xml:base="https://o.example/d/"><channel><title>T</title><link></link></channel></rss>`, "", ""},
		{`<rss xml:base="https://o.example/d/"><channel><title>T</title><link xml:base="e/">f</link></channel></rss>`, "https://o.example/d/e/f", ""},
		{`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="d/"><link href="e"/><link rel="self" href="f"/></feed>`, "d/e", "d/f"},
		{`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://o.example/d/"><link href="e"/><link rel="self" href="//p.example/f"/></feed>`, "https://o.example/d/e", "https://p.example/f"},
	} {
		f := parse(t, c.doc)
		if f.Head.Link != c.link || f.Links.Self != c.self {
			t.Errorf("%s: the link is %q, want %q; to itself %q, want %q", c.doc, f.Head.Link, c.link, f.Links.Self, c.self)
		}
	}
}

func TestAbsoluteAddressesDoNotMakeAnItemHuge(t *testing.T) {
	base := "https://site.example/" + strings.Repeat("a", 4000) + "/"
	links := strings.Repeat("<a href='b'/>", 15_000)
	for _, doc := range []string{
		atomEntry(` xml:base="`+base+`"`, `<content type="html">`+escape(links)[:200_000]+`</content>`),
		atomEntry(` xml:base="`+base+`"`, `<content type="xhtml">`+links+`</content>`),
		atomEntry(` xml:base="`+base+`"`, `<content type="xhtml"><a href="b"/><img srcset="`+strings.Repeat("c 1,", 50_000)+`"/></content>`),
		atomEntry(` xml:base="`+base+`"`, `<content type="html">&lt;a `+strings.Repeat("href=b ", 30_000)+`></content>`),
		atomEntry(` xml:base="`+base+`"`, `<content type="html">&lt;a href=b></content>`+strings.Repeat(`<link rel="enclosure" href="c"/>`, 5_000)),
	} {
		m := onlyItem(t, doc)
		size := len(m.Content)
		for _, e := range m.Enclosures {
			size += len(e.URL)
		}
		if size > 3*MaxItem || !strings.Contains(m.Content, base+"b") {
			t.Errorf("%d bytes of content, from %d", size, len(doc))
		}
	}
}

// A reader shows few authors, categories and enclosures. An item that has thousands costs no more than others.
func TestMeaningHasFewAuthorsCategoriesAndEnclosures(t *testing.T) {
	var xml, tags strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&xml, `<dc:creator>a%d</dc:creator><category>c%d</category><enclosure url="/%d"/>`, i, i, i)
		fmt.Fprintf(&tags, `"c%d","c0",`, i)
	}
	for _, doc := range []string{
		rssItem(xml.String()),
		`{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[{"id":"1","tags":[` + tags.String() + `"c0"],` +
			`"authors":[` + strings.Repeat(`{"name":"a0"},`, 100) + `{"name":"a1"}],"attachments":[` + strings.Repeat(`{"url":"/0"},`, 100) + `{"url":"/1"}]}]}`,
	} {
		m := onlyItem(t, doc)
		if len(m.Categories) != maxObjects || m.Categories[1] != "c1" || len(m.Enclosures) != maxObjects || len(m.Authors) > maxObjects || m.Authors[0] != "a0" {
			t.Errorf("%d categories, %d enclosures, %d authors", len(m.Categories), len(m.Enclosures), len(m.Authors))
		}
	}
}
