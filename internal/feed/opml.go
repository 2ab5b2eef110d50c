package feed

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Limits of a list of subscriptions. The largest known lists have a few thousand feeds, and folders nested
// three deep are rare.
const (
	maxOPML        = 5 << 20
	maxOutlines    = 10_000
	maxOPMLDepth   = 16 // nested outlines
	maxOPMLNesting = 64 // nested elements of any name
	maxOPMLAttrs   = 64 // of one outline
	maxOPMLTitle   = 1 << 10
)

var errNoOPML = errors.New("the file is not OPML")

// An Outline is a line of an OPML document: a subscription if it has an XMLURL, a folder if it has outlines.
type Outline struct {
	Text     string // shown by readers; the title or the address if the document has no text
	Title    string
	Type     string
	XMLURL   string // as written; [Canonical] turns it into an address
	HTMLURL  string
	Attrs    []xml.Attr // all other attributes, in document order
	Outlines []Outline
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

// ParseOPML reads a list of subscriptions: OPML 2.0, and what other programs write under that name. It ignores
// the case of attribute names, accepts outlines without text and outside of the body, and reads url, as in OPML
// 1.0, as xmlUrl. A truncated list, or one that exceeds the limits, is refused as a whole: half a list would
// look complete.
func ParseOPML(doc []byte) (title string, outlines []Outline, err error) {
	if len(doc) > maxOPML {
		return "", nil, fmt.Errorf("read OPML: longer than %d MiB", maxOPML>>20)
	}
	p := opmlParser{xml: opmlDecoder(doc)}
	if err := p.document(); err != nil {
		return "", nil, fmt.Errorf("read OPML: %w", err)
	}
	return p.title, p.root.Outlines, nil
}

// opmlDecoder returns a decoder for a document in the encoding that it names.
func opmlDecoder(doc []byte) *xml.Decoder {
	marked := bytes.HasPrefix(doc, []byte("\xfe\xff")) || bytes.HasPrefix(doc, []byte("\xff\xfe"))
	d := xml.NewDecoder(transform.NewReader(bytes.NewReader(doc), unicode.BOMOverride(transform.Nop)))
	d.Strict = false
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(label string, r io.Reader) (io.Reader, error) {
		if marked { // UTF-16, decoded by its byte order mark
			return r, nil
		}
		return charset.NewReaderLabel(label, r)
	}
	return d
}

// An opmlParser reads a document once.
type opmlParser struct {
	xml   *xml.Decoder
	title string
	root  Outline
	count int
}

func (p *opmlParser) document() error {
	open := []*Outline{&p.root} // outlines that have not ended
	var names []string          // elements that have not ended
	for {
		token, err := p.xml.Token()
		switch {
		case errors.Is(err, io.EOF) && names != nil:
			return nil
		case errors.Is(err, io.EOF):
			return errNoOPML
		case err != nil:
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			name := strings.ToLower(token.Name.Local)
			switch {
			case len(names) == 0 && name != "opml":
				return errNoOPML
			case len(names) == maxOPMLNesting:
				return fmt.Errorf("more than %d elements within each other", maxOPMLNesting)
			}
			names = append(names, name)
			if name == "outline" {
				o, err := p.outline(open, token.Attr)
				if err != nil {
					return err
				}
				open = append(open, o)
			}
		case xml.EndElement: // the decoder ensures that each end has a start
			if names[len(names)-1] == "outline" {
				open = open[:len(open)-1]
			}
			names = names[:len(names)-1]
		case xml.CharData:
			if slices.Equal(names, []string{"opml", "head", "title"}) {
				p.title = strings.TrimSpace(cut(p.title+string(token), maxOPMLTitle))
			}
		}
	}
}

// outline appends an outline to the innermost open one. Nothing else is appended there before it ends, so that
// the returned pointer stays valid.
func (p *opmlParser) outline(open []*Outline, attrs []xml.Attr) (*Outline, error) {
	p.count++
	switch {
	case p.count > maxOutlines:
		return nil, fmt.Errorf("more than %d outlines", maxOutlines)
	case len(open) > maxOPMLDepth:
		return nil, fmt.Errorf("outlines more than %d deep", maxOPMLDepth)
	case len(attrs) > maxOPMLAttrs:
		return nil, fmt.Errorf("an outline of more than %d attributes", maxOPMLAttrs)
	}
	o := newOutline(attrs)
	parent := open[len(open)-1]
	parent.Outlines = append(parent.Outlines, o)
	return &parent.Outlines[len(parent.Outlines)-1], nil
}

func newOutline(attrs []xml.Attr) Outline {
	var o Outline
	var url string
	for _, a := range attrs {
		field := o.field(a.Name)
		switch {
		case field != nil && *field == "":
			*field = strings.TrimSpace(a.Value)
		case field != nil: // the first of several counts
		case a.Name.Space == "" && strings.EqualFold(a.Name.Local, "url") && url == "":
			url = strings.TrimSpace(a.Value)
		case a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns":
			// Declared again where it is used, when the outline is written.
		case !slices.ContainsFunc(o.Attrs, func(b xml.Attr) bool { return b.Name == a.Name }):
			o.Attrs = append(o.Attrs, a)
		}
	}
	switch {
	case url == "":
	case o.XMLURL == "" && !strings.EqualFold(o.Type, "link"): // a link leads to a page, or to another list
		o.XMLURL = url
	default:
		o.Attrs = append(o.Attrs, xml.Attr{Name: xml.Name{Local: "url"}, Value: url})
	}
	for _, s := range []string{o.Title, o.XMLURL} {
		if o.Text == "" {
			o.Text = s
		}
	}
	return o
}

// field returns the field of an attribute, or nil if it has none.
func (o *Outline) field(name xml.Name) *string {
	if name.Space != "" {
		return nil
	}
	switch strings.ToLower(name.Local) {
	case "text":
		return &o.Text
	case "title":
		return &o.Title
	case "type":
		return &o.Type
	case "xmlurl":
		return &o.XMLURL
	case "htmlurl":
		return &o.HTMLURL
	}
	return nil
}

// AppendOPML appends a list of subscriptions to b, as OPML 2.0. Parsing the result gives the same title and
// outlines, for any list that was parsed before.
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
		// Only a name that XML forbids can fail, and no parser returns one.
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
		element := xmlElement("outline", append(attrs, o.Attrs...)...)
		tokens = append(tokens, element)
		tokens = appendOutlines(tokens, o.Outlines)
		tokens = append(tokens, element.End())
	}
	return tokens
}

func xmlElement(name string, attrs ...xml.Attr) xml.StartElement {
	return xml.StartElement{Name: xml.Name{Local: name}, Attr: attrs}
}

// cut shortens a string to n bytes at most, at the end of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
