package fetch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"tidings/internal/env"
	"tidings/internal/feed"
)

// maxRedirects is how many redirects are followed. Browsers follow twenty, and
// feeds that need more than three are broken.
const maxRedirects = 5

// accept tells origins that offer several documents at one address which one is
// meant.
const accept = "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml, " +
	"application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"

// maxValidator bounds the validators that are kept. Real ones have a few dozen
// bytes; long ones are there to recognise who asks.
const maxValidator = 512

// A stage is how far a request has come.
type stage int32

const (
	resolving stage = iota
	connecting
	securing // the TLS handshake
	waiting  // for the answer
	reading
)

// A course is what is seen of a request while it is under way.
type course struct {
	stage   atomic.Int32
	private atomic.Bool
}

func (c *course) reach(s stage) { c.stage.Store(int32(s)) }

func (c *course) at() stage { return stage(c.stage.Load()) }

// exchange makes the next request of a job, and returns where it is redirected,
// or the answer.
func (c *Client) exchange(ctx context.Context, j *job) (*target, env.Answer) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.Total-j.spent, errTotal)
	defer cancel()
	start := time.Now()
	defer func() { j.spent += time.Since(start) }()

	course := &course{}
	transport := c.any
	if j.public {
		transport = c.public
	}
	c.asked.Add(1)
	resp, err := transport.RoundTrip(c.newRequest(c.follow(ctx, course, j), j))
	j.private = course.private.Load()
	if err != nil {
		return nil, c.fault(ctx, j, course, err)
	}
	defer func() { _ = resp.Body.Close() }()
	course.reach(reading)
	if location := resp.Header.Get("Location"); isRedirect(resp.StatusCode) {
		return j.redirect(resp.StatusCode, location)
	}
	a := j.describe(resp, c.now())
	switch {
	case resp.StatusCode < 200, resp.StatusCode == http.StatusNotModified && !j.conditional():
		return nil, j.failed(env.ErrBroken, fmt.Sprintf("the web server answered %d, which does not fit the request", resp.StatusCode))
	case resp.StatusCode == http.StatusOK:
		b := body{from: resp, limit: c.config.MaxBody, grace: c.config.Grace, slow: stop}
		a.Body, err = b.read()
		c.received.Add(uint64(b.received))
		if err != nil {
			return nil, c.fault(ctx, j, course, err)
		}
	}
	return nil, a
}

// follow watches over a request of a job.
func (c *Client) follow(ctx context.Context, course *course, j *job) context.Context {
	meet := func(addr string) {
		if to, err := netip.ParseAddrPort(addr); err == nil {
			course.private.Store(c.config.AllowPrivate && !j.public && !c.guard.isPublic(to.Addr()))
		}
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart: func(_, addr string) {
			course.reach(connecting)
			meet(addr) // an origin that is down is no less private
		},
		TLSHandshakeStart: func() { course.reach(securing) },
		GotConn: func(info httptrace.GotConnInfo) {
			course.reach(waiting)
			meet(info.Conn.RemoteAddr().String())
		},
	})
}

func (c *Client) newRequest(ctx context.Context, j *job) *http.Request {
	h := http.Header{
		"User-Agent":      {c.userAgent(j.request.Subscribers)},
		"Accept":          {accept},
		"Accept-Encoding": {"gzip"},
	}
	if j.conditional() {
		for name, value := range map[string]string{"If-None-Match": j.request.ETag, "If-Modified-Since": j.request.LastModified} {
			if value = validator(value); value != "" {
				h[name] = []string{value}
			}
		}
	}
	r := &http.Request{Method: http.MethodGet, URL: j.at.httpURL(), Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return r.WithContext(ctx)
}

// conditional reports whether validators go with the request. Those of another
// address would be a wrong answer waiting to happen: an origin that stops
// redirecting may have an older document than the one they are of.
func (j *job) conditional() bool {
	r := &j.request
	return validator(r.ETag)+validator(r.LastModified) != "" && (r.ValidatedURL == "" || r.ValidatedURL == j.at.url)
}

// validator returns a validator as it is, or nothing if it cannot be sent.
func validator(s string) string {
	if len(s) > maxValidator || !httpguts.ValidHeaderFieldValue(s) {
		return ""
	}
	return s
}

func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// redirect finds where a redirect leads, and whether it may be followed.
func (j *job) redirect(status int, location string) (*target, env.Answer) {
	j.moved = j.moved && (status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect)
	j.public = j.public || !j.private
	j.hops = append(j.hops, j.at.url)
	url, err := feed.Resolve(j.at.url, location)
	switch {
	case location == "":
		return nil, j.failed(env.ErrRedirect, fmt.Sprintf("the web server answered %d, a redirect without an address", status))
	case err != nil:
		return nil, j.failed(env.ErrURL, "the web server redirects to an address that may not be polled: "+err.Error())
	case j.at.scheme == "https" && strings.HasPrefix(url, "http:"):
		return nil, j.failed(env.ErrRedirect, "the web server redirects from HTTPS to HTTP, where anybody could answer")
	case slices.Contains(j.hops, url):
		return nil, j.failed(env.ErrRedirect, "the web server redirects in a circle")
	case len(j.hops) > maxRedirects:
		return nil, j.failed(env.ErrRedirect, fmt.Sprintf("the web server redirects more than %d times", maxRedirects))
	}
	to := newTarget(url)
	return &to, env.Answer{}
}

// describe is the answer to a job but for its body.
func (j *job) describe(resp *http.Response, now time.Time) env.Answer {
	h := resp.Header
	a := env.Answer{
		Status:       resp.StatusCode,
		Words:        statusWords(resp.StatusCode),
		FinalURL:     j.at.url,
		Moved:        len(j.hops) > 0 && j.moved,
		Private:      j.private,
		ETag:         validator(h.Get("ETag")),
		LastModified: validator(h.Get("Last-Modified")),
		ContentType:  h.Get("Content-Type"),
		RetryAfter:   retryAfter(h, now),
		MaxAge:       maxAge(h, now),
		Links:        h.Values("Link"),
	}
	if resp.StatusCode == http.StatusNotModified { // RFC 9111, section 4.3.4: the rest stays as it was
		if a.ETag == "" {
			a.ETag = j.request.ETag
		}
		if a.LastModified == "" {
			a.LastModified = j.request.LastModified
		}
	}
	return a
}
