package selection

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"tidings/internal/longtest"
)

// elementsOf returns the elements of a document, in order.
func elementsOf(t testing.TB, doc string) (elements []*html.Node) {
	root, err := html.Parse(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			elements = append(elements, n)
		}
	}
	return elements
}

func TestMatch(t *testing.T) {
	elements := elementsOf(t, `<main id=m><h2 id=h>News</h2><p id=p1 class="a b">one<b id=b1>x</b></p><p id=p2 class=a>two</p>
		<ul id=u><li id=l1>1<li id=l2 class=a>2<li id=l3 data-k="v, w > z">3 EUR</ul></main><p id=p3>three</p>`)
	for _, c := range []struct{ css, want string }{
		{"p", "p1 p2 p3"},
		{"#m p", "p1 p2"},
		{"body > p", "p3"},
		{"h2 + p", "p1"},
		{"h2+p", "p1"},
		{"h2 ~ p", "p1 p2"},
		{"h2 ~ p b", "b1"},
		{"main > ul li.a , .b", "p1 l2"},
		{"body main li:not(.a)", "l1 l3"},
		{"li:nth-child(2n + 1)", "l1 l3"},
		{"li:last-child", "l3"},
		{"main > :first-child ~ ul li:nth-child(2):not(:last-child)", "l2"},
		{"li:contains('EUR')", "l3"},
		{`li[data-k="v, w > z"]`, "l3"},
		{"p:has(b)", "p1"},
		{":has(b, .x):not(html, body)", "m p1"},
		{"main > p:HAS([id=b1]).b", "p1"},
		{"p:has(p)", ""},
		{"*:not(p, b):not(body):not(html):not(head)", "m h u l1 l2 l3"},
		{`#\6d h2`, "h"},
		{"main main", ""},
		{"p b b", ""},
		{"ul > main", ""},
	} {
		s, err := Compile(c.css)
		if err != nil {
			t.Errorf("%s: %v", c.css, err)
			continue
		}
		var ids []string
		for i, ok := range s.Match(elements) {
			if ok {
				ids = append(ids, elements[i].Attr[0].Val)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s matches %q, want %q", c.css, got, c.want)
		}
	}
}

func TestRefusedSelectors(t *testing.T) {
	for css, want := range map[string]string{
		"":                               "no element",
		"a,":                             "no element",
		"> a":                            "no element",
		"a > ":                           "no element",
		"a > > b":                        "no element",
		"p..x":                           "querySelectorAll",
		"p:hover":                        "these can",
		"p::before":                      "these can",
		":matches(x+)":                   "these can",
		":not(:has(a))":                  "brackets within",
		":not(a b)":                      "alone",
		":has(> a)":                      "alone",
		"a/**/b":                         "comment",
		":has(a):has(b)":                 "more than one",
		"li:nth-child(1) a:nth-child(2)": "more than one",
		"a:first-of-type b:nth-child(2)": "more than one",
		"a[x#=(a+)]":                     "a # ",
		":has(b)a":                       "querySelectorAll",
		":has()":                         "querySelectorAll",
		strings.Repeat(".a", maxTests+1): "more than 32",
		"a:not(b":                        "not closed",
		"a[x='y":                         "not closed",
		strings.Repeat("a ", maxSteps+1): "more than 16",
	} {
		if _, err := Compile(css); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want an error with %q", css, err, want)
		}
	}
}

// A selector whose steps match everywhere but the first takes linear time, not one that multiplies with each step, and
// neither does one that looks at the elements within.
func TestMatchingTakesLinearTime(t *testing.T) {
	for _, doc := range []string{strings.Repeat("<i></i>", 1<<13), strings.Repeat(strings.Repeat("<i>", 256)+strings.Repeat("</i>", 256), 1<<7)} {
		elements := elementsOf(t, doc)
		for _, css := range []string{
			"b" + strings.Repeat(" ~ i", maxSteps-1), "b" + strings.Repeat(" i", maxSteps-1), "i:nth-last-child(2n+1)", "i:last-of-type", "i:contains(b)",
			":has(b" + strings.Repeat(",b", maxTests-2) + ")", ":not(b" + strings.Repeat(",b", maxTests-2) + ")", "i" + strings.Repeat(":empty", maxTests),
		} {
			s, err := Compile(css)
			if err != nil {
				t.Fatal(err)
			}
			longtest.Bounded(t, func() { s.Match(elements) })
		}
	}
}
