package corona

import (
	"testing"
	"time"

	"tidings/internal/wire"
)

// The snapshot decides what is news to a poller: its fingerprints, or their digest if there are too
// many. A document that the sequencer has answered is not news until it could be accepted.
func TestTheSnapshotDecidesWhatIsNews(t *testing.T) {
	const url = "http://a.example/"
	l := newLab(t)
	p := l.poller(Config{})
	p.Serve(key(url), wedgeDuty(channelParams{}.payload(url)))
	d := p.assignments.Get(key(url))
	doc := func(items ...string) observation { return observation{f: parsed(t, rss("A", "", items...))} }
	of := func(items ...string) *snapshot {
		prints := fingerprintsOf(doc(items...).f)
		return &snapshot{fingerprints: prints, digest: digest(prints)}
	}
	news := func(what string, r observation, want bool) {
		t.Helper()
		if d.hasNews(&r, l.now) != want {
			t.Errorf("%s: news is %v", what, !want)
		}
	}
	news("without a word", doc("one"), true)
	p.Delivered(d.key(), wire.Encode(of("one", "two").message(d.key(), 0, 0, 0)))
	news("an item less", doc("one"), false)
	news("another item", doc("one", "three"), true)

	all := of(numbered(maxSnapshotItems + 1)...)
	p.Delivered(d.key(), wire.Encode(all.message(d.key(), 0, 0, 0)))
	if d.snapshot.fingerprints != nil {
		t.Fatalf("%d fingerprints are known", len(d.snapshot.fingerprints))
	}
	news("one less of many", doc(numbered(maxSnapshotItems)...), true)
	news("as many", doc(numbered(maxSnapshotItems+1)...), false)

	// The answer to a report stands for the poller's own fingerprints.
	w := doc(numbered(maxSnapshotItems + 2)...)
	p.reports.keep(d.key(), w, d, l.now)
	found := of(numbered(maxSnapshotItems + 2)...)
	if err := p.Receive("sequencer", wire.Encode(found.message(d.key(), p.reports.pending[0].nonce, 0, 0))); err != nil || len(p.reports.pending) != 0 {
		t.Fatalf("%v, %d reports are pending", err, len(p.reports.pending))
	}
	news("one less of what it found", doc(numbered(maxSnapshotItems+1)...), false)

	// If the snapshot is another document, the reported one is not news during the suspicion
	// period.
	p.reports.keep(d.key(), doc("old", "one"), d, l.now)
	if err := p.Receive("sequencer", wire.Encode(of("one").message(d.key(), p.reports.pending[0].nonce, 0, 0))); err != nil || len(p.reports.pending) != 0 {
		t.Fatalf("%v, %d reports are pending", err, len(p.reports.pending))
	}
	news("what was answered", doc("old", "one"), false)
	news("what is newer", doc("new", "one"), true)
	l.now = l.now.Add(suspicionPeriod)
	news("what was answered, an hour ago", doc("old", "one"), true)

	// The answer to a report of another channel is ignored.
	other := p.poller.addAssignment(assignment{target: &pollTarget{key: key("http://b.example/")}})
	p.reports.keep(other.key(), doc("b"), other, l.now.Add(time.Minute))
	p.Delivered(d.key(), wire.Encode(of("one").message(d.key(), p.reports.pending[0].nonce, 0, 0)))
	if len(p.reports.pending) != 1 {
		t.Error("a change report is forgotten because of another channel's sequencer")
	}
}
