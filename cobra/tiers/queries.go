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
	compareSettling = 5 * time.Second  // while articles of the plan before are under way
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
	tiers   *Tiers
	texts   map[uint64]string // by hash
	count   map[uint64]int    // subscriptions with the same query
	filters []*placement
}

// A placement is the state of the queries at one filter.
type placement struct {
	filter  neighbour
	digests digests   // of the queries that the filter is to have
	inSync  bool      // it has them, and runs the same plan
	plan    string    // digest of the filter's, as it last said
	settled bool      // nothing of the plan before is under way to it
	at      time.Time // when to compare next
}

func newQueries(t *Tiers) *queries {
	q := &queries{base: t.base, tiers: t, texts: map[uint64]string{}, count: map[uint64]int{}}
	q.replan()
	return q
}

// replan makes the filters those of a new plan. Queries go to their filters by the new plan, and stay at those by the plan
// before until nothing of it is under way to them.
func (q *queries) replan() {
	q.filters = nil
	for _, f := range q.plans.up() {
		p := &placement{filter: f, at: env.AtOnce}
		q.digest(p)
		q.filters = append(q.filters, p)
	}
}

// digest computes the digests of a filter anew.
func (q *queries) digest(p *placement) {
	p.digests = digests{}
	for hash := range q.texts {
		if q.wants(p, hash) {
			p.digests.flip(hash)
		}
	}
}

// pause returns the time between two comparisons with a filter that has the queries.
func (p *placement) pause() time.Duration {
	if p.settled {
		return compareInterval
	}
	return compareSettling
}

// wants reports whether a filter is to have a query.
func (q *queries) wants(p *placement, hash uint64) bool {
	return q.plans.current.places(p.filter.Peer.ID, hash) || !p.settled && q.plans.previous.places(p.filter.Peer.ID, hash)
}

// places reports whether a query of the reflector belongs to a filter by a plan: one of the query's out-replica.
func (n *neighbours) places(filter env.PeerID, hash uint64) bool {
	for _, f := range n.up {
		if f.Peer.ID == filter {
			return n.outs[int(hash>>32*uint64(len(n.outs))>>32)] == f.out
		}
	}
	return false
}

// AddQuery places a query of a subscription at the filters. At other nodes than reflectors it does nothing.
func (t *Tiers) AddQuery(text string) {
	if t.queries == nil {
		return
	}
	q, hash := t.queries, queryHash(text)
	if q.count[hash]++; q.count[hash] == 1 {
		q.texts[hash] = text
		q.changed(hash, &tierspb.Place{Add: []string{text}})
	}
}

// RemoveQuery removes a query that AddQuery has placed, once for each call of it.
func (t *Tiers) RemoveQuery(text string) {
	if t.queries == nil {
		return
	}
	q, hash := t.queries, queryHash(text)
	if q.count[hash] == 0 {
		return
	}
	if q.count[hash]--; q.count[hash] == 0 {
		delete(q.texts, hash)
		delete(q.count, hash)
		q.changed(hash, &tierspb.Place{Remove: []uint64{hash}})
	}
}

// changed tells the filters of a query about a change at once, if they had everything before it.
func (q *queries) changed(hash uint64, m *tierspb.Place) {
	now := q.clock.Now()
	for _, f := range q.filters {
		if !q.wants(f, hash) {
			continue
		}
		f.digests.flip(hash)
		if f.inSync {
			q.send(f.filter.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Place{Place: m}})
		}
		f.inSync = false
		f.at = env.Sooner(f.at, now.Add(compareNow))
	}
	q.wake()
}

// settled reports whether all filters have the queries by the present plan alone, and have handled everything before.
func (q *queries) settled(now time.Time) bool {
	for _, f := range q.filters {
		if q.plans.is(f.plan) == ahead || f.inSync && f.settled {
			continue
		}
		i := q.tiers.inboxOf(f.filter.Peer.ID)
		if has(q.plans.current.up, f.filter.Peer.ID) || !silent(i.heardAt, q.plans.changed, now) {
			return false
		}
	}
	return true
}

// run compares queries with filters.
func (q *queries) run(now time.Time) (next time.Time) {
	for _, f := range q.filters {
		if !f.at.After(now) {
			f.at = now.Add(compareSoon)
			if f.inSync {
				f.at = now.Add(f.pause())
			}
			q.send(f.filter.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Compare{Compare: &tierspb.Compare{Digests: f.digests[:], Plan: q.plans.plan.Digest}}})
		}
		next = env.Sooner(next, f.at)
	}
	return next
}

// onDiffers mends the differences that a filter has named.
func (q *queries) onDiffers(from env.PeerID, m *tierspb.Differs, now time.Time) {
	i := slices.IndexFunc(q.filters, func(f *placement) bool { return f.filter.Peer.ID == from })
	f := q.filters[i]
	f.plan = m.Plan
	if same := m.Plan == q.plans.plan.Digest; same && m.Settled != f.settled {
		f.settled = m.Settled
		q.digest(f)
		f.inSync = false
		f.at = env.AtOnce
	}
	if len(m.Buckets) == 0 {
		if f.inSync = m.Plan == q.plans.plan.Digest && f.at != env.AtOnce; f.inSync {
			f.at = now.Add(f.pause())
		}
		return
	}
	f.inSync = false
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
	for _, hash := range slices.Sorted(maps.Keys(q.texts)) {
		if text := q.texts[hash]; named[bucketOf(hash)] && !theirs[hash] && q.wants(f, hash) {
			flush(len(text) + itemOverhead)
			place.Add = append(place.Add, text)
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(theirs)) {
		if _, known := q.texts[hash]; !known || !q.wants(f, hash) {
			flush(itemOverhead)
			place.Remove = append(place.Remove, hash)
		}
	}
	q.send(f.filter.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Place{Place: place}})
	f.at = now.Add(compareNow)
}
