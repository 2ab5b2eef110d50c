package feedtree

import (
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/feed"
	"tidings/overlay"
)

// An item is contested if most owners looked for the log's version in vain: they saw none, or all the same other one.
func TestContestedMarks(t *testing.T) {
	signers, owners := ownerKeys(6)
	item := feed.ID{9}
	logged := difference.Version{ID: item, Hash: feed.Hash{1}}
	at := time.Unix(1, 0)
	const none = 0 // the owner has found no version; otherwise that one, and 1 is the log's
	certificate := func(saw ...byte) (of []*difference.Sighting) {
		for i, version := range saw {
			switch version {
			case none:
				of = append(of, difference.See(signers[i], benchURL, nil, at, logged))
			case 1:
				of = append(of, difference.See(signers[i], benchURL, []difference.Version{logged}, at))
			default:
				of = append(of, difference.See(signers[i], benchURL, []difference.Version{{ID: item, Hash: feed.Hash{version}}}, at, logged))
			}
		}
		return of
	}
	version := func(feed.ID) feed.Hash { return logged.Hash }
	for _, test := range []struct {
		what string
		of   []*difference.Sighting
		want string
	}{
		{"two of five", certificate(none, none), "single"},
		{"three of five", certificate(none, none, none), "contested"},
		{"three of five, two have it", certificate(1, 1, none, none, none), "contested"},
		{"three have it", certificate(1, 1, 1, none, none), "witnessed 3/5"},
		{"the same other text", certificate(2, 2, 2), "contested"},
		{"other text at some", certificate(none, 2, 2), "contested"},
		{"each another text", certificate(2, 3, 4), "single"},
		{"each another text, and one has it", certificate(2, 3, 4, 1), "varies"},
		{"one twice, and a stranger", append(append(certificate(none, none), certificate(none)...), difference.See(signers[5], benchURL, nil, at, logged)), "single"},
	} {
		var m marks
		m.add(test.of, version, owners[:5])
		if got := m.of(logged).String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
	var m marks
	for i, saw := range [][]byte{{none, none, none}, {1, 1, 1}, {none, none, none}} { // a contest is not final, a witness is
		m.add(certificate(saw...), version, owners[:5])
		if got, want := m.of(logged).String(), []string{"contested", "witnessed 3/5", "witnessed 3/5"}[i]; got != want {
			t.Errorf("certificate %d: %s, want %s", i+1, got, want)
		}
	}
	if marks := (marks{item: m[item], {8}: {seen: 3, of: 5, contested: true}}); marks.vouched() != 1 {
		t.Errorf("%d items are vouched for", marks.vouched())
	}
}

// A sequencer appends the contest that another owner knows of once, if it is about the version that the log has, and if each
// sighting is another owner's and from after the log got that version.
func TestASequencerChecksWhatItIsTold(t *testing.T) {
	signers, owners := ownerKeys(6)
	item, other := feed.ID{9}, difference.Version{ID: feed.ID{8}, Hash: feed.Hash{1}}
	logged := difference.Version{ID: item, Hash: feed.Hash{1}}
	const tolerance = time.Minute
	by := func(at time.Time, missing difference.Version, who ...int) (of []*difference.Sighting) {
		for _, i := range who {
			of = append(of, difference.See(signers[i], benchURL, nil, at, missing))
		}
		return of
	}
	old := began.Add(-tolerance)
	for _, test := range []struct {
		what string
		of   []*difference.Sighting
		want bool
	}{
		{"most owners", by(old, logged, 0, 1, 2), true},
		{"too few", by(began, logged, 0, 1), false},
		{"nobody", nil, false},
		{"one twice", by(began, logged, 0, 1, 1), false},
		{"one more than once beside most owners", by(began, logged, 0, 1, 2, 2), false},
		{"a stranger", by(began, logged, 0, 1, 5), false},
		{"one from before the log had it", append(by(began, logged, 0, 1), by(old.Add(-1), logged, 2)...), false},
		{"another version", by(began, difference.Version{ID: item, Hash: feed.Hash{2}}, 0, 1, 2), false},
		{"an item that the log lacks", by(began, other, 0, 1, 2), false},
		{"no hash of an item that the log lacks", by(began, difference.Version{ID: other.ID}, 0, 1, 2), false},
	} {
		l := new(leaderState)
		l.window.Apply(difference.Delta{Changes: []difference.Change{{Item: feed.Item{ID: item, Hash: logged.Hash}}}}, began, 1)
		if got := l.contestedBy(test.of, owners[:5], tolerance); got != test.want {
			t.Errorf("%s: %v", test.what, got)
		}
		l.marks.add(test.of, l.window.Version, owners[:5])
		if test.want && l.contestedBy(test.of, owners[:5], tolerance) {
			t.Errorf("%s: it counts twice", test.what)
		}
	}
}

// A document proves that an item is missing only if half of it is older than the item.
func TestADocumentMayHaveRolledPastAnItem(t *testing.T) {
	var w difference.Window
	for i := range 10 {
		w.Apply(difference.Delta{Changes: []difference.Change{{Item: feed.Item{ID: feed.ID{byte(i + 1)}}}}}, began, uint64(i+1))
	}
	doc := func(first, last byte) (of []seenVersion) {
		for i := first; i <= last; i++ {
			of = append(of, seenVersionOf(difference.Version{ID: feed.ID{i}}))
		}
		return of
	}
	for _, test := range []struct {
		doc  []seenVersion
		want bool
	}{{doc(1, 5), true}, {doc(3, 8), true}, {doc(4, 9), false}, {doc(6, 10), false}, {nil, false}, {doc(20, 30), false}} {
		if got := mostlyOlder(&w, test.doc, 6); got != test.want {
			t.Errorf("%d items: %v", len(test.doc), got)
		}
	}
}

// Reports of a problem that does not exist make a follower look once in a while, however many come.
func TestFalseReportsCostLittle(t *testing.T) {
	b := newBench(t)
	c := b.channel(overlay.Key(b.node.Network(), benchURL), benchURL)
	c.subscribed = true
	oa := newOriginAudits(b.common, &entries{common: b.common, worker: b})
	signers, ids := ownerKeys(3)
	for b.now.Before(began.Add(2 * auditHearsay * b.cfg.PollInterval)) {
		for i := range signers {
			s := difference.See(signers[i], benchURL, nil, b.now, difference.Version{ID: feed.ID{9}})
			if err := oa.onAudit(ids[i], &feedtreepb.Audit{Sighting: s.Raw}); err != nil {
				t.Fatal(err)
			}
			if err := oa.onAudit(ids[(i+1)%3], &feedtreepb.Audit{Sighting: s.Raw}); err != nil {
				t.Fatal(err) // somebody else's
			}
		}
		b.pass(b.cfg.PollInterval / 2)
		oa.saw(c, &feed.Feed{})
	}
	if n := len(b.fetches); n != 2 || c.shown() != nil {
		t.Errorf("%d looks, problem %v", n, c.shown())
	}
}

// An owner looks for an item that it was not asked to look for, after some patience. A sequencer that appends so many items
// that the owner forgets some does not keep it from looking.
func TestAnOwnerLooksUnasked(t *testing.T) {
	const patience, after = 36 * time.Hour, time.Minute
	item := func(n int) difference.Version { return difference.Version{ID: feed.ID{byte(n), byte(n >> 8)}} }
	for _, c := range []struct {
		items   int
		looked  time.Duration // since the beginning
		now     time.Duration
		overdue bool
	}{
		{1, 0, patience, false},
		{1, 0, patience + time.Minute, true},
		{1, time.Hour, patience + time.Minute, false}, // a document after the item has come anyway
		{0, 0, 2 * patience, false},
		{difference.MaxSeen, time.Minute / 2, patience, false},
		{difference.MaxSeen + 1, 0, patience, false},
		{difference.MaxSeen + 1, 0, patience + time.Minute, true},
	} {
		r := sightRecord{at: began.Add(c.looked)}
		for i := range c.items {
			since := began.Add(time.Second)
			if c.items > difference.MaxSeen {
				since = began.Add(patience) // not yet overdue by themselves
			}
			r.want(item(i), true, since)
		}
		if got := r.overdue(began.Add(c.now), patience, after); got != c.overdue || len(r.wanted) > difference.MaxSeen {
			t.Errorf("%d items, a document after %v: overdue after %v: %v", c.items, c.looked, c.now, got)
		}
	}
}
