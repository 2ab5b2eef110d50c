package page

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A Link is a feed that a page advertises.
type Link struct {
	Target string // as written: an address, or a relative reference
	Title  string
}

// maxAdvertised bounds the feeds of one page.
const maxAdvertised = 16

// Advertised returns the feeds that an HTML page advertises, in its order: link elements with the relation
// alternate and a feed's media type, as the HTML standard has it. Their targets must be resolved against base,
// the href of the first base element, if that is not empty.
func Advertised(doc []byte) (base string, feeds []Link) {
	for z := html.NewTokenizer(bytes.NewReader(doc)); len(feeds) < maxAdvertised; {
		switch z.Next() {
		case html.ErrorToken:
			return base, feeds
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch atom.Lookup(name) {
			case atom.Base:
				if base == "" {
					base = href(z, more)
				}
			case atom.Link:
				if l, ok := advertises(z, more); ok {
					feeds = append(feeds, l)
				}
			}
		}
	}
	return base, feeds
}

// href returns the href attribute of an element.
func href(z *html.Tokenizer, more bool) (target string) {
	for more {
		var name, value []byte
		if name, value, more = z.TagAttr(); string(name) == "href" && target == "" && len(value) <= maxTarget {
			target = strings.TrimSpace(string(value))
		}
	}
	return target
}

// advertises reads the attributes of a link element.
func advertises(z *html.Tokenizer, more bool) (l Link, ok bool) {
	relation, kind := "", ""
	for more {
		var name, value []byte
		name, value, more = z.TagAttr()
		switch string(name) {
		case "rel":
			relation = strings.ToLower(string(value))
		case "type":
			kind, _, _ = strings.Cut(strings.ToLower(string(value)), ";")
		case "href":
			l.Target = strings.TrimSpace(string(value))
		case "title":
			l.Title = strings.ToValidUTF8(string(value[:min(len(value), maxTitle)]), "")
		}
	}
	alternate := false
	for rel := range strings.FieldsSeq(relation) {
		alternate = alternate || rel == "alternate"
	}
	switch strings.TrimSpace(kind) {
	case "application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json":
	default:
		return l, false
	}
	l.Title = strings.Join(strings.Fields(l.Title), " ")
	return l, alternate && l.Target != "" && len(l.Target) <= maxTarget
}
