package feed

import (
	"encoding/base64"
	"strings"

	"golang.org/x/net/html/atom"
)

// A textConstruct is the content of an element that is a text for people (RFC 4287, 3.1).
type textConstruct struct {
	text     string // without markup
	markup   string // as HTML, if the element contains elements
	isHTML   bool   // text is HTML
	isGuess  bool   // nobody says whether text is HTML
	isHidden bool   // neither text nor HTML
}

// textConstruct reads the element that starts, up to its end.
func (r *meaningReader) textConstruct(of rank) textConstruct {
	var c textConstruct
	media := strings.ToLower(strings.TrimSpace(r.value("type")))
	mode := strings.ToLower(r.value("mode"))
	c.isHTML = strings.Contains(media, "html") || r.uri == nsXHTML
	switch {
	case isAtom(r.uri) || r.format == Atom && of == ownRank:
		major, _, isMedia := strings.Cut(media, "/")
		c.isHidden = isMedia && major != "text" && !c.isHTML && !strings.HasSuffix(media, "xml")
	case isMedia(r.uri): // plain text, unless it has a type
	default:
		c.isHTML, c.isGuess = true, true
	}
	r.inner(&c)
	if mode == "base64" {
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(c.text), ""))
		clean, _ := dropInvalid(decoded)
		c.text, c.isHidden = string(clean), c.isHidden || err != nil
	}
	return c
}

// inner reads the content of the element that starts.
func (r *meaningReader) inner(c *textConstruct) {
	var (
		text, markup strings.Builder
		depth        = r.depth()
		tops         = 0     // elements directly within
		beside       = false // there is text beside them
		from, to     int     // the content of a <div> in markup
	)
	for r.step() && (!r.ends() || r.depth() > depth) {
		switch {
		case r.starts():
			if r.depth() == depth+1 {
				tops++
			}
			r.startTag(&markup)
			if r.depth() == depth+1 && string(r.local) == "div" {
				from = markup.Len()
			}
		case r.ends():
			if r.depth() == depth+1 && string(r.local) == "div" {
				to = markup.Len()
			}
			if !voidElements[atom.Lookup(r.local)] {
				markup.WriteString("</" + string(r.local) + ">")
			}
		default:
			beside = beside || r.depth() == depth && r.hasText()
			s := r.text()
			text.WriteString(s)
			markup.WriteString(escape(s))
		}
	}
	c.text = text.String()
	switch {
	case tops == 0:
	case tops == 1 && !beside && to > 0: // the wrapper that Atom requires
		c.markup = markup.String()[from:to]
	default:
		c.markup = markup.String()
	}
}

// startTag writes the start tag of an element of XHTML as HTML.
func (r *meaningReader) startTag(b *strings.Builder) {
	b.WriteString("<" + string(r.local))
	addresses := r.here()
	for _, a := range r.attrs {
		name := string(a.name)
		if name == "xml:base" || strings.HasPrefix(name, "xmlns") {
			continue
		}
		value := addresses.attribute(name, unescape(a.value))
		b.WriteString(" " + strings.TrimPrefix(name, "xml:") + `="` + escape(value) + `"`)
	}
	b.WriteByte('>')
}

// voidElements are elements of HTML that have no end tag.
var voidElements = map[atom.Atom]bool{
	atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Hr: true, atom.Img: true,
	atom.Input: true, atom.Link: true, atom.Meta: true, atom.Param: true, atom.Source: true, atom.Track: true, atom.Wbr: true,
}

// html returns the text as HTML, with the addresses of the place where the element stands.
func (c textConstruct) html(addresses *resolver) string {
	switch {
	case c.isHidden:
		return ""
	case c.markup != "":
		return strings.TrimSpace(c.markup)
	case c.isHTML:
		return addresses.html(strings.TrimSpace(c.text))
	}
	return escape(strings.TrimSpace(c.text))
}

// plain returns the text without markup, on one line.
func (c textConstruct) plain() string {
	s := c.text
	switch {
	case c.markup != "":
		s = string(AppendText(nil, c.markup))
	case c.isGuess:
		s = PlainTitle(s)
	case c.isHTML:
		s = string(AppendText(nil, s))
	}
	return strings.Join(strings.Fields(s), " ")
}
