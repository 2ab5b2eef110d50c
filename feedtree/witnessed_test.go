package feedtree

import (
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// ownerKeys returns the signers of some owners, and their ids.
func ownerKeys(n int) (signers []*wire.Signer, ids []env.PeerID) {
	for i := range n {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i + 1)
		s := wire.NewSigner(ed25519.NewKeyFromSeed(seed), network)
		signers, ids = append(signers, s), append(ids, s.PeerID())
	}
	return signers, ids
}

// A version counts as seen if most owners saw the same one; an item varies if they cannot agree any more.
func TestMarks(t *testing.T) {
	signers, owners := ownerKeys(6)
	const a, b, c = 1, 2, 3 // versions; 0: the owner has not seen the item
	for _, test := range []struct {
		what   string
		owners int
		saw    []byte // by owner
		want   string // of version a
	}{
		{"nobody", 5, nil, "single"},
		{"two of five", 5, []byte{a, a}, "single"},
		{"three of five", 5, []byte{a, 0, a, 0, a}, "witnessed 3/5"},
		{"all", 5, []byte{a, a, a, a, a}, "witnessed 5/5"},
		{"three saw another version", 5, []byte{a, b, b, b}, "single"},
		{"two and two, one has not looked", 5, []byte{a, a, b, b}, "single"},
		{"no version can win", 5, []byte{a, b, c, b, c}, "varies"},
		{"each another one", 5, []byte{a, b, c}, "single"},
		{"each another one of four", 5, []byte{a, b, c, 4}, "varies"},
		{"one owner alone", 1, []byte{a}, "single"},
		{"two of two", 2, []byte{a, a}, "witnessed 2/2"},
		{"one of two", 2, []byte{a}, "single"},
		{"two that differ", 2, []byte{a, b}, "varies"},
		{"a stranger", 2, []byte{a, 0, a, a}, "single"},
	} {
		var certificate []*difference.Sighting
		for i, version := range test.saw {
			if version != 0 {
				certificate = append(certificate, difference.See(signers[i], benchURL, []difference.Version{{ID: feed.ID{9}, Hash: feed.Hash{version}}}, time.Unix(1, 0)))
			}
		}
		certificate = append(certificate, certificate...) // nobody counts twice
		var m marks
		m.add(certificate, func(feed.ID) feed.Hash { return feed.Hash{a} }, owners[:test.owners])
		if got := m.of(difference.Version{ID: feed.ID{9}, Hash: feed.Hash{a}}).String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
		if got := m.of(difference.Version{ID: feed.ID{9}, Hash: feed.Hash{77}}).String(); got != "single" {
			t.Errorf("%s: a version that nobody saw is %s", test.what, got)
		}
	}
}

// Two liars must not make an item vary that was edited between the sightings of two honest owners.
func TestAnEditIsNoVariation(t *testing.T) {
	signers, owners := ownerKeys(4)
	for _, apart := range []time.Duration{maxVarying, maxVarying + time.Second} {
		var certificate []*difference.Sighting
		for i, at := range []time.Duration{0, apart, apart, apart} {
			certificate = append(certificate, difference.See(signers[i], benchURL, []difference.Version{{ID: feed.ID{9}, Hash: feed.Hash{byte(i + 1)}}}, time.Unix(1, 0).Add(at)))
		}
		var m marks
		m.add(certificate, func(feed.ID) feed.Hash { return feed.Hash{1} }, owners)
		if got := m.of(difference.Version{ID: feed.ID{9}, Hash: feed.Hash{1}}); (got.String() == "varies") != (apart <= maxVarying) {
			t.Errorf("%v apart: %s", apart, got)
		}
	}
}

// Owners of different times do not add up to a majority. Owners of one time do, also of a former one.
func TestOwnersOfDifferentTimesDoNotAddUp(t *testing.T) {
	signers, owners := ownerKeys(8)
	former, present := owners[:5], owners[3:]
	version := difference.Version{ID: feed.ID{9}, Hash: feed.Hash{1}}
	for _, test := range []struct {
		what string
		saw  []int // owners
		want string
	}{
		{"one after the other", []int{0, 1, 5, 6}, "single"},
		{"former ones", []int{0, 1, 2, 7}, "witnessed 3/5"},
		{"present ones", []int{0, 5, 6, 7}, "witnessed 3/5"},
		{"both, of which the present ones count", []int{0, 3, 4, 5, 6}, "witnessed 4/5"},
	} {
		var certificate []*difference.Sighting
		for _, i := range test.saw {
			certificate = append(certificate, difference.See(signers[i], benchURL, []difference.Version{version}, time.Unix(1, 0)))
		}
		var m marks
		m.add(certificate, func(feed.ID) feed.Hash { return version.Hash }, former, present)
		if got := m.of(version).String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for given, want := range map[string][3]bool{ // publisher, witnessed, any
		ByPublisher: {true, true, true}, Contested: {false, false, true}, "witnessed 3/5": {false, true, true}, Varies: {false, true, true},
		Single: {false, false, true}, Unconfirmed: {false, false, true}, Revoked: {false, false, true},
	} {
		for i, required := range []string{ByPublisher, Witnessed, ""} {
			if AtLeast(given, required) != want[i] {
				t.Errorf("%s, required: %q", given, required)
			}
		}
	}
}

// An owner signs what it has fetched itself, and another version than the wanted one only if it has fetched that
// after the request.
func TestOwnersSignWhatTheyHaveFetched(t *testing.T) {
	b := newBench(t)
	var told []difference.Version
	ws := &witnesses{common: b.common, records: map[overlay.ID]*sightRecord{}, certify: func(_ *channel, s *difference.Sighting) { told = append(told, s.Seen...) }, contest: func(overlay.ID, string, *sightRecord) {}}
	b.channel(key, benchURL)
	version := func(id, hash byte) difference.Version {
		return difference.Version{ID: feed.ID{id}, Hash: feed.Hash{hash}}
	}
	fetched := func(of ...difference.Version) {
		r := ws.record(key)
		r.at, r.seen = b.now, nil
		for _, v := range of {
			r.seen = append(r.seen, seenVersionOf(v))
		}
		slices.SortFunc(r.seen, compareSeen)
		ws.answer(key, benchURL, r)
	}
	check := func(what string, want ...difference.Version) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: %v, want %v", what, told, want)
		}
		told = nil
	}
	self := b.signer.PeerID()
	fetched(version(1, 1), version(2, 1), version(3, 1))
	b.now = b.now.Add(time.Second)
	ws.want(key, benchURL, self, []difference.Version{version(1, 1), version(2, 2), version(4, 1)}, false)
	check("at once", version(1, 1))
	fetched(version(1, 1), version(2, 1), version(4, 1))
	check("after the next fetch", version(2, 1), version(4, 1))
	fetched(version(2, 2))
	check("answered items")

	// It fetches only to confirm at most once in half an interval, and the less often the longer nothing comes.
	b.fetches = nil
	for range 100 {
		ws.want(key, benchURL, self, []difference.Version{version(5, 1)}, true)
		b.now = b.now.Add(b.cfg.PollInterval / 10)
	}
	if n := len(b.fetches); n != 4 { // after 0, 1, 3 and 7 half intervals
		t.Errorf("%d looks in ten intervals", n)
	}
}

// The owners behind the pollers look for themselves, as many as are lacking.
func TestACertifierAsksNoMoreThanItNeeds(t *testing.T) {
	for requests, want := range map[int]time.Duration{1: 1, 2: 4, 3: 8, 4: 16, 5: 32} {
		ce := &certifier{common: &common{cfg: Config{PollInterval: 4}}}
		if got := ce.sightPause(requests); got != want {
			t.Errorf("after %d requests: %d, want %d", requests, got, want)
		}
	}
}

// Sightings that were signed for another feed prove nothing here, although its owners and items may be the same.
func TestSightingsCountForTheirFeedOnly(t *testing.T) {
	b := newBench(t)
	es := &entries{common: b.common, worker: b}
	signers, _ := ownerKeys(2)
	seen := []difference.Version{{ID: feed.ID{9}, Hash: feed.Hash{1}}}
	here := difference.See(signers[0], benchURL, seen, time.Unix(1, 0))
	other := difference.See(signers[1], "http://other.example/", seen, time.Unix(1, 0))
	got := es.forFeed(overlay.Key(b.node.Network(), benchURL), difference.OpenSightings(b.verify, [][]byte{here.Raw, other.Raw, []byte("nothing")}))
	if len(got) != 1 || got[0].URL != benchURL {
		t.Errorf("%d sightings count", len(got))
	}
}

// The signature of an entry holds for its signer's own sighting. Nobody else can sign for it, and it signs for nobody else.
func TestABareSightingIsThatOfTheEntrysSigner(t *testing.T) {
	b := newBench(t)
	es := &entries{common: b.common, worker: b}
	signers, ids := ownerKeys(3)
	seen := []difference.Version{{ID: feed.ID{9}, Hash: feed.Hash{1}}}
	of := func(i int, url string) *difference.Sighting {
		return difference.See(signers[i], url, seen, time.Unix(1, 0))
	}
	torn := of(2, benchURL).Raw
	torn[len(torn)-1] ^= 1
	certificate := [][]byte{of(0, benchURL).Raw, of(1, benchURL).Bare(), torn, of(1, "http://other.example/").Bare(), []byte("nothing"), make([]byte, difference.MaxSighting+1)}
	got := es.forFeed(overlay.Key(b.node.Network(), benchURL), withBare(ids[1], certificate, difference.OpenSightings(b.verify, certificate)))
	var by []env.PeerID
	for _, s := range got {
		by = append(by, wire.PeerIDOf(s.Owner))
	}
	if !slices.Equal(by, ids[:2]) || !slices.Equal(got[1].Seen, seen) || !got[1].Time.Equal(time.Unix(1, 0)) {
		t.Errorf("sightings of %v, want those of %v", by, ids[:2])
	}
}

// A sighting from before an edit does not answer for the new version; nor does one that somebody else sends again.
func TestOldSightingsDoNotAnswer(t *testing.T) {
	b := newBench(t)
	signers, ids := ownerKeys(2)
	at := time.Unix(1000, 0)
	edited := openItem{difference.Version{ID: feed.ID{9}, Hash: feed.Hash{2}}, at}
	for _, test := range []struct {
		version byte
		at      time.Time
		want    bool
	}{{1, at.Add(-time.Second), false}, {1, at, true}, {2, at.Add(-time.Second), true}} {
		s := difference.See(signers[0], benchURL, []difference.Version{{ID: feed.ID{9}, Hash: feed.Hash{test.version}}}, test.at)
		if edited.answeredBy(s) != test.want {
			t.Errorf("version %d of %v: %v", test.version, test.at, !test.want)
		}
	}
	ce := newCertifier(b.common, &entries{common: b.common, worker: b}, &witnesses{common: b.common})
	c := b.channel(overlay.Key(b.node.Network(), benchURL), benchURL)
	c.leader = &leaderState{ready: true}
	raw := difference.See(signers[0], benchURL, nil, at).Raw
	for _, from := range ids {
		if err := ce.onSight(from, &feedtreepb.Sight{Sighting: raw}); err != nil || len(c.leader.sightings) != 0 {
			t.Errorf("%v, %d owners, although the feed has no epoch", err, len(c.leader.sightings)) // nor may it fail
		}
	}
}

// An owner that hears from the origin that a document has not changed compares the next one with the log of that time. The
// log has grown since the last change, because entries of that change follow, so an older head would hide that the
// sequencer appends nothing more.
func TestADocumentThatStaysIsSeenAgain(t *testing.T) {
	b := newBench(t)
	ws := &witnesses{common: b.common, records: map[overlay.ID]*sightRecord{}, contest: func(overlay.ID, string, *sightRecord) {}}
	r := ws.record(key)
	r.at, r.fetched = b.now, ws.logHead(key)+1
	b.now = b.now.Add(time.Minute)
	if ws.unchanged(key, benchURL); r.fetched != ws.logHead(key) || !r.at.Equal(b.now) {
		t.Errorf("fetched at %v, when the log ended with %d; it ends with %d", r.at, r.fetched, ws.logHead(key))
	}
}
