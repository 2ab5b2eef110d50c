package env

import "time"

// Handle is the name a node gives to a fetch, and finds again in the answer.
type Handle uint64

// A Request asks for a document, conditionally if a validator is given.
type Request struct {
	URL          string // canonical
	ETag         string // byte-exact, as the origin gave it
	LastModified string
	ValidatedURL string // the FinalURL that came with the validators: others are not shown them; "": any is
	Subscribers  int    // readers the origin is told of; 0: none
	Robots       bool   // obey the origin's robots.txt (RFC 9309): it is no feed, which is there for programs
}

// An Answer is what an origin said, or why it said nothing: either Status or Err
// is set.
type Answer struct {
	Status       int           // HTTP status, never that of a redirect; 304 only if the request was conditional
	Err          string        // class of what went wrong, one of the Err constants
	Words        string        // the same for a person: "the certificate expired on 3 May 2026"
	FinalURL     string        // after redirects, as far as they were followed
	Moved        bool          // there were redirects, and each said that the document moved for good
	Private      bool          // the origin is on a private address: no floor and no budget binds who asks it
	ETag         string        // validators for the next request; after a 304 those of the request, where it had none
	LastModified string        //
	ContentType  string        //
	RetryAfter   time.Duration // how long the origin wants to be left alone, in whatever header it says so; 0 if not asked for
	MaxAge       time.Duration // how long the document stays fresh from now on; 0 if not given
	Links        []string      // Link header fields
	Body         []byte        // decoded; nil unless Status is 200
}

// Classes of what goes wrong with a fetch. An origin's own word that there is no
// document is none of them: that is a Status.
const (
	ErrURL      = "url"       // the address, or one redirected to, is none that may be asked
	ErrDNS      = "dns"       // its host has no address, or no name server knows
	ErrDial     = "dial"      // nobody takes the connection
	ErrTLS      = "tls"       // who takes it does not prove to be the host
	ErrTimeout  = "timeout"   // it takes too long, or sends too slowly
	ErrTooLarge = "too large" // its headers or its document are, or the document unpacks to too much
	ErrRefused  = "refused"   // its address is not a public one: this node does not ask it
	ErrRobots   = "robots"    // the origin's robots.txt asks programs to leave it alone
	ErrRedirect = "redirect"  // redirects lead nowhere, in a circle, or from https to http
	ErrEncoding = "encoding"  // the document is packed in a way that was not asked for, or badly
	ErrBroken   = "broken"    // the answer broke off, or is not HTTP
	ErrBusy     = "busy"      // our own queue, for the host or for all, is full: the origin was not asked, and has no part in it
)

// A Fetcher asks origins for documents. The layer that calls it decides when;
// the fetcher enforces at most two connections and a second between requests
// for each host, and reports. The answer comes back through one callback given
// to the fetcher when it was made.
type Fetcher interface {
	Fetch(h Handle, r Request)
}
