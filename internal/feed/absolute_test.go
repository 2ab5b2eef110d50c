package feed

import (
	"strings"
	"testing"
)

const absoluteBase = "https://origin.example/dir/feed.xml"

// Every kind of address in a document becomes absolute, by the innermost base, and nothing else changes.
func TestWrittenAddressesAreAbsolute(t *testing.T) {
	for what, c := range map[string]struct{ doc, want string }{
		"RSS link":       {`<link>posts/2.html</link>`, `<link>https://origin.example/dir/posts/2.html</link>`},
		"in CDATA":       {`<link><![CDATA[/2?a=1&b=2]]></link>`, `<link>https://origin.example/2?a=1&amp;b=2</link>`},
		"without scheme": {`<link>//cdn.example/2</link>`, `<link>https://cdn.example/2</link>`},
		"absolute":       {`<link> http://a.example/2 </link>`, ``},
		"comments":       {`<comments>?c=1</comments>`, `<comments>https://origin.example/dir/feed.xml?c=1</comments>`},
		"permalink":      {`<guid>/2</guid><guid isPermaLink="true">/3</guid>`, `<guid>https://origin.example/2</guid><guid isPermaLink="true">https://origin.example/3</guid>`},
		"other id":       {`<guid>2</guid><guid isPermaLink="false">/3</guid><guid isPermaLink="true">a.example</guid>`, ``},
		"enclosure":      {`<enclosure url="a.mp3" length="1"/>`, `<enclosure url="https://origin.example/dir/a.mp3" length="1"/>`},
		"source":         {`<source url='/f'>F</source>`, `<source url='https://origin.example/f'>F</source>`},
		"image":          {`<image><url>i.png</url><link>.</link></image>`, `<image><url>https://origin.example/dir/i.png</url><link>https://origin.example/dir/</link></image>`},
		"media":          {`<m:content xmlns:m="http://search.yahoo.com/mrss/" url="/v.mp4"><m:thumbnail url="t.png"/></m:content>`, `<m:content xmlns:m="http://search.yahoo.com/mrss/" url="https://origin.example/v.mp4"><m:thumbnail url="https://origin.example/dir/t.png"/></m:content>`},
		"escaped HTML":   {`<description>&lt;p class=x>&lt;a href="/1">1&lt;/a> &amp;amp;</description>`, `<description><![CDATA[<p class=x><a href="https://origin.example/1">1</a> &amp;]]></description>`},
		"HTML in CDATA":  {`<description><![CDATA[<img src=p.png srcset="p.png 1x, /q.png 2x,r.png"><br>]]></description>`, `<description><![CDATA[<img src="https://origin.example/dir/p.png" srcset="https://origin.example/dir/p.png 1x, https://origin.example/q.png 2x,https://origin.example/dir/r.png"><br>]]></description>`},
		"place in text":  {`<description>&lt;a href="#1">1&lt;/a>&lt;a href="mailto:a@b.example">&lt;img src="data:,x"></description>`, ``},
		"base in HTML":   {`<description>&lt;base href="http://x.example/y/">&lt;video poster=z></description>`, `<description><![CDATA[<base href="http://x.example/y/"><video poster="http://x.example/y/z">]]></description>`},
		"relative bases": {`<description>&lt;base href="y/">&lt;a href="z">&lt;base href="//q.example/">&lt;img src="#">&lt;img src="z"></description>`,
			`<description><![CDATA[<base href="https://origin.example/dir/y/"><a href="https://origin.example/dir/y/z"><base href="https://q.example/"><img src="#"><img src="https://origin.example/dir/y/z">]]></description>`},
		"Atom": {`<entry xmlns="http://www.w3.org/2005/Atom" xml:base="When/"><link href="Ships"/><content xml:base="http://img.example/x/" type="html">&lt;img src="a.png"></content><summary>&lt;img src="a.png"></summary></entry>`,
			`<entry xmlns="http://www.w3.org/2005/Atom" xml:base="When/"><link href="https://origin.example/dir/When/Ships"/><content xml:base="http://img.example/x/" type="html"><![CDATA[<img src="http://img.example/x/a.png">]]></content><summary>&lt;img src="a.png"></summary></entry>`},
		"XHTML": {`<content xmlns="http://www.w3.org/2005/Atom" type="xhtml"><h:div xmlns:h="http://www.w3.org/1999/xhtml"><h:a href="1">x</h:a><h:img srcset="2 2x"/></h:div></content>`,
			`<content xmlns="http://www.w3.org/2005/Atom" type="xhtml"><h:div xmlns:h="http://www.w3.org/1999/xhtml"><h:a href="https://origin.example/dir/1">x</h:a><h:img srcset="https://origin.example/dir/2 2x"/></h:div></content>`},
	} {
		want := c.want
		if want == "" {
			want = c.doc
		}
		doc, end := "<a>"+c.doc+"</a>", "</a>"
		if got := string(absoluteXML([]byte(doc), nil, absoluteBase)); got != "<a>"+want+end {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, "<a>"+want+end)
		}
		again := absoluteXML([]byte("<a>"+want+end), nil, absoluteBase)
		if string(again) != "<a>"+want+end {
			t.Errorf("%s: a second time it becomes %s", what, again)
		}
	}
}

func TestWrittenAddressesInJSONAreAbsolute(t *testing.T) {
	doc := `{"home_page_url":"/", "title":"/", "authors":[{"url":"me", "avatar": "me.png"}], "items":[
{"id":"2", "url":"\/2", "content_html":"<a href='3'>3<\/a>", "content_text":"<a href='3'>", "attachments":[{"url":"a.mp3"}]}, {"url":"http://a.example/"}]}`
	want := `{"home_page_url":"https://origin.example/", "title":"/", "authors":[{"url":"https://origin.example/dir/me", "avatar": "https://origin.example/dir/me.png"}], "items":[
{"id":"2", "url":"https://origin.example/2", "content_html":"<a href=\"https://origin.example/dir/3\">3</a>", "content_text":"<a href='3'>", "attachments":[{"url":"https://origin.example/dir/a.mp3"}]}, {"url":"http://a.example/"}]}`
	if got := string(absoluteJSON([]byte(doc), absoluteBase)); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	if got := string(absoluteJSON([]byte(want), absoluteBase)); got != want {
		t.Errorf("a second time it becomes\n%s", got)
	}
}

// Many short addresses below a long base do not make a document many times as large: beyond a bound they stay as they
// are written.
func TestAbsoluteAddressesDoNotMakeADocumentHuge(t *testing.T) {
	base := "https://origin.example/" + strings.Repeat("a", 1900) + "/"
	deep := strings.Repeat(`<x xml:base="`+strings.Repeat("b", 4000)+`/">`, 50)
	for what, c := range map[string]struct{ begin, each, end string }{
		"attributes":           {"<a>", `<enclosure url="x"/>`, "</a>"},
		"attributes in a base": {`<a xml:base="` + base + strings.Repeat("b", 2000) + `/">`, `<enclosure url="x"/>`, "</a>"},
		"bases in each other":  {"<a>" + deep, `<enclosure url="x"/>`, strings.Repeat("</x>", 50) + "</a>"},
		"paths in each other":  {"<a>" + strings.ReplaceAll(deep, `base="`, `base="/`), `<enclosure url="/"/>`, strings.Repeat("</x>", 50) + "</a>"},
		"elements":             {"<a>", `<link>x</link>`, "</a>"},
		"escaped HTML":         {"<a>", `<description>&lt;a href=x></description>`, "</a>"},
		"one tag":              {"<a><description><![CDATA[<a ", `href=x `, ">]]></description></a>"},
		"one srcset":           {`<a><img srcset="`, `x 1,`, `"/></a>`},
		"JSON":                 {`{"url":"x","items":[`, `{"url":"x"},`, `{}]}`},
		"HTML in JSON":         {`{"url":"x","items":[`, `{"content_html":"<a href=x>"},`, `{}]}`},
		"many HTML in JSON":    {`{"url":"x","items":[{"content_html":"`, `<a href=x>`, `"}]}`},
	} {
		doc := []byte(c.begin + strings.Repeat(c.each, 200_000/len(c.each)) + c.end)
		absolute := func(doc []byte) []byte { return absoluteXML(doc, nil, base) }
		if doc[0] == '{' {
			absolute = func(doc []byte) []byte { return absoluteJSON(doc, base) }
		}
		got := absolute(doc)
		if len(got) > 3*len(doc)+maxDocumentGrowth || !strings.Contains(string(got), "https://origin.example/") {
			t.Errorf("%s: %d bytes become %d", what, len(doc), len(got))
		}
	}
}

// A base within another one that would be longer than an item may have from its document does not count.
func TestABaseThatIsTooLongDoesNotCount(t *testing.T) {
	outer := "https://origin.example/" + strings.Repeat("a", 3000) + "/"
	f := parse(t, `<rss xml:base="`+outer+`"><channel xml:base="`+strings.Repeat("b", 3000)+`/"><item><guid>1</guid><link>x</link></item></channel></rss>`)
	it, err := ReadItem(f.Items[0].Format, f.Items[0].Raw, f.Items[0].Scope, 0)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := it.Meaning(""); err != nil || m.Link != outer+"x" {
		t.Errorf("the link is %q, %v", m.Link, err)
	}
}

// Whatever a source contains, a second pass finds nothing more to do, and the result is well-formed.
func FuzzAbsolute(f *testing.F) {
	f.Add(`<item><link>a</link><description>&lt;a href=b srcset="c 1x, d"></description></item>`)
	f.Add(`<item xml:base="//"><link href=" a"/></item>`)
	f.Fuzz(func(t *testing.T, s string) {
		clean, _ := dropInvalid([]byte(s))
		doc, _, err := tidy(clean, nil, func([]byte, string) error { return nil })
		if err != nil {
			return
		}
		once := absoluteXML(doc, nil, absoluteBase)
		if _, bad, err := tidy(once, nil, func([]byte, string) error { return nil }); err != nil || bad != 0 {
			t.Fatalf("%s is not well-formed: %v, %v", once, bad, err)
		}
		if twice := absoluteXML(once, nil, absoluteBase); string(twice) != string(once) {
			t.Fatalf("%s\nbecomes\n%s\nand then\n%s", doc, once, twice)
		}
	})
}

// After a redirect, relative addresses refer to the address from which the document came. Items keep their identity
// and what they say, so this is no news.
func TestAfterARedirectAddressesReferToTheFinalAddress(t *testing.T) {
	for what, c := range map[string]struct{ doc, want string }{
		"RSS":               {`<rss version="2.0"><channel><title>T</title><link>/</link><item><guid>1</guid><link>2.html</link></item></channel></rss>`, "https://cdn.example/deep/2.html https://cdn.example/"},
		"Atom with a base":  {`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://b.example/x/"><title>T</title><link href="/"/><entry><id>1</id><link href="2.html"/></entry></feed>`, "http://b.example/x/2.html http://b.example/"},
		"Atom, part of one": {`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="y/"><title>T</title><link href="http://a.example/"/><entry><id>1</id><link href="2.html"/></entry></feed>`, "https://cdn.example/deep/y/2.html http://a.example/"},
		"JSON":              {`{"version":"https://jsonfeed.org/version/1.1","title":"T","home_page_url":"/","items":[{"id":"1","url":"2.html","content_text":"x"}]}`, "https://cdn.example/deep/2.html https://cdn.example/"},
	} {
		f, err := Parse([]byte(c.doc), "")
		if err != nil {
			t.Fatal(err)
		}
		before := f.Items[0]
		if err := f.Redirected("http://origin.example/feed", "https://cdn.example/deep/feed.xml"); err != nil {
			t.Fatal(err)
		}
		it := f.Items[0]
		if it.ID != before.ID || it.Hash != before.Hash && f.Head.Format != JSON {
			t.Errorf("%s: the item is another", what)
		}
		if _, err := ReadItem(it.Format, it.Raw, it.Scope, 0); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		doc, err := Write(&Document{Base: "http://origin.example/feed", Head: f.Head, Entries: []Entry{{Item: it}}}, f.Head.Format)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(doc, "")
		if err != nil {
			t.Fatal(err)
		}
		m, err := again.Items[0].Meaning("")
		if got := m.Link + " " + again.Head.Link; err != nil || got != c.want {
			t.Errorf("%s: %s, want %s; %v\n%s", what, got, c.want, err, doc)
		}
		if m, _ := it.Meaning("http://origin.example/feed"); m.Link != strings.Fields(c.want)[0] {
			t.Errorf("%s: the item leads to %s", what, m.Link)
		}
		if err := f.Redirected("http://origin.example/feed", "http://origin.example/feed.xml"); err != nil || len(f.Items[0].Scope) != len(it.Scope) {
			t.Errorf("%s: another document of the same folder changes something: %v", what, err)
		}
	}
}
