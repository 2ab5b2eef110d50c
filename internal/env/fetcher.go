package env

import "time"

// Handle is the name a node gives to a fetch, and finds again in the answer.
type Handle uint64

// A Request asks for a document, conditionally if a validator is given.
type Request struct {
	URL          string
	ETag         string // byte-exact, as the origin gave it
	LastModified string
}

// An Answer is what an origin said, or why it said nothing.
type Answer struct {
	Status       int           // HTTP status; 0 if there was none, and Err says why
	Err          string        // class of the error: "dns", "dial", "tls", "timeout", "too large", "refused"
	FinalURL     string        // after redirects
	ETag         string        // validators for the next request
	LastModified string        //
	ContentType  string        //
	RetryAfter   time.Duration // 0 if not asked for
	MaxAge       time.Duration // 0 if not given
	Links        []string      // Link header fields
	Body         []byte        // decoded; nil for 304
}

// A Fetcher asks origins for documents. The layer that calls it decides when;
// the fetcher enforces at most two connections and a second between requests
// for each host, and reports. The answer comes back through one callback given
// to the fetcher when it was made.
type Fetcher interface {
	Fetch(h Handle, r Request)
}
