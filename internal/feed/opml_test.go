package feed

import (
	"encoding/xml"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const sampleOPML = `<?xml version="1.0" encoding="UTF-8"?>
<!-- made by hand -->
<opml version="2.0" xmlns:r="https://reader.example/ns">
  <head><title> My &amp; your feeds </title><ownerName>A</ownerName></head>
  <body>
    <outline text="News">
      <outline type="rss" text="One" title="The One" xmlUrl="https://one.example/feed?a=1&amp;b=2"
        htmlUrl="https://one.example/" r:unread="3" category="/a,/b"/>
      <outline text="Deeper"><outline xmlurl=" https://two.example/ " title="Two"/></outline>
    </outline>
    <outline XMLURL="https://three.example/" />
    <outline url="https://four.example/" text="Four"/>
    <outline type="link" url="https://five.example/" text="Five"/>
    <note>an element of somebody's</note>
  </body>
</opml>`

func TestOPMLOfOtherProgramsIsRead(t *testing.T) {
	title, outlines, err := ParseOPML([]byte(sampleOPML))
	if err != nil || title != "My & your feeds" {
		t.Fatalf("%q, %v", title, err)
	}
	attr := func(space, local, value string) xml.Attr {
		return xml.Attr{Name: xml.Name{Space: space, Local: local}, Value: value}
	}
	want := []Outline{
		{Text: "News", Outlines: []Outline{
			{Text: "One", Title: "The One", Type: "rss", XMLURL: "https://one.example/feed?a=1&b=2", HTMLURL: "https://one.example/",
				Attrs: []xml.Attr{attr("https://reader.example/ns", "unread", "3"), attr("", "category", "/a,/b")}},
			{Text: "Deeper", Outlines: []Outline{{Text: "Two", Title: "Two", XMLURL: "https://two.example/"}}},
		}},
		{Text: "https://three.example/", XMLURL: "https://three.example/"},
		{Text: "Four", XMLURL: "https://four.example/"},
		{Text: "Five", Type: "link", Attrs: []xml.Attr{attr("", "url", "https://five.example/")}},
	}
	if !reflect.DeepEqual(outlines, want) {
		t.Errorf("got  %+v\nwant %+v", outlines, want)
	}
	var urls []string
	for folder, o := range Subscriptions(outlines) {
		urls = append(urls, folder+" "+o.XMLURL)
	}
	if got := strings.Join(urls, ", "); got != outlines[0].Text+" https://one.example/feed?a=1&b=2, "+outlines[0].Text+"/Deeper https://two.example/,  https://three.example/,  https://four.example/" {
		t.Errorf("subscriptions %s", got)
	}
	for _, o := range Subscriptions(outlines) {
		if o.Text == "Two" {
			break // and no panic
		}
	}
	checkOPML(t, []byte(sampleOPML))
}

func TestOPMLIsReadInItsEncoding(t *testing.T) {
	utf16 := func(s string) string {
		var b strings.Builder
		b.WriteString("\xff\xfe")
		for _, r := range s {
			b.WriteByte(byte(r))
			b.WriteByte(byte(r >> 8))
		}
		return b.String()
	}
	const doc = `<?xml version="1.0" encoding="%s"?><opml><body><outline text="B%scher"/></body></opml>`
	for name, doc := range map[string]string{
		"UTF-8":           fmt.Sprintf(doc, "utf-8", "ü"),
		"UTF-8, marked":   "\ufeff" + fmt.Sprintf(doc, "utf-8", "ü"),
		"Latin-1":         fmt.Sprintf(doc, "ISO-8859-1", "\xfc"),
		"UTF-16":          utf16(fmt.Sprintf(doc, "UTF-16", "ü")),
		"UTF-16, unsaid":  utf16(`<opml><body><outline text="Bücher"/></body></opml>`),
		"entity":          fmt.Sprintf(doc, "us-ascii", "&uuml;"),
		"number":          fmt.Sprintf(doc, "us-ascii", "&#252;"),
		"in capitals":     `<OPML><BODY><OUTLINE TEXT="Bücher"/></BODY></OPML>`,
		"in a name space": `<opml xmlns="http://opml.org/spec2"><body><outline text="Bücher"/></body></opml>`,
	} {
		_, outlines, err := ParseOPML([]byte(doc))
		if err != nil || len(outlines) != 1 || outlines[0].Text != "Bücher" {
			t.Errorf("%s: %+v, %v", name, outlines, err)
		}
	}
}

func TestInvalidOPMLIsRefused(t *testing.T) {
	nested := func(n int, element string) string {
		return strings.Repeat("<"+element+">", n) + strings.Repeat("</"+element+">", n)
	}
	for _, c := range []struct{ name, doc, want string }{
		{"nothing", "", "not OPML"},
		{"text", "hello", "not OPML"},
		{"a page", "<!DOCTYPE html><html><body>404</body></html>", "not OPML"},
		{"a feed", "<rss><channel/></rss>", "not OPML"},
		{"JSON", `{"subscriptions": []}`, "not OPML"},
		{"zeros", strings.Repeat("\x00", 100), "illegal character"},
		{"broken off", sampleOPML[:len(sampleOPML)/2], "unexpected EOF"},
		{"an unknown encoding", `<?xml version="1.0" encoding="klingon"?><opml/>`, "klingon"},
		{"five megabytes and one", strings.Repeat(" ", maxOPML) + "<opml/>", "longer than 5 MiB"},
		{"many outlines", "<opml>" + strings.Repeat("<outline/>", maxOutlines+1) + "</opml>", "more than 10000 outlines"},
		{"deep outlines", "<opml>" + nested(maxOPMLDepth+1, "outline") + "</opml>", "16 deep"},
		{"deep elements", "<opml>" + nested(maxOPMLNesting, "x") + "</opml>", "within each other"},
		{"a million tags", "<opml>" + strings.Repeat("<a>", 1_000_000), "within each other"},
		{"many attributes", "<opml><outline " + strings.Repeat("a='' ", 1_000_000) + "/></opml>", "64 attributes"},
	} {
		start := time.Now()
		_, outlines, err := ParseOPML([]byte(c.doc))
		if err == nil || !strings.Contains(err.Error(), c.want) || outlines != nil {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if d := time.Since(start); d > 5*time.Second { // the machine may do other things, too
			t.Errorf("%s: took %v", c.name, d)
		}
	}
	for _, c := range []struct{ name, doc string }{
		{"an empty list", "<opml/>"},
		{"as many as may be", "<opml>" + strings.Repeat("<outline text='a'/>", maxOutlines) + "</opml>"},
		{"as deep as may be", "<opml>" + nested(maxOPMLDepth, "outline") + "</opml>"},
	} {
		if _, _, err := ParseOPML([]byte(c.doc)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		checkOPML(t, []byte(c.doc))
	}
}

func TestOPMLIsAppended(t *testing.T) {
	got := string(AppendOPML([]byte("before\n"), "A & B", []Outline{
		{Text: "Folder", Outlines: []Outline{{Text: "<One>\n", Type: "rss", XMLURL: "https://one.example/?a&b"}}},
	}))
	const want = `before
<?xml version="1.0" encoding="UTF-8"?>
<opml version="2.0">
  <head>
    <title>A &amp; B</title>
  </head>
  <body>
    <outline text="Folder">
      <outline text="&lt;One&gt;&#xA;" type="rss" xmlUrl="https://one.example/?a&amp;b"></outline>
    </outline>
  </body>
</opml>
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// checkOPML checks that a parsed list is written so that it parses the same.
func checkOPML(t *testing.T, doc []byte) {
	title, outlines, err := ParseOPML(doc)
	if err != nil {
		return
	}
	written := AppendOPML(nil, title, outlines)
	if len(written) > maxOPML {
		return // escapes made it longer than the limit
	}
	title2, outlines2, err := ParseOPML(written)
	if err != nil || title2 != title || !reflect.DeepEqual(outlines2, outlines) {
		t.Fatalf("%.2000s\nis read as     %q %+v\nis written as  %.2000s\nand read again %q %+v, %v", doc, title, outlines, written, title2, outlines2, err)
	}
	if again := AppendOPML(nil, title2, outlines2); !slices.Equal(again, written) {
		t.Fatalf("%.2000s\nis written anew as\n%.2000s", written, again)
	}
}

func FuzzOPML(f *testing.F) {
	f.Add([]byte(sampleOPML))
	f.Add([]byte(`<opml><head><title>a</title></head><outline a:b="c" a:b="d" xmlns:a="e" xml:lang="f" text=g>`))
	f.Add([]byte("<opml xmlns='x'><outline xmlns:_='y' _:a='1' :b='2' c:='3' d:e:f='4' url='u' type='link'/></opml>"))
	f.Fuzz(func(t *testing.T, doc []byte) { checkOPML(t, doc) })
}
