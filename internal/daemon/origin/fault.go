package origin

import (
	"maps"
	"net/http"
	"time"
)

// A Fault says how an origin misbehaves on a path. The zero value is no fault. Fields can be combined as far
// as that makes sense.
type Fault struct {
	Times        int           // number of requests that meet the fault; 0: all
	Delay        time.Duration // before the answer
	Drop         bool          // closes the connection without an answer
	Status       int           // status in place of the document
	Header       http.Header   // added to the answer: Location, Retry-After, Cache-Control, an unknown Content-Encoding
	Body         []byte        // body in place of the document
	Truncate     bool          // closes the connection in the middle of the document
	NoValidators bool          // no ETag, no Last-Modified, and never 304
}

// Misbehave lets the next requests for a path meet a fault. It panics if the path has no script.
func (o *Origin) Misbehave(path string, f Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.resources[path]
	if p == nil {
		panic("origin: there is no script on " + path)
	}
	p.fault, p.faultsLeft = f, f.Times
	if f.Times == 0 {
		p.faultsLeft = -1
	}
}

// Behave ends the fault of a path.
func (o *Origin) Behave(path string) { o.Misbehave(path, Fault{}) }

// Redirect returns the fault of an origin that redirects its clients.
func Redirect(status int, to string) Fault {
	return Fault{Status: status, Header: http.Header{"Location": {to}}}
}

// Page returns the fault of an origin that serves a page in place of a feed.
func Page(html string) Fault {
	return Fault{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: []byte(html)}
}

// nextFault returns the fault that the next request meets.
func (p *resource) nextFault() Fault {
	if p.faultsLeft == 0 {
		return Fault{}
	}
	if p.faultsLeft > 0 {
		p.faultsLeft--
	}
	return p.fault
}

// serve answers with a fault, or with the document if there is none.
func (f Fault) serve(w http.ResponseWriter, r *http.Request, d document) {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), f.Header)
	switch {
	case f.Status == 0 && f.Body == nil:
		d.serve(w, r, f)
		return
	case f.Status != 0:
		w.WriteHeader(f.Status)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(f.Body) // a client that is gone needs no answer
	}
}
