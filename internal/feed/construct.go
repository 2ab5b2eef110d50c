package feed

import (
	"encoding/base64"
	"strings"

	"golang.org/x/net/html/atom"
	"golang.org/x/text/encoding/charmap"
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
	major, _, isType := strings.Cut(media, "/")
	isBase64 := strings.EqualFold(r.value("mode"), "base64") // as Atom 0.3 says it
	c.isHTML = strings.Contains(media, "html") || r.uri == nsXHTML
	switch {
	case isAtom(r.uri) || r.format == Atom && of == ownRank:
		c.isHidden = isType && major != "text" && !c.isHTML && !strings.HasSuffix(media, "xml")
		isBase64 = isBase64 || c.isHidden && major == "application" // RFC 4287, 4.1.3.3
	case isMedia(r.uri): // plain text, unless it has a type
	default:
		c.isHTML, c.isGuess = true, true
	}
	r.inner(&c, media == "html")
	if isBase64 {
		c.decode()
	}
	c.text, c.markup = withoutControls(c.text), withoutControls(c.markup)
	return c
}

// withoutControls returns a text with the characters that its author has typed. Some programs take Windows-1252 for
// Latin-1, and make control characters, which no text has, of quotation marks and dashes.
func withoutControls(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 && r < 0xa0 {
			return charmap.Windows1252.DecodeByte(byte(r))
		}
		return r
	}, s)
}

// decode decodes a text in base64. Of a text whose media type is none of a text, nobody says whether it is HTML. What
// is no text, such as a picture, stays hidden.
func (c *textConstruct) decode() {
	decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(c.text), ""))
	text, isBinary := dropInvalid(decoded)
	switch {
	case err != nil:
		c.isHidden = true
		return
	case c.isHidden && isBinary:
		return
	case c.isHidden:
		c.isHidden, c.isHTML, c.isGuess = false, true, true
	}
	c.text = string(text)
}

// inner reads the content of the element that starts. isEscaped says that its markup must be escaped.
func (r *meaningReader) inner(c *textConstruct, isEscaped bool) {
	var (
		text, markup strings.Builder
		depth        = r.depth()
		tops, all    = 0, 0  // elements directly within, and at any depth
		beside       = false // there is text beside them
		from, to     int     // the content of a <div> in markup
	)
	for r.step() && (!r.ends() || r.depth() > depth) {
		switch {
		case r.starts():
			all++
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
	case isEscaped && all == 1 && !beside && to > 0: // a wrapper that Atom does not allow, around what it requires
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
