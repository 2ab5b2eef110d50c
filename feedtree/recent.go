package feedtree

import (
	"time"

	"tidings/difference"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// recentEntries has the content of entries that this node has just made as a sequencer, decoded as its followers will decode it,
// and of those that it has just read. The node's own window and the programs that are told of news want it next. Nobody changes
// the deltas.
type recentEntries struct {
	byKey map[recentKey]*recentEntry
	byAge []*recentEntry // the oldest first
	size  int            // bytes of all
}

type recentEntry struct {
	recentKey
	difference.Delta      // without its certificates
	certified        bool // there were some
	size             int
	at               time.Time
}

// A recentKey names an entry. Equal bodies in the logs of two feeds are two entries: what is signed for one feed is not valid
// in the other.
type recentKey struct {
	feed overlay.ID
	body owner.Hash
}

// Limits of recentEntries: what a busy node reads in some seconds, in which it records the news. What exceeds them is decoded again.
const (
	maxRecentEntries = 4096
	maxRecentBytes   = 8 << 20
	recentTime       = 30 * time.Second
)

// add keeps the content of an entry of a feed, given the hash of its body. The content must have been verified, except for
// certificates, whose signatures are verified together with others: they are not kept.
func (r *recentEntries) add(feed overlay.ID, body owner.Hash, d difference.Delta, now time.Time) {
	key := recentKey{feed, body}
	if r.byKey[key] != nil {
		return
	}
	certified := len(d.Sightings) > 0
	d.Sightings = nil
	read := decodedEntry{Delta: d}
	e := &recentEntry{key, d, certified, read.size(), now}
	if e.size > maxRecentBytes/4 {
		return
	}
	if r.byKey == nil {
		r.byKey = map[recentKey]*recentEntry{}
	}
	r.byKey[key], r.byAge, r.size = e, append(r.byAge, e), r.size+e.size
	for len(r.byAge) > maxRecentEntries || r.size > maxRecentBytes {
		r.drop()
	}
}

// drop drops the oldest entry.
func (r *recentEntries) drop() {
	e := r.byAge[0]
	r.byAge[0], r.byAge, r.size = nil, r.byAge[1:], r.size-e.size
	delete(r.byKey, e.recentKey)
}

// forget drops what is old.
func (r *recentEntries) forget(now time.Time) {
	for len(r.byAge) > 0 && now.Sub(r.byAge[0].at) > recentTime {
		r.drop()
	}
	if len(r.byAge) == 0 {
		r.byKey, r.byAge = nil, nil
	}
}

// first returns the content of the first ones of some entries, as many as there are without a gap. With their certificates, only
// those are there that have none.
func (r *recentEntries) first(of []*owner.Entry, certificates bool) (got []decodedEntry) {
	for _, e := range of {
		known := r.byKey[recentKey{e.Key, e.Body}]
		if known == nil || certificates && known.certified {
			break
		}
		got = append(got, decodedEntry{Delta: known.Delta})
	}
	return got
}
