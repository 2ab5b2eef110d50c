package feedtree

import (
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay"
)

// A certificate of keys that are no owners' keeps no contest from a log, however old it says to be. An old one only keeps
// the sequencer from asking about an item that it sees itself, because former owners may have signed it.
func TestForeignCertificatesHideNoContest(t *testing.T) {
	b := newBench(t)
	ce := newCertifier(b.common, &entries{common: b.common, worker: b}, &witnesses{common: b.common})
	signers, owners := ownerKeys(8)
	item := difference.Version{ID: feed.ID{9}, Hash: feed.Hash{1}}
	for _, test := range []struct {
		what  string
		by    int           // the first of the three signers; the owners are 0 to 4
		age   time.Duration // in polling intervals
		known bool          // the log says something about the item, so that no contest is appended
	}{
		{"strangers, of late", 5, 3, false}, {"strangers, long ago", 5, 5, false}, {"strangers, in the year before", 5, 1e6, false},
		{"owners, of late", 0, 3, true}, {"owners, long ago", 0, 5, true},
	} {
		at := b.now.Add(-test.age * b.cfg.PollInterval)
		sign := func(first int, seen []difference.Version, at time.Time, missing ...difference.Version) (of []*difference.Sighting) {
			for _, s := range signers[first : first+3] {
				of = append(of, difference.See(s, benchURL, seen, at, missing...))
			}
			return of
		}
		c := b.channel(overlay.Key(b.node.Network(), benchURL), benchURL)
		c.leader = &leaderState{ready: true}
		c.leader.window.Apply(difference.Delta{Changes: []difference.Change{{Item: feed.Item{ID: item.ID, Hash: item.Hash}}}}, at, 1)
		certificate := sign(test.by, []difference.Version{item}, at)
		ce.readLogged(c, certificate, at, owners[:5])
		contest := sign(0, nil, b.now, item)
		if got := !c.leader.contestedBy(contest, owners[:5], time.Minute); got != test.known {
			t.Errorf("%s: no contest is appended: %v", test.what, got)
		}
		ce.witnesses.records = map[overlay.ID]*sightRecord{c.key: {seen: []seenVersion{seenVersionOf(item)}}}
		if got, want := len(ce.open(c)) == 0, test.known || test.age > 4; got != want {
			t.Errorf("%s: the owners are not asked: %v", test.what, got)
		}
		r := new(sightRecord)
		r.want(item, true, b.now)
		ce.witnesses.records[c.key] = r
		if got := len(ce.open(c)) == 0; got != test.known {
			t.Errorf("%s, and this node looks for the item in vain: the owners are not asked: %v", test.what, got)
		}
	}
}

// A sequencer that asks again gets what an owner has signed about the items that it asks for, and nobody else hears of it.
func TestAnOwnerSignsOnceWhatIsMissing(t *testing.T) {
	b := newBench(t)
	ws := &witnesses{common: b.common, records: map[overlay.ID]*sightRecord{}}
	newCertifier(b.common, &entries{common: b.common, worker: b}, ws)
	_, ids := ownerKeys(1)
	item, other := difference.Version{ID: feed.ID{9}}, difference.Version{ID: feed.ID{8}}
	r := ws.record(key)
	for _, v := range []difference.Version{item, other} {
		r.want(v, true, b.now)
	}
	b.pass(b.cfg.PollInterval)
	r.at = b.now
	missing := difference.See(b.signer, benchURL, nil, b.now, item, other)
	for i := range r.wanted {
		r.wanted[i].missed = []*difference.Sighting{missing}
	}
	for range 100 {
		b.sent = nil
		ws.want(key, benchURL, ids[0], []difference.Version{item, other, {ID: feed.ID{7}}}, false)
		if len(b.sent) != 1 || string(b.sent[0].GetSight().GetSighting()) != string(missing.Raw) {
			t.Fatalf("the owner sends %v", b.sent)
		}
	}
	b.sent = nil
	ws.want(key, benchURL, ids[0], []difference.Version{{ID: feed.ID{7}}}, false)
	if len(b.sent) != 0 || b.stats.Missed != 0 {
		t.Errorf("the owner sends %v; %d signatures", b.sent, b.stats.Missed)
	}
}
