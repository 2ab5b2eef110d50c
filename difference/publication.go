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
	// MaxEnvelope is the maximum size of an envelope in bytes: it is routed in one frame, with the record of the node that
	// pushes it. The item of a larger publication is not in the envelope, which has its hash instead: the item follows
	// it, and is pulled by those who have verified the envelope. Larger items than [feed.MaxItem] stay at the origin, where polls find them.
	MaxEnvelope = 48 << 10

	// envelopeRoom is more than the size that the envelope of a publication adds.
	envelopeRoom = 128

	maxFeedURL = 2 << 10
)

var (
	// ErrPublication says that the bytes are not a publication.
	ErrPublication = errors.New("not a publication")
	// ErrNoContent says that the content of a large item is missing; see OpenAnnounced.
	ErrNoContent = fmt.Errorf("%w: the content of its item is missing", ErrPublication)
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
	Item *feed.Item // nil: a statement that nothing is new, or an item whose content is not here yet
	Hash feed.Hash  // hash of the signed payload
	Raw  []byte     // the envelope, and the content of a large item

	content *content // nil: the envelope has all
}

// A content is what an envelope says about an item that follows it.
type content struct {
	format feed.Format
	scope  []feed.Binding
	hash   feed.Hash
	size   int
}

// contentField is the number of the content in an envelope, of which wire reads fields 1 to 3.
const contentField = 4

// IsBeat reports whether a publication is a statement that nothing is new.
func (p *Publication) IsBeat() bool { return p.Item == nil && p.content == nil }

// ContentSize returns the size of an item that is not in the envelope; 0: the envelope has all.
func (p *Publication) ContentSize() int {
	if p.content == nil {
		return 0
	}
	return p.content.size
}

// Content returns the item that is not in the envelope; nil: the envelope has all, or the item is not here.
func (p *Publication) Content() []byte {
	_, raw := cutContent(p.Raw)
	return raw
}

// Envelope returns the envelope without the content of a large item, of at most MaxEnvelope bytes.
func (p *Publication) Envelope() []byte {
	envelope, _ := cutContent(p.Raw)
	return envelope
}

// Complete returns a publication that OpenAnnounced has returned, with the content of its item.
func (p *Publication) Complete(raw []byte) (*Publication, error) {
	c := p.content
	if c == nil || len(raw) != c.size || sha256.Sum256(raw) != c.hash {
		return nil, fmt.Errorf("%w: %d bytes that are not those of its item", ErrPublication, len(raw))
	}
	it, err := feed.ReadItem(c.format, raw, c.scope, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublication, err)
	}
	full := *p
	if full.Item = &it; p.Content() == nil {
		full.Raw = withContent(p.Raw, raw)
	}
	return &full, nil
}

// withContent returns an envelope with the content of its item behind it.
func withContent(envelope, raw []byte) []byte {
	b := make([]byte, 0, len(envelope)+protowire.SizeTag(contentField)+protowire.SizeBytes(len(raw)))
	b = protowire.AppendTag(append(b, envelope...), contentField, protowire.BytesType)
	return protowire.AppendBytes(b, raw)
}

// cutContent separates an envelope from the content behind it, if it has any.
func cutContent(b []byte) (envelope, raw []byte) {
	for at := 0; at < len(b); {
		num, typ, n := protowire.ConsumeField(b[at:])
		if n < 0 {
			break
		}
		if num == contentField && typ == protowire.BytesType && at+n == len(b) {
			_, _, tag := protowire.ConsumeTag(b[at:])
			raw, _ = protowire.ConsumeBytes(b[at+tag:])
			return b[:at], raw
		}
		at += n
	}
	return b, nil
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
	if len(m.Content) > 0 {
		signed.Raw = withContent(signed.Raw, it.Raw)
	}
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
	if len(it.Raw) > feed.MaxItem {
		return TooLarge(len(it.Raw))
	}
	if n := roomFor(publicationOf(url, it)); n > MaxEnvelope {
		return signError{ErrLarge, fmt.Sprintf("the namespaces around the item are too large: %s bytes of at most %s; publish it in a document with fewer of them", withCommas(n), withCommas(MaxEnvelope))}
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

// TooLarge returns the error of the kind ErrLarge for an item of a size, including its markup.
func TooLarge(bytes int) error {
	return signError{ErrLarge, fmt.Sprintf("the item is too large: %s bytes of at most %s; publish a summary instead", withCommas(bytes), withCommas(feed.MaxItem))}
}

// withCommas formats a number with commas between groups of three digits.
func withCommas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// publicationOf returns the message of an item without its numbers; nil: no item. An item that makes the envelope too large
// is represented by its hash.
func publicationOf(url string, it *feed.Item) *differencepb.Publication {
	m := &differencepb.Publication{Url: url}
	if it != nil {
		m.Format, m.Raw, m.Scope = uint32(it.Format), it.Raw, bindings(it.Scope)
		if roomFor(m) > MaxEnvelope {
			hash := sha256.Sum256(it.Raw)
			m.Raw, m.Content, m.Size = nil, hash[:], uint32(len(it.Raw))
		}
	}
	return m
}

// roomFor returns the largest size of an envelope of a message whose numbers are not known yet.
func roomFor(m *differencepb.Publication) int {
	numbers := &differencepb.Publication{Pubseq: math.MaxUint64, TimeMs: wire.MaxMillis, Prev: make([]byte, len(feed.Hash{}))}
	return proto.Size(m) + proto.Size(numbers) + envelopeRoom
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

// OpenAnnounced verifies and parses an envelope whose content may be missing. Complete adds it.
func OpenAnnounced(raw []byte) (*Publication, error) {
	signed, err := publicationVerifier.Open(wire.DomainPublication, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPublication, err)
	}
	p, _, err := parseEnvelope(signed)
	return p, err
}

// parsePublication parses a publication whose signature is valid.
func parsePublication(signed wire.Signed) (*Publication, error) {
	p, raw, err := parseEnvelope(signed)
	switch {
	case err != nil:
		return nil, err
	case p.content == nil:
		return p, nil
	case raw == nil:
		return nil, ErrNoContent
	}
	return p.Complete(raw)
}

// parseEnvelope parses a publication whose signature is valid, and returns the content behind its envelope.
func parseEnvelope(signed wire.Signed) (_ *Publication, raw []byte, err error) {
	envelope, raw := cutContent(signed.Raw)
	if n := len(envelope); n > MaxEnvelope {
		return nil, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrPublication, n, MaxEnvelope)
	}
	p, err := parsePayload(signed)
	if err == nil && p.content == nil && raw != nil {
		err = fmt.Errorf("%w: a content that it does not name", ErrPublication)
	}
	return p, raw, err
}

func parsePayload(signed wire.Signed) (*Publication, error) {
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
	case m.Format == 0 && len(m.Raw)+len(m.Scope)+len(m.Content) > 0:
		return nil, fmt.Errorf("%w: an item without a format", ErrPublication)
	case (m.Size > 0) != (len(m.Content) > 0) || m.Size > feed.MaxItem || m.Size > 0 && len(m.Raw) > 0:
		return nil, fmt.Errorf("%w: a content of %d bytes", ErrPublication, m.Size)
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
	if m.Size > 0 {
		p.content = &content{format: format, scope: scopeOf(m.Scope), size: int(m.Size)}
		p.content.hash, err = hashOf(m.Content)
		return p, err
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
