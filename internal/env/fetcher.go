package env

import "time"

// Handle identifies a fetch. The node chooses it, and the answer carries it.
type Handle uint64

// A Request asks for a document, conditionally if it has a validator, or sends a form.
type Request struct {
	URL          string // canonical form
	ETag         string // byte for byte as the origin gave it
	LastModified string
	ValidatedURL string            // FinalURL that came with the validators, which are sent to no other URL; "": they are sent to any
	Subscribers  int               // number of readers to report to the origin; 0: not reported
	Headers      map[string]string // sent to the origin of URL (scheme, host and port) only, and no more after a redirect away from it
	Partial      bool              // ask for what has changed since ETag only (RFC 3229); the answer may still be the whole document
	Form         string            // sent by POST, as application/x-www-form-urlencoded, to URL only: redirects are not followed; "": the request is a GET
	Public       bool              // ask no private address, whatever the node allows: the address comes from a stranger
	Limit        int               // take the first so many bytes for the document; 0: the whole
	Robots       bool              // obey the origin's robots.txt (RFC 9309): the document is a page and not a feed, which is made for programs
}

// An Answer is the response of an origin, or the reason why there is none. Either Status or Err is
// set.
type Answer struct {
	Status       int    // HTTP status, never of a redirect; 304 only if the request was conditional, 226 only if it was Partial
	Err          string // class of the failure, one of the Err constants
	Message      string // the failure in words for a person: "the certificate expired on 3 May 2026"
	FinalURL     string // last URL of the redirects that were followed
	Moved        bool   // there were redirects, and all of them were permanent
	Private      bool   // the origin is on a private address, to which no minimum interval and no budget applies
	ETag         string // validators for the next request; a 304 without validators repeats those of the request
	LastModified string
	ContentType  string
	RetryAfter   time.Duration // how long the origin wants no request, whatever header says so, also with a document; 0: not given
	MaxAge       time.Duration // how long the document stays fresh from now on; 0: not given
	Latency      time.Duration // from the last request, once it was sent, to the first byte of the response; 0: unknown
	Links        []string      // Link header fields
	Body         []byte        // decoded; nil unless HasDocument
	Cut          bool          // Body is the first part of a larger document; of a page only if the request had a Limit
	Requests     int           // how many requests it took, with redirects and robots.txt
}

// HasDocument reports whether an origin has answered with a document, whole or partial.
func (a *Answer) HasDocument() bool { return a.Status == 200 || a.IsPartial() }

// IsPartial reports whether the document has only the entries that are new or changed since the version that the request
// named. Nothing follows from what it lacks.
func (a *Answer) IsPartial() bool { return a.Status == 226 }

// Classes of failed fetches. An origin that answers that there is no document is not among them:
// that answer is a Status.
const (
	ErrURL      = "url"       // the address, or the target of a redirect, is not one that may be fetched
	ErrDNS      = "dns"       // the host has no address, or no name server answered
	ErrDial     = "dial"      // the host refused the connection or could not be reached
	ErrTLS      = "tls"       // the host did not prove its identity
	ErrTimeout  = "timeout"   // the answer took too long or came too slowly
	ErrTooLarge = "too large" // the headers or the (unpacked) document are too large
	ErrRefused  = "refused"   // the host has a private address, which this node does not fetch from
	ErrRobots   = "robots"    // the origin's robots.txt excludes programs
	ErrRedirect = "redirect"  // the redirects lead nowhere, in a circle, or from https to an address that only http serves
	ErrEncoding = "encoding"  // the compression is damaged
	ErrBroken   = "broken"    // the answer broke off, or is not HTTP
	ErrBusy     = "busy"      // this node's own queue is full, or (with RetryAfter) the host wants no requests for now; the origin was not asked
)

// A Fetcher asks origins for documents. The layer that calls Fetch decides when. The fetcher
// enforces two connections to a host at most and a second between its requests. It delivers the
// answer through one callback, given to the fetcher when it was made.
type Fetcher interface {
	Fetch(h Handle, r Request)
}
