package difference

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// A Version is a version of an item, by its identity and content hash.
type Version struct {
	ID   feed.ID
	Hash feed.Hash
}

// A Sighting is an owner's statement that it fetched a feed's document itself, and which versions of items it saw there.
// If enough owners saw the same version, no single node can have made it up. The statement also names versions that the
// owner looked for and that the document lacks, although it should have them if the origin had shown them.
type Sighting struct {
	Owner ed25519.PublicKey // public key of the owner
	URL   string
	Time  time.Time // when the document was fetched
	Seen  []Version
	// Missing are the versions that the document lacks. It may have other versions of these items.
	Missing []Version
	Raw     []byte // the envelope; see Bare

	payload []byte
}

// Bounds of sightings and certificates.
const (
	// MaxSeen is how many versions a sighting names, seen and missing ones together. More become more than one sighting.
	MaxSeen = 64
	// MaxSightings is how many sightings a certificate has, one of each owner of a feed.
	MaxSightings = 8
	// MaxSighting is the largest size of a sighting in bytes, including the envelope.
	MaxSighting = 8 << 10
)

// ErrSighting says that bytes are no sighting.
var ErrSighting = errors.New("not a sighting")

// See signs a sighting.
func See(signer *wire.Signer, url string, seen []Version, at time.Time, missing ...Version) *Sighting {
	m := &differencepb.Sighting{Url: url, TimeMs: uint64(at.UnixMilli()), Seen: VersionBytes(seen), Missing: VersionBytes(missing)}
	signed := signer.Sign(wire.DomainSighting, wire.Encode(m))
	return &Sighting{signer.Public(), url, at, seen, missing, signed.Raw, signed.Payload}
}

// OpenSighting verifies and parses a sighting.
func OpenSighting(verify wire.Verifier, raw []byte) (*Sighting, error) {
	if len(raw) > MaxSighting {
		return nil, fmt.Errorf("%w: %d bytes", ErrSighting, len(raw))
	}
	signed, err := verify.Open(wire.DomainSighting, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSighting, err)
	}
	return parseSighting(signed)
}

// OpenSightings verifies sightings together, which takes less time than one by one, and parses them. An invalid one is nil
// in the result, and so is a bare one.
func OpenSightings(verify wire.Verifier, raws [][]byte) []*Sighting {
	bounded := slices.Clone(raws)
	for i, raw := range bounded {
		if len(raw) > MaxSighting {
			bounded[i] = nil // which is no envelope
		}
	}
	all := make([]*Sighting, len(raws))
	for i, opened := range verify.OpenAll(wire.DomainSighting, bounded) {
		if opened.Err == nil {
			all[i], _ = parseSighting(opened.Signed) // nil if it fails
		}
	}
	return all
}

// Bare returns the envelope of a sighting without its signature, for a certificate in an entry that its owner signs: the signature
// of the entry holds for all of it.
func (s *Sighting) Bare() []byte { return wire.Bare(s.payload) }

// OpenBare parses a bare sighting of the signer of an entry.
func OpenBare(signer ed25519.PublicKey, raw []byte) (*Sighting, error) {
	if len(raw) > MaxSighting {
		return nil, fmt.Errorf("%w: %d bytes", ErrSighting, len(raw))
	}
	payload, err := wire.OpenBare(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSighting, err)
	}
	return parseSighting(wire.Signed{Key: signer, Payload: payload, Raw: raw})
}

func parseSighting(signed wire.Signed) (*Sighting, error) {
	m := new(differencepb.Sighting)
	if err := proto.Unmarshal(signed.Payload, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSighting, err)
	}
	seen, err := Versions(m.Seen)
	missing, missErr := Versions(m.Missing)
	if err != nil || missErr != nil || len(seen)+len(missing) > MaxSeen || len(m.Url) > maxFeedURL || m.TimeMs > wire.MaxMillis {
		return nil, fmt.Errorf("%w: out of bounds", ErrSighting)
	}
	return &Sighting{signed.Key, m.Url, time.UnixMilli(int64(m.TimeMs)).UTC(), seen, missing, signed.Raw, signed.Payload}, nil
}

// VersionBytes encodes versions.
func VersionBytes(of []Version) [][]byte {
	all := make([][]byte, len(of))
	for i := range of {
		all[i] = append(of[i].ID[:], of[i].Hash[:]...)
	}
	return all
}

// Versions parses the versions of an untrusted message.
func Versions(all [][]byte) ([]Version, error) {
	if len(all) > MaxSeen {
		return nil, fmt.Errorf("%w: %d versions", ErrSighting, len(all))
	}
	of, named := make([]Version, len(all)), make(map[feed.ID]bool, len(all))
	for i, b := range all {
		if len(b) != len(feed.ID{})+len(feed.Hash{}) {
			return nil, fmt.Errorf("%w: a version of %d bytes", ErrSighting, len(b))
		}
		of[i] = Version{feed.ID(b[:len(feed.ID{})]), feed.Hash(b[len(feed.ID{}):])}
		if named[of[i].ID] {
			return nil, fmt.Errorf("%w: an item twice", ErrSighting)
		}
		named[of[i].ID] = true
	}
	return of, nil
}
