package feedtree

import (
	"fmt"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// The content of an entry is kept until there are too many entries or bytes, or until it is old. The same body in the log of another
// feed is another entry, and what comes after an entry that was not kept is not returned.
func TestRecentEntriesAreBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	delta := func(size int) difference.Delta {
		return difference.Delta{Changes: []difference.Change{{Item: feed.Item{Raw: make([]byte, size)}}}}
	}
	a, b := overlay.ID{1}, overlay.ID{2}
	entry := func(of overlay.ID, n int) *owner.Entry {
		return &owner.Entry{Key: of, Body: owner.HashOf(fmt.Append(nil, n))}
	}
	var r recentEntries
	for n := range 3 {
		r.add(a, entry(a, n).Body, delta(n+1), now)
	}
	if got := r.first([]*owner.Entry{entry(a, 1), entry(a, 0), entry(a, 7), entry(a, 2)}, true); len(got) != 2 || len(got[0].Changes[0].Item.Raw) != 2 {
		t.Errorf("%+v", got)
	}
	if got := r.first([]*owner.Entry{entry(b, 1)}, true); got != nil {
		t.Errorf("the entry of another feed: %+v", got)
	}
	withSighting := delta(4)
	withSighting.Sightings = [][]byte{{1}}
	r.add(a, entry(a, 10).Body, withSighting, now)
	if got := r.first([]*owner.Entry{entry(a, 10)}, true); got != nil {
		t.Errorf("the certificate was not verified: %+v", got)
	}
	if got := r.first([]*owner.Entry{entry(a, 10)}, false); len(got) != 1 || got[0].Sightings != nil {
		t.Errorf("%+v", got)
	}
	r.add(a, entry(a, 11).Body, delta(maxRecentBytes/4-changeSize+1), now)
	r.add(a, entry(a, 12).Body, difference.Delta{Withdrawn: make([]feed.ID, maxRecentBytes/100)}, now)
	r.add(a, entry(a, 0).Body, delta(9), now)
	if len(r.byAge) != 4 || r.size != 1+2+3+4+4*changeSize {
		t.Errorf("%d entries of %d bytes", len(r.byAge), r.size)
	}
	for n := range maxRecentEntries {
		r.add(b, entry(b, n).Body, difference.Delta{}, now.Add(time.Second))
	}
	if len(r.byAge) != maxRecentEntries || len(r.byKey) != maxRecentEntries || r.first([]*owner.Entry{entry(a, 2)}, true) != nil {
		t.Errorf("%d entries", len(r.byAge))
	}
	for n := range 9 {
		r.add(a, entry(a, n).Body, delta(maxRecentBytes/4-changeSize), now.Add(2*time.Second))
	}
	if r.size > maxRecentBytes || len(r.byAge) != 4 {
		t.Errorf("%d entries of %d bytes", len(r.byAge), r.size)
	}
	if r.forget(now.Add(recentTime)); len(r.byAge) != 4 {
		t.Errorf("%d entries of an age below the limit", len(r.byAge))
	}
	if r.forget(now.Add(2 * recentTime)); r.byKey != nil || r.byAge != nil || r.size != 0 {
		t.Errorf("%+v", r)
	}
}
