package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"tidings/internal/env"
)

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

// A progress records the stage of a running request, the address that it is connected to, and whether its
// origin is private.
type progress struct {
	stage     atomic.Int32
	sent      atomic.Int64 // when the request was sent, as the time since the beginning of the exchange
	answered  atomic.Int64 // when the first byte of the response came, likewise
	private   atomic.Bool
	connected atomic.Pointer[netip.Addr] // nil: no connection has been made for this request
}

func (c *progress) set(s stage) { c.stage.Store(int32(s)) }

func (c *progress) get() stage { return stage(c.stage.Load()) }

// exchange makes the next request of a job. It returns the target of the request that has to follow, after a
// redirect or for another attempt, or the answer.
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
	j.asked++
	resp, err := transport.RoundTrip(c.newRequest(c.withTrace(ctx, progress, j, start), j))
	j.private = progress.private.Load()
	if err != nil {
		a := c.errorAnswer(ctx, j, progress, err)
		if c.isSilent(ctx, j, progress, a) {
			return &j.target, env.Answer{}
		}
		return nil, a
	}
	defer func() { _ = resp.Body.Close() }()
	progress.set(reading)
	if isRedirect(resp.StatusCode) {
		return j.redirect(resp)
	}
	if c.refusesTypes(j, resp.StatusCode) {
		return &j.target, env.Answer{}
	}
	a := j.describe(resp, c.now())
	a.Latency = time.Duration(max(0, progress.answered.Load()-progress.sent.Load()))
	c.checkTag(j, &a)
	switch {
	case resp.StatusCode < 200, resp.StatusCode == http.StatusNotModified && !j.conditional(), a.IsPartial() && !(c.asksForPart(j) && isFeedPart(resp.Header)):
		return nil, j.errorAnswer(env.ErrBroken, fmt.Sprintf("the web server answered %d, which does not fit the request", resp.StatusCode))
	case a.HasDocument():
		limit := c.config.MaxBody
		if j.request.Limit > 0 {
			limit = min(limit, j.request.Limit)
		}
		b := body{from: resp, limit: limit, grace: bodyGrace, cancel: stop}
		a.Body, err = b.read()
		c.received.Add(uint64(b.received))
		if _, large := errors.AsType[errLarge](err); large && len(a.Body) > 0 && (!j.request.Robots || j.request.Limit > 0) {
			a.Cut, err = true, nil
		}
		if err != nil {
			return nil, c.errorAnswer(ctx, j, progress, err)
		}
	}
	return nil, a
}

// withTrace returns a context in which the request of a job records its progress.
func (c *Client) withTrace(ctx context.Context, progress *progress, j *job, start time.Time) context.Context {
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
		ConnectDone: func(_, addr string, err error) {
			if to, bad := netip.ParseAddrPort(addr); err == nil && bad == nil {
				ip := to.Addr().Unmap()
				progress.connected.Store(&ip)
			}
		},
		TLSHandshakeStart: func() { progress.set(securing) },
		GotConn: func(info httptrace.GotConnInfo) {
			progress.set(waiting)
			setPrivate(info.Conn.RemoteAddr().String())
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { progress.sent.Store(int64(time.Since(start))) },
		GotFirstResponseByte: func() { progress.answered.Store(int64(time.Since(start))) },
	})
}

func (c *Client) newRequest(ctx context.Context, j *job) *http.Request {
	h := http.Header{
		"User-Agent":      {c.userAgent(j.request.Subscribers)},
		"Accept":          {c.acceptFor(j)},
		"Accept-Encoding": {"gzip"},
	}
	if j.conditional() {
		for name, value := range map[string]string{"If-None-Match": c.tagToSend(j), "If-Modified-Since": validator(j.request.LastModified)} {
			if value != "" {
				h[name] = []string{value}
			}
		}
	}
	if c.asksForPart(j) {
		h["A-Im"] = []string{"feed"}
	}
	for name, value := range j.request.Headers {
		h[http.CanonicalHeaderKey(name)] = []string{value}
	}
	if cookies := j.cookiesFor(j.target); cookies != "" {
		h["Cookie"] = []string{strings.Join(append(h["Cookie"], cookies), "; ")}
	}
	r := &http.Request{Method: http.MethodGet, URL: j.target.httpURL(), Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if form := j.request.Form; form != "" {
		h["Content-Type"] = []string{"application/x-www-form-urlencoded"}
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(form)), int64(len(form))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(form)), nil }
	}
	return r.WithContext(ctx)
}

// conditional reports whether the request carries the validators. Validators of another address could
// match by accident: an origin that stops redirecting may have an older document of its own.
func (j *job) conditional() bool {
	r := &j.request
	return validator(r.ETag)+validator(r.LastModified) != "" && (r.ValidatedURL == "" || r.ValidatedURL == j.target.url)
}

// asksForPart reports whether the request asks for the changed entries of a feed alone (RFC 3229 with the method "feed").
// The web server needs to know since which version.
func (c *Client) asksForPart(j *job) bool {
	return j.request.Partial && j.conditional() && c.tagToSend(j) != ""
}

// isFeedPart reports whether an answer with status 226 has the changed entries of a feed, and nothing else was done to it.
func isFeedPart(h http.Header) bool {
	im := h.Values("IM")
	return len(im) == 1 && strings.EqualFold(strings.TrimSpace(im[0]), "feed")
}

// validator returns a validator unchanged, or "" if it cannot be sent.
func validator(s string) string {
	if len(s) > maxValidator || !httpguts.ValidHeaderFieldValue(s) {
		return ""
	}
	return s
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
	if resp.StatusCode < 400 {
		a.RetryAfter = quotaWait(h, now) // a document may say when it changes, and the host may still answer for others
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
