package proxy

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// Keywords is the node's interface for keyword subscriptions. It is safe for concurrent use.
type Keywords interface {
	// Watch subscribes to the articles that match a query, and returns when the subscription is durable. The error
	// is ErrQuery, which says what is wrong and where, or ErrFull. If the query is already watched, the
	// subscription keeps its number.
	Watch(ctx context.Context, query string) (Watch, error)
	// Preview tries a query on recent articles. The error may be ErrQuery.
	Preview(ctx context.Context, query string) (Preview, error)
	// Unwatch ends a subscription, and returns when that is durable. The error is ErrNoSubscription if there was
	// none. Its number is never used again.
	Unwatch(ctx context.Context, number uint32) error
	// Watches returns a part of the list of subscriptions.
	Watches(ctx context.Context, q WatchList) (WatchPage, error)
	// CountWatches returns the number of subscriptions.
	CountWatches() int
	// SameWatches returns the subscriptions of the node's user with the meaning of a query, the oldest first. There is more than one only if
	// they were made by an earlier version.
	SameWatches(ctx context.Context, query string) ([]Watch, error)
	// LookUp returns a subscription, or ErrNoSubscription.
	LookUp(ctx context.Context, number uint32) (Watch, error)
	// Watched returns the current feed of a subscription, or ErrNoSubscription.
	Watched(ctx context.Context, number uint32) (MatchedFeed, error)
	// Shortage says which new articles are currently not kept, and why. It returns nil if all are kept.
	Shortage() locale.Text
}

// A Watch is a keyword subscription.
type Watch struct {
	Number uint32    `json:"-"`
	Query  string    `json:"query"`
	Since  time.Time `json:"since,omitzero"`
	// ReadURL is the address of the subscription's feed. Anybody who knows the address can read the feed.
	ReadURL string `json:"read_url,omitempty"`
	// Once, in a request, asks for the address of a feed that shows a story of several feeds once.
	Once bool `json:"once,omitempty"`
	// Token is the id of the token with which the search was made; empty: the node's user has made it.
	Token string `json:"token,omitempty"`
}

// MatchedFeed is the feed of a keyword subscription.
type MatchedFeed struct {
	Articles []uint32 // numbers of the articles, newest first; equal numbers mean equal feeds
	// Read returns the articles with their content and source. It may be called only once.
	Read func() (Watch, []feed.Entry, error)
}

var errEmptyQuery = refuse(http.StatusBadRequest, "the query is empty; write a word to search for, such as: solar")

// ErrQuery is the error for a query that is invalid or too general.
var ErrQuery = errors.New("query not accepted")

const keywordsPath = "/k/"

// formats maps the extensions of keyword feeds to their formats.
var formats = map[string]feed.Format{"atom": feed.Atom, "rss": feed.RSS, "json": feed.JSON}

// numberTokens converts subscription numbers to tokens and back. Tokens cannot be guessed without the secret. A
// token is one AES block, so it does not show how many subscriptions there are, and nothing has to be stored for
// it.
type numberTokens struct{ block cipher.Block }

// keywordTokenDomain separates these tokens from other uses of the node's secret.
const keywordTokenDomain = "tidings/keywords/1\x00"

func newNumberTokens(secret []byte) numberTokens {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(keywordTokenDomain))
	block, err := aes.NewCipher(h.Sum(nil)[:aes.BlockSize])
	if err != nil {
		panic("proxy: " + err.Error()) // the key has the right length
	}
	return numberTokens{block}
}

func (s numberTokens) token(number uint32) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint32(b[:], number)
	s.block.Encrypt(b[:], b[:])
	return hex.EncodeToString(b[:])
}

// open returns the number in a token. ok is false if this node did not make the token.
func (s numberTokens) open(token string) (number uint32, ok bool) {
	b, err := hex.DecodeString(token)
	if err != nil || len(b) != aes.BlockSize {
		return 0, false
	}
	s.block.Decrypt(b, b)
	number = binary.BigEndian.Uint32(b)
	var want [aes.BlockSize]byte
	binary.BigEndian.PutUint32(want[:], number)
	return number, hmac.Equal(b, want[:])
}

// serveKeywords answers requests for a keyword feed.
func (s *Server) serveKeywords(w http.ResponseWriter, r *http.Request, path string) {
	err := allow(w, r, http.MethodGet)
	if err == nil {
		err = s.keywordFeed(w, r, path)
	}
	if err != nil {
		s.writeErrorTo(w, r, err)
	}
}

func (s *Server) keywordFeed(w http.ResponseWriter, r *http.Request, path string) error {
	token, ending, _ := strings.Cut(path[len(keywordsPath):], ".")
	number, ok := s.keywordTokens.open(token)
	format, once := strings.CutPrefix(ending, onceMark+".")
	t := target{token: true, format: formats[format], hub: s.config.Hub != nil}
	if !ok || t.format == 0 {
		return refuse(http.StatusNotFound, "there is no such address here")
	}
	readCtx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	m, err := s.config.Keywords.Watched(readCtx, number)
	if errors.Is(err, ErrNoSubscription) {
		return refuse(http.StatusGone, "this search has ended")
	}
	if err != nil {
		return err
	}
	if s.isBrowser(r) {
		watch, _, err := m.Read()
		if err == nil {
			showReadable(w, r, watchPath+"?q="+url.QueryEscape(watch.Query))
		}
		return err
	}
	t.self = s.base(r) + keywordsPath + token + "." + ending
	tag := tagOf(t.self, m.Articles)
	last, _ := s.rendered.get(t.self)
	if last == nil || last.tag != tag {
		if matches(strings.Join(r.Header.Values("If-None-Match"), ","), tag) { // the reader has this version; no article has to be read
			h := w.Header()
			h.Set("Cache-Control", "private, max-age=0")
			h.Set("Etag", tag)
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		if last, err = s.renderKeywords(readCtx, t, token, tag, once, m); err != nil {
			return err
		}
	}
	last.serve(w, r, s.config.Now(), true)
	return nil
}

// tagOf returns the ETag of a feed with these articles. The tag is weak, because an article that has become too old
// may disappear without a change of the tag.
func tagOf(self string, articles []uint32) string {
	h := sha256.New()
	h.Write([]byte(self))
	for _, n := range articles {
		h.Write(binary.BigEndian.AppendUint32(nil, n))
	}
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// renderKeywords renders a keyword feed.
func (s *Server) renderKeywords(ctx context.Context, t target, token, tag string, once bool, m MatchedFeed) (*rendered, error) {
	release, err := s.renderSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	watch, entries, err := m.Read()
	if err != nil {
		return nil, err
	}
	modified := watch.Since
	for i := range entries { // an article that is not shown is listed with another one
		if at := entries[i].Arrived; at.After(modified) {
			modified = at
		}
	}
	if once {
		entries = s.onceEntries(token, entries)
		token += "." + onceMark // the same article is another item there
	}
	for i := range entries {
		said := *entries[i].Meaning
		said.GUID = keywordID(token, said.GUID)
		entries[i].Meaning = &said
	}
	head, err := feed.NewHead(t.format, watch.Query, s.config.site(t.self), "New articles that match "+watch.Query, "")
	if err != nil {
		return nil, err
	}
	c, err := render(Window{Document: feed.Document{Head: head, Entries: entries, Changed: watch.Since}, State: StateOK}, t, true, nil, s.pages.sanitiser.cleanMeaning, s.config.Now())
	if err != nil {
		return nil, err
	}
	c.tag, c.gzipTag = tag, tag
	c.modified = modified.UTC().Truncate(time.Second).Add(time.Second) // as in render
	c.modifiedText = c.modified.Format(http.TimeFormat)
	s.rendered.put(t.self, c, c.cost())
	return c, nil
}

// site returns the address of the page to which a keyword feed belongs: this node's start page.
func (c *Config) site(self string) string {
	return self[:strings.Index(self, keywordsPath)+1]
}

// keywordID returns an article's identity in one keyword feed. It differs between feeds, so that a reader that also
// reads the article's own feed, or another keyword feed, does not merge the two.
func keywordID(token, guid string) string {
	sum := sha256.Sum256([]byte(token + "\x00" + guid))
	return "urn:tidings:keywords:" + hex.EncodeToString(sum[:16])
}

// WatchURL returns the address at which a feed reader reads a keyword subscription.
func (s *Server) WatchURL(base string, number uint32) string {
	return base + keywordsPath + s.keywordTokens.token(number) + ".atom"
}

// onceURL returns the address of the feed that shows each story once, from that of a search.
func onceURL(readURL string) string { return strings.TrimSuffix(readURL, "atom") + onceMark + ".atom" }

// WatchResponse is the answer of watches, watch and unwatch. The latter two list the subscriptions that they
// changed.
type WatchResponse struct {
	Watches []Watch `json:"watches"`
	// Total is the number of all searches of the node.
	Total int `json:"total"`
	// Next, in the answer of watches, is where the list goes on, as its parameter from; 0 at its end.
	Next int `json:"next,omitempty"`
	// Scope says which articles are matched, for people.
	Scope locale.Text `json:"on"`
	// ScopeEmpty says that no articles are matched, because the node has no subscriptions.
	ScopeEmpty bool `json:"nothing,omitempty"`
	// MaxArticles is the size of a keyword feed in articles.
	MaxArticles int `json:"kept"`
	// Shortage says which new articles are currently not kept, and why.
	Shortage locale.Text `json:"short,omitempty"`
	// Preview is the answer of watch about recent articles that match.
	Preview *PreviewResult `json:"trial,omitempty"`
}

// watchScope returns a WatchResponse for some subscriptions, with the articles that they cover.
func (s *Server) watchScope(ctx context.Context, watches []Watch) (WatchResponse, error) {
	w := WatchResponse{Watches: watches, Total: s.config.Keywords.CountWatches(), Scope: locale.Say("all feeds and pages of the network"), MaxArticles: s.config.MaxArticles, Shortage: s.config.Keywords.Shortage()}
	switch {
	case s.config.HostingCentre:
		w.Scope = locale.Say("all feeds that the crawlers of the hosting centre poll")
		return w, nil
	case s.config.Filter:
		return w, nil
	}
	n, err := s.subs.CountShared(ctx)
	w.Scope = locale.Say("the %d feeds and pages that this node subscribes to", n)
	if w.ScopeEmpty = n == 0; w.ScopeEmpty {
		w.Scope = locale.Say("the feeds and pages that this node subscribes to (none yet)")
	}
	return w, err
}

func (s *Server) apiWatch(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := readWatch(w, r)
	if err != nil {
		return nil, err
	}
	p, err := s.config.Keywords.Preview(r.Context(), q.Query) // first, so that an error leaves no subscription behind
	if err != nil {
		return nil, err
	}
	watch, err := s.config.Keywords.Watch(r.Context(), q.Query)
	if err != nil {
		return nil, err
	}
	if watch.ReadURL, watch.Once = s.WatchURL(s.base(r), watch.Number), q.Once; q.Once {
		watch.ReadURL = onceURL(watch.ReadURL)
	}
	answer, err := s.watchScope(r.Context(), []Watch{watch})
	answer.Preview = p.result(s.config.MaxArticles)
	return answer, err
}

func (s *Server) apiUnwatch(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := readWatch(w, r)
	if err != nil {
		return nil, err
	}
	ended, err := s.unwatch(r.Context(), q.Query)
	if err != nil {
		return nil, err
	}
	return s.watchScope(r.Context(), ended)
}

// unwatch ends the subscription whose feed has an address, or all subscriptions with the meaning of a query.
func (s *Server) unwatch(ctx context.Context, text string) (ended []Watch, err error) {
	named, err := s.namedWatches(ctx, text)
	if err != nil {
		return nil, err
	}
	for _, w := range named {
		err = s.config.Keywords.Unwatch(ctx, w.Number)
		if errors.Is(err, ErrNoSubscription) {
			continue // another request has just ended it
		}
		if err != nil {
			return ended, err
		}
		ended = append(ended, w)
	}
	if len(ended) == 0 {
		return nil, refuse(http.StatusNotFound, "there is no search for %s: give the query as \"tidings watches\" shows it, or the address of its feed", oneLine(text))
	}
	return ended, nil
}

// namedWatches returns the subscription whose feed has an address, or all subscriptions with the meaning of a query.
func (s *Server) namedWatches(ctx context.Context, text string) ([]Watch, error) {
	if _, rest, ok := strings.Cut(text, keywordsPath); ok {
		token, _, _ := strings.Cut(rest, ".")
		if number, ok := s.keywordTokens.open(token); ok {
			w, err := s.config.Keywords.LookUp(ctx, number)
			if errors.Is(err, ErrNoSubscription) {
				return nil, nil
			}
			return []Watch{w}, err
		}
	}
	return s.config.Keywords.SameWatches(ctx, text)
}

// readWatch decodes a request that contains a query.
func readWatch(w http.ResponseWriter, r *http.Request) (Watch, error) {
	q, err := decodeRequest[Watch](w, r)
	if err == nil && strings.TrimSpace(q.Query) == "" {
		err = errEmptyQuery
	}
	return q, err
}
