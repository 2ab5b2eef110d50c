package feed

import (
	"strings"
	"testing"
)

func TestPlainTitle(t *testing.T) {
	for title, want := range map[string]string{
		"Plain":                               "Plain",
		" R&amp;D &#8217;n&#8217; <b>So</b> ": "R&D ’n’ So",
		"<em class='x'>Very</em> <i><b>new</b></i>": "Very new",
		"The <input> and the <b> elements":          "The <input> and the <b> elements",
		"a <b>c</i> d</b> e":                        "a c</i> d e",
		"One<br>two<br/>three":                      "One two three",
		"1 < 2 & 3 > 2 &nosuch;":                    "1 < 2 & 3 > 2 &nosuch;",
		"&lt;em&gt; explained":                      "<em> explained",
		"<p>In a paragraph</p>":                     "In a paragraph",
		"List<String> and <!-- no --> note":         "List<String> and <!-- no --> note",
		"if a <b then c":                            "if a <b then c",
		"<i>if</i> a <b then c":                     "if a <b then c",
		"x &lt; y <!-- z":                           "x < y <!-- z",
		"a </b":                                     "a </b",
		"<h1>Big</h1><div>news</div>":               "Big news",
		"<img src='d.png' alt='A dog'> barks":       "A dog barks",
		"drop <a> for <area>":                       "drop <a> for <area>",
		"<ship>Ann</ship> &amp; <b>boats</b>":       "<ship>Ann</ship> & boats",
	} {
		if got := PlainTitle(title); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
	if many := strings.Repeat("<b>", 100_000) + strings.Repeat("</i>", 100_000); PlainTitle(many) != many {
		t.Error("many tags are changed")
	}
}
