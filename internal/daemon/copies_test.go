package daemon

import (
	"testing"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/internal/feed"
	"tidings/overlay"
)

// Readers of one address share a request. A failure keeps the last document, and a copy that is too old, or of
// a feed that the node follows now, is requested again.
func TestReadersShareACopy(t *testing.T) {
	c, key, at := newDocumentCopies(), overlay.ID{1}, time.Unix(1.7e9, 0)
	_, first := c.get(key, at, copyMaxAge)
	_, second := c.get(key, at, copyMaxAge)
	if first == nil || first != second {
		t.Fatal("two readers wait for two answers")
	}
	c.drop(key) // a reader still waits for it
	doc := &feed.Feed{}
	c.fetched(key, doc, corona.Offer{}, corona.State{}, at)
	<-first
	copied, wait := c.get(key, at.Add(copyMaxAge/2), copyMaxAge)
	if wait != nil || copied.feed != doc {
		t.Fatalf("%+v", copied)
	}
	if _, wait = c.get(key, at.Add(copyMaxAge), copyMaxAge); wait == nil {
		t.Error("an old copy is used")
	}
	c.fetched(key, nil, corona.Offer{}, corona.State{}, at.Add(copyMaxAge))
	if again, _ := c.get(key, at.Add(copyMaxAge), copyMaxAge); again.feed != doc || again.version == copied.version {
		t.Errorf("after a failure: %+v", again)
	}
	c.drop(key)
	if _, wait = c.get(key, at.Add(copyMaxAge), copyMaxAge); wait == nil {
		t.Error("a dropped copy is used")
	}
	for kind, age := range map[coronapb.State_Kind]time.Duration{coronapb.State_GONE: failureMaxAge, coronapb.State_LIMITED: copyMaxAge} {
		c.fetched(key, nil, corona.Offer{}, corona.State{Kind: kind}, at)
		if _, wait := c.get(key, at.Add(age-1), copyMaxAge); wait != nil {
			t.Errorf("%v: asked again at once", kind)
		}
		if _, wait := c.get(key, at.Add(age), copyMaxAge); wait == nil {
			t.Errorf("%v: it may have been mended", kind)
		}
	}
}
