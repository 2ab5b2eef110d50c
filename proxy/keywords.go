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
	"fmt"
	"net/http"
	"strings"
	"time"

	"tidings/cobra/query"
	"tidings/internal/feed"
)

// Keywords are the node's keyword subscriptions. It is safe for concurrent use.
type Keywords interface {
	// Watch subscribes to the articles that match a query, and returns when that is durable. The
	// error is ErrQuery, with what is wrong and where, or ErrFull. A query that is watched already has the
	// number it had.
	Watch(ctx context.Context, query string) (Watch, error)
	// Preview tries a query on the articles of late. The error is ErrQuery.
	Preview(ctx context.Context, query string) (Preview, error)
	// Unwatch returns when the subscription is gone for good, ErrUnknown if there was none. Its number
	// is not given again.
	Unwatch(ctx context.Context, number uint32) error
	// Watches returns them all, or as many as can be looked at.
	Watches(ctx context.Context) ([]Watch, error)
	// Watched returns the feed of a subscription as it is now, ErrUnknown if there is none.
	Watched(ctx context.Context, number uint32) (Matched, error)
	// Short says what of new articles is not kept for now, and why; "" if all is.
	Short() string
}

// A Watch is a keyword subscription.
type Watch struct {
	Number uint32    `json:"-"`
	Query  string    `json:"query"`
	Since  time.Time `json:"since,omitzero"`
	// ReadURL is where a feed reader finds its feed: whoever has it reads it.
	ReadURL string `json:"read_url,omitempty"`
}

// Matched is the feed of a keyword subscription.
type Matched struct {
	Articles []uint32 // their numbers, the newest first; feeds with equal ones are equal
	// Read returns the articles, each of which says what it says, and from where. It may be called
	// once.
	Read func() (Watch, []feed.Entry, error)
}

// ErrQuery is the error of a query that cannot be understood, or is too general.
var ErrQuery = errors.New("query not accepted")

const keywordsPath = "/k/"

// formats are those of keyword feeds, by how their addresses end.
var formats = map[string]feed.Format{"atom": feed.Atom, "rss": feed.RSS, "json": feed.JSON}

// A sealer makes tokens of numbers, with a secret: whoever has a token can read, and whoever has
// none cannot guess one. A token is one block of AES, so that nobody sees how many there are, and
// nothing is kept for it.
type sealer struct{ block cipher.Block }

// sealFor separates these tokens from whatever else a node's secret is for.
const sealFor = "tidings/keywords/1\x00"

func newSealer(secret []byte) sealer {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(sealFor))
	block, err := aes.NewCipher(h.Sum(nil)[:aes.BlockSize])
	if err != nil {
		panic("proxy: " + err.Error()) // the key has the right length
	}
	return sealer{block}
}

func (s sealer) token(number uint32) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint32(b[:], number)
	s.block.Encrypt(b[:], b[:])
	return hex.EncodeToString(b[:])
}

// open returns the number of a token; ok is false if it was not made here.
func (s sealer) open(token string) (number uint32, ok bool) {
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

// serveKeywords answers who reads a keyword feed.
func (s *Server) serveKeywords(w http.ResponseWriter, r *http.Request, path string) {
	err := allow(w, r, http.MethodGet)
	if err == nil {
		err = s.keywordFeed(w, r, path)
	}
	if err != nil {
		s.fail(w, err)
	}
}

func (s *Server) keywordFeed(w http.ResponseWriter, r *http.Request, path string) error {
	token, ending, _ := strings.Cut(path[len(keywordsPath):], ".")
	number, ok := s.sealer.open(token)
	t := target{token: true, format: formats[ending]}
	if !ok || t.format == 0 {
		return refuse(http.StatusNotFound, "there is no such address here")
	}
	within, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	m, err := s.config.Keywords.Watched(within, number)
	if errors.Is(err, ErrUnknown) {
		return refuse(http.StatusGone, "this search has ended")
	}
	if err != nil {
		return err
	}
	t.self = s.base(r) + keywordsPath + token + "." + ending
	tag := tagOf(t.self, m.Articles)
	last, _ := s.copies.get(t.self)
	if last == nil || last.tag != tag {
		if matches(strings.Join(r.Header.Values("If-None-Match"), ","), tag) { // nothing need be read
			h := w.Header()
			h.Set("Cache-Control", "private, max-age=0")
			h.Set("Etag", tag)
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		if last, err = s.renderKeywords(within, t, token, tag, m); err != nil {
			return err
		}
	}
	last.serve(w, r, s.config.Now(), true)
	return nil
}

// tagOf is the ETag of a feed with these articles; a weak one, as an article that has become too old
// goes without it.
func tagOf(self string, articles []uint32) string {
	h := sha256.New()
	h.Write([]byte(self))
	for _, n := range articles {
		h.Write(binary.BigEndian.AppendUint32(nil, n))
	}
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// renderKeywords writes a keyword feed.
func (s *Server) renderKeywords(ctx context.Context, t target, token, tag string, m Matched) (*rendition, error) {
	select {
	case s.rendering <- struct{}{}:
		defer func() { <-s.rendering }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	watch, entries, err := m.Read()
	if err != nil {
		return nil, err
	}
	modified := watch.Since
	for i := range entries {
		said := *entries[i].Said
		said.GUID = keywordID(token, said.GUID)
		entries[i].Said = &said
		if at := entries[i].At; at.After(modified) {
			modified = at
		}
	}
	head, err := feed.NewHead(t.format, watch.Query, s.config.site(t.self), "New articles that match "+watch.Query, "")
	if err != nil {
		return nil, err
	}
	c, err := render(Window{Document: feed.Document{Head: head, Entries: entries, Since: watch.Since}, State: StateOK}, t, true, nil, s.pages.clean.meaning, s.config.Now())
	if err != nil {
		return nil, err
	}
	c.tag, c.zippedTag = tag, tag
	c.modified = modified.UTC().Truncate(time.Second).Add(time.Second) // as render's
	c.modifiedText = c.modified.Format(http.TimeFormat)
	s.copies.put(t.self, c, c.cost())
	return c, nil
}

// site is where people find what a keyword feed belongs to: this node's page.
func (c *Config) site(self string) string {
	return self[:strings.Index(self, keywordsPath)+1]
}

// keywordID is an article's identity in one keyword feed: a reader that also has the article's own feed, or
// another one of keywords, does not take the one for the other.
func keywordID(token, guid string) string {
	sum := sha256.Sum256([]byte(token + "\x00" + guid))
	return "urn:tidings:keywords:" + hex.EncodeToString(sum[:16])
}

// WatchURL is the address at which a feed reader reads a keyword subscription.
func (s *Server) WatchURL(base string, number uint32) string {
	return base + keywordsPath + s.sealer.token(number) + ".atom"
}

// Watching is the answer of watches, and of watch and unwatch with one.
type Watching struct {
	Watches []Watch `json:"watches"`
	// On says what articles are matched.
	On string `json:"on"`
	// Nothing says that these are none.
	Nothing bool `json:"nothing,omitempty"`
	// Kept is how many articles a feed has at most.
	Kept int `json:"kept"`
	// Short says what of new articles is not kept for now, and why.
	Short string `json:"short,omitempty"`
	// Trial, of what was just watched, is what it would have matched of late.
	Trial *Trial `json:"trial,omitempty"`
}

// watching says what keyword subscriptions are matched with.
func (s *Server) watching(ctx context.Context, of []Watch) (Watching, error) {
	w := Watching{Watches: of, On: "all feeds and pages of the network", Kept: s.config.Kept, Short: s.config.Keywords.Short()}
	if s.config.Filter {
		return w, nil
	}
	channels, err := s.subs.List(ctx)
	switch n := len(channels); n {
	case 0:
		w.On, w.Nothing = "the feeds and pages that this node subscribes to (none yet)", true
	case 1:
		w.On = "the feed or page that this node subscribes to"
	default:
		w.On = fmt.Sprintf("the %d feeds and pages that this node subscribes to", n)
	}
	return w, err
}

func (s *Server) apiWatch(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := readWatch(w, r)
	if err != nil {
		return nil, err
	}
	p, err := s.config.Keywords.Preview(r.Context(), q.Query) // first, so that what fails leaves nothing behind
	if err != nil {
		return nil, err
	}
	watch, err := s.config.Keywords.Watch(r.Context(), q.Query)
	if err != nil {
		return nil, err
	}
	watch.ReadURL = s.WatchURL(s.base(r), watch.Number)
	answer, err := s.watching(r.Context(), []Watch{watch})
	answer.Trial = p.trial(s.config.Kept)
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
	return s.watching(r.Context(), ended)
}

// unwatch ends the subscription with an address, or those that mean what a query does.
func (s *Server) unwatch(ctx context.Context, text string) (ended []Watch, err error) {
	all, err := s.config.Keywords.Watches(ctx)
	if err != nil {
		return ended, err
	}
	meaning, unread := query.Canonical(text)
	var number uint32
	var address bool
	if _, rest, ok := strings.Cut(text, keywordsPath); ok {
		token, _, _ := strings.Cut(rest, ".")
		number, address = s.sealer.open(token)
	}
	for _, w := range all {
		of, err := query.Canonical(w.Query)
		same := unread == nil && err == nil && of == meaning
		if !same && w.Query != text && !(address && w.Number == number) {
			continue
		}
		err = s.config.Keywords.Unwatch(ctx, w.Number)
		if errors.Is(err, ErrUnknown) {
			continue // somebody else has just ended it
		}
		if err != nil {
			return ended, err
		}
		ended = append(ended, w)
	}
	if len(ended) == 0 {
		return nil, refuse(http.StatusNotFound, "there is no search for %s: give the query as \"tidings watches\" shows it, or the address of its feed", line(text))
	}
	return ended, nil
}

func (s *Server) apiWatches(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := allow(w, r, http.MethodGet); err != nil {
		return nil, err
	}
	all, err := s.watches(r)
	if err != nil {
		return nil, err
	}
	return s.watching(r.Context(), append([]Watch{}, all...))
}

// readWatch reads what a program asks about a query.
func readWatch(w http.ResponseWriter, r *http.Request) (Watch, error) {
	q, err := asked[Watch](w, r)
	if err == nil && strings.TrimSpace(q.Query) == "" {
		err = refuse(http.StatusBadRequest, "the query is empty; write a word to search for, such as: solar")
	}
	return q, err
}
