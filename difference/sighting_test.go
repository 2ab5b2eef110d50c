package difference

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

func TestSightingsSayWhatOwnersSaw(t *testing.T) {
	home, away := wire.HashOf([]byte("home")), wire.HashOf([]byte("away"))
	seen := []Version{{feed.ID{1}, feed.Hash{2}}, {feed.ID{3}, feed.Hash{4}}}
	missing := []Version{{feed.ID{3}, feed.Hash{5}}}
	s := See(wire.NewSigner(keyOf(5), home), itsURL, seen, time.Unix(7, 0).UTC(), missing...)
	got, err := OpenSighting(wire.NewVerifier(home), s.Raw)
	if err != nil || !bytes.Equal(got.Owner, public(5)) || got.URL != itsURL || !slices.Equal(got.Seen, seen) || !slices.Equal(got.Missing, missing) || !got.Time.Equal(s.Time) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := OpenSighting(wire.NewVerifier(away), s.Raw); !errors.Is(err, ErrSighting) {
		t.Errorf("a sighting of another network: %v", err)
	}
}

// Together, the valid ones are read as they are alone, and the others are nil in their places.
func TestSightingsAreReadTogether(t *testing.T) {
	home := wire.HashOf([]byte("home"))
	by, verify := wire.NewSigner(keyOf(5), home), wire.NewVerifier(home)
	largest := func(n int) []byte {
		return See(by, "http://h.example/"+strings.Repeat("a", n), make([]Version, 1), time.Unix(7, 0)).Raw
	}
	torn := largest(9)
	torn[len(torn)-1] ^= 1
	raws := [][]byte{largest(1), torn, nil, largest(maxFeedURL), by.Sign(wire.DomainSighting, make([]byte, MaxSighting)).Raw, largest(2)}
	for i, s := range OpenSightings(verify, raws) {
		if alone, err := OpenSighting(verify, raws[i]); (s == nil) != (err != nil) || s != nil && (s.URL != alone.URL || !bytes.Equal(s.Raw, raws[i])) {
			t.Errorf("number %d: %+v together, %+v and %v alone", i, s, alone, err)
		}
	}
}

// The largest sighting and the largest certificate can be read, and one more version or sighting cannot.
func TestSightingsAreBounded(t *testing.T) {
	by := wire.NewSigner(keyOf(5), wire.HashOf([]byte("home")))
	verify := wire.NewVerifier(wire.HashOf([]byte("home")))
	long := "http://h.example/" + string(bytes.Repeat([]byte("a"), maxFeedURL-len("http://h.example/")))
	versions := func(n int) (of []Version) {
		for i := range n {
			of = append(of, Version{ID: feed.ID{byte(i), byte(i >> 8)}})
		}
		return of
	}
	largest := See(by, long, versions(MaxSeen), time.Unix(7, 0))
	if _, err := OpenSighting(verify, largest.Raw); err != nil {
		t.Error(err)
	}
	if _, err := OpenSighting(verify, See(by, itsURL, versions(MaxSeen+1), time.Unix(7, 0)).Raw); !errors.Is(err, ErrSighting) {
		t.Errorf("too many versions: %v", err)
	}
	if _, err := OpenSighting(verify, See(by, itsURL, versions(MaxSeen), time.Unix(7, 0), versions(1)...).Raw); !errors.Is(err, ErrSighting) {
		t.Errorf("too many versions, one of which is missing: %v", err)
	}
	// Otherwise an owner could count as many.
	if _, err := OpenSighting(verify, See(by, itsURL, append(versions(2), Version{versions(1)[0].ID, feed.Hash{1}}), time.Unix(7, 0)).Raw); !errors.Is(err, ErrSighting) {
		t.Errorf("an item twice: %v", err)
	}
	for n, want := range map[int]int{MaxSightings: MaxSightings, MaxSightings + 1: 0} {
		b, err := Delta{Sightings: slices.Repeat([][]byte{largest.Raw}, n)}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Decode(b); len(d.Sightings) != want || (err == nil) != (want > 0) {
			t.Errorf("of %d sightings, %d are read: %v", n, len(d.Sightings), err)
		}
	}
}

// FuzzSighting checks that signing a parsed statement again gives the same statement.
func FuzzSighting(f *testing.F) {
	home := wire.HashOf([]byte("home"))
	by, verify := wire.NewSigner(keyOf(5), home), wire.NewVerifier(home)
	for _, m := range []*differencepb.Sighting{
		{Url: itsURL, TimeMs: 7, Seen: VersionBytes(make([]Version, 1)), Missing: VersionBytes(make([]Version, 1))}, {}, {Url: itsURL, Seen: [][]byte{[]byte("short")}},
	} {
		f.Add(wire.Encode(m))
		f.Add(wire.Bare(wire.Encode(m)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := OpenSighting(verify, b); err == nil && bytes.Equal(s.Owner, public(5)) {
			t.Errorf("who has not signed says %+v", s)
		}
		if s, err := OpenBare(public(5), b); err == nil && len(s.Seen)+len(s.Missing) > MaxSeen {
			t.Errorf("a bare sighting exceeds the bounds: %+v", s)
		}
		s, err := OpenSighting(verify, by.Sign(wire.DomainSighting, b).Raw)
		if err != nil {
			return
		}
		again, err := OpenSighting(verify, See(by, s.URL, s.Seen, s.Time, s.Missing...).Raw)
		if bare, failed := OpenBare(public(5), s.Bare()); failed != nil || bare.URL != s.URL || !slices.Equal(bare.Seen, s.Seen) || !bytes.Equal(bare.Owner, s.Owner) {
			t.Errorf("%+v became %+v without its signature, %v", s, bare, failed)
		}
		if err != nil || again.URL != s.URL || !again.Time.Equal(s.Time) || !slices.Equal(again.Seen, s.Seen) || !slices.Equal(again.Missing, s.Missing) {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}

// BenchmarkSightings measures the check of the certificates of items that arrive together: three sightings each, one of which is by
// the signer of the entry. They are of one feed, or of feeds whose owners are any of 1,024 or
// 4,096 members. Every entry has a signature,
// whatever is in it; how long the check takes with that of the certificate's entry is printed, too.
func BenchmarkSightings(b *testing.B) {
	home := wire.HashOf([]byte("home"))
	verify := wire.NewVerifier(home)
	for _, owners := range []int{3, 1024, 4096} {
		var signers []*wire.Signer
		for i := range owners {
			signers = append(signers, wire.NewSigner(ed25519.NewKeyFromSeed(binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i))), home))
		}
		for _, items := range []int{1, 4, 16, 64} {
			var groups []certificates
			for n := 0; n < max(items, owners); n += items {
				var g certificates
				for i := range items {
					g.add(signers, 3*(n+i))
				}
				groups = append(groups, g)
			}
			for name, withEntries := range map[string]bool{"": false, " with entries": true} {
				b.Run(fmt.Sprintf("%d of %d owners%s", items, owners, name), func(b *testing.B) {
					for range 4 { // the owners have signed before
						for _, g := range groups {
							g.check(b, verify, true)
						}
					}
					for i := 0; b.Loop(); i++ {
						groups[i%len(groups)].check(b, verify, withEntries)
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*items), "µs/item")
				})
			}
		}
	}
}

// certificates are those of items that arrive together.
type certificates struct {
	signed, bare, entries [][]byte
	signers               []ed25519.PublicKey // of the entries
}

// add adds the certificate of an item by three signers, from a number on.
func (c *certificates) add(signers []*wire.Signer, from int) {
	for i := range 3 {
		by := signers[(from+i)%len(signers)]
		s := See(by, itsURL, make([]Version, 1), time.Unix(int64(from), 0))
		if i > 0 {
			c.signed = append(c.signed, s.Raw)
			continue
		}
		c.bare, c.signers = append(c.bare, s.Bare()), append(c.signers, s.Owner)
		c.entries = append(c.entries, by.Sign(wire.DomainEntry, binary.BigEndian.AppendUint64(nil, uint64(from))).Raw)
	}
}

func (c *certificates) check(b *testing.B, verify wire.Verifier, withEntries bool) {
	if slices.Contains(OpenSightings(verify, c.signed), nil) {
		b.Fatal("an invalid sighting")
	}
	for i, raw := range c.bare {
		if _, err := OpenBare(c.signers[i], raw); err != nil {
			b.Fatal(err)
		}
	}
	if withEntries && slices.ContainsFunc(verify.OpenAll(wire.DomainEntry, c.entries), func(o wire.Opened) bool { return o.Err != nil }) {
		b.Fatal("an invalid entry")
	}
}
