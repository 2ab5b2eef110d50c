package proxy

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
)

// Publishing is the node, as publishers use it. It is safe for concurrent use.
type Publishing interface {
	// Push brings an item in its publisher's envelope into its feed. It returns when a quorum
	// of the feed's owners holds it, else an error: ErrUnpublished if it was refused, ErrUntaken if
	// it is to be pushed again, ErrItem if it is none.
	Push(ctx context.Context, envelope []byte) (PublishResult, error)
	// Publisher says what the network has of a feed's publisher, and its document if that is nothing. From
	// then on the node follows the feed, if either names a key.
	Publisher(ctx context.Context, url string) (Publisher, error)
	// Write signs an item with the node's own key, and brings it into the feed; ErrNoKey if it has
	// none, ErrItem or ErrLarge if it cannot be signed.
	Write(ctx context.Context, url string, said feed.Meaning) (PublishResult, error)
	// Token has to be shown by who wants something written; "" if nobody can.
	Token() string
	// Require has a subscription show items only for which something vouches: LeastPublisher
	// or LeastAny. It returns when that is durable, ErrUnknown if there is no subscription.
	Require(ctx context.Context, url, least string) error
	// Trust believes that a feed has the key that its owners say it has, ErrUnknown if there is no
	// such question.
	Trust(ctx context.Context, url string) error
}

// What has to vouch for an item to be shown.
const (
	ProvenancePublisher = "publisher" // its publisher's signature
	ProvenanceAny       = "any"
)

// ErrNoKey is the error of a node that is to sign and has no key.
var ErrNoKey = errors.New("this node has no publisher's key: run it with --publish-key")

// A Publisher is what a node knows of a feed's publisher.
type Publisher struct {
	URL string `json:"url"`
	// Key is the publisher's, 32 bytes in base64; empty: the feed is not published, as far as is
	// known here.
	Key []byte `json:"key"`
	// Claimed is the key that the nodes of the feed's log name instead, while this node has not seen it at the origin yet.
	// Items are then those that this key has signed.
	ClaimedKey []byte `json:"claimed,omitempty"`
	// Former are the keys that the feed had before, the first one first.
	FormerKeys [][]byte `json:"former,omitempty"`
	// Next is the hash of the key that may follow, if one was named.
	NextKeyHash []byte `json:"next,omitempty"`
	Seq         uint64 `json:"seq"` // of the last publication; 0: none
	// Named is the key that the feed's document names at its origin, as this node sees it, and Unnamed is,
	// in words, why it sees none. It looks only where nothing was published yet.
	DocumentKey         []byte `json:"named,omitempty"`
	NoDocumentKey       string `json:"unnamed,omitempty"`
	DocumentUnreachable bool   `json:"unseen,omitempty"` // it cannot see the document now
	Head                []byte `json:"head"`             // its hash
	// Format of the feed: rss, rdf, atom, json; empty: not known yet.
	Format string `json:"format"`
	// Items are those that the publisher has signed, each its identity and its hash, in
	// hexadecimal digits.
	Items []string `json:"items"`
}

// Refuses says, in words, why the feed takes nothing that a key signs; "" if it may. Its key is that one, or
// names it as the one that follows; or nothing was published in it, and its document names that one. Of a feed
// that took something of that key before, a document that cannot be seen now, and a network that is not heard
// of yet, are no reason.
func (p *Publisher) RejectReason(key ed25519.PublicKey, took bool) string {
	hash, own := difference.KeyHash(key), difference.Fingerprint(key)
	switch {
	case bytes.Equal(p.Key, key), bytes.Equal(p.ClaimedKey, key), bytes.Equal(p.NextKeyHash, hash[:]), took && p.DocumentUnreachable && len(p.Key) == 0:
		return ""
	case slices.ContainsFunc(p.FormerKeys, func(k []byte) bool { return bytes.Equal(k, key) }):
		return fmt.Sprintf("the key of %s is %s now, which has replaced this one, %s: publish with the file of the new key", p.URL, difference.Fingerprint(p.Key), own)
	case p.Seq > 0:
		return fmt.Sprintf("the key of %s is %s, and this one is %s: to replace the key, name the new one in the feed's document, and run \"tidings publish --resume --key FILE %s\" once", p.URL, difference.Fingerprint(p.Key), own, p.URL)
	case len(p.DocumentKey) > 0 && !bytes.Equal(p.DocumentKey, key):
		return fmt.Sprintf("the document of %s names the key %s, and this one is %s: %s", p.URL, difference.Fingerprint(p.DocumentKey), own, PasteHint("FILE", p.URL))
	}
	return p.NoDocumentKey
}

// Paste says how a feed's document comes to name the key in a file.
func PasteHint(file, url string) string {
	return fmt.Sprintf("paste the output of \"tidings publish --key %s --metadata %s\" into the feed's document, directly after <channel> or <feed>", file, url)
}

// Written is what became of an item.
type PublishResult struct {
	URL string `json:"url"`
	Seq uint64 `json:"seq"` // its number
	// Pending, if it is not empty, says that the item is signed and kept, and why nobody has it yet. The
	// node sends it by itself.
	Pending string `json:"pending,omitempty"`
}

// A Draft is an item that a program wants published. Either it has its envelope, or the node signs.
type Draft struct {
	Envelope []byte `json:"envelope,omitempty"`

	URL       string `json:"url,omitempty"` // of the feed
	ID        string `json:"id,omitempty"`
	Link      string `json:"link,omitempty"`
	Title     string `json:"title,omitempty"`
	Summary   string `json:"summary,omitempty"` // HTML, as is Content
	Content   string `json:"content,omitempty"`
	Author    string `json:"author,omitempty"`
	Published string `json:"published,omitempty"` // RFC 3339; empty: now
}

// publishing is the node as publishers use it.
func (s *Server) publishing() (Publishing, error) {
	if s.config.Publishing == nil {
		return nil, refuse(http.StatusNotFound, "this node cannot publish")
	}
	return s.config.Publishing, nil
}

// maxDraft is more than any request to publish has: an item in base64.
const maxDraft = 128 << 10

// askedDraft reads a draft. A field that nobody knows would be an item that says less than it should.
func decodeDraft(w http.ResponseWriter, r *http.Request) (draft Draft, err error) {
	body, err := readJSONBody(w, r, maxDraft)
	if err != nil {
		return draft, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := jsonError(d.Decode(&draft)); err != nil {
		return draft, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return draft, refuse(http.StatusBadRequest, "the request must be one JSON object, not several")
	}
	return draft, nil
}

func (s *Server) apiPublish(w http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.publishing()
	if err != nil {
		return nil, err
	}
	draft, err := decodeDraft(w, r)
	if err != nil {
		return nil, err
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	want := p.Token()
	shown := ok && want != "" && subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1
	if len(draft.Envelope) > 0 { // its publisher has signed it; the node follows its feed from now on
		if !shown && !s.auth.isAuthorized(r) {
			return nil, unauthorized(r)
		}
		return p.Push(r.Context(), draft.Envelope)
	}
	switch {
	case want == "":
		return nil, refuse(http.StatusForbidden, "%v", ErrNoKey)
	case !shown:
		return nil, refuse(http.StatusUnauthorized, "the token for publishing is missing or wrong: send the content of publish.token in the node's data directory as Authorization: Bearer …")
	}
	address, err := s.resolveAddress(r, draft.URL)
	if err != nil {
		return nil, err
	}
	if KindOf(address) == KindPage {
		return nil, refuse(http.StatusBadRequest, "%s is a page: give the address of a feed", address)
	}
	var published time.Time
	if draft.Published != "" {
		if published, err = time.Parse(time.RFC3339, draft.Published); err != nil || !published.After(time.Time{}) {
			return nil, refuse(http.StatusBadRequest, "\"published\" is %q: give a time such as 2026-11-24T20:00:00Z", draft.Published)
		}
	}
	written, err := p.Write(r.Context(), address, feed.Meaning{
		GUID: draft.ID, Link: draft.Link, Title: draft.Title, Summary: draft.Summary, Content: draft.Content,
		Author: draft.Author, Published: published,
	})
	if err == nil && written.Pending != "" {
		written.Pending = oneLine(written.Pending)
		writeJSON(w, http.StatusAccepted, written)
		return nil, nil
	}
	return written, err
}

func (s *Server) apiPublisher(w http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.publishing()
	if err != nil {
		return nil, err
	}
	address, err := s.decodeAddress(w, r)
	if err != nil {
		return nil, err
	}
	return p.Publisher(r.Context(), address)
}

func (s *Server) apiTrust(w http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.publishing()
	if err != nil {
		return nil, err
	}
	address, err := s.decodeAddress(w, r)
	if err != nil {
		return nil, err
	}
	if err := p.Trust(r.Context(), address); err != nil {
		return nil, err
	}
	return SubscribeMessage{URL: address}, nil
}
