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
	"unicode"

	"tidings/difference"
	"tidings/internal/feed"
)

// Publishing is the node's interface for publishers. It is safe for concurrent use.
type Publishing interface {
	// Push adds an item in its publisher's signed envelope to its feed. It returns when a quorum of the feed's
	// owners has committed the item. The error is ErrRejected if the owners refused it, ErrPending if it has to be
	// pushed again, or ErrInvalidItem.
	Push(ctx context.Context, envelope []byte) (PublishResult, error)
	// Publisher returns what the network knows about a feed's publisher, or what the feed's document says if
	// nothing was published. If either names a key, the node follows the feed from then on.
	Publisher(ctx context.Context, url string) (Publisher, error)
	// Write signs an item with the node's own key, and adds it to the feed. The error is ErrNoKey if the node has
	// no key, or ErrInvalidItem or ErrTooLarge if the item cannot be signed.
	Write(ctx context.Context, url string, said feed.Meaning) (PublishResult, error)
	// Token returns the token that requests to Write must show, or "" if no request may write.
	Token() string
	// Require makes a subscription show only items with at least a provenance: one of MinProvenances. It returns when that is durable. The error is ErrNoSubscription if there is no subscription.
	Require(ctx context.Context, url, least string) error
	// Trust accepts the key that a feed's owners claim for it. The error is ErrNoSubscription if there is no such
	// claim.
	Trust(ctx context.Context, url string) error
}

// Minimum provenance of the items that are shown.
const (
	ProvenancePublisher = "publisher" // signed by its publisher
	ProvenanceWitnessed = "witnessed" // or seen at the origin by most owners of the feed
	ProvenanceAny       = "any"

	// MinProvenances lists them for people.
	MinProvenances = ProvenancePublisher + ", " + ProvenanceWitnessed + " or " + ProvenanceAny
)

// IsMinProvenance reports whether a text is one of MinProvenances, or "" for none.
func IsMinProvenance(s string) bool {
	return slices.Contains([]string{"", ProvenancePublisher, ProvenanceWitnessed, ProvenanceAny}, s)
}

// ErrNoKey is the error of a node without a publisher's key.
var ErrNoKey = errors.New("this node has no publisher's key: run it with --publish-key")

// A Publisher holds what a node knows about a feed's publisher.
type Publisher struct {
	URL string `json:"url"`
	// Key is the publisher's key, 32 bytes in base64. It is empty if the feed is not published, as far as this node
	// knows.
	Key []byte `json:"key"`
	// ClaimedKey is the key that the owners of the feed's log name instead, while this node has not seen it at the
	// origin. Items are then those signed with ClaimedKey.
	ClaimedKey []byte `json:"claimed,omitempty"`
	// FormerKeys holds the feed's earlier keys, the first one first.
	FormerKeys [][]byte `json:"former,omitempty"`
	// NextKeyHash is the hash of the key that may follow, if one was named.
	NextKeyHash []byte `json:"next,omitempty"`
	Seq         uint64 `json:"seq"` // number of the last publication; 0 if there is none
	// DocumentKey is the key that the feed's document at its origin names, as this node sees it. NoDocumentKey says
	// why the node sees none. The node looks only if nothing was published yet.
	DocumentKey         []byte `json:"named,omitempty"`
	NoDocumentKey       string `json:"unnamed,omitempty"`
	DocumentUnreachable bool   `json:"unseen,omitempty"` // the document cannot be read now
	Head                []byte `json:"head"`             // hash of the last publication
	// Format is the format of the feed: rss, rdf, atom or json; "" if it is not known yet.
	Format string `json:"format"`
	// Items holds the items that the publisher has signed, each as its identity and its hash in hexadecimal digits.
	Items []string `json:"items"`
}

// RejectReason says why the feed accepts nothing that is signed with a key, or returns "" if it may accept it. The feed
// accepts its own key and the key that was named as the next one. If nothing was published yet, it accepts the key that
// its document names. If took is true, the feed has accepted the key before; then an unreadable document is no reason
// for rejection while the network knows no key of the feed.
func (p *Publisher) RejectReason(key ed25519.PublicKey, took bool) string {
	hash, own := difference.KeyHash(key), difference.Fingerprint(key)
	switch {
	case bytes.Equal(p.Key, key), bytes.Equal(p.ClaimedKey, key), bytes.Equal(p.NextKeyHash, hash[:]), took && p.DocumentUnreachable && len(p.Key) == 0:
		return ""
	case slices.ContainsFunc(p.FormerKeys, func(k []byte) bool { return bytes.Equal(k, key) }):
		return fmt.Sprintf("the key of %s is %s now, which has replaced this one, %s: publish with the file of the new key", p.URL, difference.Fingerprint(p.Key), own)
	case p.Seq > 0:
		return fmt.Sprintf("the key of %s is %s, and this one is %s: to replace the key, name the new one in the feed's document, and run \"tidings publish --resume --key FILE %s\" once", p.URL, difference.Fingerprint(p.Key), own, ShellWord(p.URL))
	case len(p.DocumentKey) > 0 && !bytes.Equal(p.DocumentKey, key):
		return fmt.Sprintf("the document of %s names the key %s, and this one is %s: %s", p.URL, difference.Fingerprint(p.DocumentKey), own, PasteHint("FILE", p.URL))
	}
	return p.NoDocumentKey
}

// PasteHint says how to add the key in a file to a feed's document.
func PasteHint(file, url string) string {
	return fmt.Sprintf("paste the output of \"tidings publish --key %s --metadata %s\" into the feed's document, directly after <channel> or <feed>", file, ShellWord(url))
}

// ShellWord quotes a text for a shell if necessary.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-+./:@_%,=~", r))
	}
	if text != "" && text[0] != '~' && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// PublishResult says what became of an item.
type PublishResult struct {
	URL string `json:"url"`
	Seq uint64 `json:"seq"` // the item's number
	// Pending is not empty if the item is signed and stored, but no quorum has it yet; it says why. The node sends
	// the item again by itself.
	Pending string `json:"pending,omitempty"`
}

// A Draft is an item that a program wants to publish. Either the program sends the signed envelope, or the node
// signs.
type Draft struct {
	Envelope []byte `json:"envelope,omitempty"`

	URL       string `json:"url,omitempty"` // address of the feed
	ID        string `json:"id,omitempty"`
	Link      string `json:"link,omitempty"`
	Title     string `json:"title,omitempty"`
	Summary   string `json:"summary,omitempty"` // Summary and Content are HTML
	Content   string `json:"content,omitempty"`
	Author    string `json:"author,omitempty"`
	Published string `json:"published,omitempty"` // RFC 3339; "" means now
}

// maxDraft bounds the size of a request to publish in bytes. It is more than any item in base64, or in JSON with all its
// quotation marks and angle brackets escaped.
const maxDraft = 4 << 20

// decodeStrictly decodes a request whose unknown fields are an error, because what it makes would lack them.
func decodeStrictly[T any](w http.ResponseWriter, r *http.Request, limit int64) (q T, err error) {
	body, err := readJSONBody(w, r, limit)
	if err != nil {
		return q, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := jsonError(d.Decode(&q)); err != nil {
		return q, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return q, refuse(http.StatusBadRequest, "the request must be one JSON object, not several")
	}
	return q, nil
}

func (s *Server) apiPublish(w http.ResponseWriter, r *http.Request) (any, error) {
	p := s.config.Publishing
	draft, err := decodeStrictly[Draft](w, r, maxDraft)
	if err != nil {
		return nil, err
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	want := p.Token()
	hasToken := ok && want != "" && subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1
	if len(draft.Envelope) > 0 { // signed by its publisher; the node follows the feed from now on
		if !hasToken && !s.auth.isAuthorized(r) {
			return nil, accessDenied(r)
		}
		return p.Push(r.Context(), draft.Envelope)
	}
	switch {
	case want == "":
		return nil, refuse(http.StatusForbidden, "%v", ErrNoKey)
	case !hasToken:
		return nil, refuse(http.StatusUnauthorized, "the token for publishing is missing or wrong: send the content of publish.token in the node's data directory as Authorization: Bearer …")
	}
	address, err := signable(s.resolveAddress(r, draft.URL))
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
		Authors: feed.AuthorNamed(draft.Author), Published: published,
	})
	if err == nil && written.Pending != "" {
		written.Pending = oneLine(written.Pending)
		writeJSON(w, http.StatusAccepted, written)
		return nil, nil
	}
	return written, err
}

// signable refuses the name of a private feed, whose items no publisher signs.
func signable(address string, err error) (string, error) {
	if err == nil && strings.HasPrefix(address, PrivateName) {
		err = refuse(http.StatusBadRequest, "%s is a private feed: no publisher signs its items, so it has no key", address)
	}
	return address, err
}

func (s *Server) apiPublisher(w http.ResponseWriter, r *http.Request) (any, error) {
	address, err := signable(s.decodeAddress(w, r))
	if err != nil {
		return nil, err
	}
	return s.config.Publishing.Publisher(r.Context(), address)
}

func (s *Server) apiTrust(w http.ResponseWriter, r *http.Request) (any, error) {
	address, err := signable(s.decodeAddress(w, r))
	if err != nil {
		return nil, err
	}
	if err := s.config.Publishing.Trust(r.Context(), address); err != nil {
		return nil, err
	}
	return SubscribeMessage{URL: address}, nil
}
