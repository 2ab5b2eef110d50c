package feed

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// PlainTitle returns a title as people read it. Nobody says whether a title is HTML, and many are escaped once too
// often: elements with both their tags lose them, and references become characters. A tag by itself is what the title
// speaks of, and stays.
func PlainTitle(title string) string {
	if !strings.ContainsAny(title, "<&") {
		return strings.TrimSpace(title)
	}
	type part struct {
		text string
		tag  atom.Atom // 0 for text, and for the tag of an element with only one
	}
	var parts []part
	var open []int // start tags in parts
	for z := html.NewTokenizer(strings.NewReader(title)); z.Next() != html.ErrorToken; {
		token := part{text: string(z.Raw())}
		switch t := z.Token(); {
		case t.Type == html.TextToken:
			token.text = t.Data
		case !inlineElements[t.DataAtom] && t.DataAtom != atom.Br && t.DataAtom != atom.P:
		case t.DataAtom == atom.Br || t.DataAtom == atom.Wbr || t.DataAtom == atom.Img:
			token.tag = t.DataAtom
		case t.Type == html.StartTagToken && len(open) < maxOpenTags:
			open = append(open, len(parts))
		case t.Type == html.EndTagToken:
			for i := len(open) - 1; i >= 0; i-- {
				if name, _ := tagName([]byte(parts[open[i]].text[1:])); name == t.Data {
					parts[open[i]].tag, token.tag = t.DataAtom, t.DataAtom
					open = open[:i]
					break
				}
			}
		}
		parts = append(parts, token)
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.tag {
		case 0:
			b.WriteString(p.text)
		case atom.Br, atom.P:
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

// maxOpenTags bounds the elements within each other in a title. Tags beyond it stay.
const maxOpenTags = 64
