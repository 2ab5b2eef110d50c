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

// maxLog is how many requests are remembered, the last ones. A demo that runs
// for a day makes fewer.
const maxRequests = 1 << 20

// readHeader is how long a client may take for its request.
const readHeaderTimeout = 10 * time.Second

// An Origin serves scripts. It is an [http.Handler].
type Origin struct {
	clock     func() time.Duration
	onRequest func(Request) // takes requests in place of the log; nil: there is a log

	mu        sync.Mutex // guards what follows
	resources map[string]*resource
	requests  []*Request
}

// A play is a path and what is served there.
type resource struct {
	script     script.Script
	fault      Fault
	faultsLeft int // requests that still meet the fault; negative: all
	version    script.Version
	etag       string
	gzipped    []byte
	since      time.Time // when the version was first asked for
}

// A Request is one that was served.
type Request struct {
	Time        time.Time
	At          time.Duration // on the script's clock
	From        string        // address of the client, with its port
	Method      string
	Path        string // with its query
	UserAgent   string
	Conditional bool
	Status      int // 0: the connection was broken off before there was any
	Version     int // index of what was current
	Bytes       int // of the body, as handed to the connection
}

var _ http.Handler = (*Origin)(nil)

// New returns an origin without a path. The scripts' time is what clock says; it
// may be set, stopped or compressed as the caller likes.
func New(clock func() time.Duration) *Origin {
	return &Origin{clock: clock, resources: map[string]*resource{}}
}

// Tell has requests told to seen when they are answered, in place of being remembered: for who
// counts many of them. It may be called from several goroutines at once. To be set before
// the origin serves.
func (o *Origin) OnRequest(f func(Request)) { o.onRequest = f }

// Clock returns a clock that starts now and runs at a speed: at 60, a script's
// hour takes a minute.
func Clock(speed float64) func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Duration(float64(time.Since(start)) * speed) }
}

// Play serves a script on a path, in place of what was there before.
func (o *Origin) Play(path string, s script.Script) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resources[path] = &resource{script: s, version: script.Version{Index: -1}}
}

// Requests returns the requests that came, in their order. Whoever has an answer
// finds its request there, with its status.
func (o *Origin) Requests() []Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]Request, len(o.requests))
	for i, r := range o.requests {
		all[i] = *r
	}
	return all
}

// Serve answers on a listener until ctx ends and returns why it did, once all
// goroutines are gone.
func (o *Origin) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           o,
		ReadHeaderTimeout: readHeaderTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	var conns sync.WaitGroup
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew: // before server.Serve can return
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
	if c.status == 0 {
		c.WriteHeader(http.StatusOK) // as net/http would, unseen
	}
	if o.onRequest != nil {
		o.mu.Lock()
		r := *entry
		o.mu.Unlock()
		o.onRequest(r)
	}
}

// receive finds what a request is answered with, and writes it down.
func (o *Origin) receive(r *http.Request) (p *resource, f Fault, d document, entry *Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.clock()
	if p = o.resources[r.URL.Path]; p != nil {
		f, d = p.nextFault(), p.at(at)
	}
	entry = &Request{
		Time: time.Now(), At: at, From: r.RemoteAddr, Method: r.Method, Path: r.URL.RequestURI(), UserAgent: r.UserAgent(),
		Conditional: r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != "",
		Version:     d.Index,
	}
	if o.onRequest != nil {
		return p, f, d, entry
	}
	if len(o.requests) >= maxRequests {
		o.requests = slices.Delete(o.requests, 0, maxRequests/2)
	}
	o.requests = append(o.requests, entry)
	return p, f, d, entry
}

// A doc is a version, ready to be served.
type document struct {
	script.Version
	etag    string
	gzipped []byte
	since   time.Time
}

// at is what a path serves at t.
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
		panic(fmt.Sprintf("origin: pack a document: %v", err)) // a buffer takes everything
	}
	return b.Bytes()
}

// serve answers with a document, or that it is the one the client has.
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
		panic(http.ErrAbortHandler) // which closes the connection and logs nothing
	}
	_, _ = w.Write(body) // who has gone away is in no need of it
}

// known reports whether a client has the document, in whatever encoding.
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

// A counter writes down what is answered, before it is.
type recorder struct {
	http.ResponseWriter
	origin *Origin
	entry  *Request
	status int
}

func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *recorder) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
		c.origin.mu.Lock()
		c.entry.Status = status
		c.origin.mu.Unlock()
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *recorder) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	c.origin.mu.Lock()
	c.entry.Bytes += len(b)
	c.origin.mu.Unlock()
	return c.ResponseWriter.Write(b)
}
