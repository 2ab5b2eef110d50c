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

	"golang.org/x/time/rate"

	"tidings/internal/check"
)

// A Server answers readers. It is an [http.Handler].
type Server struct {
	subs          Subscriptions
	config        Config
	gate          gate
	auth          authenticator
	tokens        tokenMaker
	keywordTokens numberTokens
	storyKeys     *lru[string, map[string]string] // of keyword feeds that show stories once, by the feed's token; see oncePerStory
	rendered      *lru[string, *rendered]         // by the address of the feed as the reader asked for it
	renderSlots   chan struct{}                   // holds one token for each rendering in progress
	streams       chan struct{}                   // holds one token for each open stream of events
	firstReads    *lru[firstRead, time.Time]
	messages      *lru[string, message]
	pollWishes    *lru[string, time.Time] // when a person last had a channel polled, by its address
	imports       imports
	wrongTokens   *rate.Limiter // of the page of searches
	pages         *pages
}

// Config holds a server's settings, and the parts of the node besides its subscriptions. A zero field means its
// default.
type Config struct {
	// Secret is the node's secret, at least 16 bytes, from which tokens are derived. It has no default.
	Secret []byte
	// Token gives access to the pages and the API. It has at least 16 bytes, and no default.
	Token string
	// TrustedProxies holds the addresses of proxies that may forward requests. All requests from these addresses
	// count as requests from other machines, even without a forwarding header, unless they are known to come from
	// the node's own user or show the token. Requests forwarded by other proxies are refused. Default none.
	TrustedProxies []netip.Prefix
	// BaseURL is the start of all addresses that are handed out, if readers reach the node by another name than
	// localhost, such as http://nas.example:8190, or https://feeds.example.org behind another web server. Only
	// addresses with a token, and the page of searches, are answered under that name. By default, addresses start as the request for them did.
	// [CheckBaseURL] checks it.
	BaseURL string
	// SubscribeOnRead says when reading without a token subscribes: "never", at the "second" time (the default), or
	// at the "first". With "first", a single request of any program makes the network poll a feed.
	SubscribeOnRead string
	// Keywords holds the node's keyword subscriptions. Only requests for them need it.
	Keywords Keywords
	// Tokens holds the tokens with which others make searches. Default nil: there is no page on which they could.
	Tokens SearchTokens
	// Private holds the node's private feeds. Default nil: an address with a password is refused.
	Private PrivateFeeds
	// Hub tells WebSub subscribers of changes. Default nil: feeds name no hub.
	Hub Hub
	// News is the node's journal of what is new. It must not be nil.
	News News
	// Notifications holds the node's targets. Only requests for them need it.
	Notifications Notifications
	// Candidates holds the feeds that a crawler has found. Only requests for them need it.
	Candidates Candidates
	// Messenger says how the node talks with people by XMPP; it returns nil if it does not. Default nil.
	Messenger func() *Messenger
	// Icon returns a picture for the site of a subscription, and its media type. Default nil: pages show none.
	Icon func(ctx context.Context, url string) (body []byte, mediaType string, ok bool)
	// Filter says that keyword subscriptions cover the articles of all channels of the network. Default false.
	Filter bool
	// HostingCentre says that the node is part of one: keyword subscriptions cover what its crawlers poll. Default false.
	HostingCentre bool
	// MaxArticles is the size of a keyword feed in articles, at least 1. Default 10. Readers fetch more bytes with a
	// greater one.
	MaxArticles int
	// Publishing is the node's interface for publishers. It must not be nil.
	Publishing Publishing
	// ReaderLists holds the usual places of the lists of other readers of the node's user. Pages offer to import those that
	// exist. Default none.
	ReaderLists []ReaderList
	// Metrics answers requests for /metrics. Default nil: they get 404.
	Metrics http.Handler
	// Notice returns a table for the start page, which then refreshes itself every two seconds unless it is paused.
	// Default nil: there is none.
	Notice func() Notice
	// Version is the program's version, shown on the pages. Default empty.
	Version string
	// Now returns the time. Default time.Now.
	Now func() time.Time
	// Log receives internal errors. Default nil: nothing is logged.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.BaseURL = strings.ToLower(strings.TrimSuffix(c.BaseURL, "/")) // it has no path
	c.SubscribeOnRead = cmp.Or(c.SubscribeOnRead, subscribeOnSecond)
	c.MaxArticles = cmp.Or(c.MaxArticles, 10)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	if c.BaseURL != "" {
		if err := CheckBaseURL(c.BaseURL); err != nil {
			return fmt.Errorf("proxy: BaseURL: %w", err)
		}
	}
	for _, p := range c.TrustedProxies {
		if !p.IsValid() {
			return fmt.Errorf("proxy: TrustedProxies has the prefix %v; each must be valid", p)
		}
	}
	c = c.withDefaults()
	return cmp.Or(
		check.That(len(c.Secret) >= minSecret, "proxy: Secret", "has %d bytes; it must have at least %d", len(c.Secret), minSecret),
		check.That(len(c.Token) >= minSecret, "proxy: Token", "has %d bytes; it must have at least %d", len(c.Token), minSecret),
		check.OneOf("proxy: SubscribeOnRead", c.SubscribeOnRead, subscribeNever, subscribeOnSecond, subscribeOnFirst),
		check.AtLeast("proxy: MaxArticles", c.MaxArticles, 1),
	)
}

// Bounds of a server.
const (
	// cacheBytes bounds the memory of rendered feeds, enough for a few hundred windows. At the bound, the feeds
	// that were not read for longest are forgotten, and rendered again when they are read.
	cacheBytes = 32 << 20
	// maxRenders bounds the feeds that are rendered at the same time, because each may take tens of megabytes.
	// Others wait.
	maxRenders = 2
	// readTime is how long the node may take to read a feed. Readers that wait longer have usually given up.
	readTime = 12 * time.Second
)

// New returns the server of a node. It panics if the configuration is invalid, which is a bug of the program.
func New(subs Subscriptions, config Config) *Server {
	if err := config.Validate(); err != nil {
		panic(err)
	}
	config = config.withDefaults()
	return &Server{
		subs:          subs,
		config:        config,
		gate:          newGate(config.BaseURL, config.TrustedProxies),
		auth:          newAuthenticator(config.Token, config.Now),
		tokens:        tokenMaker(config.Secret),
		keywordTokens: newNumberTokens(config.Secret),
		rendered:      newLRU[string, *rendered](cacheBytes),
		storyKeys:     newLRU[string, map[string]string](maxStoryKeys),
		renderSlots:   make(chan struct{}, maxRenders),
		streams:       make(chan struct{}, maxStreams),
		firstReads:    newLRU[firstRead, time.Time](maxFirstReads),
		messages:      newLRU[string, message](maxMessages),
		pollWishes:    newLRU[string, time.Time](maxPollWishes),
		pages:         newPages(config.Icon != nil),
		wrongTokens:   rate.NewLimiter(wrongTokens, wrongTokensBurst),
	}
}

// ServeHTTP answers a request. It uses the request's target as it was sent, because the mux of net/http, and the
// URL parser before it, would change an address within a path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	w.Header().Set(apiHeader, "1") // tells commands that the server is a node
	path, query, err := s.gate.check(r, s.auth.isAuthorized)
	if err == nil {
		s.route(w, r, path, query)
		return
	}
	s.writeTextError(w, err)
}

// route passes a request to its handler.
func (s *Server) route(w http.ResponseWriter, r *http.Request, path, query string) {
	if s.config.Hub != nil && r.Method == http.MethodPost && (isFeed(path) || strings.HasPrefix(path, keywordsPath)) {
		s.serveHub(w, r, path, query)
		return
	}
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
	if strings.HasPrefix(path, searchesPath) {
		s.serveSearches(w, r, path)
		return
	}
	if err := s.gate.checkOrigin(r, path); err != nil {
		s.writeTextError(w, err)
		return
	}
	page, isPage := pageRoutes[path]
	switch {
	case !page.open && !strings.HasPrefix(path, apiPath) && !s.auth.isAuthorized(r):
		s.writeErrorPage(w, r, accessDenied(r))
	case isPage:
		s.answer(w, r, page)
	case !s.api(w, r, path):
		s.writeErrorTo(w, r, refuse(http.StatusNotFound, "this node has no page %s: check the address, or choose a page above", oneLine(path)))
	}
}

// A pageRoute answers the requests for a page.
type pageRoute struct {
	get, post func(*Server, http.ResponseWriter, *http.Request) error // nil if the page does not have the method
	open      bool                                                    // not only for the node's user
}

// pageRoutes holds the pages by their paths.
var pageRoutes = map[string]pageRoute{
	"/metrics": {get: (*Server).metrics, open: true},
	"/healthz": {get: (*Server).healthz, open: true},
	"/readyz":  {get: (*Server).readyz, open: true},
	stylePath:  {get: (*Server).static, open: true},
	scriptPath: {get: (*Server).static, open: true},
	iconPath:   {get: (*Server).static, open: true},
	loginPath:  {get: (*Server).login, open: true},

	"/":            {get: (*Server).home},
	"/show":        {get: (*Server).show},
	livePath:       {get: (*Server).live},
	siteIconPath:   {get: (*Server).siteIcon},
	listsPath:      {get: (*Server).listsPage},
	nodePath:       {get: (*Server).nodePage},
	"/channels":    {get: (*Server).channels},
	"/network":     {get: (*Server).network},
	"/add":         {get: (*Server).add},
	"/subscribe":   {post: (*Server).subscribeForm},
	"/unsubscribe": {post: (*Server).unsubscribeForm},
	undoPath:       {post: (*Server).undoForm},
	languagePath:   {post: (*Server).languageForm},
	describePath:   {post: (*Server).describeForm},
	pollPath:       {post: (*Server).pollForm},
	"/opml":        {get: (*Server).exportOPML, post: (*Server).importForm},
	importPath:     {get: (*Server).importPage, post: (*Server).importActionForm},

	subscriptionsPath: {get: (*Server).subscriptionsPage, post: (*Server).subscriptionsForm},

	watchPath:   {get: (*Server).watch, post: (*Server).watchForm},
	unwatchPath: {post: (*Server).unwatchForm},

	NotifyPath:       {get: (*Server).notify, post: (*Server).notifyForm},
	notifyRemovePath: {post: (*Server).notifyRemoveForm},
	notifyTestPath:   {post: (*Server).notifyTestForm},
}

// answer calls the function for the request's method. It shows an error as a page.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, page pageRoute) {
	do, method := page.get, http.MethodGet
	if do == nil || page.post != nil && r.Method == http.MethodPost {
		do, method = page.post, http.MethodPost
	}
	err := allow(w, r, method)
	if err == nil {
		err = do(s, w, r)
	}
	if err != nil {
		s.writeErrorPage(w, r, err)
	}
}

// allow refuses methods other than those given. GET includes HEAD.
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

// Timeouts and sizes of a connection. Readers are near and send little. Clients that hold idle connections must not
// keep the node from its peers.
const (
	maxHeader    = 32 << 10
	headerTime   = 5 * time.Second
	bodyTime     = 30 * time.Second
	writeTime    = 90 * time.Second // enough for a large feed to a slow phone
	idleTime     = time.Minute
	shutdownTime = time.Second
)

// Serve answers readers on a listener until ctx ends, and closes the listener. It returns when all its goroutines
// have ended, with nil if ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	limiter := newConnLimiter(l, s.gate.isProxy)
	defer s.imports.close()
	defer context.AfterFunc(ctx, s.imports.stop)()
	return serveHTTP(ctx, limiter, s, s.config.Log, "serve readers")
}

// serveHTTP answers requests on a listener until ctx ends. what says for errors what it does.
func serveHTTP(ctx context.Context, limiter *connLimiter, handler http.Handler, log *slog.Logger, what string) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       bodyTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ConnState:         limiter.stateChanged,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConnOwner,

		DisableGeneralOptionsHandler: true, // this handler would answer for any Host
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(limiter) }()
	select {
	case err := <-served:
		_ = server.Close() // the listener's error is returned
		return fmt.Errorf("%s: %w", what, err)
	case <-ctx.Done():
	}
	// Requests in progress end with ctx. The grace period is for slow readers.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
