package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// someOwners returns signers that own feeds.
func someOwners(n int) (of []*wire.Signer) {
	for i := range n {
		of = append(of, wire.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i)}, ed25519.SeedSize)), network))
	}
	return of
}

// certificate returns the sightings of owners, the first of whom signs the entry, and spoils that of the second one if it is to be wrong.
func certificate(owners []*wire.Signer, url string, at time.Time, wrong bool) difference.Delta {
	var d difference.Delta
	for i, by := range owners {
		s := difference.See(by, url, make([]difference.Version, 1), at)
		if i == 0 {
			d.Sightings = append(d.Sightings, s.Bare())
			continue
		}
		if i == 1 && wrong {
			s.Raw[len(s.Raw)-1] ^= 1
		}
		d.Sightings = append(d.Sightings, s.Raw)
	}
	return d
}

// decodeAll decodes the entries of deltas of a feed, each by the signer of its number, as the worker does.
func decodeAll(t *testing.T, es *entries, by []*wire.Signer, url string, of ...difference.Delta) []decodedEntry {
	t.Helper()
	var all []*owner.Entry
	var bodies [][]byte
	for i := range of {
		body, err := of[i].Encode()
		if err != nil {
			t.Fatal(err)
		}
		all, bodies = append(all, &owner.Entry{Key: overlay.Key("fuzz", url), Signer: by[i].PeerID()}), append(bodies, body)
	}
	return es.decodeBodies(all, bodies, decodeNew)
}

// Entries that are decoded together get their own sightings each, and a wrong signature costs no other one its place.
func TestCertificatesOfEntriesThatComeTogether(t *testing.T) {
	b := newBench(t)
	const url = "http://a.example/"
	owners := someOwners(4)
	turned := []*wire.Signer{owners[1], owners[2], owners[0]}
	got := decodeAll(t, &entries{common: b.common}, []*wire.Signer{owners[0], owners[1], owners[3], owners[0]}, url,
		certificate(owners[:3], url, b.now, true), certificate(turned, url, b.now, false),
		certificate(owners[:3], url, b.now, false), // whose bare sighting is not by the entry's signer
		certificate(owners[:3], "http://b.example/", b.now, false))
	for i, want := range [][]*wire.Signer{{owners[0], owners[2]}, turned, {owners[3], owners[1], owners[2]}, nil} {
		if len(got[i].sightings) != len(want) {
			t.Errorf("entry %d has %d sightings, not %d", i, len(got[i].sightings), len(want))
			continue
		}
		for j, s := range got[i].sightings {
			if !s.Owner.Equal(want[j].Public()) {
				t.Errorf("sighting %d of entry %d is by another owner", j, i)
			}
		}
	}
}

// Decoding ends with the entry that brings it to decodeStep: small bodies may hold a thousand times as much.
func TestDecodingIsBounded(t *testing.T) {
	b := newBench(t)
	var large difference.Delta
	for i := range 5 {
		it, err := feed.ReadItem(feed.RSS, fmt.Appendf(nil, "<item><guid>%d</guid><title>A</title><!--%s--></item>", i, strings.Repeat("x", feed.MaxItem-200)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		large.Changes = append(large.Changes, difference.Change{Item: it})
	}
	by := someOwners(7)
	got := decodeAll(t, &entries{common: b.common}, by, "http://a.example/", large, large, large, large, large, large, large)
	size := 0
	for i := range got {
		size += got[i].size()
	}
	if one := got[0].size(); size < decodeStep || size >= decodeStep+one || len(got) == len(by) {
		t.Errorf("%d entries of %d bytes are decoded at once", len(got), one)
	}
}

// A slowWorker computes when a test lets it.
type slowWorker []func()

func (w *slowWorker) Do(pure, done func()) { *w = append(*w, func() { pure(); done() }) }

// next completes the oldest computation.
func (w *slowWorker) next() {
	job := (*w)[0]
	*w = (*w)[1:]
	job()
}

// So many steps are with the worker at a time, and the others follow in their order. What could not be read is not kept for those who
// want it next.
func TestStepsOfDecodingAreBounded(t *testing.T) {
	b := newBench(t)
	worker := &slowWorker{}
	es := &entries{common: b.common, worker: worker}
	const steps = decodingsAtOnce + 3
	var order, asked []int
	for i := range steps {
		asked = append(asked, i)
		es.channel(overlay.ID{byte(i)}, "http://a.example/").subscribed = true
		es.decode([]*owner.Entry{{Key: overlay.ID{byte(i)}, Time: b.now}}, func(_ *owner.Entry, d *decodedEntry) {
			if d.bodyLost {
				order = append(order, i)
			}
		}, func() {})
	}
	for len(*worker) > 0 {
		if n := len(*worker); n > decodingsAtOnce || n < min(decodingsAtOnce, steps-len(order)) {
			t.Errorf("%d steps are with the worker when %d are done", n, len(order))
		}
		worker.next()
	}
	if !slices.Equal(order, asked) || len(es.recent.byKey) > 0 {
		t.Errorf("steps are done in the order %v, and %d entries are kept", order, len(es.recent.byKey))
	}
}
