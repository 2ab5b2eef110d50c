package origin

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidings/internal/script"
)

// maxRequests bounds the recorded requests; the older half is dropped then. A demo that runs for a day makes
// fewer.
const maxRequests = 1 << 20

// readHeaderTimeout bounds how long a client may take to send its request.
const readHeaderTimeout = 10 * time.Second

// An Origin serves scripts. It is an [http.Handler].
type Origin struct {
	clock     func() time.Duration
	onRequest func(Request) // receives requests that are then not recorded; nil: requests are recorded

	mu        sync.Mutex // guards the fields below
	resources map[string]*resource
	requests  []*Request
}

// A resource is what is served on a path.
type resource struct {
	script     script.Script
	fault      Fault
	faultsLeft int // requests that still meet the fault; negative: all
	version    script.Version
	etag       string
	gzipped    []byte
	since      time.Time // when the version was first requested
}

// A Request is the record of a request.
type Request struct {
	Time      time.Time
	From      string // address and port of the client
	Path      string // with its query
	UserAgent string
	Version   int // index of the version that was current
	Bytes     int // of the body, as handed to the connection
}

var _ http.Handler = (*Origin)(nil)

// New returns an origin without paths. clock returns the time of the scripts; the caller may set, stop or
// speed it up.
func New(clock func() time.Duration) *Origin {
	return &Origin{clock: clock, resources: map[string]*resource{}}
}

// OnRequest calls f with each request after its answer, instead of recording it. It is for callers that count
// many requests. f may be called from several goroutines at once. Call OnRequest before the origin serves.
func (o *Origin) OnRequest(f func(Request)) { o.onRequest = f }

// Clock returns a clock that starts now and runs at a speed: at 60, an hour of a script takes a minute.
func Clock(speed float64) func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Duration(float64(time.Since(start)) * speed) }
}

// Play serves a script on a path, in place of an earlier one.
func (o *Origin) Play(path string, s script.Script) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resources[path] = &resource{script: s, version: script.Version{Index: -1}}
}

// Requests returns the recorded requests in order of arrival.
func (o *Origin) Requests() []Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]Request, len(o.requests))
	for i, r := range o.requests {
		all[i] = *r
	}
	return all
}

// Serve answers on a listener until ctx ends. It returns the reason, once all its goroutines have ended.
func (o *Origin) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           o,
		ReadHeaderTimeout: readHeaderTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	var conns sync.WaitGroup
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew: // always called before server.Serve returns
			conns.Add(1)
		case http.StateClosed:
			conns.Done()
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(l)
	conns.Wait()
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// ServeHTTP implements [http.Handler].
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, f, d, entry := o.receive(r)
	c := &recorder{ResponseWriter: w, origin: o, entry: entry}
	switch {
	case p == nil:
		http.NotFound(c, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		c.Header().Set("Allow", "GET, HEAD")
		http.Error(c, "only GET and HEAD", http.StatusMethodNotAllowed)
	default:
		f.serve(c, r, d)
	}
	if o.onRequest != nil {
		o.mu.Lock()
		r := *entry
		o.mu.Unlock()
		o.onRequest(r)
	}
}

// receive finds the answer to a request, and records the request.
func (o *Origin) receive(r *http.Request) (p *resource, f Fault, d document, entry *Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p = o.resources[r.URL.Path]; p != nil {
		f, d = p.nextFault(), p.at(o.clock())
	}
	entry = &Request{Time: time.Now(), From: r.RemoteAddr, Path: r.URL.RequestURI(), UserAgent: r.UserAgent(), Version: d.Index}
	if o.onRequest != nil {
		return p, f, d, entry
	}
	if len(o.requests) >= maxRequests {
		o.requests = slices.Delete(o.requests, 0, maxRequests/2)
	}
	o.requests = append(o.requests, entry)
	return p, f, d, entry
}

// A document is a version that is ready to be served.
type document struct {
	script.Version
	etag    string
	gzipped []byte
	since   time.Time
}

// at returns what the path serves at t.
func (p *resource) at(t time.Duration) document {
	if v := p.script.At(t); v.Index != p.version.Index {
		p.version = v
		sum := sha256.Sum256(v.Body)
		p.etag = fmt.Sprintf("%x", sum[:12])
		p.since = time.Now()
		p.gzipped = gzipBytes(v.Body)
	}
	return document{p.version, p.etag, p.gzipped, p.since}
}

func gzipBytes(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(body)
	if err = errors.Join(err, z.Close()); err != nil {
		panic(fmt.Sprintf("origin: compress a document: %v", err)) // writing to a buffer never fails
	}
	return b.Bytes()
}

// serve answers with the document, or with 304 if the client has it.
func (d document) serve(w http.ResponseWriter, r *http.Request, f Fault) {
	h := w.Header()
	h.Set("Content-Type", d.ContentType)
	h.Set("Vary", "Accept-Encoding")
	body, etag := d.Body, `"`+d.etag+`"`
	if acceptsGzip(r.Header) {
		body, etag = d.gzipped, `"`+d.etag+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	if !f.NoValidators {
		h.Set("ETag", etag)
		h.Set("Last-Modified", d.since.UTC().Format(http.TimeFormat))
		if d.notModified(r.Header) {
			h.Del("Content-Type")
			h.Del("Content-Encoding")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	if f.Truncate {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // closes the connection without a log line
	}
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// notModified reports whether the client has the document, in any encoding.
func (d document) notModified(h http.Header) bool {
	if tags := h.Values("If-None-Match"); len(tags) > 0 {
		for tag := range strings.SplitSeq(strings.Join(tags, ","), ",") {
			tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`)
			if tag == "*" || tag == d.etag || tag == d.etag+"-gzip" {
				return true
			}
		}
		return false
	}
	since, err := http.ParseTime(h.Get("If-Modified-Since"))
	return err == nil && !d.since.Truncate(time.Second).After(since)
}

func acceptsGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if strings.EqualFold(name, "gzip") && weight != "q=0" {
			return true
		}
	}
	return false
}

// A recorder records the size of an answer before it is sent.
type recorder struct {
	http.ResponseWriter
	origin *Origin
	entry  *Request
}

func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *recorder) Write(b []byte) (int, error) {
	c.origin.mu.Lock()
	c.entry.Bytes += len(b)
	c.origin.mu.Unlock()
	return c.ResponseWriter.Write(b)
}
