package tiers

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"tidings/cobra/query"
	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
)

const (
	buckets = 1024
	// maxPlaced bounds the queries of one reflector at one filter: the hashes of a bucket fit into a frame.
	maxPlaced = 4 << 20
	// maxQuery bounds a query in bytes, several times what the query language takes.
	maxQuery = 16 << 10
	// maxDiffering bounds the buckets of one answer.
	maxDiffering = 256

	compareInterval = 30 * time.Second // while both sides have the same
	compareSoon     = time.Second      // while they do not, or an answer is outstanding
	compareNow      = 50 * time.Millisecond
)

// digests are the exclusive ors of the hashes of the queries of each bucket.
type digests [buckets]uint64

func (d *digests) flip(hash uint64) { d[bucketOf(hash)] ^= hash }

func bucketOf(hash uint64) int { return int(hash >> 54) }

func appendHash(b []byte, hash uint64) []byte { return binary.BigEndian.AppendUint64(b, hash) }

// queryHash returns the hash of what a query means.
func queryHash(text string) uint64 {
	if meaning, err := query.Canonical(text); err == nil {
		return hashOf(meaning)
	}
	return hashOf(text)
}

// queries are those of a reflector, and what its filters have of them.
type queries struct {
	*base
	parts   map[int]*part // by the out-replica
	filters []*placement
	outs    []int
}

// A part are the queries of one out-replica.
type part struct {
	texts   map[uint64]string // by hash
	count   map[uint64]int    // subscriptions with the same query
	digests digests
}

// A placement is the state of the queries at one filter.
type placement struct {
	filter  neighbour
	part    *part
	inSync  bool
	checked time.Time // of the last answer
	at      time.Time // when to compare next
}

func newQueries(b *base, n neighbours) *queries {
	q := &queries{base: b, parts: map[int]*part{}, outs: n.outs}
	for _, out := range n.outs {
		q.parts[out] = &part{texts: map[uint64]string{}, count: map[uint64]int{}}
	}
	for _, f := range n.up {
		q.filters = append(q.filters, &placement{filter: f, part: q.parts[f.out], at: env.AtOnce})
	}
	return q
}

// partOf returns the out-replica of a query.
func (q *queries) partOf(hash uint64) *part {
	return q.parts[q.outs[int(hash>>32*uint64(len(q.outs))>>32)]]
}

// AddQuery places a query of a subscription at the filters. At other nodes than reflectors it does nothing.
func (t *Tiers) AddQuery(text string) {
	if t.queries == nil || len(t.queries.outs) == 0 {
		return
	}
	hash := queryHash(text)
	p := t.queries.partOf(hash)
	if p.count[hash]++; p.count[hash] == 1 {
		p.texts[hash] = text
		p.digests.flip(hash)
		t.queries.changed(p, &tierspb.Place{Add: []string{text}})
	}
}

// RemoveQuery removes a query that AddQuery has placed, once for each call of it.
func (t *Tiers) RemoveQuery(text string) {
	if t.queries == nil || len(t.queries.outs) == 0 {
		return
	}
	hash := queryHash(text)
	p := t.queries.partOf(hash)
	if p.count[hash] == 0 {
		return
	}
	if p.count[hash]--; p.count[hash] == 0 {
		delete(p.texts, hash)
		delete(p.count, hash)
		p.digests.flip(hash)
		t.queries.changed(p, &tierspb.Place{Remove: []uint64{hash}})
	}
}

// changed tells the filters of a part about a change at once, if they had everything before it.
func (q *queries) changed(p *part, m *tierspb.Place) {
	now := q.clock.Now()
	for _, f := range q.filters {
		if f.part != p {
			continue
		}
		if f.inSync {
			q.send(f.filter.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Place{Place: m}})
		}
		f.inSync = false
		f.at = env.Sooner(f.at, now.Add(compareNow))
	}
	q.wake()
}

// run compares queries with filters.
func (q *queries) run(now time.Time) (next time.Time) {
	for _, f := range q.filters {
		if !f.at.After(now) {
			f.at = now.Add(compareSoon)
			if f.inSync {
				f.at = now.Add(compareInterval)
			}
			q.send(f.filter.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Compare{Compare: &tierspb.Compare{Digests: f.part.digests[:]}}})
		}
		next = env.Sooner(next, f.at)
	}
	return next
}

// onDiffers mends the differences that a filter has named.
func (q *queries) onDiffers(from env.PeerID, m *tierspb.Differs, now time.Time) {
	i := slices.IndexFunc(q.filters, func(f *placement) bool { return f.filter.Peer.ID == from })
	f := q.filters[i]
	f.checked = now
	f.inSync = len(m.Buckets) == 0
	if f.inSync {
		f.at = now.Add(compareInterval)
		return
	}
	theirs := map[uint64]bool{}
	named := map[int]bool{}
	for _, b := range m.Buckets {
		named[int(b.Index)] = true
		for _, hash := range b.Hashes {
			theirs[hash] = true
		}
	}
	place, size := &tierspb.Place{}, 0
	flush := func(more int) {
		if size += more; size > maxBatch {
			q.send(f.filter.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Place{Place: place}})
			place, size = &tierspb.Place{}, more
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(f.part.texts)) {
		if text := f.part.texts[hash]; named[bucketOf(hash)] && !theirs[hash] {
			flush(len(text) + itemOverhead)
			place.Add = append(place.Add, text)
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(theirs)) {
		if _, wanted := f.part.texts[hash]; !wanted {
			flush(itemOverhead)
			place.Remove = append(place.Remove, hash)
		}
	}
	q.send(f.filter.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Place{Place: place}})
	f.at = now.Add(compareNow)
}
