package feed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"
	goatom "github.com/mmcdole/gofeed/atom"
	gorss "github.com/mmcdole/gofeed/rss"
)

// Meaning is the parsed content of an item, for programs that show or search it. Content and Summary are HTML
// from an untrusted source.
type Meaning struct {
	GUID, Title, Link  string
	Author             string
	Summary, Content   string
	Published, Updated time.Time // zero if not given
	Categories         []string
	Enclosures         []Enclosure
}

// An Enclosure is a file that comes with an item.
type Enclosure struct {
	URL, Type, Length string
}

// mediaType returns the media type of an enclosure, or a default.
func (e Enclosure) mediaType() string {
	if major, minor, ok := strings.Cut(e.Type, "/"); !ok || major == "" || minor == "" {
		return "application/octet-stream"
	}
	return e.Type
}

// Meaning parses an item. It resolves addresses relative to the item's base, or else to base, the address of
// its document.
//
// gofeed parses one item alone, after everything else has been checked. If gofeed fails, Meaning returns the
// facts of the item's identity with the error.
func (it *Item) Meaning(base string) (m Meaning, err error) {
	if it.Format == JSON {
		return it.meaningOfJSON(base), nil
	}
	f := it.facts()
	m = Meaning{GUID: f.id, Title: f.title, Link: f.link}
	defer m.resolve(scopeOf(it.Scope).value("xml:base"), base)
	g, err := it.parseWithGofeed(base)
	if err != nil {
		return m, fmt.Errorf("read item: %w", err)
	}
	m.Title, m.Link = strings.TrimSpace(g.Title), cmp.Or(f.link, strings.TrimSpace(g.Link))
	m.Summary, m.Content, m.Categories = g.Description, g.Content, g.Categories
	var names []string
	for _, a := range g.Authors {
		if a == nil {
			continue
		}
		if name := strings.TrimSpace(cmp.Or(a.Name, a.Email)); name != "" {
			names = append(names, name)
		}
	}
	m.Author = strings.Join(names, ", ")
	if g.PublishedParsed != nil {
		m.Published = g.PublishedParsed.UTC()
	}
	if g.UpdatedParsed != nil {
		m.Updated = g.UpdatedParsed.UTC()
	}
	for _, e := range g.Enclosures {
		if e != nil {
			m.Enclosures = append(m.Enclosures, Enclosure{e.URL, e.Type, e.Length})
		}
	}
	return m, nil
}

// parseWithGofeed lets gofeed parse the item.
func (it *Item) parseWithGofeed(base string) (g *gofeed.Item, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("gofeed panics: %v", r)
		}
	}()
	doc, err := it.translate(bytes.NewReader(it.wrap(base)))
	if err != nil {
		return nil, fmt.Errorf("gofeed: %w", err)
	}
	if len(doc.Items) == 0 {
		return nil, fmt.Errorf("%w: gofeed finds no item", ErrBroken)
	}
	return doc.Items[0], nil
}

// translate converts the item's document to gofeed's common form. The format is known; detecting it would take
// half the time.
func (it *Item) translate(alone io.Reader) (*gofeed.Feed, error) {
	if it.Format == Atom {
		doc, err := new(goatom.Parser).Parse(alone)
		if err != nil {
			return nil, err
		}
		return new(gofeed.DefaultAtomTranslator).Translate(doc)
	}
	doc, err := new(gorss.Parser).Parse(alone)
	if err != nil {
		return nil, err
	}
	// gofeed would parse the whole content as HTML to find an image, which nobody uses.
	return (&gofeed.DefaultRSSTranslator{DisableContentImageScan: true}).Translate(doc)
}

// wrap returns the smallest document that contains the item.
func (it *Item) wrap(base string) []byte {
	start, inner, end := `<rss version="2.0"`, "<channel>", "</channel></rss>"
	switch it.Format {
	case Atom:
		start, inner, end = "<feed", "", "</feed>"
	case RDF:
		start, inner, end = "<rdf:RDF", "", "</rdf:RDF>"
	}
	var b bytes.Buffer
	b.WriteString(start)
	declared := map[string]bool{}
	for _, bind := range it.Scope {
		declared[bind.Prefix] = true
		if bind.Prefix == "xml:base" { // gofeed takes every base for a folder
			bind.URI = resolve(resolve(base, bind.URI), ".")
		}
		b.WriteString(bind.attribute())
	}
	if it.Format == RDF && !declared["rdf"] {
		b.WriteString(Binding{"rdf", nsRDF}.attribute())
	}
	if !declared["xml:base"] && base != "" {
		b.WriteString(Binding{"xml:base", resolve(base, ".")}.sanitised().attribute())
	}
	b.WriteString(">" + inner)
	b.Write(it.Raw)
	b.WriteString(end)
	return b.Bytes()
}

// attribute returns a binding as an attribute of a start tag.
func (b Binding) attribute() string {
	name := "xmlns"
	switch b.Prefix {
	case "":
	case "xml:base", "xml:lang":
		name = b.Prefix
	default:
		name += ":" + b.Prefix
	}
	return " " + name + `="` + escape(b.URI) + `"`
}

// resolve makes the addresses of a meaning absolute.
func (m *Meaning) resolve(inner, outer string) {
	base := inner
	if outer != "" {
		base = resolve(outer, inner)
	}
	if m.Link != "" {
		m.Link = resolve(base, m.Link)
	}
	for i := range m.Enclosures {
		m.Enclosures[i].URL = resolve(base, m.Enclosures[i].URL)
	}
}

func (it *Item) meaningOfJSON(base string) Meaning {
	get := membersOf(it.Raw)
	text := func(name string) string { return strings.TrimSpace(stringOf(get[name])) }
	m := Meaning{
		GUID: text("id"), Title: text("title"), Link: text("url"), Author: strings.Join(authorsOf(get), ", "),
		Summary: escape(text("summary")), Content: text("content_html"),
	}
	if m.Content == "" {
		m.Content = strings.ReplaceAll(escape(text("content_text")), "\n", "<br>\n")
	}
	m.Published, _ = time.Parse(time.RFC3339, text("date_published"))
	m.Updated, _ = time.Parse(time.RFC3339, text("date_modified"))
	_ = json.Unmarshal(get["tags"], &m.Categories) // no categories if they are not strings
	for _, a := range objectsOf(get["attachments"]) {
		m.Enclosures = append(m.Enclosures, Enclosure{stringOf(a["url"]), stringOf(a["mime_type"]), stringOf(a["size_in_bytes"])})
	}
	m.resolve("", base)
	return m
}
