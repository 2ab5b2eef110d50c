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

// newDecoding returns a decoding of entries of a feed, each by the signer of its number.
func newDecoding(url string, then func([]decodedEntry), by []*wire.Signer, of ...difference.Delta) *decoding {
	d := &decoding{decoder: decodeNew, then: then}
	for i := range of {
		body, err := of[i].Encode()
		if err != nil {
			panic(err)
		}
		d.entries = append(d.entries, &owner.Entry{Key: overlay.Key("fuzz", url), Signer: by[i].PeerID()})
		d.bodies = append(d.bodies, body)
	}
	return d
}

// A decodingDesk decodes entries of feeds, and counts the valid sightings of each entry.
type decodingDesk struct {
	*entries
	worker *slowWorker
	verify *batchVerifier
	owners []*wire.Signer
	now    time.Time
	counts map[string][]int
}

func newDecodingDesk(t *testing.T) *decodingDesk {
	b := newBench(t)
	d := &decodingDesk{worker: &slowWorker{}, verify: &batchVerifier{Verifier: b.common.verify}, owners: someOwners(3), now: b.now, counts: map[string][]int{}}
	b.common.verify = d.verify
	d.entries = &entries{common: b.common, worker: d.worker}
	return d
}

// bring brings two entries of a feed, by two signers, with the certificates of their three owners.
func (d *decodingDesk) bring(url string, wrong bool) {
	second := []*wire.Signer{d.owners[1], d.owners[2], d.owners[0]}
	d.waiting = append(d.waiting, newDecoding(url, func(got []decodedEntry) {
		for i := range got {
			d.counts[url] = append(d.counts[url], len(got[i].sightings))
		}
	}, d.owners, certificate(d.owners, url, d.now, wrong), certificate(second, url, d.now, false)))
	d.decodeWaiting()
}

// finish lets the worker finish everything, and returns how many signatures were verified together.
func (d *decodingDesk) finish() []int {
	d.verify.batches = nil
	for len(*d.worker) > 0 {
		d.worker.next()
	}
	return d.verify.batches
}

// While the worker has enough to do, the entries of all feeds wait, and the signatures in their certificates are verified together.
// Each entry gets its own, and a wrong one costs no other feed its certificate. From then on, its feed is verified alone.
func TestCertificatesThatWaitAreVerifiedTogether(t *testing.T) {
	const feeds, wrong, each = groupsAtOnce + 10, groupsAtOnce + 3, 6
	d := newDecodingDesk(t)
	url := func(i int) string { return fmt.Sprintf("http://%d.example/", i) }
	for _, want := range [][]int{
		{each, each, each, each, 10 * each},
		{each, each, each, each, 3 * each, each, 6 * each},
	} {
		for i := range feeds {
			d.bring(url(i), i == wrong)
		}
		if len(*d.worker) != groupsAtOnce || len(d.waiting) != feeds-groupsAtOnce {
			t.Errorf("%d groups are with the worker, and %d feeds wait", len(*d.worker), len(d.waiting))
		}
		if got := d.finish(); !slices.Equal(got, want) {
			t.Errorf("signatures are verified in batches of %v, not %v", got, want)
		}
	}
	for i := range feeds {
		want := []int{3, 3, 3, 3}
		if i == wrong {
			want = []int{2, 3, 2, 3}
		}
		if got := d.counts[url(i)]; !slices.Equal(got, want) {
			t.Errorf("the entries of feed %d have %v valid sightings, not %v", i, got, want)
		}
	}
}

// A group has so many feeds at most, and the oldest go first.
func TestGroupsOfFeedsAreBounded(t *testing.T) {
	const feeds = groupsAtOnce + 2*maxGroup + 1
	d := newDecodingDesk(t)
	for i := range feeds {
		d.bring(fmt.Sprintf("http://%d.example/", i), false)
	}
	if got, want := d.finish()[groupsAtOnce:], []int{6 * maxGroup, 6 * maxGroup, 6}; !slices.Equal(got, want) || len(d.counts) != feeds {
		t.Errorf("%d feeds are verified in batches of %v, not %v", len(d.counts), got, want)
	}
}

// A group ends with what brings it to decodeStep, and the rest of it goes before what came later: small bodies may hold a thousand
// times as much.
func TestGroupsOfEntriesAreBounded(t *testing.T) {
	b := newBench(t)
	worker := &slowWorker{}
	es := &entries{common: b.common, worker: worker}
	var large difference.Delta
	for i := range 5 {
		it, err := feed.ReadItem(feed.RSS, fmt.Appendf(nil, "<item><guid>%d</guid><title>A</title><!--%s--></item>", i, strings.Repeat("x", feed.MaxItem-200)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		large.Changes = append(large.Changes, difference.Change{Item: it})
	}
	const feeds = 7
	var order []int
	now, most := 0, 0
	bring := func(i int) {
		es.waiting = append(es.waiting, newDecoding(fmt.Sprintf("http://%d.example/", i), func(got []decodedEntry) {
			now += got[0].size()
			order = append(order, i)
		}, []*wire.Signer{signer()}, large))
	}
	for i := range feeds - 1 {
		bring(i)
	}
	es.groups = groupsAtOnce - 1 // others
	es.decodeWaiting()
	bring(feeds - 1) // while the group is with the worker
	for ; len(*worker) > 0; now = 0 {
		worker.next()
		most = max(most, now)
	}
	if size := 5 * feed.MaxItem; most < decodeStep || most > decodeStep+size || !slices.Equal(order, []int{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("feeds are read in the order %v, at most %d bytes at a time", order, most)
	}
}
