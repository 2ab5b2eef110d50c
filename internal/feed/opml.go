package feed

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Limits of a list of subscriptions. A list of 100,000 feeds has 20 MiB. Folders nested
// three deep are rare.
const (
	maxOPML      = 32 << 20
	maxOutlines  = 200_000
	maxOPMLDepth = 16 // nested folders; what is deeper is in the last of them
	// maxUnread bounds the lines that cannot be read. A file with more is none that a reader wrote.
	maxUnread = 1_000
)

var errNoOPML = errors.New("the file is not OPML")

// An Outline is a line of an OPML document: a subscription if it has an XMLURL, a folder if it has outlines.
type Outline struct {
	Text     string // shown by readers; the title or the address if the document has no text
	Title    string
	Type     string
	XMLURL   string // as written; [Canonical] turns it into an address
	HTMLURL  string
	Outlines []Outline
}

// An Unread is a place in an OPML document where a subscription was lost.
type Unread struct {
	Line int // from 1
	Why  string
}

// Subscriptions yields the outlines at all depths that have the address of a feed, in document order, each with
// the path of its folder, such as "News/Local". The path is empty at the top.
func Subscriptions(outlines []Outline) iter.Seq2[string, Outline] {
	return func(yield func(string, Outline) bool) { eachSubscription("", outlines, yield) }
}

func eachSubscription(folder string, outlines []Outline, yield func(string, Outline) bool) bool {
	for _, o := range outlines {
		below := folder
		if o.XMLURL == "" && o.Text != "" {
			below = strings.Trim(folder+"/"+o.Text, "/")
		}
		if o.XMLURL != "" && !yield(folder, o) || !eachSubscription(below, o.Outlines, yield) {
			return false
		}
	}
	return true
}

// ParseOPML reads a list of subscriptions: OPML 2.0, and what programs and people write under that name. It ignores
// the case of names, accepts outlines without text and outside of the body, and reads url, as in OPML 1.0, as
// xmlUrl. A line that is not XML costs no other line: the list has what can be read, and unread names the lines
// that cannot. A document that exceeds the limits is refused as a whole.
func ParseOPML(doc []byte) (outlines []Outline, unread []Unread, err error) {
	if len(doc) > maxOPML {
		return nil, nil, fmt.Errorf("read OPML: longer than %d MiB", maxOPML>>20)
	}
	text, _, err := decode(doc, "")
	if err != nil { // the charset is unknown, but addresses are ASCII
		text, _ = dropInvalid(doc)
	}
	p := opmlParser{opmlLexer: opmlLexer{doc: text}}
	if err := p.document(); err != nil {
		return nil, nil, fmt.Errorf("read OPML: %w", err)
	}
	return p.root.Outlines, p.unread, nil
}

// An opmlParser reads a document once.
type opmlParser struct {
	opmlLexer
	root   Outline
	open   []opmlFolder // for each outline that has not ended, the innermost folder within it
	count  int
	unread []Unread
}

// An opmlFolder is where outlines are appended.
type opmlFolder struct {
	*Outline
	depth int
}

// document reads all tags. Between them is nothing to read, except what was meant to be a tag.
func (p *opmlParser) document() error {
	rooted, complete := false, true
	for p.next() {
		t := &p.latest
		switch {
		case t.kind == opmlText:
			if rooted {
				for _, at := range addressAttr.FindAllIndex(t.raw, maxUnread+1) {
					p.miss(at[0], "this is no outline, because its < is missing or escaped")
				}
			}
		case !rooted && !slices.Contains([]string{"opml", "head", "body", "outline"}, t.name):
			return errNoOPML
		case t.kind == opmlEnd && t.name == "outline":
			p.open = p.open[:max(0, len(p.open)-1)]
		case t.kind == opmlEnd && (t.name == "body" || t.name == "opml"):
			complete = complete || t.name == "opml"
			p.open = nil
		case t.kind == opmlStart && t.name == "opml":
			complete = t.closed
		case t.kind == opmlStart:
			p.startTag(t)
		}
		rooted = rooted || t.kind != opmlText
		switch {
		case p.count > maxOutlines:
			return fmt.Errorf("more than %d outlines", maxOutlines)
		case len(p.unread) > maxUnread:
			return fmt.Errorf("more than %d lines that cannot be read", maxUnread)
		}
	}
	if !rooted {
		return errNoOPML
	}
	if !complete {
		p.miss(0, "the file ends here, before </opml>: it may be incomplete")
	}
	return nil
}

// miss notes that something at an offset of the latest token cannot be read.
func (p *opmlParser) miss(offset int, why string) {
	p.unread = append(p.unread, Unread{p.line(offset), why})
}

// startTag appends an outline to the innermost open folder. An outline with an address takes no others in, because
// what follows in it lacks an end tag in between.
func (p *opmlParser) startTag(t *opmlToken) {
	parent := opmlFolder{Outline: &p.root}
	if n := len(p.open); n > 0 {
		parent = p.open[n-1]
	}
	o := newOutline(t.attrs)
	isNamed := slices.ContainsFunc(t.attrs, func(a opmlAttr) bool { return a.name == "xmlurl" })
	if o.XMLURL == "" && !isNamed && addressName.Match(t.raw) {
		if o.XMLURL = t.findAddress(); o.XMLURL == "" { // a quotation mark within another attribute may hide it
			p.miss(0, "the address of the feed cannot be read: a quotation mark is missing")
			if !t.closed {
				p.open = append(p.open, parent)
			}
			return
		}
		if at := addressName.FindStringIndex(o.Text); at != nil {
			o.Text = strings.TrimSpace(o.Text[:at[0]])
		}
		o.Text = cmp.Or(o.Text, o.XMLURL)
	}
	if t.name != "outline" && o.XMLURL == "" {
		return
	}
	p.count++
	parent.Outlines = append(parent.Outlines, o)
	switch {
	case t.closed:
	case o.XMLURL != "" || parent.depth == maxOPMLDepth:
		p.open = append(p.open, parent)
	default: // nothing else is appended to the parent before this one ends, so that the pointer stays valid
		p.open = append(p.open, opmlFolder{&parent.Outlines[len(parent.Outlines)-1], parent.depth + 1})
	}
}

// newOutline returns the outline of some attributes, of which the first of a name counts.
func newOutline(attrs []opmlAttr) (o Outline) {
	url := ""
	for _, a := range attrs {
		field := &url
		switch a.name {
		case "text":
			field = &o.Text
		case "title":
			field = &o.Title
		case "type":
			field = &o.Type
		case "xmlurl":
			field = &o.XMLURL
		case "htmlurl":
			field = &o.HTMLURL
		case "url":
		default:
			continue
		}
		if *field == "" {
			*field = a.value
		}
	}
	if o.XMLURL == "" && !strings.EqualFold(o.Type, TypeLink) && !strings.EqualFold(o.Type, "include") { // which lead to a page, and to another list
		o.XMLURL = url
	}
	if t := strings.ToLower(o.Type); o.XMLURL == "" && (t == "rss" || t == "atom") {
		o.XMLURL = o.HTMLURL // the page may advertise its feed
	}
	for _, s := range []string{o.Title, o.XMLURL} {
		if o.Text == "" {
			o.Text = s
		}
	}
	return o
}

// AppendOPML appends a list of subscriptions to b, as OPML 2.0. Parsing the result gives the same outlines, for any
// list that was parsed before.
func AppendOPML(b []byte, title string, outlines []Outline) []byte {
	buf := bytes.NewBuffer(b)
	buf.WriteString(xml.Header)
	e := xml.NewEncoder(buf)
	e.Indent("", "  ")
	doc := xmlElement("opml", xml.Attr{Name: xml.Name{Local: "version"}, Value: "2.0"})
	head, body, name := xmlElement("head"), xmlElement("body"), xmlElement("title")
	tokens := []xml.Token{doc, head, name, xml.CharData(title), name.End(), head.End(), body}
	tokens = appendOutlines(tokens, outlines)
	for _, t := range append(tokens, body.End(), doc.End()) {
		// Only a name that XML forbids can fail, and all names are constants.
		if err := e.EncodeToken(t); err != nil {
			panic(fmt.Sprintf("write OPML: %v", err))
		}
	}
	if err := e.Flush(); err != nil {
		panic(fmt.Sprintf("write OPML: %v", err))
	}
	buf.WriteByte('\n')
	return buf.Bytes()
}

func appendOutlines(tokens []xml.Token, outlines []Outline) []xml.Token {
	for _, o := range outlines {
		attrs := []xml.Attr{{Name: xml.Name{Local: "text"}, Value: o.Text}} // OPML 2.0 requires text
		for _, f := range []struct{ name, value string }{
			{"title", o.Title}, {"type", o.Type}, {"xmlUrl", o.XMLURL}, {"htmlUrl", o.HTMLURL},
		} {
			if f.value != "" {
				attrs = append(attrs, xml.Attr{Name: xml.Name{Local: f.name}, Value: f.value})
			}
		}
		element := xmlElement("outline", attrs...)
		tokens = append(tokens, element)
		tokens = appendOutlines(tokens, o.Outlines)
		tokens = append(tokens, element.End())
	}
	return tokens
}

func xmlElement(name string, attrs ...xml.Attr) xml.StartElement {
	return xml.StartElement{Name: xml.Name{Local: name}, Attr: attrs}
}
