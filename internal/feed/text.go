package feed

import (
	"strings"

	"golang.org/x/net/html"

	"golang.org/x/net/html/atom"
	"tidings/internal/markup"
)

// AppendText appends the text of HTML, or plain text, as a reader sees it. Inline elements such as <b> do not
// break words, and other elements such as <p> become line ends. Hidden content such as scripts is left out. Of
// pictures the descriptions are read.
func AppendText(dst []byte, s string) []byte {
	if strings.IndexByte(s, '<') < 0 {
		if strings.IndexByte(s, '&') >= 0 {
			s = html.UnescapeString(s)
		}
		return append(dst, s...)
	}
	z := markup.NewTokenizer([]byte(s), false)
	var hidden atom.Atom
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			return dst
		case html.TextToken:
			if hidden == 0 {
				dst = append(dst, z.Text()...)
			}
			continue
		case html.CommentToken, html.DoctypeToken:
			continue
		}
		name, more := z.TagName()
		tag := atom.Lookup(name)
		switch {
		case kind == html.EndTagToken && tag == hidden:
			hidden = 0
		case kind == html.StartTagToken && hiddenElements[tag]:
			hidden = tag
		case tag == atom.Img && hidden == 0:
			for more {
				var key, value []byte
				if key, value, more = z.TagAttr(); string(key) == "alt" {
					dst = append(append(append(dst, ' '), value...), ' ')
				}
			}
		}
		if !inlineElements[tag] {
			dst = append(dst, '\n')
		}
	}
}

// hiddenElements are elements whose text is not shown.
var hiddenElements = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Textarea: true, atom.Object: true,
}

// inlineElements are elements that may stand within a word.
var inlineElements = map[atom.Atom]bool{
	atom.A: true, atom.Abbr: true, atom.B: true, atom.Bdi: true, atom.Bdo: true, atom.Big: true, atom.Cite: true,
	atom.Code: true, atom.Data: true, atom.Del: true, atom.Dfn: true, atom.Em: true, atom.Font: true, atom.I: true,
	atom.Img: true, atom.Ins: true, atom.Kbd: true, atom.Mark: true, atom.Q: true, atom.Ruby: true, atom.S: true,
	atom.Samp: true, atom.Small: true, atom.Span: true, atom.Strong: true, atom.Sub: true, atom.Sup: true,
	atom.Time: true, atom.Tt: true, atom.U: true, atom.Var: true, atom.Wbr: true,
}
