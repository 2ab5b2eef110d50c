package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// serveFeed answers requests for a feed, and subscribes regular readers.
func (s *Server) serveFeed(w http.ResponseWriter, r *http.Request, path, query string) {
	if err := allow(w, r, http.MethodGet); err != nil {
		s.writeErrorTo(w, r, err)
		return
	}
	t, err := s.target(r, path, query)
	if err != nil {
		s.writeErrorTo(w, r, err)
		return
	}
	if s.wantsPage(r, t) {
		showReadable(w, r, "/show?url="+url.QueryEscape(t.url))
		return
	}
	f, subscribed, err := s.renderedFeed(r.Context(), t)
	if err != nil {
		s.writeErrorTo(w, r, err)
		return
	}
	if !subscribed && s.shouldSubscribe(r, t) {
		subscribed = s.subscribeReader(r.Context(), t.url)
	}
	s.delta(r.Context(), r, t, f).serve(w, r, s.config.Now(), subscribed)
}

// subscribeReader subscribes on behalf of a reader. The reader gets the feed even if that fails.
func (s *Server) subscribeReader(ctx context.Context, url string) (subscribed bool) {
	if err := s.subs.Subscribe(ctx, url, true); err != nil {
		s.config.Log.Debug("reader's request did not subscribe", "err", err)
		return false
	}
	return true
}

// renderedFeed returns a feed as the reader gets it: the last rendering if it is current, else a new rendering of
// what the node has now, else, if the node has nothing, the last rendering marked as stale.
func (s *Server) renderedFeed(ctx context.Context, t target) (f *rendered, subscribed bool, err error) {
	version, subscribed := s.subs.Version(t.url)
	last, _ := s.rendered.get(t.self)
	if subscribed && last.isVersion(version, true) {
		return last, true, nil
	}
	if isNeverFeed(t.url) {
		return nil, false, refuse(http.StatusNotFound, "not a feed")
	}
	readCtx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	window, err := s.subs.Read(readCtx, t.url)
	switch {
	case err != nil && last != nil && isTemporary(err):
		return last.asStale(oneLine(err.Error())), subscribed, nil
	case err != nil:
		return nil, subscribed, err
	case last.isVersion(window.Version, subscribed):
		return last, subscribed, nil
	}
	release, err := s.renderSlot(readCtx)
	if err != nil {
		return nil, subscribed, err
	}
	defer release()
	if last, _ = s.rendered.get(t.self); last.isVersion(window.Version, subscribed) {
		return last, subscribed, nil // another request has just rendered the same
	}
	t.hub = s.config.Hub != nil && (subscribed || t.token) // a feed with a token is followed from its first reading on
	f, err = render(window, t, subscribed, last, s.pages.sanitiser.cleanMeaning, s.config.Now())
	if err != nil {
		return nil, subscribed, err
	}
	s.rendered.put(t.self, f, f.cost())
	return f, subscribed, nil
}

// renderSlot waits until a feed may be rendered. release ends the rendering.
func (s *Server) renderSlot(ctx context.Context) (release func(), err error) {
	select {
	case s.renderSlots <- struct{}{}:
		return func() { <-s.renderSlots }, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("%w: the node renders too many feeds at once", ErrBusy)
		}
		return nil, ctx.Err()
	}
}

// isNeverFeed reports whether an address is one that programs request from every host, such as an icon. Readers
// request these from this node for the hosts whose feeds they read here.
func isNeverFeed(url string) bool {
	url, _, _ = strings.Cut(url, "?")
	name := path.Base(url)
	return name == "favicon.ico" || name == "robots.txt" || strings.HasPrefix(name, "apple-touch-icon")
}

// These values of Config.SubscribeOnRead say when reading without a token subscribes.
const (
	subscribeNever    = "never"
	subscribeOnSecond = "second"
	subscribeOnFirst  = "first"
)

const (
	// minReadGap is how long after the first read another read shows a regular reader. People who try out an
	// address read it again sooner.
	minReadGap = time.Minute
	// firstReadTime is how long a first read is remembered. Readers that read once a day are recognised; a visit to
	// the same page weeks later does not count.
	firstReadTime = 3 * 24 * time.Hour
	// maxFirstReads bounds the first reads that are remembered. At the bound the read that was not repeated for
	// longest is forgotten, and its reader has to read once more.
	maxFirstReads = 4096
)

// A firstRead identifies a reader of a feed, as far as possible.
type firstRead struct{ url, address, agent string }

// shouldSubscribe reports whether a reader of a feed is to be subscribed to it.
func (s *Server) shouldSubscribe(r *http.Request, t target) bool {
	switch {
	case t.token:
		return true
	case isBrowser(r.Header) || s.config.SubscribeOnRead == subscribeNever:
		return false
	case s.config.SubscribeOnRead == subscribeOnFirst:
		return true
	}
	host := r.RemoteAddr // without the port, which differs for each connection
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	key, now := firstRead{t.url, host, oneLine(r.UserAgent())}, s.config.Now()
	first, seen := s.firstReads.get(key)
	if since := now.Sub(first); seen && since >= 0 && since < firstReadTime {
		return since >= minReadGap
	}
	s.firstReads.put(key, now, 1)
	return false
}

// serve writes a rendered feed, or status 304 if the reader has it already. A part of a feed has status 226.
func (f *rendered) serve(w http.ResponseWriter, r *http.Request, now time.Time, subscribed bool) {
	body, tag := f.body, f.tag
	h := w.Header()
	if f.gzipped != nil && acceptsGzip(r.Header) {
		body, tag = f.gzipped, f.gzipTag
		h.Set("Content-Encoding", "gzip")
	}
	source := "cache"
	if subscribed {
		source = "subscription"
	}
	h.Set("X-Tidings-Source", source)
	h.Set("X-Tidings-State", oneLine(f.state))
	if !f.fetched.IsZero() {
		age := max(0, now.Sub(f.fetched))
		h.Set("X-Tidings-Age", strconv.FormatInt(int64(age/time.Second), 10))
	}
	if f.stale != "" {
		h.Set("X-Tidings-Stale", f.stale)
	}
	if f.links != "" {
		h.Set("Link", f.links)
	}
	h.Set("Cache-Control", "private, max-age=0")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Etag", tag)
	if !now.Before(f.modified) { // RFC 9110, section 8.8.2.1: not later than the answer
		h.Set("Last-Modified", f.modifiedText)
	}
	if f.unchanged(r.Header, tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	status := http.StatusOK
	if f.partial {
		status = http.StatusIMUsed
		h.Set("IM", "feed")
		h.Set("Vary", "A-IM, If-None-Match, Accept-Encoding")
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the reader has disconnected
	}
}
