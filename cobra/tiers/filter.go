package tiers

import (
	"fmt"
	"slices"
	"strings"

	"tidings/cobra"
	"tidings/cobra/index"
	"tidings/cobra/query"
	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	queryPrefix = "tiers/query/" // then the reflector's peer id and the hash of the query, 8 bytes
	// matchBatch bounds the articles that are matched before their results are written together.
	matchBatch = 256
)

// A filter matches articles with the queries of its reflectors (section 3.2).
type filter struct {
	*base
	tiers      *Tiers
	out        *outbox
	reflectors []*placed // in the order of the links
	busy       map[*inbox]bool
}

// placed are the queries of one reflector.
type placed struct {
	link    *outLink
	index   *cobra.Filter
	next    cobra.SubscriptionID
	entries map[uint64]entry // by the hash of the query
	digests digests
	all     int // queries that could not be indexed: while there is one, every article passes

	confirmed   bool // it has had all queries of the plan
	uncommitted int  // changes that are not durable yet
}

type entry struct {
	text   string
	number cobra.SubscriptionID
	whole  bool // counted in all
}

func newFilter(t *Tiers) (*filter, error) {
	f := &filter{base: t.base, tiers: t, out: t.out, busy: map[*inbox]bool{}}
	for _, l := range t.out.links {
		p := newPlaced(l)
		f.reflectors = append(f.reflectors, p)
		if err := t.store.Range([]byte(p.prefix()), func(_, value []byte) bool {
			p.add(string(value))
			return true
		}); err != nil {
			return nil, fmt.Errorf("read the queries of %s: %w", l.to.Name, err)
		}
	}
	return f, nil
}

func newPlaced(l *outLink) *placed {
	return &placed{link: l, index: cobra.NewFilter(cobra.Config{}, index.New()), entries: map[uint64]entry{}}
}

// prefix returns the beginning of the keys of a reflector's queries.
func (p *placed) prefix() string { return queryPrefix + string(p.link.to.Peer.ID) }

// replan makes the reflectors those of a new plan, and returns the operations that delete the queries of the others.
func (f *filter) replan() (ops []env.Op) {
	old := f.reflectors
	f.reflectors = nil
	for _, l := range f.out.links {
		p := newPlaced(l)
		if at := slices.IndexFunc(old, func(p *placed) bool { return p.link == l }); at >= 0 {
			p = old[at]
			p.confirmed = false
			old = slices.Delete(old, at, at+1)
		}
		f.reflectors = append(f.reflectors, p)
	}
	for _, p := range old {
		for hash := range p.entries {
			ops = append(ops, env.Op{Key: appendHash([]byte(p.prefix()), hash)})
		}
	}
	return ops
}

// add adds a query, and returns false if it is known.
func (p *placed) add(text string) (hash uint64, ok bool) {
	hash = queryHash(text)
	if _, known := p.entries[hash]; known {
		return hash, false
	}
	e := entry{text: strings.Clone(text), number: p.next}
	clauses, err := query.Clauses(text)
	if err == nil {
		err = p.index.Add(p.next, clauses, func(index.ClauseID) {})
	}
	if err != nil { // the filter is full, or the query is of another version: the reflector decides
		e.whole = true
		p.all++
	} else {
		p.next++
	}
	p.entries[hash] = e
	p.digests.flip(hash)
	return hash, true
}

func (p *placed) remove(hash uint64) bool {
	e, ok := p.entries[hash]
	if !ok {
		return false
	}
	if e.whole {
		p.all--
	} else if clauses, err := query.Clauses(e.text); err == nil {
		p.index.Remove(e.number, clauses)
	}
	delete(p.entries, hash)
	p.digests.flip(hash)
	return true
}

func (f *filter) placedOf(l *outLink) *placed {
	return f.reflectors[slices.IndexFunc(f.reflectors, func(p *placed) bool { return p.link == l })]
}

// onPlace changes the queries of a reflector. If the record is lost in a crash, the next comparison finds it missing.
func (f *filter) onPlace(l *outLink, m *tierspb.Place) {
	p := f.placedOf(l)
	prefix := []byte(p.prefix())
	var ops []env.Op
	for _, text := range m.Add {
		if len(text) > maxQuery || len(p.entries) >= maxPlaced {
			f.stats.Garbage++
			continue
		}
		if hash, isNew := p.add(text); isNew {
			ops = append(ops, env.Op{Key: appendHash(slices.Clone(prefix), hash), Value: []byte(text)})
		}
	}
	for _, hash := range m.Remove {
		if p.remove(hash) {
			ops = append(ops, env.Op{Key: appendHash(slices.Clone(prefix), hash)})
		}
	}
	if len(ops) > 0 {
		p.uncommitted++
		f.store.Commit(ops, func(err error) {
			p.uncommitted--
			f.failed("queries")(err)
		})
	}
}

// onCompare tells a reflector which queries this filter has, as far as they differ from the reflector's.
func (f *filter) onCompare(l *outLink, m *tierspb.Compare) error {
	if len(m.Digests) != buckets {
		return fmt.Errorf("%w: tiers: %d digests", wire.ErrFrame, len(m.Digests))
	}
	p := f.placedOf(l)
	if p.uncommitted > 0 { // the reflector asks again
		return nil
	}
	if p.digests == digests(m.Digests) && m.Plan == f.plans.plan.Digest {
		p.confirmed = true
	}
	answer := &tierspb.Differs{Plan: f.plans.plan.Digest}
	answer.Settled = f.isSettled && (len(l.pending) == 0 || has(f.plans.current.down, l.to.Peer.ID))
	differ := map[int]*tierspb.Bucket{}
	for b, digest := range m.Digests {
		if p.digests[b] != digest && len(differ) < maxDiffering {
			differ[b] = &tierspb.Bucket{Index: uint32(b)}
			answer.Buckets = append(answer.Buckets, differ[b])
		}
	}
	if len(differ) > 0 {
		for hash := range p.entries {
			if b := differ[bucketOf(hash)]; b != nil {
				b.Hashes = append(b.Hashes, hash)
			}
		}
	}
	size, kept := 0, 0
	for _, b := range answer.Buckets {
		slices.Sort(b.Hashes)
		b.Hashes = b.Hashes[:min(len(b.Hashes), maxBatch/8)] // the reflector adds again what is left out, without harm
		if size += 8*len(b.Hashes) + itemOverhead; size > maxBatch && kept > 0 {
			break
		}
		kept++
	}
	answer.Buckets = answer.Buckets[:kept]
	f.send(l.to.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Differs{Differs: answer}})
	return nil
}

// match matches the articles of a crawler and queues them for the reflectors that have a matching query. Without
// dropping, it goes on only if all its receivers have room. The results and the position in the crawler's log are written
// together, so that after a crash nothing is missing and nothing is queued twice.
func (f *filter) match(i *inbox) {
	waits := ""
	if l := f.out.waiting(); l != nil {
		waits = l.blockedBy()
	} else if len(i.buffer) > 0 && !f.mayTake(i, i.buffer[0].Position) {
		if waits = f.plans.self().Name; !f.plans.ready {
			waits = f.unready()
		}
	}
	i.waitFor(waits)
	if f.busy[i] || len(i.buffer) == 0 || waits != "" {
		return
	}
	var ops []env.Op
	var written []*queued
	bytes, last, life, began := 0, uint64(0), i.life, f.clock.Now()
	for n := 0; len(i.buffer) > 0 && n < matchBatch; n++ {
		if n > 0 && (f.out.waiting() != nil || !f.mayTake(i, i.buffer[0].Position)) {
			break
		}
		item := i.take()
		bytes, last = bytes+len(item.Article), item.Position
		to := f.receivers(item.Article)
		if len(to) == 0 {
			continue
		}
		q, more := f.out.appendTo(to, item.Article)
		ops, written = append(ops, more...), append(written, q)
		f.stats.Passed++
	}
	f.stats.MatchMicros += uint64(f.clock.Now().Sub(began).Microseconds())
	f.busy[i] = true
	f.store.Commit(append(ops, i.cursor(last)), func(err error) {
		delete(f.busy, i)
		f.out.written(written, err)
		i.passed(last, bytes, life)
	})
}

// receivers returns the links to the reflectors that an article is for.
func (f *filter) receivers(article []byte) (to []*outLink) {
	a, err := cobra.DecodeArticle(article)
	if err != nil {
		f.stats.Garbage++
		return nil
	}
	for _, p := range f.reflectors {
		if len(p.index.Match(a)) > 0 || p.all > 0 {
			to = append(to, p.link)
		}
	}
	return to
}
