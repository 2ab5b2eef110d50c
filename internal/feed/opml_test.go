package feed

import (
	"bytes"
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
	outlines, unread, err := ParseOPML([]byte(sampleOPML))
	if err != nil || unread != nil {
		t.Fatalf("%v, %v", unread, err)
	}
	want := []Outline{
		{Text: "News", Outlines: []Outline{
			{Text: "One", Title: "The One", Type: "rss", XMLURL: "https://one.example/feed?a=1&b=2", HTMLURL: "https://one.example/"},
			{Text: "Deeper", Outlines: []Outline{{Text: "Two", Title: "Two", XMLURL: "https://two.example/"}}},
		}},
		{Text: "https://three.example/", XMLURL: "https://three.example/"},
		{Text: "Four", XMLURL: "https://four.example/"},
		{Text: "Five", Type: "link"},
	}
	if !reflect.DeepEqual(outlines, want) {
		t.Errorf("got  %+v\nwant %+v", outlines, want)
	}
	if got, want := listed(outlines), "News https://one.example/feed?a=1&b=2, News/Deeper https://two.example/,  https://three.example/,  https://four.example/"; got != want {
		t.Errorf("subscriptions %s", got)
	}
	for _, o := range Subscriptions(outlines) {
		if o.Text == "Two" {
			break // and no panic
		}
	}
	checkOPML(t, []byte(sampleOPML))
}

// listed returns the subscriptions of a list, each with its folder.
func listed(outlines []Outline) string {
	var urls []string
	for folder, o := range Subscriptions(outlines) {
		urls = append(urls, folder+" "+o.XMLURL)
	}
	return strings.Join(urls, ", ")
}

// A line that is not XML costs no other line, and is read if its address can be told.
func TestOPMLThatIsNotXMLIsReadLineByLine(t *testing.T) {
	const before, after = "<opml><body>\n<outline text='F'>\n<outline xmlUrl='http://a.example/'/>\n", "\n<outline xmlUrl='http://z.example/'/>\n</outline></body></opml>"
	for name, c := range map[string]struct {
		line string
		want string // title and address
		lost bool
	}{
		"a bare ampersand":          {`<outline text="Q & A" xmlUrl="http://b.example/?a&b=1&lt=2&reg=3"/>`, "Q & A http://b.example/?a&b=1&lt=2&reg=3", false},
		"references":                {`<outline text="&lt;Q&gt; &eacute;&#233;&#xe9;&amp;amp; &nosuch; &#1;" xmlUrl="http://b.example/?a=1&amp;b=2"/>`, "<Q> ééé&amp; &nosuch; http://b.example/?a=1&b=2", false},
		"quotes in quotes":          {`<outline text="the "Big" one" xmlUrl="http://b.example/"/>`, `the "Big" one http://b.example/`, false},
		"quotes at the end":         {`<outline text="the "Big"" xmlUrl="http://b.example/"/>`, `the "Big" http://b.example/`, false},
		"apostrophes":               {`<outline text='it's 'so'' xmlUrl='http://b.example/'/>`, `it's 'so' http://b.example/`, false},
		"a quote that never ends":   {`<outline text="an inch 5" and more, xmlUrl="http://b.example/"/>`, `an inch 5 http://b.example/`, false},
		"a quote too few":           {`<outline text="B xmlUrl="http://b.example/"/>`, `B http://b.example/`, false},
		"no quote at its end":       {`<outline text="B" xmlUrl="http://b.example//>`, "", true},
		"a tag that does not end":   {`<outline text="B" xmlUrl="http://b.example/"`, "B http://b.example/", false},
		"an end that is missing":    {`<outline text="B" xmlUrl="http://b.example/"</outline>`, "B http://b.example/", false},
		"no quotes":                 {`<outline text=B xmlUrl=http://b.example/ />`, "B http://b.example/", false},
		"typographic quotes":        {`<outline text=“B” xmlUrl=”http://b.example/” />`, "B http://b.example/", false},
		"escaped quotes":            {`<outline text=&quot;B&quot; xmlUrl=&quot;http://b.example/&quot;/>`, "B http://b.example/", false},
		"a site without a feed":     {`<outline text="B" type="rss" htmlUrl="http://b.example/"/>`, "B http://b.example/", false},
		"no blanks":                 {`<outline text="B"type='rss'xmlUrl="http://b.example/"/>`, "B http://b.example/", false},
		"blanks":                    {"<outline\n text = \"B\"\r\n xmlUrl\t= 'http://b.example/'\n/>", "B http://b.example/", false},
		"less and greater":          {`<outline text="<a> < b > c" xmlUrl="http://b.example/"/>`, "<a> < b > c http://b.example/", false},
		"commas":                    {`,<outline text="B", xmlUrl="http://b.example/"/>,`, "B http://b.example/", false},
		"controls":                  {"<outline text=\"B\x01\x00\" xmlUrl=\"http://b.example/\"/>", "B http://b.example/", false},
		"no < before it":            {`outline text="B" xmlUrl="http://b.example/"/>`, "", true},
		"it is escaped":             {`&lt;outline text="B" xmlUrl="http://b.example/"/&gt;`, "", true},
		"an end too many":           {`<outline text="B" xmlUrl="http://b.example/"></outline></b></outlin>`, "B http://b.example/", false},
		"an attribute twice":        {`<outline text="B" text="C" xmlUrl="http://b.example/" xmlUrl="http://c.example/"/>`, "B http://b.example/", false},
		"a prefix":                  {`<x:outline x:text="C" text="B" x:xmlUrl="c" xmlUrl="http://b.example/"/>`, "B http://b.example/", false},
		"a comment":                 {`<!-- <outline xmlUrl="http://c.example/"/> --><![CDATA[ <outline xmlUrl="http://d.example/"/> ]]><outline text="B" xmlUrl="http://b.example/"/>`, "B http://b.example/", false},
		"a comment without its end": {`<!-- <outline text="B" xmlUrl="http://b.example/"/>`, "B http://b.example/", false},
		"an empty address":          {`<outline text="C" xmlUrl=""><outline text="B" xmlUrl="http://b.example/"/></outline>`, "B http://b.example/", false},
	} {
		outlines, unread, err := ParseOPML([]byte(before + c.line + after))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for folder, o := range Subscriptions(outlines) {
			if !strings.HasPrefix(folder, "F") {
				t.Errorf("%s: %s is in folder %q", name, o.XMLURL, folder)
			}
			got = append(got, o.Text+" "+o.XMLURL)
		}
		want := []string{"http://a.example/ http://a.example/", "http://z.example/ http://z.example/"}
		if c.want != "" {
			want = slices.Insert(want, 1, c.want)
		}
		if !slices.Equal(got, want) || (len(unread) > 0) != c.lost || c.lost && (len(unread) > 1 || unread[0].Line != 4) {
			t.Errorf("%s: %q, unread %+v", name, got, unread)
		}
		checkOPML(t, []byte(before+c.line+after))
	}
}

// A list that is broken off has what came before, and says so. A list without its outer elements is complete.
func TestOPMLThatIsNotCompleteIsRead(t *testing.T) {
	for end, want := range map[int]string{
		strings.Index(sampleOPML, `"https://three`) + 5: "News https://one.example/feed?a=1&b=2, News/Deeper https://two.example/",
		strings.Index(sampleOPML, "</outline>"):         "News https://one.example/feed?a=1&b=2, News/Deeper https://two.example/",
		strings.Index(sampleOPML, "</opml>"):            "News https://one.example/feed?a=1&b=2, News/Deeper https://two.example/,  https://three.example/,  https://four.example/",
	} {
		outlines, unread, err := ParseOPML([]byte(sampleOPML[:end]))
		last := Unread{strings.Count(sampleOPML[:end], "\n") + 1, "the file ends here, before </opml>: it may be incomplete"}
		if got := listed(outlines); err != nil || got != want || len(unread) == 0 || unread[len(unread)-1] != last {
			t.Errorf("%s, unread %+v, %v", got, unread, err)
		}
	}
	outlines, unread, err := ParseOPML([]byte("\n<outline xmlUrl='a'/>\n<outline xmlUrl='b'>"))
	if got := listed(outlines); err != nil || got != " a,  b" || unread != nil {
		t.Errorf("%s, unread %+v, %v", got, unread, err)
	}
}

// Each subscription that is lost in a text is named with its line, also behind letters that are shorter or longer in
// the other case.
func TestOPMLNamesEachAddressInAText(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		want []int
	}{
		"letters that grow":   {longerInLowerCase, []int{1}},
		"letters that shrink": {"<opml>" + strings.Repeat("\u212a", 5000) + "\nXMLURL='a'</opml>", []int{2}},
		"three lines":         {"<opml><body>\noutline xmlUrl='a'/>\noutline xmlurl='b'/>\n\noutline XMLURL = 'c'/></body></opml>", []int{2, 3, 5}},
	} {
		_, unread, err := ParseOPML([]byte(c.doc))
		var lines []int
		for _, u := range unread {
			if strings.Contains(u.Why, "no outline") {
				lines = append(lines, u.Line)
			}
		}
		if err != nil || !slices.Equal(lines, c.want) {
			t.Errorf("%s: lines %v, want %v; %v", name, lines, c.want, err)
		}
	}
	outlines, _, err := ParseOPML([]byte(`<opml><outline text="` + strings.Repeat("Ⱥ", 9) + ` xmlUrl="http://b.example/"/></opml>`))
	if err != nil || len(outlines) != 1 || outlines[0].Text != strings.Repeat("Ⱥ", 9) {
		t.Errorf("%+v, %v", outlines, err)
	}
}

// longerInLowerCase has letters of two bytes that have three in lower case.
var longerInLowerCase = "<opml>" + strings.Repeat("Ⱥ", 5000) + "xmlurl="

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
		outlines, _, err := ParseOPML([]byte(doc))
		if err != nil || len(outlines) != 1 || outlines[0].Text != "Bücher" {
			t.Errorf("%s: %+v, %v", name, outlines, err)
		}
	}
}

// slowOPML is longer than any list takes, even on a machine that does other things, and shorter than what takes more than linear time:
// a list of a million tags takes a second.
const slowOPML = 30 * time.Second

func TestInvalidOPMLIsRefused(t *testing.T) {
	nested := func(n int, start, end string) string {
		return strings.Repeat("<"+start+">", n) + strings.Repeat("</"+end+">", n)
	}
	for _, c := range []struct{ name, doc, want string }{
		{"nothing", "", "not OPML"},
		{"text", "hello", "not OPML"},
		{"a page", "<!DOCTYPE html><html><body>404</body></html>", "not OPML"},
		{"a feed", "<rss><channel/></rss>", "not OPML"},
		{"JSON", `{"subscriptions": []}`, "not OPML"},
		{"zeros", strings.Repeat("\x00", 100), "not OPML"},
		{"a byte too long", strings.Repeat(" ", maxOPML) + "<opml/>", "longer than 32 MiB"},
		{"many outlines", "<opml>" + strings.Repeat("<outline/>", maxOutlines+1) + "</opml>", "more than 200000 outlines"},
		{"many broken lines", "<opml>" + strings.Repeat("<outline xmlUrl='", maxUnread+1) + "</opml>", "more than 1000 lines"},
		{"many lines without a tag", "<opml>" + strings.Repeat("xmlUrl=", 600_000) + "</opml>", "more than 1000 lines"},
	} {
		start := time.Now()
		outlines, _, err := ParseOPML([]byte(c.doc))
		if err == nil || !strings.Contains(err.Error(), c.want) || outlines != nil {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if d := time.Since(start); d > slowOPML {
			t.Errorf("%s: took %v", c.name, d)
		}
	}
	for _, c := range []struct{ name, doc string }{
		{"an empty list", "<opml/>"},
		{"as many as may be", "<opml>" + strings.Repeat("<outline text='a'/>", maxOutlines) + "</opml>"},
		{"deep outlines", "<opml>" + nested(20_000, "outline text='a'", "outline") + "</opml>"},
		{"a million tags", "<opml>" + strings.Repeat("<a>", 1_000_000)},
		{"many attributes", "<opml><outline " + strings.Repeat("a='x'@ ", 700_000) + "/></opml>"},
		{"many values without an end", "<opml>" + strings.Repeat("<outline "+strings.Repeat("a='b' ", 500)+"a='", 1_000)},
		{"many tags without an end", "<opml>" + strings.Repeat("<x "+strings.Repeat("a ", 500), 5_000)},
		{"many comments without an end", "<opml>" + strings.Repeat("<!--", 1_000_000)},
		{"many sections without an end", "<opml>" + strings.Repeat("<![CDATA[", 500_000)},
		{"many declarations without an end", "<opml>" + strings.Repeat("<!", 1_700_000)},
		{"many end tags without an end", "<opml>" + strings.Repeat("</", 1_700_000)},
		{"many quotation marks", "<opml>" + strings.Repeat("<outline "+strings.Repeat(`a="b" c d e " f`, 4_000), 80)},
	} {
		start := time.Now()
		if _, _, err := ParseOPML([]byte(c.doc)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := time.Since(start); d > slowOPML {
			t.Errorf("%s: took %v", c.name, d)
		}
		checkOPML(t, []byte(c.doc))
	}
	deep := strings.Repeat("<outline text='a'>", maxOPMLDepth+5)
	outlines, _, err := ParseOPML([]byte("<opml>" + deep + "<outline xmlUrl='u'/>"))
	if got := listed(outlines); err != nil || got != strings.Repeat("/a", maxOPMLDepth)[1:]+" u" {
		t.Errorf("%s, %v", got, err)
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
	t.Helper()
	outlines, unread, err := ParseOPML(doc)
	if err != nil {
		return
	}
	for _, u := range unread {
		if u.Line < 1 || u.Line > bytes.Count(doc, []byte("\n"))+1 {
			t.Fatalf("%.2000s\nhas no line %d", doc, u.Line)
		}
	}
	written := AppendOPML(nil, "title", outlines)
	if len(written) > maxOPML || slices.ContainsFunc(bytes.Split(written, []byte("<outline ")), func(tag []byte) bool { return len(tag) > maxOPMLTag }) {
		return // escapes made it longer than the limits
	}
	again, unread, err := ParseOPML(written)
	if err != nil || unread != nil || !reflect.DeepEqual(again, outlines) {
		t.Fatalf("%.2000s\nis read as     %+v\nis written as  %.2000s\nand read again %+v, %v, %v", doc, outlines, written, again, unread, err)
	}
	if last := AppendOPML(nil, "title", again); !slices.Equal(last, written) {
		t.Fatalf("%.2000s\nis written anew as\n%.2000s", written, last)
	}
}

func FuzzOPML(f *testing.F) {
	f.Add([]byte(sampleOPML))
	f.Add([]byte(longerInLowerCase))
	f.Add([]byte(`<opml><head><title>a</title></head><outline a:b="c" a:b="d" xmlns:a="e" xml:lang="f" text=g>`))
	f.Add([]byte("<opml xmlns='x'><outline xmlns:_='y' _:a='1' url='u' type='link'/><outline text='a \"b\" c'd' xmlUrl=\"&amp;&b\"</opml>"))
	f.Fuzz(func(t *testing.T, doc []byte) { checkOPML(t, doc) })
}
