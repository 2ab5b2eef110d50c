package markup

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// describe returns the tokens of a document, with the last attributes of those that are read.
func describe(next func() html.TokenType, token func() html.Token) string {
	var b strings.Builder
	for kind := next(); kind != html.ErrorToken; kind = next() {
		t := token()
		fmt.Fprintln(&b, kind, t.Data, t.Attr[max(0, min(len(t.Attr), MaxAttributes)-2):min(len(t.Attr), MaxAttributes)])
	}
	return b.String()
}

// A tag with many attributes loses the last of them, and nothing else changes.
func FuzzTokenizer(f *testing.F) {
	for _, more := range []string{"", ">x", "a>x", "a=b>x", "a='>'>x", "a = \">\" b>x</a>", "a=>x", "a/>x", "=>x", "a=b/>x<br/>", "a='b", "a=b", "<b>c", "a=\"'\" / b='<'>x<p a>y"} {
		f.Add(more)
	}
	f.Fuzz(func(t *testing.T, more string) {
		var doc strings.Builder
		doc.WriteString("<p a=b>x<a")
		for i := range MaxAttributes {
			fmt.Fprintf(&doc, " a%d=%[1]d", i)
		}
		doc.WriteString(" " + more)
		z, all := NewTokenizer([]byte(doc.String()), false), html.NewTokenizer(strings.NewReader(doc.String()))
		if got, want := describe(z.Next, func() html.Token { return z.Token() }), describe(all.Next, all.Token); got != want {
			t.Errorf("%q: %s, want %s", more, got, want)
		}
	})
}
