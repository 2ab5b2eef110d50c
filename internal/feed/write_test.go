package feed

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// write writes the items of a feed under the head of another.
func write(t testing.TB, d Document, head, items string, f Format) string {
	t.Helper()
	d.Head = parse(t, head).Head
	for _, it := range parse(t, items).Items {
		d.Entries = append(d.Entries, Entry{Item: it, Arrived: time.Unix(1.7e9, 0)})
	}
	doc, err := Write(&d, f)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func TestItemsBringTheirBindings(t *testing.T) {
	const atom = "xmlns='" + nsAtom + "'"
	for _, c := range []struct{ name, head, items, want string }{
		{"the same head", "<rss xmlns:a='u'><channel/></rss>", "<rss xmlns:a='u'><channel><item a:x=''>c</item></channel></rss>", "<item a:x=''>c</item>"},
		{"a prefix the head lacks", "<rss><channel/></rss>", "<rss xmlns:a='u'><channel><item><a:b>c</a:b></item></channel></rss>", `<item xmlns:a="u"><a:b>c</a:b></item>`},
		{"a prefix of another meaning", "<rss xmlns:a='v'><channel/></rss>", "<rss xmlns:a='u'><channel><item><a:b>c</a:b></item></channel></rss>", `<item xmlns:a="u"><a:b>c</a:b></item>`},
		{"a prefix nobody uses", "<rss><channel/></rss>", "<rss xmlns:a='u'><channel><item>c</item></channel></rss>", `<item>c</item>`},
		{"a default where there was none", "<rss xmlns='u'><channel/></rss>", "<rss><channel><item>c</item></channel></rss>", `<item xmlns="">c</item>`},
		{"its own default", "<rss xmlns='u'><channel/></rss>", "<rss><channel><item xmlns='v'>c</item></channel></rss>", `<item xmlns='v'>c</item>`},
		{"its own prefix", "<rss xmlns:a='v'><channel/></rss>", "<rss xmlns:a='u'><channel><item xmlns:a='w'><a:b>c</a:b></item></channel></rss>", `<item xmlns:a='w'><a:b>c</a:b></item>`},
		{"base and language", "<feed " + atom + "/>", "<feed " + atom + " xml:base='http://x/' xml:lang='de'><entry><id>1</id><title/><updated/></entry></feed>",
			`<entry xml:base="http://x/" xml:lang="de"><id>1</id><title/><updated/></entry>`},
		{"base that the head has", "<feed " + atom + " xml:base='http://x/'/>", "<feed " + atom + " xml:base='http://x/'><entry><id>1</id><title/><updated/></entry></feed>",
			`<entry><id>1</id><title/><updated/></entry>`},
	} {
		f := parse(t, c.head).Head.Format
		if got := write(t, Document{}, c.head, c.items, f); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %s in\n%s", c.name, c.want, got)
		}
	}
}

func TestTheNodesAddressReplacesTheSources(t *testing.T) {
	const ours = "http://127.0.0.1:8190/f/x/https://x/?a&b"
	for _, c := range []struct {
		name, doc string
		without   []string
	}{
		{"rss", "<rss xmlns:atom='" + nsAtom + "'><channel><atom:link rel='self' href='http://theirs/'/><atom:link rel='hub' href='http://hub/'></atom:link>" +
			"<cloud domain='cloud'/><atom:link rel='alternate' href='http://home/'/><item>c</item></channel></rss>", []string{"http://theirs/", "http://hub/", "cloud"}},
		{"atom", "<feed xmlns='" + nsAtom + "'><link rel='self' href='http://theirs/'/><link rel='alternate' href='http://home/'/></feed>", []string{"http://theirs/"}},
		{"json", `{"version":"https://jsonfeed.org/version/1.1","feed_url":"http://theirs/","home_page_url":"http://home/","hubs":[{"url":"http://hub/"}],"items":[]}`, []string{"http://theirs/", "http://hub/"}},
	} {
		head := parse(t, c.doc).Head
		got := write(t, Document{URL: ours}, c.doc, c.doc, head.Format)
		for _, s := range c.without {
			if strings.Contains(got, s) {
				t.Errorf("%s: %s in\n%s", c.name, s, got)
			}
		}
		if f := parse(t, got); f.Links.Self != ours || len(f.Links.Hubs) != 0 || !strings.Contains(got, "http://home/") {
			t.Errorf("%s: %+v in\n%s", c.name, f.Links, got)
		}
		if got := write(t, Document{}, c.doc, c.doc, head.Format); !strings.Contains(got, "http://theirs/") {
			t.Errorf("%s without an address of ours:\n%s", c.name, got)
		}
	}
}

func TestRelativeAddressesStayThoseOfTheSource(t *testing.T) {
	const doc = "<rss><channel><item><link>a</link><enclosure url='../b'/><description>&lt;a href='c'></description></item></channel></rss>"
	got := write(t, Document{Base: "https://x/feeds/rss"}, doc, doc, RSS)
	if !strings.Contains(got, `<rss xml:base="https://x/feeds/rss">`) {
		t.Errorf("no base in\n%s", got)
	}
	m, err := parse(t, doc).Items[0].Meaning("https://x/feeds/rss")
	if err != nil || m.Link != "https://x/feeds/a" || len(m.Enclosures) != 1 || m.Enclosures[0].URL != "https://x/b" {
		t.Errorf("%+v %v", m, err)
	}
}

func TestRSS10ListsItsItems(t *testing.T) {
	got := write(t, Document{}, sources["rss 1.0"], sources["rss 1.0"], RDF)
	const want = `<rdf:Seq><rdf:li rdf:resource="https://example.org/1"/></rdf:Seq></items></channel>`
	if !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
}

func TestMeaning(t *testing.T) {
	m, err := parse(t, sources["rss with extensions"]).Items[0].Meaning("https://example.org/feed.xml")
	if err != nil {
		t.Fatal(err)
	}
	if m.GUID != "tag:2" || m.Title != "Second" || m.Link != "https://example.org/2?utm_source=rss" || m.Author() != "Ann" ||
		m.Summary != "<p>Hello <b>world</b> & all</p>" || m.Content != "<p>Hello world</p>" ||
		!m.Published.Equal(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)) || !slices.Equal(m.Categories, []string{"a < b"}) ||
		!slices.Equal(m.Enclosures, []Enclosure{{"https://cdn.example.org/a.mp3?sig=1", "audio/mpeg", "7"}}) {
		t.Errorf("%+v", m)
	}
	m, err = parse(t, sources["json"]).Items[0].Meaning("")
	if err != nil || m.GUID != "7" || m.Content != "a &lt; b<br>\nc" || !m.Published.Equal(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v %v", m, err)
	}
}

func TestReadItemTrustsNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		raw    string
		outer  []Binding
	}{
		{"nothing said", RSS, "<item><title/></item>", nil},
		{"nothing said in JSON", JSON, "{}", nil},
		{"no format", 0, "<item>c</item>", nil},
		{"another element", RSS, "<entry>c</entry>", nil},
		{"not an entry of Atom", Atom, "<entry xmlns='u'>c</entry>", nil},
		{"two", RSS, "<item>c</item><item>c</item>", nil},
		{"something before", RSS, " <item>c</item>", nil},
		{"something behind", RSS, "<item>c</item>x", nil},
		{"no end", RSS, "<item>c", nil},
		{"broken", RSS, "<item>c&</item>", nil},
		{"controls", RSS, "<item>c\x01</item>", nil},
		{"no UTF-8", RSS, "<item>c\xff</item>", nil},
		{"unbound", RSS, "<item a:b=''>c</item>", nil},
		{"unsorted", RSS, "<item>c</item>", []Binding{{"b", "u"}, {"a", "u"}}},
		{"a prefix that is none", RSS, "<item>c</item>", []Binding{{"a b", "u"}}},
		{"a namespace that is none", RSS, "<item>c</item>", []Binding{{"a", ""}}},
		{"no JSON", JSON, "{", nil},
		{"no object", JSON, "[]", nil},
		{"namespaces in JSON", JSON, `{"id":"1"}`, []Binding{{"a", "u"}}},
		{"too large", RSS, "<item>" + strings.Repeat("x", MaxItem) + "</item>", nil},
	} {
		if it, err := ReadItem(c.format, []byte(c.raw), c.outer, 0); err == nil {
			t.Errorf("%s: %+v", c.name, it)
		}
	}
	if _, err := ReadItem(RSS, []byte("<item>c</item>"), nil, maxQualifiers+1); err == nil {
		t.Error("an item apart beyond all")
	}
}

func BenchmarkParse(b *testing.B) {
	doc := []byte(rss(slices.Repeat([]string{"<item><guid>1</guid><title>T</title><description><![CDATA[" + strings.Repeat("<p>Some words of a text.</p>\n", 100) + "]]></description></item>"}, 50)...))
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := Parse(doc, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadItem(b *testing.B) {
	raw := []byte("<item><guid>1</guid><title>T</title><description><![CDATA[" + strings.Repeat("<p>Some words of a text.</p>\n", 100) + "]]></description></item>")
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := ReadItem(RSS, raw, nil, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMeaning(b *testing.B) {
	raw := []byte("<item><guid>1</guid><title>T</title><description><![CDATA[" + strings.Repeat("<p>Some words of a text.</p>\n", 100) + "]]></description></item>")
	it, err := ReadItem(RSS, raw, nil, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := it.Meaning(""); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEntriesTakenFromOtherFeedsSayFromWhich writes entries with a Source in every format.
func TestEntriesTakenFromOtherFeedsSayFromWhich(t *testing.T) {
	entry := Entry{
		Meaning: &Meaning{GUID: "urn:uuid:1", Title: "A & B", Link: "https://x.org/1", Authors: []string{"Jo"}, Content: "<p>c</p>", Published: time.Unix(1.7e9, 0), Categories: []string{"t"}},
		Source:  &Source{URL: "https://x.org/feed?a&b", Title: "X < Y", Link: "https://x.org/"},
	}
	for f, want := range map[Format]string{
		RSS:  `<source url="https://x.org/feed?a&amp;b">X &lt; Y</source>`,
		RDF:  `<dc:source>https://x.org/feed?a&amp;b</dc:source>`,
		Atom: `<source><id>https://x.org/feed?a&amp;b</id><title>X &lt; Y</title><updated>2023-11-14T22:13:20Z</updated><link rel="self" href="https://x.org/feed?a&amp;b"/><link rel="alternate" href="https://x.org/"/></source>`,
		JSON: `"_tidings_source":{"feed_url":"https://x.org/feed?a&b","title":"X < Y","home_page_url":"https://x.org/"}`,
	} {
		head, err := NewHead(f, "Keywords", "https://here/", "of many feeds", "")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Write(&Document{URL: "https://here/k", Head: head, Entries: []Entry{entry}}, f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(doc), want) {
			t.Errorf("%s: no %s in\n%s", f, want, doc)
		}
		got := parse(t, string(doc))
		if len(got.Items) != 1 || got.Repaired != "" {
			t.Fatalf("%s: %d items, repaired %q:\n%s", f, len(got.Items), got.Repaired, doc)
		}
		m, err := got.Items[0].Meaning("")
		if err != nil || m.GUID != "urn:uuid:1" || m.Title != "A & B" || m.Link != "https://x.org/1" || m.Content != "<p>c</p>" || m.Author() != "Jo" {
			t.Errorf("%s: %+v, %v", f, m, err)
		}
	}
}

func TestNewItemHasItsContent(t *testing.T) {
	m := Meaning{GUID: "tag:example.org,2026:1", Title: "A & B", Link: "https://example.org/1", Summary: "S", Content: "<p>C</p>", Authors: []string{"Ann"}, Published: time.Unix(1.7e9, 0).UTC()}
	for f := RSS; f <= JSON; f++ {
		it, err := NewItem(f, m, time.Unix(1.78e9, 0))
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		got, err := it.Meaning("")
		if err != nil || got.Title != m.Title || got.Link != m.Link || got.Content != m.Content || f != RDF && got.GUID != m.GUID {
			t.Errorf("%s: %+v, %v", f, got, err)
		}
	}
}

// HTML is written in the shorter of two ways, with the same meaning.
func TestHTMLIsWrittenTheShorterWay(t *testing.T) {
	for _, html := range []string{
		strings.Repeat("<p>", 1<<10),
		`<p>Fish &amp; chips, &lt;b&gt; &#228; a &nbsp; b</p>`,
		`<script>if (a[b[0]]>1) {}</script><p>]]></p>`,
		"<pre>one\r\ntwo</pre><p>",
		"plain, and <",
		"<p>\x01<b>bell</b></p>",
		"<![CDATA[<p>quoted</p>]]>",
		`<p>ends with ]]`,
	} {
		for _, f := range []Format{RSS, RDF, Atom} {
			m := Meaning{GUID: "https://example.org/1", Link: "https://example.org/1", Title: "T", Content: html, Summary: html}
			it, err := NewItem(f, m, time.Unix(1.78e9, 0))
			if err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			if !strings.Contains(html, "]]>") && len(it.Raw) > 2*len(html)+1000 {
				t.Errorf("%s: %d bytes for twice %d", f, len(it.Raw), len(html))
			}
			raw := string(it.Raw)
			for {
				before, rest, ok := strings.Cut(raw, "<![CDATA[")
				if !ok {
					break
				}
				inner, after, _ := strings.Cut(rest, "]]>")
				raw = before + escapeAny(inner) + after
			}
			escaped, err := ReadItem(f, []byte(raw), nil, 0)
			if err != nil || escaped.ID != it.ID || escaped.Hash != it.Hash {
				t.Errorf("%s: %.99q is another item when it is escaped: %v", f, html, err)
			}
			got, err := it.Meaning("")
			same, other := escaped.Meaning("")
			if err != nil || other != nil || got.Content != same.Content || got.Summary != same.Summary {
				t.Errorf("%s: %.99q is read as %.99q, and escaped as %.99q: %v, %v", f, html, got.Content, same.Content, err, other)
			}
		}
	}
}

func TestNewItemRefusesInvalidContent(t *testing.T) {
	const id = "https://example.org/1"
	for _, c := range []struct {
		m    Meaning
		says string
	}{
		{Meaning{Title: "T"}, "neither id nor link"}, // nobody could recognise it again
		{Meaning{GUID: id, Authors: []string{"Ann"}}, "neither title nor content"},
		{Meaning{Link: id, Title: " ", Content: "\n"}, "neither title nor content"},
		{Meaning{GUID: id, Title: "caf\xe9"}, "title is not in UTF-8"},
		{Meaning{GUID: id, Title: "T", Content: "\xff"}, "content is not in UTF-8"},
		{Meaning{GUID: id + "\x00", Title: "T"}, "has a character that no document may have"},
		{Meaning{GUID: id, Title: "T", Published: time.Unix(1, 0).Add(25 * time.Hour)}, "in the future"},
		{Meaning{GUID: id, Title: "T", Link: "/1"}, `link "/1"`},
		{Meaning{GUID: id, Title: "T", Link: "example.org/1"}, "https://"},
		{Meaning{GUID: id, Title: "T", Link: "javascript:alert(1)"}, "https://"},
		{Meaning{GUID: id, Title: "T", Link: "https:///1"}, "https://"},
	} {
		for f := RSS; f <= JSON; f++ {
			if _, err := NewItem(f, c.m, time.Unix(1, 0)); !errors.Is(err, ErrItem) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %+v: %v, want %q", f, c.m, err, c.says)
			}
		}
	}
	if _, err := NewItem(Atom, Meaning{GUID: "7", Title: "T"}, time.Unix(1, 0)); !errors.Is(err, ErrItem) {
		t.Errorf("an id that Atom does not allow: %v", err)
	}
}

// Only the node decides the provenance of an item, and not the source.
func TestProvenanceOfTheSourceIsRemoved(t *testing.T) {
	for name, src := range map[string]string{
		"RSS":      `<rss version="2.0" xmlns:x="urn:tidings:feed:1"><channel><title>T</title><item><guid>1</guid><x:provenance>false</x:provenance><title>I</title><x:provenance/><provenance xmlns="urn:tidings:feed:1">f<b>a</b>lse</provenance></item></channel></rss>`,
		"RSS once": `<rss version="2.0"><channel><title>T</title><item><guid>1</guid><title>I</title><tidings:provenance xmlns:tidings="urn:tidings:feed:1">false</tidings:provenance></item></channel></rss>`,
		"Atom":     `<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>urn:a</id><entry><id>urn:b</id><title>I</title><y:provenance xmlns:y="urn:tidings:feed:1">false</y:provenance></entry></feed>`,
		"JSON":     `{"version":"https://jsonfeed.org/version/1.1","title":"T","items":[{"_tidings_provenance":{"provenance":"false"},"id":"1","title":"I","\u005ftidings_Provenance":{"provenance":"false"}}]}`,
		"JSON end": `{"version":"https://jsonfeed.org/version/1.1","title":"T","items":[{"id":"1","title":"I", "_tidings_provenance" : "false" }]}`,
	} {
		f, err := Parse([]byte(src), "")
		if err != nil || len(f.Items) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		for _, said := range []string{"", "single"} {
			out, err := Write(&Document{Head: f.Head, Entries: []Entry{{Item: f.Items[0], Provenance: said}}}, f.Head.Format)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			again, err := Parse(out, "")
			if err != nil || len(again.Items) != 1 || again.Items[0].ID != f.Items[0].ID {
				t.Fatalf("%s: %v in %s", name, err, out)
			}
			if m, _ := again.Items[0].Meaning(""); m.Title != "I" || bytes.Contains(again.Items[0].Raw, []byte("lse")) {
				t.Errorf("%s: %s", name, out)
			}
			if n := bytes.Count(again.Items[0].Raw, []byte(`single`)); (n == 1) != (said != "") {
				t.Errorf("%s: told %d times: %s", name, n, out)
			}
		}
	}
}

// The mark of a withdrawn item stands beside its provenance, or alone.
func TestWithdrawnEntriesSaySo(t *testing.T) {
	for want, e := range map[string]Entry{
		"single": {Provenance: "single"}, "single, withdrawn": {Provenance: "single", Withdrawn: true}, "withdrawn": {Withdrawn: true}, "": {},
	} {
		if got := e.said(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The date of a feed is not older than that of its latest entry, or of its latest change: the head in the log may be older.
func TestUpdatedIsNotOlderThanTheLatestEntry(t *testing.T) {
	for head, want := range map[string]string{
		"<updated>2024-01-01T00:00:00Z</updated>":                  "<updated>2024-05-02T00:00:00Z</updated>",
		"<updated>\n2024-01-01T00:00:00+01:00 </updated>":          "<updated>2024-05-02T00:00:00Z</updated>",
		"<updated>2024-06-01T02:00:00+02:00</updated>":             "<updated>2024-06-01T02:00:00+02:00</updated>",
		"<updated>yesterday</updated>":                             "<updated>yesterday</updated>",
		"<author><updated>2024-01-01T00:00:00Z</updated></author>": "<author><updated>2024-01-01T00:00:00Z</updated></author>",
	} {
		f, err := Parse([]byte(`<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:f</id><title>T</title>`+head+
			`<entry><id>urn:1</id><title>1</title><updated>2024-05-02T00:00:00Z</updated></entry><entry><id>urn:2</id><title>2</title><updated>2024-05-01T00:00:00Z</updated></entry></feed>`), "")
		if err != nil {
			t.Fatal(err)
		}
		d := &Document{URL: "http://here/", Head: f.Head}
		for _, it := range f.Items {
			d.Entries = append(d.Entries, Entry{Item: it})
		}
		out, err := Write(d, Atom)
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(string(out), "<entry>")
		if !strings.Contains(before, want) {
			t.Errorf("%s: %s", head, before)
		}
	}
}

// A date whose year has no four digits in UTC is written in no format; the next best date takes its place.
func TestDatesThatCannotBeWrittenAreLeftOut(t *testing.T) {
	arrived := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	for _, published := range []time.Time{
		{}, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -10*60*60)), time.Date(1, 1, 1, 1, 0, 0, 0, time.FixedZone("", 10*60*60)),
	} {
		for format := RSS; format <= JSON; format++ {
			head, err := NewHead(format, "T", "http://x/", "", "")
			if err != nil {
				t.Fatal(err)
			}
			doc, err := Write(&Document{Head: head, Entries: []Entry{{Meaning: &Meaning{GUID: "urn:1", Title: "t", Published: published}, Arrived: arrived}}}, format)
			if err != nil {
				t.Fatal(err)
			}
			f := parse(t, string(doc))
			m, err := f.Items[0].Meaning("")
			for _, at := range []time.Time{m.Published, m.Updated} {
				if err != nil || !at.IsZero() && !at.Equal(arrived) {
					t.Errorf("%v as %s: %v, %v\n%s", published, format, at, err, doc)
				}
			}
			if m.Published.IsZero() && m.Updated.IsZero() || strings.Contains(string(doc), "date_published") || strings.Contains(string(doc), "<published>") {
				t.Errorf("%v as %s:\n%s", published, format, doc)
			}
		}
	}
}

// Namespaces that a head is too small for would stand at each item. An item that uses more than a bound is left out.
func TestNamespacesOfItemsDoNotMakeADocumentHuge(t *testing.T) {
	var declared, used strings.Builder
	for i := range MaxScope - 1 {
		fmt.Fprintf(&declared, ` xmlns:a%d="urn:%s"`, i, strings.Repeat("x", 4000))
		fmt.Fprintf(&used, "<a%d:x/>", i)
	}
	var doc strings.Builder
	fmt.Fprintf(&doc, "<rss%s><channel><title>T</title>", declared.String())
	for i := range 200 {
		fmt.Fprintf(&doc, "<item><guid>%d</guid>%s</item><item><guid>a%[1]d</guid><a0:x/></item>", i, used.String())
	}
	doc.WriteString("</channel></rss>")
	f := parse(t, doc.String())
	if len(f.Items) != 200 || !strings.Contains(f.Omitted, "200 items") {
		t.Errorf("%d items, omitted: %s", len(f.Items), f.Omitted)
	}
	d := &Document{Head: f.Head}
	for _, it := range f.Items {
		if _, err := ReadItem(it.Format, it.Raw, it.Scope, it.Qualifiers); err != nil {
			t.Fatal(err)
		}
		d.Entries = append(d.Entries, Entry{Item: it})
	}
	out, err := Write(d, RSS)
	if err != nil || len(out) > 3*doc.Len() {
		t.Errorf("%d bytes become %d, %v", doc.Len(), len(out), err)
	}
}

func TestTheDateOfAFeedIsNotOlderThanItsLatestChange(t *testing.T) {
	for head, want := range map[string]string{
		`<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:f</id><title>T</title><updated>2024-01-01T00:00:00Z</updated></feed>`:     "<updated>2024-05-03T00:00:00Z</updated>",
		`<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:f</id><title>T</title></feed>`:                                            ">2024-05-03T00:00:00Z</updated>",
		`<rss><channel><title>T</title><lastBuildDate>Mon, 01 Jan 2024 00:00:00 GMT</lastBuildDate></channel></rss>`:                 "<lastBuildDate>Fri, 03 May 2024 00:00:00 +0000</lastBuildDate>",
		`<rss><channel><title>T</title><lastBuildDate>Sat, 01 Jun 2024 00:00:00 GMT</lastBuildDate></channel></rss>`:                 "<lastBuildDate>Sat, 01 Jun 2024 00:00:00 GMT</lastBuildDate>",
		`<rss xmlns:dc="` + nsDC + `"><channel><title>T</title><dc:date>2024-01-01</dc:date><pubDate>then</pubDate></channel></rss>`: "<dc:date>2024-05-03T00:00:00Z</dc:date><pubDate>then</pubDate>",
	} {
		f, err := Parse([]byte(head), "")
		if err != nil {
			t.Fatal(err)
		}
		d := &Document{URL: "http://here/", Head: f.Head, Changed: time.Date(2024, 5, 3, 2, 0, 0, 0, time.FixedZone("", 7200))}
		if out, err := Write(d, f.Head.Format); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %s, %v", head, out, err)
		}
	}
}
