package feed

import (
	"strings"

	"golang.org/x/net/html"

	"golang.org/x/net/html/atom"
	"tidings/internal/markup"
)

// PlainTitle returns a title as people read it, on one line. Nobody says whether a title is HTML, and many are escaped
// once too often: elements with both their tags lose them, and references become characters. A tag by itself is what
// the title speaks of, and stays, and so do names that HTML does not know: "drop <a> for <area>", "List<String>".
func PlainTitle(title string) string {
	if !strings.ContainsAny(title, "<&") {
		return strings.Join(strings.Fields(title), " ")
	}
	type startTag struct {
		tag  atom.Atom
		part int
	}
	var (
		parts []string
		open  []startTag
	)
	for z := markup.NewTokenizer([]byte(title), false); ; {
		kind := z.Next()
		part := string(z.Raw())
		if kind == html.ErrorToken {
			parts = append(parts, part) // an incomplete tag
			return strings.Join(strings.Fields(strings.Join(parts, "")), " ")
		}
		switch t := z.Token(); {
		case kind == html.TextToken:
			part = t.Data
		case t.DataAtom == 0 || hiddenElements[t.DataAtom]:
		case t.DataAtom == atom.Br || t.DataAtom == atom.Hr || t.DataAtom == atom.Wbr || voidElements[t.DataAtom] && len(t.Attr) > 0:
			part = tagText(t)
		case voidElements[t.DataAtom]:
		case kind == html.StartTagToken && len(open) < maxOpenTags:
			open = append(open, startTag{t.DataAtom, len(parts)})
		case kind == html.EndTagToken:
			for i := len(open) - 1; i >= 0; i-- {
				if open[i].tag == t.DataAtom {
					part = tagText(t)
					parts[open[i].part] = part
					open = open[:i]
					break
				}
			}
		}
		parts = append(parts, part)
	}
}

// tagText returns what a tag adds to a title: the description of a picture, or the space between two blocks.
func tagText(t html.Token) string {
	for _, a := range t.Attr {
		if t.DataAtom == atom.Img && a.Key == "alt" {
			return " " + a.Val + " "
		}
	}
	if inlineElements[t.DataAtom] {
		return ""
	}
	return " "
}

// maxOpenTags bounds the elements within each other in a title. Tags beyond it stay.
const maxOpenTags = 64
