package page

import (
	"strings"
	"testing"
	"unicode/utf8"

	"tidings/internal/longtest"
	"tidings/internal/markup"
)

// Sentences are content because of their length.
const (
	one = "The first sentence of the page is long enough to be one."
	two = "The second one is longer still, and says what nobody had asked about."
)

func TestCoreOfAPage(t *testing.T) {
	for _, c := range []struct {
		what, doc string
		want      []string
	}{
		{"text in and out of elements", "a<p>b\n c</p>d<br>e", []string{"a", "b c", "d", "e"}},
		{"inline elements are within a line", "<p>a<b>b</b><i> c</i>", []string{"ab c"}},
		{"entities", "<p>a&amp;b&nbsp;&nbsp;c&#8203;&shy;d", []string{"a&b cd"}},
		{"what is never text", "<p>a<script>x</script><style>y</style><svg><text>z</text></svg><template><p>w</template></p>b", []string{"a", "b"}},
		{"tables, by cell", "<table><tr><td>a<td>b</table>", []string{"a", "b"}},
		{"a comment, a doctype, a cut tag", "<!doctype html><!-- no -->a<p", []string{"a"}},
		{"an alert", "<div role=alert>Major outage of the mail</div><p>" + one, []string{"Major outage of the mail", one}},
		{"headlines", "<p>" + one + "<p>" + one + "<p>" + one + "<p>" + one + "<ul><li><a href=/1>Evacuation of the old town ordered</a><li><a href=/2>The bridge is closed until Friday</a><li><a href=/3>Minutes of the meeting in May</a></ul>",
			[]string{one, one, one, one, "[Evacuation of the old town ordered](/1)", "[The bridge is closed until Friday](/2)", "[Minutes of the meeting in May](/3)"}},
		{"navigation by its element", "<nav>Home</nav><p>" + one, []string{one}},
		{"by its role", "<div role=banner>Home</div><p>" + one, []string{one}},
		{"not what is hidden from screen readers alone", `<a href=/a><div aria-hidden=true>Headline</div></a><p>` + one, []string{"[Headline](/a)", one}},
		{"by being hidden", `<div hidden>x</div><div style="width:1px; Display : NONE">x</div><p>` + one, []string{one}},
		{"by a word, if it is links", `<div class="topNav"><a href=/>Home</a></div><p>` + one, []string{one}},
		{"a word for navigation around text", `<div class="navigation-block">` + two + `</div><p>` + one + one + one + one + one, []string{two, one + one + one + one + one}},
		{"a word within another word", `<div class="shadow canvas">x</div><p>` + one, []string{"x", one}},
		{"what lies over the page", `<div id=cookieConsent>We use cookies.</div><p>` + one, []string{one}},
		{"a noisy name around the page", `<div class="has-sidebar cookie-page"><p>` + one + `</div>`, []string{one}},
		{"the header of an article", "<header>x</header><article><header>" + two + "</header>" + one + "</article>", []string{two, one}},
		{"the title of a page in its header", "<header><h1>News</h1><p>x</header><header hidden><h1>y</h1></header><header><h1><a href=/>Site</a></h1></header><p>" + one, []string{"News", one}},
		{"accents", "<p>Gro\u0308\u00dfe", []string{"Gr\u00f6\u00dfe"}},
		{"a footer that is not closed", "<p>" + one + "<footer>Imprint<p>x", []string{one}},
		{"a menu of links without a name", "<ul><li><a href=/a>a</a><li><a href=/b>b</a><li><a href=/c>c</a></ul><p>" + one, []string{one}},
		{"two links are no menu", "<ul><li><a href=/a>a</a><li><a href=/b>b</a></ul><p>" + one, []string{"[a](/a)", "[b](/b)", one}},
		{"a menu at the end", "<p>" + one + "<li><a href=/a>a</a><li><a href=/b>b</a><li><a href=/c>c</a>", []string{one}},
		{"who owns the page", "<p>" + one + "<p>© 2026 Somebody", []string{one}},
		{"a sentence about owning", "<p>" + one + " " + two + " © is a sign, and what it stands for is a right that somebody has in what he wrote.", []string{one + " " + two + " © is a sign, and what it stands for is a right that somebody has in what he wrote."}},
		{"a way past the menu", "<a href=#main>Skip</a><h1><a href=#top>Title</a></h1><p>" + one + "<h2><a href=#a>A</a></h2>b", []string{one, "[A](#a)", "b"}},
		{"a link in a sentence", `<p>See <a href="/a?utm_source=x&id=7#part">there</a>.`, []string{"See [there](/a?id=7#part)."}},
		{"a link without words", `<p>See<a href=/a><img src=x></a> there`, []string{"See there"}},
		{"a link around blocks", `<p>x <a href=/a>y<div>z</div></a> w`, []string{"x [y](/a)", "z", "w"}},
		{"a link in a link", `<p>x <a href=/a>y<a href=/b>z</a>`, []string{"x [y](/a)[z](/b)"}},
		{"a target over lines", "<p>See <a href='/a\n\tb'>there</a> too.", []string{"See [there](/ab) too."}},
		{"a link that leads nowhere", "<p><a name=top>Words <a href='JaVaScript:x()'>and</a> words", []string{"Words and words"}},
		{"a card that is a link", "<a href=/a><h3>Shoe</h3><p>Red<p>$ 9.99</a>", []string{"[Shoe](/a)", "Red", "$ 9.99"}},
		{"nothing but links", "<ul><li><a href=/a>a</a><li><a href=/b>b</a><li><a href=/c>c</a></ul>", []string{"[a](/a)", "[b](/b)", "[c](/c)"}},
		{"a head without an end", "<html><head><title>a</title><meta charset=utf-8><body><p>b", []string{"b"}},
		{"a drawing that ends at once", "<div><svg/><p>b</div>", []string{"b"}},
		{"all in a button", "<button><p>" + one, []string{one}},
		{"items without ends", "<ul><li class=ad>Ad<li>" + one + "<li>" + two + "</ul>", []string{one, two}},
		{"cells without ends", "<table><tr><td class=ads>Ad<td>" + one + "<tr><td>" + two + "</table>", []string{one, two}},
		{"a sentence about copyright", "<p>Copyright infringement: we remove it within 14 days.", []string{"Copyright infringement: we remove it within 14 days."}},
		{"what copyright costs", "<p>Copyright registration costs 65 dollars in 2026<p>Copyright (c) 2020-2026 Who<p>Copyright Who 2026. All rights reserved.", []string{"Copyright registration costs 65 dollars in 2026"}},
		{"lines as they stand", "<p>a\nb<pre>a\n  b\n\nc <b>d\ne</b></pre>f", []string{"a b", "a", "b", "c d", "e", "f"}},
		{"nothing", "", nil},
		{"bytes that are none", "<p>a\xffb", []string{"a\uFFFDb"}},
	} {
		got := HTML([]byte(c.doc))
		if strings.Join(got.Lines, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: %q, want %q", c.what, got.Lines, c.want)
		}
	}
}

func TestTitle(t *testing.T) {
	for doc, want := range map[string]string{
		"<head><title> a\n b </title></head><p>c": "a b", "<p>a": "", "<title></title><title>b</title>": "b",
		"<title>a</title><svg><title>b</title></svg>": "a", "<title>" + strings.Repeat("ä", maxTitle) + "</title>": strings.Repeat("ä", maxTitle/2),
	} {
		if got := HTML([]byte(doc)).Title; got != want {
			t.Errorf("%.40q: %.40q, want %.40q", doc, got, want)
		}
	}
}

func TestTargets(t *testing.T) {
	for href, want := range map[string]string{
		"/a/b.html":                        "/a/b.html",
		" https://h.example/?a=1&b=2 ":     "https://h.example/?a=1&b=2",
		"/?fbclid=x&UTM_Medium=y":          "/",
		"/?a=1&gclid=x#b":                  "/?a=1#b",
		"javascript:void(0)":               "",
		"#":                                "",
		"/email#64171114140b1610240c0514":  "/email#…",
		"/_next/x2J4hWstNTqKDIdgShU50/a":   "/_next/…/a",
		"/2026/11/20261123-release-1.18.0": "/2026/11/20261123-release-1.18.0",
		"/internationalization":            "/internationalization",
		"/status/1789012345678901234":      "/status/1789012345678901234",
		"/2026Q3ResultsPresentation.pdf":   "/2026Q3ResultsPresentation.pdf",
		"/?q=a=b":                          "/?q=a=b",
		"/caf%c3%a9?b=2&a=%2f&b=1":         "/caf%C3%A9?a=%2F&b=2&b=1",
	} {
		if got := target(href); got != want {
			t.Errorf("%s: %s, want %s", href, got, want)
		}
	}
}

// A page cannot make its parsing slow, or large.
func TestHostilePagesAreCheap(t *testing.T) {
	size := longtest.Pick(2<<20, 10<<20)
	for what, piece := range map[string]string{
		"nested": "<div>", "navs": "<nav>", "nav by nav": "<nav>a</nav>", "ends": "</div>", "open and end": "<b></i>", "links": "<a href=x>a", "paragraphs": "a<p>",
		"one line": "a", "blanks": " ", "attributes": "a=b ", "tag that does not end": "<", "entities": "&amp;", "bytes": "\xff", "nested inline": "<b>", "quotes": `<a b="`, "styles": `<p style="a:none;b:c">x`, "a style of blanks": " ", "a long target": "x<br>",
		"names of attributes": " ", "tags with names": " ", "relations": "<link rel='alternate alternate' type=text/xml title=x href=y>", "a class of ad1": " ", "a class of ad": " ", "a class of ad-": " ", "a class of ads1-": " ",
		"lines as they stand": "a line of so many bytes as lines of files have\n",
	} {
		t.Run(what, func(t *testing.T) {
			doc := strings.Repeat(piece, size/len(piece))
			if what == "lines as they stand" {
				doc = "<pre>" + doc
			}
			if what == "attributes" {
				doc = "<p " + doc + ">x"
			}
			if what == "a style of blanks" {
				doc = `<p style="display` + doc + `">x`
			}
			if what == "names of attributes" {
				doc = "<a " + fillTo(size/2, word) + ">" + strings.Repeat("<b>", size/6)
			}
			if what == "tags with names" {
				doc = strings.Repeat("<a "+fillTo(5*markup.MaxAttributes, word)+">", size/(6*markup.MaxAttributes))
			}
			if class, ok := strings.CutPrefix(what, "a class of "); ok {
				doc = `<div class="` + strings.Repeat(class, size/len(class)) + `">x`
			}
			if what == "a long target" {
				doc = "<a href=" + strings.Repeat("a", size/2) + ">" + doc[:size/2]
			}
			page := []byte(doc)
			longtest.Bounded(t, func() { HTML(page) })
			longtest.Bounded(t, func() { Advertised(page) })
		})
	}
}

func FuzzHTML(f *testing.F) {
	f.Add([]byte("<p>a<a href=b>c<nav>d"))
	f.Add([]byte("<article><header>a</header></article><template><svg><title>x"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		c := HTML(doc)
		for _, l := range c.Lines {
			if l == "" || len(l) > 2*maxLine || !utf8.ValidString(l) || strings.ContainsAny(l, "\n\r\t") || strings.TrimSpace(l) != l {
				t.Errorf("a line is %.100q", l)
			}
		}
	})
}

// HTML returns the core of a page.
func HTML(doc []byte) Core {
	core, err := coreOf(doc, false, &Location{})
	if err != nil {
		panic(err) // only a rule that says what counts can fail
	}
	return core
}
