// Package feed parses feeds into items and writes items as feeds: RSS 0.9x and 2.0, RSS 1.0, Atom and JSON
// Feed.
//
//	Parse     a document from its origin   a Feed: its Head, Items, hints and links
//	ReadItem  an item's bytes              the same Item, without its document
//	Meaning   an item                      title, link, content, dates
//	Write     a Head and Items             a document in any of the formats
//
// An item is kept as the exact bytes of its document, converted to UTF-8 once, together with the namespaces in
// force there. These bytes travel and are signed; everything else is computed by parsing them again. Written in
// its own format, an item keeps its bytes, including extensions.
//
// Parse accepts slightly broken documents. It repairs a document before it slices it, so that all bytes that it
// returns are well-formed, and reports the repairs (Feed.Repaired) and the omitted content (Feed.Omitted). It
// does not guess where a guess could lose items: a document that ends before its last end tags, or that is not a feed, is an
// error of a kind on which the caller can act. All work is linear in the size of the document and bounded by
// the limits below.
//
// An empty item is left out, and takes no room from others. It has no id, title, link, summary, content,
// enclosure or extension, but at most a date and an author, of which a reader could only show a blank line. A
// document with only empty items is broken: its publisher meant to say something and failed, and after a failed
// poll the previous items stay. A document without items is a feed that has none yet.
//
// This package computes the identity of an item and the hash of its content by versioned rules of its own,
// because nodes must agree on them whatever version of a library they link.
//
// The package does not know what changed between two documents (difference), or whether HTML is safe to show
// (proxy).
package feed

import (
	"encoding/hex"
	"errors"
	"time"
)

const (
	// MaxDocument is the maximum size of a document in bytes, before and after conversion to UTF-8. The largest
	// real feeds have 7 MB.
	MaxDocument = 10 << 20
	// MaxItems is how many items of a document are kept: the first ones, which are the newest in most feeds.
	MaxItems = 2000
	// MaxItem is the maximum size of an item in bytes. A larger item loses its largest parts, so that readers
	// still learn of it.
	MaxItem = 1 << 20
	// MaxHead is the maximum size of a head in bytes. A larger head is rewritten from its title, link and other
	// fields.
	MaxHead = 64 << 10
	// MaxScope is how many bindings of its document an item may use.
	MaxScope = 64
	// maxScopeSize is how long these are together, in bytes. They travel with each item, and are written at each one if
	// the head has not all of them. Usual items have a few hundred bytes.
	maxScopeSize = 8 << 10

	maxDepth      = 64   // nested elements or values; readers recurse over them
	maxAttributes = 64   // of one element; they are compared with each other
	maxBindings   = 128  // of namespaces, in force at one place; they are searched linearly
	maxUnbound    = 32   // prefixes without declaration in a document
	maxObjects    = 64   // authors, categories or enclosures of an item that are read; they are compared with each other
	maxField      = 4096 // bytes of a title, name or address in the parsed head
)

// Errors of Parse and of ReadItem, each wrapped with details.
var (
	ErrEmpty     = errors.New("empty document")
	ErrNotFeed   = errors.New("not a feed")              // for example a web page, an error page or a login page
	ErrTruncated = errors.New("document ends too early") // a later attempt may get the whole document
	ErrBroken    = errors.New("broken document")
	ErrLimit     = errors.New("document beyond limits")
)

// Format is the format of a document or of an item.
type Format uint8

// The formats. Atom includes Atom 0.3.
const (
	RSS Format = iota + 1 // RSS 0.91 to 2.0
	RDF                   // RSS 0.90 and 1.0
	Atom
	JSON
)

// formats holds the name and the media type of each format.
var formats = [...]struct{ name, mediaType string }{
	{"unknown", "application/octet-stream"},
	RSS:  {"rss", "application/rss+xml; charset=utf-8"},
	RDF:  {"rdf", "application/rdf+xml; charset=utf-8"},
	Atom: {"atom", "application/atom+xml; charset=utf-8"},
	JSON: {"json", "application/feed+json; charset=utf-8"},
}

func (f Format) String() string { return formats[f.index()].name }

// MediaType returns the media type of a document in the format.
func (f Format) MediaType() string { return formats[f.index()].mediaType }

func (f Format) index() Format {
	if f > JSON {
		return 0
	}
	return f
}

// FormatOf returns the format with a name, or 0 if there is none.
func FormatOf(name string) Format {
	for f := RSS; f <= JSON; f++ {
		if f.String() == name {
			return f
		}
	}
	return 0
}

// ID is an item's identity within its feed.
type ID [32]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Hash is a hash of content that changes when a reader would notice a change. Its first bytes are those of Wording.
type Hash [32]byte

// WordingSize is how many bytes of a hash depend on the wording alone. Two of the versions that one item ever has are
// very unlikely to agree in them, and nodes that exchange 8 bytes of a hash have 3 bytes left for the numbers.
const WordingSize = 5

// Wording returns the part of a hash that stays when only numbers and times within the text change. The numbers in a
// title belong to the wording.
func (h Hash) Wording() [WordingSize]byte { return [WordingSize]byte(h[:]) }

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// A Binding is in force at an item because of its document: the namespace of a prefix ("" is the default), or
// the value of "xml:base" or "xml:lang".
type Binding struct {
	Prefix, URI string
}

// An Item is one item of a feed.
type Item struct {
	ID     ID
	Hash   Hash
	Format Format
	// Qualifiers is the number of facts besides the id that are part of the identity, because several items of
	// the document have the same id; see identity.go. It is nearly always 0.
	Qualifiers uint8
	// Raw is the item as it stands in its document: <item>…</item>, <entry>…</entry>, or a JSON object. It is a
	// slice of the decoded document and keeps all of it in memory; clone it before keeping it for long.
	Raw []byte
	// Scope has the bindings of the document that Raw uses, sorted by prefix.
	Scope []Binding
}

// A Head is a document without its items.
type Head struct {
	Format Format
	// Raw is the document's root element or object, without items.
	Raw []byte
	// ItemsAt is the offset in Raw at which items go.
	ItemsAt int

	Title, Link, Description, Language string

	scope scope // in force at ItemsAt
}

// Hints are a feed's wishes for the times of polls.
type Hints struct {
	TTL       time.Duration // ttl of RSS
	Period    time.Duration // sy:updatePeriod divided by sy:updateFrequency
	Base      time.Time     // sy:updateBase
	SkipHours uint32        // one bit for each hour of the day, in UTC
	SkipDays  uint8         // one bit for each time.Weekday
}

// Links are the addresses that a document names for itself.
type Links struct {
	Self string
	Hubs []string
}

// A Feed is a parsed document.
type Feed struct {
	Head  Head
	Items []Item // in document order
	Hints Hints
	Links Links
	// Repaired describes the repairs that the document needed, for people; "" if it needed none.
	Repaired string
	// Omitted describes the content that readers do not get, because it is too large. It is a part of Repaired.
	Omitted string
}
