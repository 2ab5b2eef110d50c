package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tidings/corona/websub"
)

// CallbackPath is the beginning of the paths that hubs call at the public address of a node.
const CallbackPath = "/websub/"

const (
	// callbackLength is the length of the rest of such a path: 128 random bits in hexadecimal digits.
	callbackLength = 32
	// maxCallbacks bounds the requests of hubs that are answered at once, each with a notification in memory. Others wait for
	// callbackWait, because a hub often has news of many feeds, and are then told to come again: many hubs do that minutes later.
	maxCallbacks = 16
	callbackWait = 5 * time.Second
)

// Callbacks takes what hubs ask and send.
type Callbacks interface {
	// Confirm answers the question of a hub whether a subscription is meant. path is the end of the callback address.
	Confirm(ctx context.Context, path string, query url.Values) (websub.Response, error)

	// Notify takes a notification.
	Notify(ctx context.Context, path, signature, contentType string, body []byte) (websub.Response, error)

	// Hint takes canonical addresses whose documents may have changed, as a site says.
	Hint(ctx context.Context, addresses []string) error
}

// A CallbackServer answers hubs, and sites that announce their news, at the public address of a node, and nobody else:
// nothing of the node but its callback addresses and PingPath can be reached there.
type CallbackServer struct {
	callbacks Callbacks
	log       *slog.Logger
	busy      chan struct{} // holds a value for each request of a hub under way
	pings     pingLimiter
}

// NewCallbackServer returns a server that passes requests of hubs to callbacks.
func NewCallbackServer(callbacks Callbacks, log *slog.Logger) *CallbackServer {
	return &CallbackServer{callbacks: callbacks, log: log, busy: make(chan struct{}, maxCallbacks)}
}

// Serve answers hubs on a listener until ctx ends, and closes the listener.
func (s *CallbackServer) Serve(ctx context.Context, l net.Listener) error {
	return serveHTTP(ctx, newConnLimiter(l, func(string) bool { return false }), s, s.log, "serve hubs")
}

// ServeHTTP answers one request.
func (s *CallbackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == PingPath && r.Method == http.MethodPost {
		s.servePing(w, r)
		return
	}
	if r.URL.Path == PingPath {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, errPing.Error(), http.StatusMethodNotAllowed)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, CallbackPath)
	if !ok || len(path) != callbackLength || r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	wait := time.NewTimer(callbackWait)
	defer wait.Stop()
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-wait.C:
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	a, err := s.answer(w, r, path)
	if err != nil { // the node does not know its network yet, or stops
		a = websub.Response{Status: http.StatusServiceUnavailable}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // a hub that has gone asks again
}

func (s *CallbackServer) answer(w http.ResponseWriter, r *http.Request, path string) (websub.Response, error) {
	if r.Method == http.MethodGet {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || len(r.URL.RawQuery) > websub.MaxQuery {
			return websub.Response{Status: http.StatusNotFound}, nil
		}
		return s.callbacks.Confirm(r.Context(), path, query)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, websub.MaxNotification))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return websub.Response{Status: http.StatusRequestEntityTooLarge}, nil
	}
	if err != nil {
		return websub.Response{Status: http.StatusBadRequest}, nil
	}
	return s.callbacks.Notify(r.Context(), path, r.Header.Get("X-Hub-Signature"), r.Header.Get("Content-Type"), body)
}
