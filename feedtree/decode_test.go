package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A slowWorker computes when a test lets it.
type slowWorker []func()

func (w *slowWorker) Do(pure, done func()) { *w = append(*w, func() { pure(); done() }) }

// next completes the oldest computation.
func (w *slowWorker) next() {
	job := (*w)[0]
	*w = (*w)[1:]
	job()
}

// A batchVerifier notes how many envelopes are opened together.
type batchVerifier struct {
	wire.Verifier
	batches []int
}

func (v *batchVerifier) OpenAll(domain wire.Domain, raws [][]byte) []wire.Opened {
	v.batches = append(v.batches, len(raws))
	return v.Verifier.OpenAll(domain, raws)
}

// newDecoding returns an entry of a feed that its owner signed, with its body, and then.
func newDecoding(url string, by *wire.Signer, d difference.Delta, then func([]decodedEntry)) *decoding {
	body, err := d.Encode()
	if err != nil {
		panic(err)
	}
	e := &owner.Entry{Key: overlay.Key("fuzz", url), Signer: by.PeerID()}
	return &decoding{entries: []*owner.Entry{e}, bodies: [][]byte{body}, decoder: decodeNew, then: then}
}

// While the worker has enough to do, the entries of all feeds wait, and the signatures in their certificates are verified together.
// Each feed gets its own, and a wrong one in one feed costs no other feed its certificate.
func TestCertificatesThatWaitAreVerifiedTogether(t *testing.T) {
	b := newBench(t)
	verify, worker := &batchVerifier{Verifier: b.verify}, &slowWorker{}
	b.verify = verify
	es := &entries{common: b.common, worker: worker}
	var owners []*wire.Signer
	for i := range byte(3) {
		owners = append(owners, wire.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{i}, ed25519.SeedSize)), network))
	}
	const feeds, wrong = groupsAtOnce + 10, groupsAtOnce + 3
	counts := map[int]int{}
	for i := range feeds {
		url := fmt.Sprintf("http://%d.example/", i)
		var certificate [][]byte
		for j, by := range owners {
			s := difference.See(by, url, make([]difference.Version, 1), b.now)
			switch {
			case j == 0:
				certificate = append(certificate, s.Bare())
			case j == 1 && i == wrong:
				s.Raw[len(s.Raw)-1] ^= 1
				fallthrough
			default:
				certificate = append(certificate, s.Raw)
			}
		}
		es.waiting = append(es.waiting, newDecoding(url, owners[0], difference.Delta{Sightings: certificate}, func(got []decodedEntry) {
			for _, s := range got[0].sightings {
				if s.URL == url {
					counts[i]++
				}
			}
		}))
		es.decodeWaiting()
	}
	if len(*worker) != groupsAtOnce || len(es.waiting) != feeds-groupsAtOnce {
		t.Errorf("%d groups are with the worker, and %d feeds wait", len(*worker), len(es.waiting))
	}
	worker.next()
	if verify.batches = nil; len(es.waiting) != 0 {
		t.Errorf("%d feeds still wait", len(es.waiting))
	}
	for len(*worker) > 0 {
		worker.next()
	}
	if n := len(verify.batches); n != groupsAtOnce || verify.batches[n-1] != (feeds-groupsAtOnce)*len(owners) {
		t.Errorf("signatures are verified in batches of %v", verify.batches)
	}
	for i := range feeds {
		want := len(owners)
		if i == wrong {
			want--
		}
		if counts[i] != want {
			t.Errorf("feed %d has %d valid sightings of %d", i, counts[i], want)
		}
	}
}

// A group ends with what brings it to decodeStep, and the rest of it is the next one: small bodies may hold a thousand times
// as much. No feed waits for ever.
func TestGroupsOfEntriesAreBounded(t *testing.T) {
	b := newBench(t)
	worker := &slowWorker{}
	es := &entries{common: b.common, worker: worker}
	var d difference.Delta
	for i := range 5 {
		it, err := feed.ReadItem(feed.RSS, fmt.Appendf(nil, "<item><guid>%d</guid><title>A</title><!--%s--></item>", i, strings.Repeat("x", feed.MaxItem-200)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	const feeds = 7
	es.groups = groupsAtOnce // until all have come
	now, most, read := 0, 0, map[string]bool{}
	for i := range feeds {
		url := fmt.Sprintf("http://%d.example/", i)
		es.waiting = append(es.waiting, newDecoding(url, signer(), d, func(got []decodedEntry) {
			now += got[0].size()
			read[url] = true
		}))
	}
	es.groups = 0
	for es.decodeWaiting(); len(*worker) > 0; now = 0 {
		worker.next()
		most = max(most, now)
	}
	if size := 5 * feed.MaxItem; len(read) != feeds || most < decodeStep || most > decodeStep+size {
		t.Errorf("%d feeds of %d are read, at most %d bytes at a time", len(read), feeds, most)
	}
}
