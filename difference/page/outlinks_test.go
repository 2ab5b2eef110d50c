package page

import (
	"slices"
	"testing"
)

func TestOutlinksAreThoseOfTheAuthor(t *testing.T) {
	for doc, want := range map[string][]string{
		`<p>No link.</p>`: nil,
		`<a href="https://a.example/">a</a> <A HREF=' /b '>b</A> <a name="c">c</a> <link href="d"> <a href="">e</a>`:                            {"https://a.example/", "/b"},
		`<a rel="nofollow" href="a">a</a><a rel="External UGC" href="b">b</a><a rel="sponsored" href="c">c</a><a rel="external" href="d">d</a>`: {"d"},
		`<body class="x"><a href="1">1</a><a href="2">2</a><a href="3">3</a><a href="4">4</a>`:                                                  {"1", "2", "3"},
	} {
		if got := Outlinks([]byte(doc), 3); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
}
