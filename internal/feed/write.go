package feed

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// Namespace is that of our own elements in feeds.
const Namespace = "urn:tidings:feed:1"

// What vouches for an item is told by an element of ours in it, or a member. What its source says
// there goes: a node alone knows.
const (
	provenanceElement = "provenance"
	provenanceMember  = "_tidings_provenance"
)

// A Document is what Write writes.
type Document struct {
	// URL is where readers find the document. Links by which the source says
	// where itself is found, and who tells of changes there, give way to it: a
	// reader that followed them would leave us, and tell its own addresses to
	// strangers. If it is empty they stay.
	URL string
	// Publisher is who publishes the feed, as the node believes; nil: nobody. If there is
	// a URL it stands in the place of what the head says, which may be of before the key was changed.
	Publisher *Publisher
	// Base is the address of the source, against which relative addresses in
	// it are meant.
	Base    string
	Head    Head
	Entries []Entry
	// Since is the time at which the document came into being. Where the head does not say when an Atom feed was
	// updated, the feed says Since, or the time of its latest entry if that is later. The zero time stands for 1970.
	Created time.Time
	// Clean, unless it is nil, makes what an item says fit for readers, where it is
	// written by its meaning; what goes out as it came is left alone.
	Sanitize func(*Meaning)
}

// An Entry is an item in a document.
type Entry struct {
	Item Item
	// At stands in for a date that the item lacks: when it came to us.
	Arrived time.Time
	// Provenance, unless it is empty, tells the reader who vouches for the
	// item.
	Provenance string
	// Said, unless it is nil, is what the entry says, and there is no Item: of an
	// entry that no document had in this form.
	Meaning *Meaning
	// Source, unless it is nil, is the feed that the entry was taken from. It is
	// told of what Said says only; an item that goes out as it came keeps its own.
	Source *Source
}

// A Source is a feed from which another one took an entry.
type Source struct {
	URL   string // of its document
	Title string
	Link  string // where people read it; may be ""
}

// Write writes a document in a format: head and items of that format as they came,
// others by their meaning. The result is well-formed UTF-8, and more than its
// parts only by what they lack without their own documents: declarations of
// namespaces, and what Atom demands of every feed and entry.
func Write(d *Document, f Format) ([]byte, error) {
	head := d.Head
	if head.Format != f {
		var err error
		if head, err = NewHead(f, head.Title, head.Link, head.Description, head.Language); err != nil {
			return nil, fmt.Errorf("write feed: %w", err)
		}
	}
	if f == JSON {
		return d.writeJSON(&head), nil
	}
	return d.writeXML(&head), nil
}

// NewHead makes a head from what it says.
func NewHead(f Format, title, link, description, language string) (Head, error) {
	return minimalHead(Head{Format: f, Title: title, Link: link, Description: description, Language: language})
}

// ErrItem is what NewItem says of what cannot be an item.
var ErrItem = errors.New("the item cannot be published")

// NewItem makes an item from what it says, at a time. It has to have an id or a link of its own, by
// which it is known when it changes: in Atom an id is an address.
func NewItem(f Format, m Meaning, at time.Time) (Item, error) {
	for _, s := range []struct{ name, text string }{
		{"id", m.GUID}, {"link", m.Link}, {"title", m.Title}, {"summary", m.Summary}, {"content", m.Content}, {"author", m.Author},
	} {
		if !utf8.ValidString(s.text) {
			return Item{}, fmt.Errorf("%w: its %s is not in UTF-8", ErrItem, s.name)
		}
	}
	switch {
	case m.GUID == "" && m.Link == "":
		return Item{}, fmt.Errorf("%w: it has neither id nor link", ErrItem)
	case strings.ContainsFunc(m.GUID, isControl): // elsewhere it is replaced, and an id is to be as it is
		return Item{}, fmt.Errorf("%w: its id %q has a character that no document may have", ErrItem, m.GUID)
	case strings.TrimSpace(m.Title+m.Summary+m.Content) == "":
		return Item{}, fmt.Errorf("%w: it has neither title nor content nor summary", ErrItem)
	case m.Link != "" && !isOnWeb(m.Link):
		return Item{}, fmt.Errorf("%w: its link %q is not an address that begins with http:// or https://", ErrItem, m.Link)
	case m.Published.Sub(at) > maxFuture:
		return Item{}, fmt.Errorf("%w: its date, %s, is in the future; give one not later than tomorrow", ErrItem, m.Published.UTC().Format(time.RFC3339))
	case f == Atom && !isAbsolute(m.GUID) && !isAbsolute(m.Link):
		return Item{}, fmt.Errorf("%w: neither its id nor its link is an address, as Atom demands", ErrItem)
	}
	if m.GUID == "" {
		m.GUID = m.Link
	}
	d, e := &Document{}, Entry{Meaning: &m, Arrived: at}
	var raw []byte
	if f == JSON {
		raw = d.itemJSON(&e)
	} else {
		w := xmlWriter{d: d, head: &Head{Format: f}, uri: nsAtom}
		raw = w.converted(&e)
	}
	return ReadItem(f, raw, nil, 0)
}

// aDay is how far ahead of the clock an item may be dated: clocks differ, and time zones are mistaken.
const maxFuture = 24 * time.Hour

// isControl says of a character that XML has none such (XML 1.0, 2.2).
func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// plainHead makes a head from its meaning alone.
func minimalHead(h Head) (Head, error) {
	var b bytes.Buffer
	element := func(name, s string) {
		if s != "" {
			b.WriteString("\n" + tag(name, clipString(s)))
		}
	}
	switch h.Format {
	case RSS:
		b.WriteString(`<rss version="2.0"><channel>` + "\n" + tag("title", clipString(h.Title)))
		b.WriteString("\n" + tag("link", clipString(h.Link)) + "\n" + tag("description", clipString(h.Description)))
		element("language", h.Language)
		b.WriteString("\n</channel></rss>")
	case RDF:
		b.WriteString("<rdf:RDF" + Binding{"rdf", nsRDF}.attribute() + Binding{"", nsRSS10}.attribute() + Binding{"dc", nsDC}.attribute() + ">\n")
		b.WriteString(`<channel rdf:about="` + escapeAny(clipString(h.Link)) + `">` + "\n" + tag("title", clipString(h.Title)))
		b.WriteString("\n" + tag("link", clipString(h.Link)) + "\n" + tag("description", clipString(h.Description)))
		element("dc:language", h.Language)
		b.WriteString("\n</channel>\n</rdf:RDF>")
	case Atom:
		b.WriteString("<feed" + Binding{"", nsAtom}.attribute())
		if h.Language != "" {
			b.WriteString(Binding{"xml:lang", clipString(h.Language)}.attribute())
		}
		b.WriteString(">\n" + tag("title", clipString(h.Title)))
		element("subtitle", h.Description)
		if h.Link != "" {
			b.WriteString("\n" + `<link rel="alternate" href="` + escapeAny(clipString(h.Link)) + `"/>`)
		}
		b.WriteString("\n</feed>")
	case JSON:
		b.Write(marshal(jsonHead{
			Version: "https://jsonfeed.org/version/1.1", Title: clipString(h.Title), HomePage: clipString(h.Link),
			Description: clipString(h.Description), Language: clipString(h.Language), Items: []struct{}{},
		}))
	}
	return readHead(h.Format, b.Bytes())
}

// tag is an element with a text.
func tag(name, s string) string { return "<" + name + ">" + escapeAny(s) + "</" + name + ">" }

// escapeAny escapes a text that may hold what XML cannot.
func escapeAny(s string) string {
	clean, _ := dropInvalid([]byte(s))
	return escape(string(clean))
}

// markup is HTML as the text of an element. Escaped, most of it would be half as long again, and three times
// at the worst; it goes as it is where XML lets it.
func htmlText(s string) string {
	escaped := escapeAny(s)
	clean, _ := dropInvalid([]byte(s))
	if quoted := "<![CDATA[" + string(clean) + "]]>"; len(quoted) < len(escaped) && !strings.Contains(string(clean), "]]>") && !strings.Contains(string(clean), "\r") {
		return quoted
	}
	return escaped
}

// said is what an item says, as far as that can be found out.
func (e *Entry) meaning(base string) Meaning {
	if e.Meaning != nil {
		return *e.Meaning
	}
	m, _ := e.Item.Meaning(base)
	return m
}

// cleaned is what an item says where it is written by its meaning.
func (d *Document) sanitized(e *Entry) Meaning {
	m := e.meaning(d.Base)
	if d.Sanitize != nil {
		d.Sanitize(&m)
	}
	return m
}

// date is the time of an entry's last change, as far as anybody knows.
func (e *Entry) date(m *Meaning) time.Time {
	for _, t := range []time.Time{m.Updated, m.Published, e.Arrived} {
		if year := t.Year(); !t.IsZero() && year > 0 && year < 10000 {
			return t.UTC()
		}
	}
	return time.Unix(0, 0).UTC()
}

// id is the id of an entry in formats that do not mind what it is.
func (e *Entry) id(m *Meaning) string {
	if m.GUID != "" && e.Item.Qualifiers == 0 {
		return m.GUID
	}
	return e.guid(m)
}

// guid is an address-like id of an entry, as Atom demands.
func (e *Entry) guid(m *Meaning) string {
	if e.Item.Qualifiers == 0 {
		for _, id := range []string{m.GUID, m.Link} {
			if isAbsolute(id) {
				return id
			}
		}
	}
	return e.Item.ID.URN()
}

// isOnWeb tells addresses that a browser opens.
func isOnWeb(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func isAbsolute(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "")
}

// URN is the identity as an address: a UUID of version 8.
func (id ID) URN() string {
	u := [16]byte(id[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
