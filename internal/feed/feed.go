// Package feed reads feeds into items and writes items as feeds: RSS 0.9x and
// 2.0, RSS 1.0, Atom, JSON Feed.
//
//	Parse     a document as it came   a Feed: its Head, its Items, hints, links
//	ReadItem  an item's bytes         the same Item, for whoever has no document
//	Meaning   an item                 title, link, content, dates (gofeed)
//	Write     a Head and Items        a document in any of the formats
//
// An item is kept as the exact bytes of its document, decoded to UTF-8 once,
// together with the namespaces that hold there. The bytes are what travels and
// what is signed; everything else is found by reading them again. Written in
// its own format an item goes out as it came in, extensions included.
//
// Parse accepts what is slightly broken and repairs it before it slices, so
// that all bytes it hands out are well-formed, and it says what it did
// (Feed.Repaired), and what its readers do not get of it (Feed.Lacks). It does
// not guess where guessing could lose items: a document that ends too early, or
// that is no feed, is an error of a kind one can act on. All work is linear in the document and bounded by the limits below; gofeed
// sees single items only, after they were checked.
//
// An item that says nothing is no item: with neither id, title, link, summary,
// content, enclosure nor anything else but a date and an author, a reader could
// show a blank line at most. It is left out, and takes no room from others. A
// document that has no other items is broken: whoever made it meant to say
// something and failed, and a failed poll keeps what was there. A document
// without items is a feed that has none yet.
//
// The identity of an item and the hash of its content are read by this package
// alone, by rules that have a version, because nodes must agree on them
// whatever version of a library they link.
//
// The package leaves to others what changed between two documents
// (difference), and whether HTML is safe to show (proxy).
package feed

import (
	"encoding/hex"
	"errors"
	"time"
)

const (
	// MaxDocument is the size of the largest document in bytes, as it came and
	// decoded; the largest real feeds have 7 MB.
	MaxDocument = 10 << 20
	// MaxItems is how many items of a document are kept: the first ones, which
	// are the newest in most feeds.
	MaxItems = 2000
	// MaxItem is the size of the largest item in bytes. A larger one loses its
	// largest parts, so that its reader still hears of it.
	MaxItem = 256 << 10
	// MaxHead is the size of the largest head in bytes; a larger one is made
	// anew from its meaning.
	MaxHead = 64 << 10
	// MaxScope is how many bindings an item may take from outside.
	MaxScope = 64

	maxDepth      = 64   // elements or values within each other; readers recurse over them
	maxAttributes = 64   // of one element; they are compared with each other
	maxBindings   = 128  // of namespaces, in force at one place; they are searched in turn
	maxUnbound    = 32   // prefixes that a document may have forgotten to declare
	maxObjects    = 64   // authors or attachments of a JSON item that are looked at
	maxField      = 4096 // bytes of a title, name or address in what is read of a head
)

// Errors of Parse and of ReadItem, each wrapped with what was seen.
var (
	ErrEmpty     = errors.New("empty document")
	ErrNotFeed   = errors.New("not a feed")              // a page, an error page, a login wall
	ErrTruncated = errors.New("document ends too early") // a later attempt may get all of it
	ErrBroken    = errors.New("broken document")
	ErrLimit     = errors.New("document beyond limits")
)

// Format is the format of a document or of an item.
type Format uint8

// The formats. Atom 0.3 is an Atom.
const (
	RSS Format = iota + 1 // RSS 0.91 to 2.0
	RDF                   // RSS 0.90 and 1.0
	Atom
	JSON
)

func (f Format) String() string {
	switch f {
	case RSS:
		return "rss"
	case RDF:
		return "rdf"
	case Atom:
		return "atom"
	case JSON:
		return "json"
	}
	return "unknown"
}

// MediaType is what a document of the format is served as.
func (f Format) MediaType() string {
	switch f {
	case RSS:
		return "application/rss+xml; charset=utf-8"
	case RDF:
		return "application/rdf+xml; charset=utf-8"
	case Atom:
		return "application/atom+xml; charset=utf-8"
	case JSON:
		return "application/feed+json; charset=utf-8"
	}
	return "application/octet-stream"
}

// ID is an item's identity within its feed.
type ID [32]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Hash stands for content, as a reader would notice a change of it.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// A Binding is something that holds at an item from outside: a namespace of a
// prefix ("" is the default), or the value of "xml:base" or "xml:lang".
type Binding struct {
	Prefix, URI string
}

// An Item is one item of a feed.
type Item struct {
	ID     ID
	Hash   Hash
	Format Format
	// Apart is how much beyond its id it takes to tell the item from others
	// of its document that claim the same id; see identity.go. Nearly always 0.
	Qualifiers uint8
	// Raw is the item as its document has it: <item>…</item>,
	// <entry>…</entry>, or a JSON object. It is a part of the decoded document and
	// keeps all of it in memory; clone what is kept for long.
	Raw []byte
	// Scope is what Raw uses from outside, sorted by prefix.
	Scope []Binding
}

// A Head is a document without its items.
type Head struct {
	Format Format
	// Raw is the document's root element or object, without items.
	Raw []byte
	// At is where in Raw items go.
	ItemsAt int

	Title, Link, Description, Language string

	scope scope // what holds at At
}

// Hints are a feed's wishes about when to ask for it.
type Hints struct {
	TTL       time.Duration // RSS ttl
	Period    time.Duration // sy:updatePeriod over sy:updateFrequency
	Base      time.Time     // sy:updateBase
	SkipHours uint32        // a bit for each hour of the day, in UTC
	SkipDays  uint8         // a bit for each time.Weekday
}

// Links are the addresses a document gives for itself.
type Links struct {
	Self string
	Hubs []string
}

// A Feed is a document, read.
type Feed struct {
	Head  Head
	Items []Item // in document order
	Hints Hints
	Links Links
	// Repaired says what had to be done to the document before it could be
	// read, for people; empty if nothing.
	Repaired string
	// Lacks is the part of it that readers notice: what of the document they
	// do not get, because it is too large.
	Omitted string
}
