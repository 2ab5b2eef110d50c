package feed

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/charmap"
)

// rss returns a document whose items have one text each.
func rss(items ...string) string {
	return `<rss version="2.0"><channel><title>T</title>` + strings.Join(items, "\n") + `</channel></rss>`
}

func parse(t testing.TB, doc string) *Feed {
	t.Helper()
	f, err := Parse([]byte(doc), "")
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return f
}

func TestErrorsSayWhyADocumentIsNoFeed(t *testing.T) {
	for _, c := range []struct {
		doc  string
		kind error
		says string
	}{
		{"", ErrEmpty, "empty document"},
		{" \n", ErrEmpty, "empty document"},
		{"<?xml version='1.0'?><!-- soon -->", ErrEmpty, "empty document"},
		{"<!DOCTYPE html><title>Log in", ErrNotFeed, "a web page, not a feed"},
		{"<HTML><body>404", ErrNotFeed, "a web page, not a feed"},
		{"<html xmlns='http://www.w3.org/1999/xhtml'/>", ErrNotFeed, "a web page, not a feed"},
		{"Service unavailable", ErrNotFeed, `it begins with "Service unavailable"`},
		{"<opml/>", ErrNotFeed, "a document of <opml>"},
		{"<entry xmlns='http://www.w3.org/2005/Atom'/>", ErrNotFeed, "a document of <entry>"},
		{`{"error":"no"}`, ErrNotFeed, "JSON, but no JSON Feed"},
		{`[1]`, ErrNotFeed, "JSON, but no object"},

		{"<rss><channel><item><title>x", ErrTruncated, "inside <title>"},
		{"<rss><channel><item><title>x</title></item>", ErrTruncated, "inside <channel>"},
		{"<rss><channel></title", ErrTruncated, "in an end tag"},
		{"<rss><channel><!-- ", ErrTruncated, "in a comment"},
		{"<rss><channel><title><![CDATA[x", ErrTruncated, "in a CDATA section"},
		{"<?xml ", ErrTruncated, "in a processing instruction"},
		{"<!DOCTYPE rss [", ErrTruncated, "in a document type declaration"},
		{"<rss vers", ErrTruncated, "in a tag"},
		{`{"title":"x","items":[{"id":"1"},`, ErrTruncated, "inside JSON"},
		{`{"title":"x","items":[{"id":"1`, ErrTruncated, "inside JSON"},

		{"<rss><channel><item></channel></rss>", ErrBroken, "<channel> ends inside <item>"},
		{`{"title":"x","items":[}]}`, ErrBroken, "JSON, at line 1, column 23"},
		{`{"title":"x","items":[]} x`, ErrBroken, "JSON"},
	} {
		f, err := Parse([]byte(c.doc), "")
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v (%v), want %v: %s", c.doc, err, f, c.kind, c.says)
		}
	}
}

func TestErrorsNameTheMediaType(t *testing.T) {
	const png, pdf, zip = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\xff\xfe", "%PDF-1.4\n%\xe2\xe3\xcf\xd3", "PK\x03\x04\x14\x00\x00\x00"
	for _, c := range []struct {
		doc, contentType string
		kind             error
		says             string
	}{
		{png, "image/png", ErrNotFeed, "not a feed: image/png"},
		{png, "", ErrNotFeed, "not a feed: image/png"},
		{pdf, "application/pdf", ErrNotFeed, "not a feed: application/pdf"},
		{pdf, "application/octet-stream", ErrNotFeed, "not a feed: application/pdf"},
		{zip, "text/plain", ErrNotFeed, "not a feed: application/zip"},
		{"\x00\x01\xff\x81", "audio/mpeg; x=y", ErrNotFeed, "not a feed: audio/mpeg"},
		{"<p>Hello", "text/html", ErrNotFeed, "a web page, not a feed"},
		{"Hello", "text/html; charset=utf-8", ErrNotFeed, "a web page, not a feed"},
		{"Hello", "text/plain", ErrNotFeed, `not a feed: it begins with "Hello"`},
		{"Hello", "", ErrNotFeed, `not a feed: it begins with "Hello"`},
		{"body { margin: 0 }", "text/css", ErrNotFeed, `not a feed: it begins with "body { margin: 0 }"`},
		{`{"a":1}`, "application/json", ErrNotFeed, "not a feed: JSON, but no JSON Feed"},
		{"<urlset/>", "text/html", ErrNotFeed, "a web page, not a feed"},
		{"<urlset/>", "application/pdf", ErrNotFeed, "not a feed: a document of <urlset>"},
		{"<rss><channel><item>", "text/html", ErrTruncated, "inside <item>"},
		{"<rss><channel><item>", "application/rss+xml", ErrTruncated, "inside <item>"},
	} {
		_, err := Parse([]byte(c.doc), c.contentType)
		if !errors.Is(err, c.kind) || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%q as %q: %v, want %s", c.doc, c.contentType, err, c.says)
		}
	}
}

// A truncated feed never looks like a feed with fewer items.
func TestATruncatedFeedIsNoFeed(t *testing.T) {
	for name, src := range sources {
		src = strings.TrimSpace(src)
		whole := parse(t, src)
		for n := range len(src) {
			f, err := Parse([]byte(src[:n]), "")
			if err == nil && f.Repaired != "" && strings.HasSuffix(f.Repaired, "the end of the last tags added") && len(f.Items) == len(whole.Items) {
				continue // it broke off behind its last item, in the end tags around all of them
			}
			if err == nil {
				t.Errorf("%s: %d of %d bytes are a feed of %d items, of %d", name, n, len(src), len(f.Items), len(whole.Items))
			}
		}
	}
}

func TestCharsets(t *testing.T) {
	const doc = "<rss><channel><title>%s</title></channel></rss>"
	utf16 := func(s string, big bool) string {
		var b []byte
		for _, r := range s {
			if big {
				b = append(b, byte(r>>8), byte(r))
			} else {
				b = append(b, byte(r), byte(r>>8))
			}
		}
		return string(b)
	}
	prolog := func(charset, title string) string {
		return "<?xml version='1.0' encoding='" + charset + "'?>" + fmt.Sprintf(doc, title)
	}
	plain := fmt.Sprintf(doc, "é")
	for _, c := range []struct {
		name, doc, contentType, title, repaired string
	}{
		{"nothing said", plain, "", "é", ""},
		{"nothing said, and no UTF-8", fmt.Sprintf(doc, "\xe9"), "", "é", "charset"},
		{"mark", "\xef\xbb\xbf" + prolog("latin1", "é"), "text/xml; charset=koi8-r", "é", ""},
		{"UTF-16 mark", "\xff\xfe" + utf16(plain, false), "", "é", ""},
		{"UTF-16 mark, other end", "\xfe\xff" + utf16(plain, true), "", "é", ""},
		{"UTF-16 without mark", utf16(prolog("utf-16", "é"), true), "", "é", ""},
		{"header before prolog", prolog("koi8-r", "\xe9"), `text/xml; charset="ISO-8859-1"`, "é", ""},
		{"prolog", prolog("iso-8859-15", "\xa4"), "text/xml", "€", ""},
		{"prolog, Chinese", prolog("gb2312", "\xd0\xc2"), "", "新", ""},
		{"unknown header, prolog", prolog("latin1", "\xe9"), "text/xml; charset=klingon", "é", ""},
		{"header says UTF-8, prolog is right", prolog("windows-1251", "\xe9"), "text/xml; charset=utf-8", "й", "charset"},
		{"header says Latin-1, is UTF-8", prolog("utf-8", "naïve"), "text/xml; charset=iso-8859-1", "naïve", "charset"},
		{"header says ASCII, is UTF-8", prolog("utf-8", "naïve"), "text/xml; charset=us-ascii", "naïve", "charset"},
		{"both say Latin-1, is UTF-8", prolog("latin1", "naïve"), "text/xml; charset=iso-8859-1", "naïve", "charset"},
		{"prolog says Latin-1, is UTF-8", prolog("latin1", "naïve"), "", "naïve", "charset"},
		{"says KOI8-R, is UTF-8", prolog("koi8-r", "Новости"), "", "Новости", "charset"},
		{"says GBK, is UTF-8", prolog("gbk", "人人生而自由在尊严"), "", "人人生而自由在尊严", "charset"},
		{"says GBK, is", prolog("gbk", "\xc8\xcb\xc8\xcb\xc9\xfa\xb6\xf8\xd7\xd4\xd3\xc9\xd4\xda\xd7\xf0\xd1\xcf"), "", "人人生而自由在尊严", ""},
		{"header says Latin-1, prolog is right", prolog("windows-1251", "\xcd\xee\xe2\xee\xf1\xf2\xe8"), "text/xml; charset=iso-8859-1", "Новости", "charset"},
		{"says UTF-8, is Windows-1252", prolog("utf-8", "\x93na\xefve\x94 \x80"), "application/xml; charset=utf-8", "“naïve” €", "charset"},
		{"mark of UTF-8, is Windows-1252", "\xef\xbb\xbf" + prolog("utf-8", "na\xefve"), "", "naïve", "charset"},
		{"mark of UTF-8, is what the prolog says", "\xef\xbb\xbf" + prolog("windows-1251", "\xcd\xee\xe2"), "", "Нов", "charset"},
		{"mark of UTF-16, header says UTF-8", "\xff\xfe" + utf16(prolog("utf-8", "é"), false), "text/xml; charset=utf-8", "é", ""},
		{"says UTF-8, is not", prolog("utf-8", "\xe9"), "", "é", "charset"},
		{"says UTF-16, is not", prolog("utf-16", "é"), "", "é", "charset"},
		{"torn", prolog("utf-8", "ééé\xc3"), "", "ééé\ufffd", "impossible characters"},
		{"controls", fmt.Sprintf(doc, "a\x00\x0b\ufffeb"), "", "ab", "impossible characters"},
	} {
		f, err := Parse([]byte(c.doc), c.contentType)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if f.Head.Title != c.title || (f.Repaired == "") != (c.repaired == "") || !strings.Contains(f.Repaired, c.repaired) {
			t.Errorf("%s: title %q, repaired %q; want %q, %q", c.name, f.Head.Title, f.Repaired, c.title, c.repaired)
		}
	}
}

// The content of a document must not depend on its labels, as long as its bytes show the charset. Labels differ
// between the replicas of an origin.
func TestLabelsDoNotChangeWhatADocumentSays(t *testing.T) {
	western := []string{"", "utf-8", "iso-8859-1", "windows-1252", "us-ascii", "utf-16", "klingon"}
	russian, err := charmap.Windows1251.NewEncoder().String("Все люди рождаются свободными")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, title, want string
		labels            []string // of the header and of the document, in all combinations
		right             string   // label that must be among them; "" if the bytes suffice
	}{
		{"UTF-8", "naïve Überschrift", "naïve Überschrift", append(western, "iso-8859-15", "koi8-r"), ""},
		{"UTF-8, Russian", "Все люди", "Все люди", append(western, "iso-8859-15", "koi8-r"), ""},
		{"Windows-1252", "na\xefve \xdcberschrift", "naïve Überschrift", western, ""},
		{"Windows-1251", russian, "Все люди рождаются свободными", append(western, "windows-1251"), "windows-1251"},
	} {
		for _, header := range c.labels {
			for _, own := range c.labels {
				for _, mark := range []string{"", "\xef\xbb\xbf"} {
					doc, contentType := mark, "text/xml"
					if own != "" {
						doc += "<?xml version='1.0' encoding='" + own + "'?>"
					}
					doc += rss("<item><title>" + c.title + "</title></item>")
					if header != "" {
						contentType += "; charset=" + header
					}
					f, err := Parse([]byte(doc), contentType)
					if told := c.right == "" || header == c.right || own == c.right; !told {
						if !errors.Is(err, ErrBroken) {
							t.Errorf("%s, header %q, prolog %q, mark %q: %v where nobody can know", c.name, header, own, mark, err)
						}
						continue
					}
					if err != nil || len(f.Items) != 1 || !strings.Contains(string(f.Items[0].Raw), c.want) {
						t.Errorf("%s, header %q, prolog %q, mark %q: %v", c.name, header, own, mark, err)
					}
				}
			}
		}
	}
}

func TestEmptyItemsAreLeftOut(t *testing.T) {
	const date = "<pubDate>Sat, 21 Nov 2026 12:00:00 GMT</pubDate>"
	for _, c := range []struct {
		name, doc string
		items     int // -1: the document is broken
	}{
		{"no items", rss(), 0},
		{"nothing", rss("<item/>"), -1},
		{"white space", rss("<item> <title> </title>\n</item>"), -1},
		{"empty elements", rss("<item><title/><link></link><description/></item>"), -1},
		{"when and by whom", rss("<item>" + date + "<author>Ann</author></item>"), -1},
		{"an entry", "<feed xmlns='" + nsAtom + "'><title>T</title><entry><updated>2026-11-21T12:00:00Z</updated></entry></feed>", -1},
		{"JSON", `{"title":"T","items":[{}, {"date_published":"2026-11-21T12:00:00Z","title":""}]}`, -1},
		{"a title", rss("<item/>", "<item><title>x</title></item>", "<item/>"), 1},
		{"an enclosure", rss("<item><enclosure url='http://x/a.mp3'/></item>"), 1},
		{"something in an extension", rss("<item><m:content xmlns:m='u' url='http://x/a.jpg'/></item>"), 1},
		{"JSON that says something", `{"title":"T","items":[{}, {"id":"1"}]}`, 1},
		{"something behind a million that say nothing", rss(strings.Repeat("<item/>", 1_000_000), "<item><title>x</title></item>"), 1},
		{"JSON behind a million", `{"title":"T","items":[` + strings.Repeat("{},", 1_000_000) + `{"id":"1"}]}`, 1},
	} {
		f, err := Parse([]byte(c.doc), "")
		switch {
		case c.items < 0:
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "none of its items says anything") {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || len(f.Items) != c.items:
			t.Errorf("%s: %+v %v, want %d items", c.name, f, err, c.items)
		case strings.Contains(c.doc, "<item/>") && !strings.Contains(f.Repaired, "say nothing"):
			t.Errorf("%s: repaired %q", c.name, f.Repaired)
		}
	}
}

func TestRepairs(t *testing.T) {
	for _, c := range []struct{ item, want, repaired string }{
		{"<a>x</a>", "<a>x</a>", ""},
		{"<a b='x>y' c=\"'\"/>", "<a b='x>y' c=\"'\"/>", ""},
		{"<a><![CDATA[<&]]></a><!-- < & --><?php < ?>", "<a><![CDATA[<&]]></a><!-- < & --><?php < ?>", ""},
		{"&amp;&#233;&#xe9;&lt;", "&amp;&#233;&#xe9;&lt;", ""},
		{"R&D &foo; &", "R&amp;D &amp;foo; &amp;", "&"},
		{"&nbsp;&eacute;&ampx;", "\u00a0é&amp;ampx;", "&"},
		{"&#0;&#xd800;&#99999999999;", "\ufffd\ufffd&amp;#99999999999;", "&"},
		{"a < b <3 </> <", "a &lt; b &lt;3 &lt;/> &lt;", "&"},
		{"]]>", "]]&gt;", "&"},
		{"<a b=c d/>", `<a b="c" d="d"/>`, "tags"},
		{"<a b='1'c='2' b='3'/>", `<a b="1" c="2"/>`, "tags"},
		{"<a b='x<y&z\"'/>", `<a b="x&lt;y&amp;z&quot;"/>`, "tags"},
		{"<a:b:c>x</a:b:c><:d/>", " x  ", "tags"},
		{"<p>one<br>two</p>", "<p>one<br>two</br></p>", "tags"},
		{"<b><i>x</b></i>", "<b><i>x</i></b> ", "tags"},
		{"<a>x</a x>", "<a>x</a>", "tags"},
		{"a<!-- a -- b --><?xml x?><!DOCTYPE y>", "a   ", "tags"},
		{"]]<!-- -- -->>", "]] >", "tags"},
		{"<media:x>a</media:x>", "<media:x>a</media:x>", "namespaces"},
		{"<x xmlns:p=''>a</x>", "<x>a</x>", "tags"},
		{"<x xmlns:p='u v' p:a='' xmlns:q='uv' q:a=''/>", `<x xmlns:p="uv" p:a="" xmlns:q="uv"/>`, "tags"},
	} {
		f, err := Parse([]byte(rss("<item>"+c.item+"</item>")), "")
		if err != nil {
			t.Errorf("%s: %v", c.item, err)
			continue
		}
		if got := string(f.Items[0].Raw); got != "<item>"+c.want+"</item>" {
			t.Errorf("%s: %s, want %s", c.item, got, c.want)
		}
		if (f.Repaired == "") != (c.repaired == "") || !strings.Contains(f.Repaired, c.repaired) {
			t.Errorf("%s: repaired %q, want %q", c.item, f.Repaired, c.repaired)
		}
	}
}

func TestItemsAreExactSlices(t *testing.T) {
	items := []string{
		"<item  >\r\n<title >a</title\n> </item >", `<item a="1"><guid>1</guid></item>`,
		"<item><x:item xmlns:x='u'><item>inner</item></x:item><![CDATA[</item>]]><guid>2</guid></item>",
	}
	doc := []byte(rss(items...))
	f, err := Parse(doc, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range f.Items {
		if string(it.Raw) != items[i] {
			t.Errorf("item %d is %s, want %s", i, it.Raw, items[i])
		}
		if at := bytes.Index(doc, it.Raw); at < 0 || &doc[at] != &it.Raw[0] {
			t.Errorf("item %d is a copy", i)
		}
	}
	if len(f.Items) != len(items) || f.Repaired != "" {
		t.Errorf("%d items, repaired %q", len(f.Items), f.Repaired)
	}
}

func TestItemsOfEachFormat(t *testing.T) {
	for name, want := range map[string]string{
		"rss with extensions": "rss Second|First", "rss that is broken": "rss A < B & C", "rss 1.0": "rdf One",
		"atom": "atom One|Zwei", "atom with prefixes": "atom P1", "atom that lacks": "atom |", "json": "json Seven \x00|",
	} {
		f := parse(t, sources[name])
		var titles []string
		for _, it := range f.Items {
			m, err := it.Meaning("")
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			titles = append(titles, m.Title)
		}
		if got := f.Head.Format.String() + " " + strings.Join(titles, "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestScopeHasTheUsedBindings(t *testing.T) {
	f := parse(t, `<a:feed xmlns:a="http://www.w3.org/2005/Atom" xmlns:b="u:b" xmlns:c="u:c" xmlns="u:d" xml:lang="en" xml:base="http://x/y/">
<a:entry b:x="" xmlns:c="u:mine"><a:id>1</a:id><c:z/></a:entry><a:entry xml:lang="de"><z>2</z></a:entry></a:feed>`)
	atom, base, lang := Binding{"a", nsAtom}, Binding{"xml:base", "http://x/y/"}, Binding{"xml:lang", "en"}
	for i, want := range [][]Binding{
		{atom, {"b", "u:b"}, base, lang},
		{{"", "u:d"}, atom, base, lang},
	} {
		if got := f.Items[i].Scope; !slices.Equal(got, want) {
			t.Errorf("item %d: %v, want %v", i, got, want)
		}
	}
}

func TestLargeItemsLoseTheirLargestPart(t *testing.T) {
	big := strings.Repeat("x", MaxItem)
	f := parse(t, rss("<item><guid>1</guid><description>"+big+"</description><title>T</title></item>",
		"<item>"+big+"</item>", "<item><guid>2</guid></item>"))
	if len(f.Items) != 2 || string(f.Items[0].Raw) != "<item><guid>1</guid><title>T</title></item>" {
		t.Errorf("%d items, the first %.100s", len(f.Items), f.Items[0].Raw)
	}
	if want := "1 item larger than 1 MiB lost its largest parts; 1 item too large to show left out"; f.Omitted != want || f.Repaired != want {
		t.Errorf("it lacks %q, repaired %q; want %q", f.Omitted, f.Repaired, want)
	}
	f = parse(t, `{"title":"x","items":[{"id":"1","content_html":"`+big+`","url":"u"},{"id":"2"}, null, 3]}`)
	if len(f.Items) != 2 || string(f.Items[0].Raw) != `{"id":"1","url":"u"}` || !strings.Contains(f.Repaired, "no items") || f.Omitted != "1 item larger than 1 MiB lost its largest parts" {
		t.Errorf("%d items, the first %.100s, repaired %q", len(f.Items), f.Items[0].Raw, f.Repaired)
	}
}

// Omitted content is counted, and repairs are not.
func TestOmittedContentIsReported(t *testing.T) {
	big := "<description>" + strings.Repeat("x", MaxItem) + "</description>"
	var many, objects []string
	for i := range MaxItems + 500 {
		many = append(many, fmt.Sprintf("<item><guid>%d</guid></item>", i))
		objects = append(objects, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	for _, c := range []struct{ name, doc, lacks string }{
		{"nothing", rss("<item><guid>1</guid></item>"), ""},
		{"mended", rss("<item><guid>1</guid><title>a & b</title></item>", "<item/>"), ""},
		{"long texts", rss("<item><guid>1</guid>"+big+"</item>", "<item><guid>2</guid>"+big+"</item>"), "2 items larger than 1 MiB lost their largest parts"},
		{"many items", rss(many...), "500 items beyond the first 2000 left out"},
		{"many objects", `{"title":"x","items":[` + strings.Join(objects, ",") + "]}", "500 items beyond the first 2000 left out"},
	} {
		if f := parse(t, c.doc); f.Omitted != c.lacks {
			t.Errorf("%s: it lacks %q, want %q", c.name, f.Omitted, c.lacks)
		}
	}
}

func TestHeadIsTheDocumentWithoutItems(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{rss("<item>a</item> <item/>"), `<rss version="2.0"><channel><title>T</title>|</channel></rss>`},
		{"<?xml version='1.0'?><!DOCTYPE rss><rss><channel/></rss><!-- x -->", "<rss><channel>|</channel></rss>"},
		{"<rss><channel><item/><title>T</title> <item>a</item></channel><x/></rss>", "<rss><channel><title>T</title>|</channel><x/></rss>"},
		{"<feed xmlns='" + nsAtom + "'/>", "<feed xmlns='" + nsAtom + "'>|</feed>"},
		{"<r:RDF xmlns:r='" + nsRDF + "'><channel><items><r:Seq/></items></channel><item>a</item> <image/></r:RDF>",
			"<r:RDF xmlns:r='" + nsRDF + "'><channel></channel> <image/>|</r:RDF>"},
		{`{"items" : [{}, {"id":"1"}] , "title":"x"}`, `{"items" : [|] , "title":"x"}`},
	} {
		h := parse(t, c.doc).Head
		if got := string(h.Raw[:h.ItemsAt]) + "|" + string(h.Raw[h.ItemsAt:]); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.doc, got, c.want)
		}
	}
}

func TestALargeHeadIsRewritten(t *testing.T) {
	f := parse(t, "<rss><channel><title>T &amp; U</title><link>http://x/</link><x>"+strings.Repeat("y", MaxHead)+"</x><item>a</item></channel></rss>")
	if len(f.Head.Raw) > 1000 || f.Head.Title != "T & U" || f.Head.Link != "http://x/" || len(f.Items) != 1 {
		t.Errorf("%.200s", f.Head.Raw)
	}
}

func TestHeadFields(t *testing.T) {
	f := parse(t, `<rss xmlns:sy="`+nsSy+`" xmlns:atom="`+nsAtom+`"><channel>
<atom:link rel="self" href="http://x/feed"/><title> A
 b </title><link>http://x/</link><description><![CDATA[<i>d</i>]]></description><language>de</language>
<image><title>no</title><url>no</url></image>
<ttl>90</ttl><skipHours><hour>0</hour><hour> 23 </hour><hour>x</hour></skipHours><skipDays><day>Sunday</day></skipDays>
<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency><sy:updateBase>2026-01-01T00:00:00Z</sy:updateBase>
<atom:link rel="hub" href="http://hub/"/></channel></rss>`)
	h := f.Head
	if h.Title != "A b" || h.Link != "http://x/" || h.Description != "<i>d</i>" || h.Language != "de" {
		t.Errorf("head %q %q %q %q", h.Title, h.Link, h.Description, h.Language)
	}
	want := Hints{TTL: 90 * time.Minute, Period: 12 * time.Hour, Base: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), SkipHours: 1 | 1<<23, SkipDays: 1}
	if f.Hints != want {
		t.Errorf("hints %+v, want %+v", f.Hints, want)
	}
	if f.Links.Self != "http://x/feed" || !slices.Equal(f.Links.Hubs, []string{"http://hub/"}) {
		t.Errorf("links %+v", f.Links)
	}
}

func TestHeadHashIgnoresVolatileParts(t *testing.T) {
	head := func(s string) Hash {
		h := parse(t, "<rss xmlns:a='"+nsAtom+"'><channel>"+s+"</channel></rss>").Head
		return h.Hash()
	}
	base := head("<title>T</title><x a='1' b='2'/>")
	for _, same := range []string{
		"<title>T</title><x b='2' a='1'></x>",
		"<title><![CDATA[T]]></title> <lastBuildDate>now</lastBuildDate><x a='1' b='2'/><!-- built now -->",
		"<title>T</title><pubDate>now</pubDate><ttl>5</ttl><generator>g</generator><x a='1' b='2'/>",
		"<a:link rel='self' href='x'/><title>T</title><x a='1' b='2'/>",
	} {
		if head(same) != base {
			t.Errorf("%s: another hash", same)
		}
	}
	for _, other := range []string{"<title>U</title><x a='1' b='2'/>", "<title>T</title><x a='1' b='3'/>", "<title>T</title>"} {
		if head(other) == base {
			t.Errorf("%s: the same hash", other)
		}
	}
}
