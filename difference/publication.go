package difference

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// FeedTree, IPTPS 2005, §4.3: "Each item is assigned a timestamp and a sequence number …
// The RSS data is then signed with the publisher's private key."

const (
	// MaxPublication is the maximum size of a publication in bytes, including the envelope: it is routed in one
	// frame, with the record of the node that pushes it. A larger item stays at the origin, where polls find
	// it.
	MaxPublication = 48 << 10

	// envelopeRoom is more than the size that the envelope of a publication adds.
	envelopeRoom = 128

	maxFeedURL = 2 << 10
)

var (
	// ErrPublication says that the bytes are not a publication.
	ErrPublication = errors.New("not a publication")
	// ErrItem says that an item cannot be published. It stays at the origin.
	ErrItem = errors.New("the item cannot be signed")
	// ErrLarge is the error for items that are too large, a kind of ErrItem.
	ErrLarge = fmt.Errorf("%w: it is too large", ErrItem)
)

// A Publication is an item in its publisher's envelope, whose signature was verified. The caller checks whether
// the key belongs to the feed.
type Publication struct {
	Key ed25519.PublicKey
	URL string // of the feed
	Seq uint64 // the publisher's number
	// Prev is the hash of the preceding publication; zero: there is none.
	Prev feed.Hash
	Time time.Time
	Item *feed.Item // nil: a statement that nothing is new
	Hash feed.Hash  // hash of the signed payload
	Raw  []byte     // the envelope
}

// publicationVerifier opens the envelopes of publishers, which are signed for all networks.
var publicationVerifier = wire.NewVerifier(wire.Anywhere)

// Publish signs an item as number seq of a feed; prev is the hash of the preceding publication. Without an item
// the publication says that nothing came after number seq, whose hash is prev.
func Publish(key ed25519.PrivateKey, url string, seq uint64, prev feed.Hash, at time.Time, it *feed.Item) (*Publication, error) {
	if it != nil {
		if err := Publishable(url, it); err != nil {
			return nil, err
		}
	}
	m := publicationOf(url, it)
	m.Pubseq, m.TimeMs = seq, uint64(at.UnixMilli())
	if prev != (feed.Hash{}) {
		m.Prev = prev[:]
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("publish in %s: %w", url, err)
	}
	signed := wire.NewSigner(key, wire.Anywhere).Sign(wire.DomainPublication, payload)
	p, err := parsePublication(signed)
	if err != nil && it != nil { // nobody else could read it
		err = fmt.Errorf("%w: %w", ErrItem, err)
	}
	return p, err
}

// Publishable returns why an item cannot be published in a feed, as an error of the kind ErrItem, or nil.
// Publishers and pollers use the same rule: items that cannot be signed are left to polls.
func Publishable(url string, it *feed.Item) error {
	if it.Qualifiers != 0 {
		return signError{ErrItem, "other items of the document have the same id"}
	}
	m := publicationOf(url, it)
	m.Pubseq, m.TimeMs, m.Prev = math.MaxUint64, wire.MaxMillis, make([]byte, len(feed.Hash{}))
	if n := proto.Size(m) + envelopeRoom; n > MaxPublication {
		return TooLarge(n)
	}
	return nil
}

// A signError says why an item cannot be signed. Its message is a complete sentence.
type signError struct {
	kind    error
	message string
}

func (u signError) Error() string { return u.message }
func (u signError) Unwrap() error { return u.kind }

// TooLarge returns the error of the kind ErrLarge for an item of a size, including everything that is signed.
func TooLarge(bytes int) error {
	return signError{ErrLarge, fmt.Sprintf("the item is too large: %s bytes of at most %s; publish a summary instead", withCommas(bytes), withCommas(MaxPublication))}
}

// withCommas formats a number with commas between groups of three digits.
func withCommas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// publicationOf returns the message of an item without its numbers; nil: no item.
func publicationOf(url string, it *feed.Item) *differencepb.Publication {
	m := &differencepb.Publication{Url: url}
	if it != nil {
		m.Format, m.Raw, m.Scope = uint32(it.Format), it.Raw, bindings(it.Scope)
	}
	return m
}

// OpenPublication verifies and parses an envelope.
func OpenPublication(raw []byte) (*Publication, error) {
	signed, err := publicationVerifier.Open(wire.DomainPublication, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublication, err)
	}
	return parsePublication(signed)
}

// OpenPublications verifies and parses envelopes, or returns the first error.
func OpenPublications(raws [][]byte) ([]*Publication, error) {
	all := make([]*Publication, len(raws))
	for i, opened := range publicationVerifier.OpenAll(wire.DomainPublication, raws) {
		if opened.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPublication, opened.Err)
		}
		p, err := parsePublication(opened.Signed)
		if err != nil {
			return nil, err
		}
		all[i] = p
	}
	return all, nil
}

// parsePublication parses a publication whose signature is valid.
func parsePublication(signed wire.Signed) (*Publication, error) {
	if n := len(signed.Raw); n > MaxPublication {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrPublication, n, MaxPublication)
	}
	// An empty binding takes two bytes here, and a hundred when it is parsed.
	if err := countBindings(signed.Payload, 7); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublication, err)
	}
	m := new(differencepb.Publication)
	if err := proto.Unmarshal(signed.Payload, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublication, err)
	}
	p := &Publication{Key: signed.Key, URL: m.Url, Seq: m.Pubseq, Time: time.UnixMilli(int64(m.TimeMs)).UTC(), Hash: sha256.Sum256(signed.Payload), Raw: signed.Raw}
	var err error
	switch {
	case len(m.Url) == 0 || len(m.Url) > maxFeedURL:
		return nil, fmt.Errorf("%w: an address of %d bytes", ErrPublication, len(m.Url))
	case m.TimeMs > wire.MaxMillis:
		return nil, fmt.Errorf("%w: a time that cannot be", ErrPublication)
	case m.Format != 0 && m.Pubseq == 0:
		return nil, fmt.Errorf("%w: an item without a number", ErrPublication)
	case m.Format == 0 && len(m.Raw)+len(m.Scope) > 0:
		return nil, fmt.Errorf("%w: an item without a format", ErrPublication)
	}
	if p.Prev, err = hashOf(m.Prev); err != nil {
		return nil, err
	}
	if m.Format == 0 {
		return p, nil
	}
	format, err := formatOf(m.Format)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublication, err)
	}
	it, err := feed.ReadItem(format, m.Raw, scopeOf(m.Scope), 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublication, err)
	}
	p.Item = &it
	return p, nil
}

// SignedBy reports whether a publication was signed by a key.
func (p *Publication) SignedBy(key ed25519.PublicKey) bool {
	return p != nil && bytes.Equal(p.Key, key)
}

// hashOf parses a hash. An empty one is the zero hash, which has no other encoding.
func hashOf(b []byte) (h feed.Hash, err error) {
	switch {
	case len(b) == 0:
		return h, nil
	case len(b) != len(h) || feed.Hash(b) == h:
		return h, fmt.Errorf("%w: a hash of %d bytes", ErrPublication, len(b))
	}
	return feed.Hash(b), nil
}

func bindings(scope []feed.Binding) (list []*differencepb.Binding) {
	for _, b := range scope {
		list = append(list, &differencepb.Binding{Prefix: b.Prefix, Uri: b.URI})
	}
	return list
}

func scopeOf(list []*differencepb.Binding) (scope []feed.Binding) {
	for _, b := range list {
		scope = append(scope, feed.Binding{Prefix: b.Prefix, URI: b.Uri})
	}
	return scope
}

// countBindings refuses a message with too many bindings in a field.
func countBindings(raw []byte, field protowire.Number) error {
	n := 0
	return eachField(raw, func(num protowire.Number, _ []byte) error {
		if num != field {
			return nil
		}
		if n++; n > feed.MaxScope {
			return fmt.Errorf("%w: more than %d bindings", ErrDelta, feed.MaxScope)
		}
		return nil
	})
}
