package proxy

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidings/cobra/query"
	"tidings/internal/locale"
)

// The page of searches lets people who are not the node's user make searches with a token. It is the only page that
// may face the Internet: all that it needs is below searchesPath, so that a reverse proxy passes on that and keywordsPath, and
// nothing else. It leads to no other page, has no script, and tells nothing of the node but what the searches find.
//
// A token is never part of an address. Programs send it as a bearer token. A browser sends it once in a form and then
// as a cookie, which only requests of the page itself carry.

const (
	// searchesPath begins the paths of the page of searches.
	searchesPath = "/s/"
	// searchesCookie names the cookie that holds a token.
	searchesCookie = "tidings-searches"
	// wrongTokens and wrongTokensBurst bound the wrong tokens that are answered with a reason: in a second, and at once. Nobody
	// guesses 130 random bits, so the bound saves work only, and one for all clients suffices: a valid token is found
	// before wrong ones are counted.
	wrongTokens      = 10
	wrongTokensBurst = 100
)

// searchesPolicy is the Content-Security-Policy of the page of searches, which has no script.
const searchesPolicy = "default-src 'none'; img-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// publicPaths begin the paths that are answered for other machines.
var publicPaths = []string{tokenPath, keywordsPath, privatePath, searchesPath}

// isForOthers reports whether a path is answered for other machines.
func isForOthers(path string) bool {
	return slices.ContainsFunc(publicPaths, func(p string) bool { return strings.HasPrefix(path, p) })
}

// A searchesRoute answers the requests for a path below searchesPath.
type searchesRoute struct {
	pageRoute
	api func(*Server, http.ResponseWriter, *http.Request, Searcher) (any, error) // for programs; nil: it is for browsers
	may []string                                                                 // methods of api
}

// searchesRoutes holds the routes by their paths.
var searchesRoutes = map[string]searchesRoute{
	searchesPath:               {pageRoute: pageRoute{get: (*Server).searchesPage}},
	searchesPath + "enter":     {pageRoute: pageRoute{post: (*Server).enterForm}},
	searchesPath + "leave":     {pageRoute: pageRoute{post: (*Server).leaveForm}},
	searchesPath + "preview":   {pageRoute: pageRoute{post: (*Server).searchPreviewForm}},
	searchesPath + "watch":     {pageRoute: pageRoute{post: (*Server).makeSearchForm}},
	searchesPath + "unwatch":   {pageRoute: pageRoute{post: (*Server).endSearchForm}},
	searchesPath + "language":  {pageRoute: pageRoute{post: (*Server).searchesLanguageForm}},
	searchesPath + "style.css": {pageRoute: pageRoute{get: (*Server).static}},
	searchesPath + "icon.svg":  {pageRoute: pageRoute{get: (*Server).static}},

	searchesPath + "api/searches":     {api: (*Server).apiSearches, may: []string{http.MethodGet, http.MethodPost}},
	searchesPath + "api/searches/end": {api: (*Server).apiEndSearch, may: post},
}

// serveSearches answers requests for the page of searches. Without any token, a node has no such page.
func (s *Server) serveSearches(w http.ResponseWriter, r *http.Request, path string) {
	route, ok := searchesRoutes[path]
	if !ok || s.config.Tokens == nil {
		s.writeTextError(w, refuse(http.StatusNotFound, "there is no such address here"))
		return
	}
	if !s.config.Tokens.HasTokens() {
		s.writeTextError(w, refuse(http.StatusNotFound, "this node takes no searches of others: whoever runs it has made no token"))
		return
	}
	if route.api != nil {
		answer, err := s.searchesAPI(w, r, route)
		if err != nil {
			s.writeJSONError(w, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, http.StatusOK, answer)
		return
	}
	do, method := route.get, http.MethodGet
	if do == nil {
		do, method = route.post, http.MethodPost
	}
	err := allow(w, r, method)
	if err == nil && method == http.MethodPost && (s.gate.crossOrigin.Check(r) != nil || isCrossSite(r)) {
		err = refuse(http.StatusForbidden, "refused, because a page of another site sent this request")
	}
	if err == nil {
		err = do(s, w, r)
	}
	switch {
	case err == nil:
	case statusOf(err) == http.StatusTooManyRequests: // a page would be work
		s.writeTextError(w, err)
	default:
		s.writeSearchesError(w, r, err)
	}
}

// searchesAPI answers a program.
func (s *Server) searchesAPI(w http.ResponseWriter, r *http.Request, route searchesRoute) (any, error) {
	if err := allow(w, r, route.may...); err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		w.Header().Set("Www-Authenticate", "Bearer")
		return nil, refuse(http.StatusUnauthorized, "the token is missing: send it in the header Authorization, behind Bearer")
	}
	searcher, err := s.searcher(w, text)
	if err != nil {
		return nil, err
	}
	return route.api(s, w, r, searcher)
}

// searcher returns who has a token. A token that never was gets the same answer as one that was revoked.
func (s *Server) searcher(w http.ResponseWriter, text string) (Searcher, error) {
	found := s.config.Tokens.Searcher(strings.TrimSpace(text))
	switch {
	case found != nil && found.Allow():
		return found, nil
	case found != nil:
		w.Header().Set("Retry-After", "10")
		return nil, refuse(http.StatusTooManyRequests, "the token was used too often: wait ten seconds")
	case !s.wrongTokens.AllowN(s.config.Now(), 1):
		w.Header().Set("Retry-After", "10")
		return nil, refuse(http.StatusTooManyRequests, "too many wrong tokens come in: wait ten seconds")
	}
	return nil, refuse(http.StatusUnauthorized, "the token is not valid: check it, or ask the person who gave it to you for another one")
}

// visitor returns whose token a browser has; nil if it has none. A browser forgets a token that is not valid.
func (s *Server) visitor(w http.ResponseWriter, r *http.Request) (Searcher, error) {
	c, err := r.Cookie(searchesCookie)
	if err != nil {
		return nil, nil //nolint:nilnil // nobody is no error
	}
	found, err := s.searcher(w, c.Value)
	if found == nil && s.config.Tokens.Searcher(c.Value) == nil {
		setSearchesCookie(w, r, s.config.BaseURL, "", -1)
	}
	return found, err
}

// visitorOnly is visitor for requests that need a token.
func (s *Server) visitorOnly(w http.ResponseWriter, r *http.Request) (Searcher, error) {
	found, err := s.visitor(w, r)
	if found == nil && err == nil {
		err = refuse(http.StatusUnauthorized, "enter your token first: the browser has forgotten it")
	}
	return found, err
}

// setSearchesCookie gives a browser its cookie. A browser that reaches the node by https never sends it without.
func setSearchesCookie(w http.ResponseWriter, r *http.Request, baseURL, value string, maxAge int) {
	forwarded := r.Header.Get("X-Forwarded-Proto")
	secure := r.TLS != nil || forwarded == "https" || forwarded == "" && forwardingHeader(r.Header) != "" && strings.HasPrefix(baseURL, "https:")
	http.SetCookie(w, &http.Cookie{Name: searchesCookie, Value: value, Path: searchesPath, MaxAge: maxAge, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode})
}

// A searchesView is the page of searches.
type searchesView struct {
	Token       *SearchToken // nil: the browser has none
	Error       locale.Text  // why the last request failed; empty: it did not
	Query       string       // in the field
	Preview     previewView
	JustAdded   *Watch // the search that was just made
	OnceURL     string // the address of its feed that shows each story once
	Hints       []string
	Watches     []Watch // the newest first
	MaxArticles int
}

// writeSearches shows the page of searches. searcher is nil if the browser has no token.
func (s *Server) writeSearches(w http.ResponseWriter, r *http.Request, status int, searcher Searcher, v searchesView) error {
	if searcher != nil {
		token, watches, err := searcher.Searches(r.Context())
		if err != nil {
			return err
		}
		v.Token, v.Watches, v.MaxArticles = &token, s.withReadURLs(r, watches), s.config.MaxArticles
		slices.Reverse(v.Watches)
	}
	return s.writePage(w, r, status, "searches.html", locale.Say("Searches as feeds"), v)
}

// withReadURLs returns searches with the addresses of their feeds.
func (s *Server) withReadURLs(r *http.Request, watches []Watch) []Watch {
	watches = slices.Clone(watches)
	for i := range watches {
		watches[i].ReadURL, watches[i].Token = s.WatchURL(s.base(r), watches[i].Number), ""
	}
	return watches
}

// writeSearchesError shows the page of searches with an error, and the query that was sent.
func (s *Server) writeSearchesError(w http.ResponseWriter, r *http.Request, err error) {
	status, message := s.writeErrorHeaders(w, err)
	v := searchesView{Error: locale.Verbatim(message), Query: r.PostForm.Get("q")}
	if refusal, ok := refusalOf(err); ok {
		v.Error = refusal
	}
	var searcher Searcher
	if c, none := r.Cookie(searchesCookie); none == nil {
		searcher = s.config.Tokens.Searcher(c.Value)
	}
	if s.writeSearches(w, r, status, searcher, v) != nil {
		s.writeTextError(w, err)
	}
}

// searchesPage shows the searches of a token, or asks for it.
func (s *Server) searchesPage(w http.ResponseWriter, r *http.Request) error {
	searcher, err := s.visitor(w, r)
	if err != nil {
		return err
	}
	return s.writeSearches(w, r, http.StatusOK, searcher, searchesView{})
}

// enterForm gives a browser the cookie of a token.
func (s *Server) enterForm(w http.ResponseWriter, r *http.Request) error {
	text, err := formValue(w, r, "token")
	if err != nil {
		return err
	}
	if _, err := s.searcher(w, text); err != nil {
		return err
	}
	setSearchesCookie(w, r, s.config.BaseURL, strings.TrimSpace(text), int(sessionTime/time.Second))
	http.Redirect(w, r, searchesPath, http.StatusSeeOther)
	return nil
}

// leaveForm lets a browser forget a token.
func (s *Server) leaveForm(w http.ResponseWriter, r *http.Request) error {
	setSearchesCookie(w, r, s.config.BaseURL, "", -1)
	http.Redirect(w, r, searchesPath, http.StatusSeeOther)
	return nil
}

// searchesLanguageForm keeps the language that a visitor has chosen.
func (s *Server) searchesLanguageForm(w http.ResponseWriter, r *http.Request) error {
	if err := chooseLanguage(w, r); err != nil {
		return err
	}
	http.Redirect(w, r, searchesPath, http.StatusSeeOther)
	return nil
}

// searchPreviewForm tries a query.
func (s *Server) searchPreviewForm(w http.ResponseWriter, r *http.Request) error {
	text, err := s.formQuery(w, r)
	if err != nil {
		return err
	}
	searcher, err := s.visitorOnly(w, r)
	if err != nil {
		return err
	}
	v := searchesView{Query: text}
	if v.Preview, err = s.preview(r, s.language(r), text); err != nil {
		return err
	}
	return s.writeSearches(w, r, http.StatusOK, searcher, v)
}

// makeSearchForm makes a search. The page is the answer itself: to load it again makes no other search.
func (s *Server) makeSearchForm(w http.ResponseWriter, r *http.Request) error {
	text, err := s.formQuery(w, r)
	if err != nil {
		return err
	}
	searcher, err := s.visitorOnly(w, r)
	if err != nil {
		return err
	}
	made, err := makeSearch(r, searcher, text)
	if err != nil {
		return err
	}
	made.ReadURL = s.WatchURL(s.base(r), made.Number)
	v := searchesView{JustAdded: &made, OnceURL: onceURL(made.ReadURL)}
	if q, err := query.Parse(made.Query); err == nil {
		v.Hints = q.Hints()
	}
	return s.writeSearches(w, r, http.StatusOK, searcher, v)
}

// makeSearch makes a search with a token.
func makeSearch(r *http.Request, searcher Searcher, text string) (Watch, error) {
	made, err := searcher.Watch(r.Context(), text)
	switch {
	case errors.Is(err, ErrQuota):
		token, _, err := searcher.Searches(r.Context())
		if err != nil {
			return made, err
		}
		return made, refuse(http.StatusForbidden, "the search was not made, because the token has as many as it may have (%d of %d): end another one first, or ask the person who gave you the token for more", token.Searches, token.MaxSearches)
	case errors.Is(err, ErrNoToken):
		return made, refuse(http.StatusUnauthorized, "the token is not valid: check it, or ask the person who gave it to you for another one")
	}
	return made, err
}

// endSearchForm ends a search.
func (s *Server) endSearchForm(w http.ResponseWriter, r *http.Request) error {
	address, err := formValue(w, r, "address")
	if err != nil {
		return err
	}
	searcher, err := s.visitorOnly(w, r)
	if err != nil {
		return err
	}
	if err := s.endSearch(r, searcher, address); err != nil {
		return err
	}
	http.Redirect(w, r, searchesPath, http.StatusSeeOther)
	return nil
}

// endSearch ends the search of a token whose feed has an address.
func (s *Server) endSearch(r *http.Request, searcher Searcher, address string) error {
	_, rest, _ := strings.Cut(address, keywordsPath)
	token, _, _ := strings.Cut(rest, ".")
	number, ok := s.keywordTokens.open(token)
	err := ErrNoSubscription
	if ok {
		err = searcher.Unwatch(r.Context(), number)
	}
	if errors.Is(err, ErrNoSubscription) {
		err = refuse(http.StatusNotFound, "the token has no search with this address: it may have ended already")
	}
	return err
}

// SearchesResponse is the answer of searches and searches/end at the page of searches. Searches with POST lists the search
// that was made.
type SearchesResponse struct {
	// Token is the token with which the program asks, without its text and its name.
	Token   SearchToken `json:"token"`
	Watches []Watch     `json:"watches"`
	// MaxArticles is the size of a feed in articles.
	MaxArticles int `json:"kept"`
}

// apiSearches lists the searches of a token, or makes one.
func (s *Server) apiSearches(w http.ResponseWriter, r *http.Request, searcher Searcher) (any, error) {
	if r.Method != http.MethodPost {
		return s.searchesResponse(r, searcher, nil)
	}
	q, err := readWatch(w, r)
	if err != nil {
		return nil, err
	}
	made, err := makeSearch(r, searcher, q.Query)
	if err != nil {
		return nil, err
	}
	listed := s.withReadURLs(r, []Watch{made})
	if listed[0].Once = q.Once; q.Once {
		listed[0].ReadURL = onceURL(listed[0].ReadURL)
	}
	return s.searchesResponse(r, searcher, listed)
}

// apiEndSearch ends a search of a token.
func (s *Server) apiEndSearch(w http.ResponseWriter, r *http.Request, searcher Searcher) (any, error) {
	q, err := readWatch(w, r)
	if err == nil {
		err = s.endSearch(r, searcher, q.Query)
	}
	if err != nil {
		return nil, err
	}
	return s.searchesResponse(r, searcher, nil)
}

// searchesResponse returns an answer about some searches of a token; nil: all.
func (s *Server) searchesResponse(r *http.Request, searcher Searcher, about []Watch) (any, error) {
	token, all, err := searcher.Searches(r.Context())
	if about == nil {
		about = s.withReadURLs(r, all)
	}
	token.Name = ""
	return SearchesResponse{token, about, s.config.MaxArticles}, err
}
