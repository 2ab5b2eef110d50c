package page

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Links refer to the final address of a page after redirects, and to its <base>.
func TestLinksAreRelativeToTheFinalAddress(t *testing.T) {
	const doc = `<p>A <a href="b?x=1#y">link</a>, <a href="/c">root</a>, <a href="#d">place</a>, <a href="https://e.example/">far</a>, <a href="mailto:x@y.example">mail</a>`
	const own = "https://www.own.example/d/e"
	for _, c := range []struct{ name, own, found, base, want string }{
		{"where it says", own, own, "", "A [link](b?x=1#y), [root](/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"after a redirect", own, "https://h.example/docs/new/", "", "A [link](https://h.example/docs/new/b?x=1#y), [root](https://h.example/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"with a base", own, "", "https://b.example/z/", "A [link](https://b.example/z/b?x=1#y), [root](https://b.example/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"with a base without a host", own, "", "/z/", "A [link](/z/b?x=1#y), [root](/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"with both", own, "https://h.example/docs/", "up/", "A [link](https://h.example/docs/up/b?x=1#y), [root](https://h.example/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"with a base of its host", own, "", "http://own.example/z/", "A [link](/z/b?x=1#y), [root](/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"with a base of nobody knows which", "", "", "http://own.example/z/", "A [link](/z/b?x=1#y), [root](/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"to another folder of its host", own, "https://own.example/f/", "", "A [link](/f/b?x=1#y), [root](/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
		{"with one that leads nowhere", own, "", "mailto:a", "A [link](b?x=1#y), [root](/c), [place](#d), [far](https://e.example/), [mail](mailto:x@y.example)"},
	} {
		base := ""
		if c.base != "" {
			base = `<base target=_top><base href="` + c.base + `"><base href="https://never.example/">`
		}
		if got, err := Read([]byte("<head>"+base+"</head>"+doc), "text/html", Location{Address: c.own, Final: c.found}); err != nil || !slices.Equal(got.Lines, []string{c.want}) {
			t.Errorf("%s: %q, %v, want %q", c.name, got.Lines, err, c.want)
		}
	}
	for _, c := range []struct{ asked, found, want string }{
		{"http://h.example/a", "https://www.h.example/a?x=1", ""},
		{"http://h.example", "http://h.example/index.html", ""},
		{"http://h.example:81/", "http://h.example:82/", "http://h.example:82/"},
		{"https://h.example/docs", "https://h.example/docs/", "https://h.example/docs/"},
		{"https://h.example/", "https://m.h.example/", "https://m.h.example/"},
		{"https://h.example/", "", ""},
	} {
		got := ""
		if base := (&Location{Address: c.asked, Final: c.found}).base(); base != nil {
			got = base.String()
		}
		if got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.asked, c.found, got, c.want)
		}
	}
}

// Links of an encyclopedia have numbers in brackets, and names in parentheses.
func TestEntriesShowLinksWithBrackets(t *testing.T) {
	var m Tracker
	m.Check(HTML([]byte("<p>Bees")), time.Unix(0, 0))
	f := m.Check(HTML([]byte(`<p>A <a href="/wiki/Hive_(bees)">hive (of [some] bees)</a><sup><a href="#n1">[1]</a></sup>`)), time.Unix(7200, 0))
	doc := string(f.Entry("https://e.example/"))
	for _, want := range []string{"A &lt;a href=&#34;/wiki/Hive_%28bees%29&#34;&gt;hive (of [some] bees)&lt;/a&gt;", "&lt;a href=&#34;#n1&#34;&gt;[1]&lt;/a&gt;", "<title>A hive (of [some] bees)[1]</title>"} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %s in\n%s", want, doc)
		}
	}
}

// Targets keep their significant parts, and the text of a link does not end it.
func TestLinkTextsAndTargets(t *testing.T) {
	for doc, want := range map[string]string{
		`<a href="story.pl?sid=24/01/02&ts=5">a</a>`:        "[a](story.pl?sid=24/01/02&ts=5)",
		`<a href="a?_=1732450000123&sid=0a9f8e7d6c">a</a>`:  "[a](a)",
		`<a href=" y z.html ">a</a>`:                        "[a](y%20z.html)",
		`[Item <a href="y.html">two, 3)</a>`:                "[Item [two, 3)](y.html)",
		`<a href=g.html>a [ b</a> <a href=h.html>c ] d</a>`: "[a ( b](g.html) [c ) d](h.html)",
		`<a href=real.html>C](d)</a>`:                       "[C)(d)](real.html)",
		`<a href=x.html>[[[deep]]]</a>`:                     "[(((deep)))](x.html)",
		`<a href=x.html>a [of [some]]</a>`:                  "[a [of [some]]](x.html)",
	} {
		if got := HTML([]byte("<p>" + doc)); len(got.Lines) != 1 || got.Lines[0] != want {
			t.Errorf("%s: %q, want %q", doc, got.Lines, want)
		}
	}
	if got, want := lineHTML("[Item [two, 3)](y.html)"), `[Item <a href="y.html">two, 3)</a>`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
