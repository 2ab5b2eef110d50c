package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Hub tells subscribers when a feed of this node has changed (W3C WebSub). It is safe for concurrent use.
type Hub interface {
	// Ask makes or ends a subscription once its subscriber has confirmed it, which takes a while. It returns ErrFull if
	// there are too many.
	Ask(HubRequest) error
}

// A HubRequest is a request of a WebSub subscriber.
type HubRequest struct {
	Subscribe bool   // false: unsubscribe
	Topic     string // the address of the feed at this node, as the subscriber knows it
	URL       string // the feed; "" for a search
	Query     string // the search; "" for a feed
	Callback  string
	Secret    string
	Lease     time.Duration // as asked for; 0: the hub chooses
	// From is the address from which the request came; invalid if a proxy has passed it on. The callback may be there, or
	// on the public Web; a subscriber on this machine may name any address but those of metadata services.
	From netip.Addr
}

const (
	// maxCallback and maxHubSecret bound a callback address and a secret, in bytes. The specification says that
	// secrets are shorter than 200 bytes.
	maxCallback  = 2 << 10
	maxHubSecret = 199
)

// ownLinks returns the header Link of a feed. Its address is that of its hub, too: a request to subscribe is a POST
// there. So a subscriber that may read a feed may subscribe to it, and no other one.
func ownLinks(self string) string {
	return fmt.Sprintf("<%s>; rel=%q, <%s>; rel=%q", self, "hub", self, "self")
}

// serveHub answers requests of WebSub subscribers.
func (s *Server) serveHub(w http.ResponseWriter, r *http.Request, path, query string) {
	err := s.gate.checkOrigin(r, path)
	var q HubRequest
	if err == nil {
		q, err = s.hubRequest(w, r, path, query)
	}
	if err == nil {
		err = s.config.Hub.Ask(q)
	}
	if err != nil {
		s.writeTextError(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// hubRequest parses a request to the address of a feed.
func (s *Server) hubRequest(w http.ResponseWriter, r *http.Request, path, query string) (q HubRequest, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return q, refuse(http.StatusRequestEntityTooLarge, "the request is larger than %d KiB", maxRequest>>10)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return q, refuse(http.StatusBadRequest, "the form is not valid: %v", err)
	}
	switch mode := form.Get("hub.mode"); mode {
	case "subscribe", "unsubscribe":
		q.Subscribe = mode == "subscribe"
	default:
		return q, refuse(http.StatusBadRequest, "hub.mode is %q: it must be subscribe or unsubscribe", oneLine(mode))
	}
	q.Topic, q.Callback, q.Secret = form.Get("hub.topic"), form.Get("hub.callback"), form.Get("hub.secret")
	if u, err := url.Parse(q.Callback); err != nil || !isWeb(q.Callback) || u.Fragment != "" || len(q.Callback) > maxCallback {
		return q, refuse(http.StatusBadRequest, "hub.callback must be an address of at most %d bytes that begins with http:// or https://", maxCallback)
	}
	if len(q.Secret) > maxHubSecret {
		return q, refuse(http.StatusBadRequest, "hub.secret must have less than %d bytes", maxHubSecret+1)
	}
	if lease := form.Get("hub.lease_seconds"); lease != "" {
		seconds, err := strconv.ParseInt(lease, 10, 32)
		if err != nil || seconds < 0 {
			return q, refuse(http.StatusBadRequest, "hub.lease_seconds is %q: it must be a number of seconds", oneLine(lease))
		}
		q.Lease = time.Duration(seconds) * time.Second
	}
	self, err := s.hubTopic(r, path, query, &q)
	switch {
	case err != nil:
		return q, err
	case q.Topic != self:
		return q, refuse(http.StatusNotFound, "hub.topic is %s, and this hub is that of %s alone", oneLine(q.Topic), self)
	}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && !s.gate.isProxy(r.RemoteAddr) {
		q.From = at.Addr().Unmap()
	}
	return q, nil
}

// hubTopic finds out which feed is at an address of this node, and returns the address in its usual form.
func (s *Server) hubTopic(r *http.Request, path, query string, q *HubRequest) (self string, err error) {
	if !strings.HasPrefix(path, keywordsPath) {
		t, err := s.target(r, path, query)
		if err != nil {
			return "", err
		}
		if _, subscribed := s.subs.Version(t.url); !subscribed {
			return "", refuse(http.StatusNotFound, "this node does not follow the feed: subscribe to it first")
		}
		q.URL = t.url
		return t.self, nil
	}
	token, ending, _ := strings.Cut(path[len(keywordsPath):], ".")
	number, ok := s.keywordTokens.open(token)
	if ok && formats[strings.TrimPrefix(ending, onceMark+".")] != 0 {
		w, err := s.config.Keywords.LookUp(r.Context(), number)
		if err == nil {
			q.Query = w.Query
			return s.base(r) + keywordsPath + token + "." + ending, nil
		}
		if !errors.Is(err, ErrNoSubscription) {
			return "", err
		}
	}
	return "", refuse(http.StatusNotFound, "there is no such address here")
}

// A Page is the content of an address of this node, as a reader gets it.
type Page struct {
	Status    int
	MediaType string
	Links     string // the header Link
	Body      []byte
}

// Get returns what is at an address of this node, such as the topic of a WebSub subscriber.
func (s *Server) Get(ctx context.Context, address string) (Page, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Page{}, err
	}
	r.RemoteAddr = "127.0.0.1:0"
	answer := &pageWriter{header: http.Header{}}
	s.ServeHTTP(answer, r)
	h := answer.header
	return Page{max(answer.status, http.StatusOK), h.Get("Content-Type"), h.Get("Link"), answer.body.Bytes()}, nil
}

// A pageWriter keeps an answer.
type pageWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *pageWriter) Header() http.Header         { return p.header }
func (p *pageWriter) Write(b []byte) (int, error) { return p.body.Write(b) }
func (p *pageWriter) WriteHeader(status int)      { p.status = cmp.Or(p.status, status) }
