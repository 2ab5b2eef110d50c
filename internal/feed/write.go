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

// Namespace is the namespace of the elements that tidings adds to feeds.
const Namespace = "urn:tidings:feed:1"

// The provenance of an item is an element or a member that tidings adds to it. A provenance in the source is
// removed, because only the node knows it.
const (
	provenanceElement = "provenance"
	provenanceMember  = "_tidings_provenance"
)

// A Document is the input of Write.
type Document struct {
	// URL is the address at which readers find the document. It replaces the source's links to itself and to
	// its hubs: a reader that followed those would leave this node and reveal its address to others. If URL is
	// empty these links stay.
	URL string
	// Hub is the address of the WebSub hub that tells of changes of the document at URL; "": there is none.
	Hub string
	// Publisher is the publisher of the feed according to the node; nil: none. If there is a URL it replaces
	// the entry in the head, which may predate a change of the key.
	Publisher *Publisher
	// Base is the address of the source, to which its relative addresses refer.
	Base    string
	Head    Head
	Entries []Entry
	// Changed is when something changed that no entry has a date of: the head, or an edited entry. The date of the
	// document, which Atom requires, is not older than that and its entries. The zero time stands for 1970.
	Changed time.Time
	// Sanitise, unless it is nil, makes the content of an item safe for readers. Write calls it for converted
	// items only; items in their own format are copied unchanged.
	Sanitise func(*Meaning)
}

// An Entry is an item in a document.
type Entry struct {
	Item Item
	// Arrived is when the item arrived here. It replaces a missing date of the item.
	Arrived time.Time
	// Provenance, unless it is empty, tells the reader what vouches for the item.
	Provenance string
	// Withdrawn says that the publisher has taken the item out of its feed.
	Withdrawn bool
	// Meaning, unless it is nil, is the content of the entry, and Item is not used. It is for entries that no
	// document has in this form.
	Meaning *Meaning
	// Source, unless it is nil, is the feed from which the entry was taken. It is only written with Meaning; a
	// copied item keeps its own.
	Source *Source
}

// said is what the document says about the entry: what vouches for it, and whether it was withdrawn.
func (e *Entry) said() string {
	switch {
	case !e.Withdrawn:
		return e.Provenance
	case e.Provenance == "":
		return withdrawnMark
	}
	return e.Provenance + ", " + withdrawnMark
}

const withdrawnMark = "withdrawn"

// A Source is the feed from which another feed took an entry.
type Source struct {
	URL   string // address of its document
	Title string
	Link  string // its page for people; may be ""
}

// Write writes a document in a format. A head and items of that format are copied, and others are converted.
// The result is well-formed UTF-8. Copies gain only what they lack outside of their own document: namespace
// declarations, and the elements that Atom requires.
func Write(d *Document, f Format) ([]byte, error) {
	head := d.Head
	if head.Format != f {
		var err error
		if head, err = NewHead(f, head.Title, AbsoluteLink(d.Base, head.Link), head.Description, head.Language); err != nil {
			return nil, fmt.Errorf("write feed: %w", err)
		}
	}
	if f == JSON {
		return d.writeJSON(&head), nil
	}
	return d.writeXML(&head), nil
}

// NewHead makes a head from its fields.
func NewHead(f Format, title, link, description, language string) (Head, error) {
	return minimalHead(Head{Format: f, Title: title, Link: link, Description: description, Language: language})
}

// ErrItem says that NewItem cannot make an item.
var ErrItem = errors.New("the item cannot be published")

// NewItem makes an item from its content, at a time. The item needs an id or a link, by which it is recognised
// when it changes. In Atom the id must be an address.
func NewItem(f Format, m Meaning, at time.Time) (Item, error) {
	for _, s := range []struct{ name, text string }{
		{"id", m.GUID}, {"link", m.Link}, {"title", m.Title}, {"summary", m.Summary}, {"content", m.Content}, {"author", m.Author()},
	} {
		if !utf8.ValidString(s.text) {
			return Item{}, fmt.Errorf("%w: its %s is not in UTF-8", ErrItem, s.name)
		}
	}
	switch {
	case m.GUID == "" && m.Link == "":
		return Item{}, fmt.Errorf("%w: it has neither id nor link", ErrItem)
	case strings.ContainsFunc(m.GUID, isControl): // elsewhere it is replaced, and an id must not change
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

// maxFuture is how far ahead of the clock an item may be dated, because of wrong clocks and time zones.
const maxFuture = 24 * time.Hour

// isControl reports whether XML forbids a character (XML 1.0, 2.2).
func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// minimalHead makes a head from its parsed fields alone.
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

// tag returns an element with a text.
func tag(name, s string) string { return "<" + name + ">" + escapeAny(s) + "</" + name + ">" }

// escapeAny escapes a text that may contain characters that XML forbids.
func escapeAny(s string) string {
	clean, _ := dropInvalid([]byte(s))
	return escape(string(clean))
}

// htmlText returns HTML as the text of an element. Escaping makes most HTML half as long again, and three times
// at worst. Therefore the HTML goes into a CDATA section where XML allows it.
func htmlText(s string) string {
	escaped := escapeAny(s)
	clean, _ := dropInvalid([]byte(s))
	if quoted := "<![CDATA[" + string(clean) + "]]>"; len(quoted) < len(escaped) && !strings.Contains(string(clean), "]]>") && !strings.Contains(string(clean), "\r") {
		return quoted
	}
	return escaped
}

// meaning returns the content of an entry, as far as it can be parsed.
func (e *Entry) meaning(base string) Meaning {
	if e.Meaning != nil {
		return *e.Meaning
	}
	m, _ := e.Item.Meaning(base)
	return m
}

// sanitised returns the content of an entry for a converted item.
func (d *Document) sanitised(e *Entry) Meaning {
	m := e.meaning(d.Base)
	if d.Sanitise != nil {
		d.Sanitise(&m)
	}
	return m
}

// date returns the time of an entry's last change, as far as known.
func (e *Entry) date(m *Meaning) time.Time { return firstDate(m.Updated, m.Published, e.Arrived) }

// published returns the time of an entry's publication, as far as known. An edit does not change it.
func (e *Entry) published(m *Meaning) time.Time { return firstDate(m.Published, m.Updated, e.Arrived) }

// firstDate returns the first time that can be written.
func firstDate(times ...time.Time) time.Time {
	for _, t := range times {
		if writable(t) {
			return t.UTC()
		}
	}
	return time.Unix(0, 0).UTC()
}

// writable reports whether a date is given and has a year that all formats can write: four digits, in UTC.
func writable(t time.Time) bool {
	year := t.UTC().Year()
	return !t.IsZero() && year > 0 && year < 10000
}

// id returns the id of an entry in formats that allow any id.
func (e *Entry) id(m *Meaning) string {
	if m.GUID != "" && e.Item.Qualifiers == 0 {
		return m.GUID
	}
	return e.guid(m)
}

// guid returns an id in the form of an address, as Atom requires.
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

// isOnWeb reports whether s is an absolute http or https address.
func isOnWeb(s string) bool { return onWeb(s) != nil }

// onWeb parses an absolute http or https address. It returns nil for any other text.
func onWeb(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil
	}
	return u
}

func isAbsolute(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "")
}

// URN returns the identity as an address: a UUID of version 8.
func (id ID) URN() string {
	u := [16]byte(id[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
