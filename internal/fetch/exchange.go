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

// maxRedirects is how many redirects are followed. Browsers follow twenty, and a feed that needs more
// than three is broken.
const maxRedirects = 5

// accept selects the document at origins that offer several at one address.
const accept = "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml, " +
	"application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"

// maxValidator bounds the validators that are kept, in bytes. Real ones have a few dozen bytes, and
// long ones serve to recognise the client.
const maxValidator = 512

// A stage is how far a request has come.
type stage int32

const (
	resolving stage = iota
	connecting
	securing // TLS handshake
	waiting  // for the response
	reading
)

// A progress records the stage of a running request, and whether its origin is private.
type progress struct {
	stage   atomic.Int32
	private atomic.Bool
}

func (c *progress) set(s stage) { c.stage.Store(int32(s)) }

func (c *progress) get() stage { return stage(c.stage.Load()) }

// exchange makes the next request of a job. It returns the target of a redirect, or the answer.
func (c *Client) exchange(ctx context.Context, j *job) (*target, env.Answer) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, totalTimeout-j.spent, errTotal)
	defer cancel()
	start := time.Now()
	defer func() { j.spent += time.Since(start) }()

	progress := &progress{}
	transport := c.any
	if j.public {
		transport = c.public
	}
	c.requests.Add(1)
	resp, err := transport.RoundTrip(c.newRequest(c.withTrace(ctx, progress, j), j))
	j.private = progress.private.Load()
	if err != nil {
		return nil, c.errorAnswer(ctx, j, progress, err)
	}
	defer func() { _ = resp.Body.Close() }()
	progress.set(reading)
	if location := resp.Header.Get("Location"); isRedirect(resp.StatusCode) {
		return j.redirect(resp.StatusCode, location)
	}
	a := j.describe(resp, c.now())
	switch {
	case resp.StatusCode < 200, resp.StatusCode == http.StatusNotModified && !j.conditional():
		return nil, j.errorAnswer(env.ErrBroken, fmt.Sprintf("the web server answered %d, which does not fit the request", resp.StatusCode))
	case resp.StatusCode == http.StatusOK:
		b := body{from: resp, limit: c.config.MaxBody, grace: bodyGrace, cancel: stop}
		a.Body, err = b.read()
		c.received.Add(uint64(b.received))
		if err != nil {
			return nil, c.errorAnswer(ctx, j, progress, err)
		}
	}
	return nil, a
}

// withTrace returns a context in which the request of a job records its progress.
func (c *Client) withTrace(ctx context.Context, progress *progress, j *job) context.Context {
	setPrivate := func(addr string) {
		if to, err := netip.ParseAddrPort(addr); err == nil {
			progress.private.Store(c.config.AllowPrivate && !j.public && !c.guard.isPublic(to.Addr()))
		}
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart: func(_, addr string) {
			progress.set(connecting)
			setPrivate(addr) // an origin that is down is private, too
		},
		TLSHandshakeStart: func() { progress.set(securing) },
		GotConn: func(info httptrace.GotConnInfo) {
			progress.set(waiting)
			setPrivate(info.Conn.RemoteAddr().String())
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
	for name, value := range j.request.Headers {
		h[http.CanonicalHeaderKey(name)] = []string{value}
	}
	r := &http.Request{Method: http.MethodGet, URL: j.target.httpURL(), Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return r.WithContext(ctx)
}

// conditional reports whether the request carries the validators. Validators of another address could
// match by accident: an origin that stops redirecting may have an older document of its own.
func (j *job) conditional() bool {
	r := &j.request
	return validator(r.ETag)+validator(r.LastModified) != "" && (r.ValidatedURL == "" || r.ValidatedURL == j.target.url)
}

// validator returns a validator unchanged, or "" if it cannot be sent.
func validator(s string) string {
	if len(s) > maxValidator || !httpguts.ValidHeaderFieldValue(s) {
		return ""
	}
	return s
}

func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// redirect resolves the target of a redirect and checks whether it may be followed.
func (j *job) redirect(status int, location string) (*target, env.Answer) {
	j.moved = j.moved && (status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect)
	j.public = j.public || !j.private
	j.hops = append(j.hops, j.target.url)
	url, err := feed.Resolve(j.target.url, location)
	switch {
	case location == "":
		return nil, j.errorAnswer(env.ErrRedirect, fmt.Sprintf("the web server answered %d, a redirect without an address", status))
	case err != nil:
		return nil, j.errorAnswer(env.ErrURL, "the web server redirects to an address that may not be polled: "+err.Error())
	case j.target.scheme == "https" && strings.HasPrefix(url, "http:"):
		return nil, j.errorAnswer(env.ErrRedirect, "the web server redirects from HTTPS to HTTP, where anybody could answer")
	case slices.Contains(j.hops, url):
		return nil, j.errorAnswer(env.ErrRedirect, "the web server redirects in a circle")
	case len(j.hops) > maxRedirects:
		return nil, j.errorAnswer(env.ErrRedirect, fmt.Sprintf("the web server redirects more than %d times", maxRedirects))
	}
	to := newTarget(url)
	if to.scheme != j.target.scheme || to.host != j.target.host {
		// The headers may hold a password. Another origin must not get it, and must not choose either which
		// document is fetched with it by redirecting back.
		j.request.Headers = nil
	}
	return &to, env.Answer{}
}

// describe returns the answer to a job without the body.
func (j *job) describe(resp *http.Response, now time.Time) env.Answer {
	h := resp.Header
	a := env.Answer{
		Status:       resp.StatusCode,
		Message:      statusMessage(resp.StatusCode),
		FinalURL:     j.target.url,
		Moved:        len(j.hops) > 0 && j.moved,
		Private:      j.private,
		ETag:         validator(h.Get("ETag")),
		LastModified: validator(h.Get("Last-Modified")),
		ContentType:  h.Get("Content-Type"),
		RetryAfter:   retryAfter(h, now),
		MaxAge:       maxAge(h, now),
		Links:        h.Values("Link"),
	}
	if resp.StatusCode == http.StatusNotModified { // RFC 9111, section 4.3.4: the stored validators stay valid
		if a.ETag == "" {
			a.ETag = j.request.ETag
		}
		if a.LastModified == "" {
			a.LastModified = j.request.LastModified
		}
	}
	return a
}
