package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// A Server answers readers. It is an [http.Handler].
type Server struct {
	subs          Subscriptions
	config        Config
	gate          gate
	auth          authenticator
	tokens        tokenMaker
	keywordTokens numberTokens
	rendered      *lru[string, *rendered] // by the address of the copy
	renderSlots   chan struct{}           // a slot for each rendering under way
	firstReads    *lru[firstRead, time.Time]
	pages         *pages
}

// Config is what a server needs to know besides its node.
type Config struct {
	// Secret is the node's, at least 16 bytes: who knows it can make tokens.
	Secret []byte
	// Token is shown by those who may use the pages and the interface for programs, at least 16
	// bytes.
	Token string
	// TrustedProxies are the addresses of proxies that may pass requests on. All requests from these
	// addresses count as those of other machines, also those without a forwarding header, unless they
	// are known to be the own user's or show the token. Requests of other proxies are refused.
	TrustedProxies []netip.Prefix
	// BaseURL is what the addresses that are handed out begin with, where
	// readers reach the node by another name than localhost: such as
	// http://nas.example:8190, or https://feeds.example.org behind another web
	// server. By that name only addresses with a token are answered. If it is
	// empty addresses begin as the request for them did. [CheckBaseURL] says
	// what it may be.
	BaseURL string
	// SubscribeOnRead says when reading without a token subscribes: "never",
	// at the "second" time (the default), or at the "first".
	SubscribeOnRead string
	// Keywords are the node's keyword subscriptions.
	Keywords Keywords
	// Filter says that they are matched with the articles of all channels of the network.
	Filter bool
	// Kept is how many articles a keyword feed has at most, 10 if it is 0.
	MaxArticles int
	// Publishing is the node as publishers use it.
	Publishing Publishing
	// Metrics answers at /metrics; if nil, nothing is there.
	Metrics http.Handler
	// Notice, if not nil, is shown on the start page, which then shows itself anew each two
	// seconds, unless it is held still.
	Notice func() Notice
	// Version is that of the program, for the pages.
	Version string
	// Now is the time; if nil, time.Now.
	Now func() time.Time
	// Log is where faults of the node go; if nil, nowhere.
	Log *slog.Logger
}

// What a server keeps and does at a time.
const (
	// cacheBytes is how much memory rendered feeds take: a few hundred
	// windows. At the bound those not read for the longest are forgotten, and
	// rendered again when they are read.
	cacheBytes = 32 << 20
	// maxRendering is how many feeds are rendered at once: each may take tens of
	// megabytes for a moment. The others wait.
	maxRenders = 2
	// readWithin is how long the node may take to read a feed: a reader that
	// waits longer has given up.
	readTime = 12 * time.Second
)

// New returns the server of a node. A configuration that nobody may have is a
// mistake of the program, and panics.
func New(subs Subscriptions, config Config) *Server {
	if len(config.Secret) < minSecret {
		panic(fmt.Sprintf("proxy: a secret of %d bytes; %d at least", len(config.Secret), minSecret))
	}
	if len(config.Token) < minSecret {
		panic(fmt.Sprintf("proxy: a token of %d bytes; %d at least", len(config.Token), minSecret))
	}
	switch config.SubscribeOnRead {
	case "":
		config.SubscribeOnRead = subscribeOnSecond
	case subscribeNever, subscribeOnSecond, subscribeOnFirst:
	default:
		panic("proxy: subscribe on read: " + config.SubscribeOnRead)
	}
	if config.BaseURL != "" {
		if err := CheckBaseURL(config.BaseURL); err != nil {
			panic("proxy: " + err.Error())
		}
		config.BaseURL = strings.ToLower(strings.TrimSuffix(config.BaseURL, "/")) // there is no path in it
	}
	config.MaxArticles = cmp.Or(config.MaxArticles, 10)
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		subs:          subs,
		config:        config,
		gate:          newGate(config.BaseURL, config.TrustedProxies),
		auth:          newAuthenticator(config.Token, config.Now),
		tokens:        tokenMaker(config.Secret),
		keywordTokens: newNumberTokens(config.Secret),
		rendered:      newLRU[string, *rendered](cacheBytes),
		renderSlots:   make(chan struct{}, maxRenders),
		firstReads:    newLRU[firstRead, time.Time](maxFirstReads),
		pages:         newPages(),
	}
}

// ServeHTTP answers a request. It looks at the request's target as it came: the
// mux of net/http, and the parser of URLs before it, would make something else
// of an address within a path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	w.Header().Set(apiHeader, "1") // by which commands know a node from another server
	path, query, err := s.gate.check(r, s.auth.isAuthorized)
	if err == nil {
		s.route(w, r, path, query)
		return
	}
	s.writeTextError(w, err)
}

// route hands a request to who answers it.
func (s *Server) route(w http.ResponseWriter, r *http.Request, path, query string) {
	if isFeed(path) || strings.HasPrefix(path, keywordsPath) {
		switch err := checkFeedOrigin(r, path); {
		case err != nil:
			s.writeTextError(w, err)
		case isFeed(path):
			s.serveFeed(w, r, path, query)
		default:
			s.serveKeywords(w, r, path)
		}
		return
	}
	if err := s.gate.checkOrigin(r, path); err != nil {
		s.writeTextError(w, err)
		return
	}
	switch path {
	case "/metrics":
		s.answer(w, r, http.MethodGet, s.metrics)
		return
	case "/healthz":
		s.answer(w, r, http.MethodGet, s.healthz)
		return
	case "/readyz":
		s.answer(w, r, http.MethodGet, s.readyz)
		return
	case stylePath:
		s.answer(w, r, http.MethodGet, s.style)
		return
	case loginPath:
		s.answer(w, r, http.MethodGet, s.login)
		return
	}
	if !strings.HasPrefix(path, apiPath) && !s.auth.isAuthorized(r) {
		s.writeErrorPage(w, r, unauthorized(r))
		return
	}
	switch path {
	case "/":
		s.answer(w, r, http.MethodGet, s.home)
	case "/show":
		s.answer(w, r, http.MethodGet, s.show)
	case "/channels":
		s.answer(w, r, http.MethodGet, s.channels)
	case "/network":
		s.answer(w, r, http.MethodGet, s.network)
	case "/add":
		s.answer(w, r, http.MethodGet, s.add)
	case "/subscribe":
		s.answer(w, r, http.MethodPost, s.subscribeForm)
	case "/unsubscribe":
		s.answer(w, r, http.MethodPost, s.unsubscribeForm)
	case watchPath:
		s.watchPages(w, r)
	case unwatchPath:
		s.answer(w, r, http.MethodPost, s.unwatchForm)
	case scriptPath:
		s.answer(w, r, http.MethodGet, s.script)
	case "/opml":
		s.opmlPage(w, r)
	default:
		if !s.api(w, r, path) {
			s.writeTextError(w, refuse(http.StatusNotFound, "not found"))
		}
	}
}

// answer calls do if the request has the method, or HEAD where that is GET, and
// shows its error as a page.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, method string, do func(http.ResponseWriter, *http.Request) error) {
	err := allow(w, r, method)
	if err == nil {
		err = do(w, r)
	}
	if err != nil {
		s.writeErrorPage(w, r, err)
	}
}

// allow refuses methods other than those given; HEAD comes with GET.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) error {
	allowed := ""
	for _, m := range methods {
		if r.Method == m || m == http.MethodGet && r.Method == http.MethodHead {
			return nil
		}
		if allowed != "" {
			allowed += ", "
		}
		allowed += m
		if m == http.MethodGet {
			allowed += ", " + http.MethodHead
		}
	}
	w.Header().Set("Allow", allowed)
	return refuse(http.StatusMethodNotAllowed, "method not allowed: use %s", allowed)
}

// Times and sizes of a connection. Readers are near and send little; those that
// hold connections and say nothing must not keep the node from its peers.
const (
	maxHeader    = 32 << 10
	headerTime   = 5 * time.Second
	bodyTime     = 30 * time.Second
	writeTime    = 90 * time.Second // a large feed to a slow phone
	idleTime     = time.Minute
	shutdownTime = time.Second
)

// Serve answers readers on a listener until ctx ends, and closes it. It returns
// when nothing of it runs any more; nil if it was asked to stop.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	limiter := newConnLimiter(l, s.gate.isProxy)
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       bodyTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ConnState:         limiter.stateChanged,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConnOwner,

		DisableGeneralOptionsHandler: true, // it answers whatever Host is asked for
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(limiter) }()
	select {
	case err := <-served:
		_ = server.Close() // the listener's error is the one that counts
		return fmt.Errorf("serve readers: %w", err)
	case <-ctx.Done():
	}
	// Requests under way end with ctx; the rest is waiting for slow readers.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve readers: %w", err)
	}
	return nil
}
