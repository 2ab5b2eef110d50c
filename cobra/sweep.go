package cobra

import (
	"slices"
	"time"

	"tidings/cobra/index"
	"tidings/internal/env"
)

// A sweep deletes articles that are too old or in no ring. Articles have no reference counts:
// each ring update would access the count of an old article at a random address, while a sweep
// reads all rings in order.
const (
	sweepInterval      = time.Hour
	shortSweepInterval = time.Minute // while retention is not keepAll
	ringsPerStep       = 1 << 16     // rings that are read in one step, which takes a few milliseconds
)

// A sweeper holds the progress of a sweep.
type sweeper struct {
	due      time.Time
	marks    []uint64 // a bit for each article from first on that is in a ring; nil if no sweep is in progress
	first    uint32
	limit    uint32 // later articles were added after the sweep began
	nextRing int    // next ring to be read
	segment  int    // next segment to be cleaned, after all rings were read
}

// sweep does the next step of a sweep if one is due.
func (r *Reflector) sweep(now time.Time) (next time.Time) {
	s, w := &r.articles, &r.articles.sweeper
	switch {
	case w.marks == nil && s.retention != keepAll && w.due.After(now.Add(shortSweepInterval)):
		w.due = now.Add(shortSweepInterval)
	case w.due.IsZero():
		w.due = now.Add(sweepInterval)
	}
	if now.Before(w.due) {
		return w.due
	}
	switch {
	case w.marks == nil:
		*w = sweeper{due: now, marks: make([]uint64, len(s.sizes)/64+1), first: s.first, limit: s.first + uint32(len(s.sizes))}
	case w.nextRing < r.filter.index.Limit():
		r.markRings()
	case w.segment*segmentArticles < len(s.sizes):
		r.deleteUnmarked(now)
	default:
		s.dropEmptySegments()
		r.updateRetention()
		*w = sweeper{due: now.Add(sweepInterval)}
		if s.retention != keepAll {
			w.due = now.Add(shortSweepInterval)
		}
		return w.due
	}
	return now
}

// markRings marks the articles of the next rings.
func (r *Reflector) markRings() {
	w := &r.articles.sweeper
	var ring []uint32
	for end := min(w.nextRing+ringsPerStep, r.filter.index.Limit()); w.nextRing < end; w.nextRing++ {
		ring = r.rings.Newest(index.ClauseID(w.nextRing), ring[:0])
		for _, article := range ring {
			w.mark(article)
		}
	}
}

// mark marks an article that is in a ring. It is also called when an old article is added to a
// ring, because that ring may have been read already.
func (w *sweeper) mark(article uint32) {
	if w.marks != nil && article >= w.first && article < w.limit {
		w.marks[(article-w.first)/64] |= 1 << ((article - w.first) % 64)
	}
}

// deleteUnmarked deletes the articles of the next segment that are not marked or too old.
func (r *Reflector) deleteUnmarked(now time.Time) {
	s, w := &r.articles, &r.articles.sweeper
	oldest := now.Add(-maxArticleAge).Unix()
	var ops []env.Op
	for i := w.segment * segmentArticles; i < min((w.segment+1)*segmentArticles, len(s.sizes)); i++ {
		number := s.first + uint32(i)
		marked := number >= w.limit || w.marks[i/64]&(1<<(i%64)) != 0
		if s.sizes[i] == 0 || marked && int64(s.received[i]) >= oldest || s.unwritten[number] != nil {
			continue
		}
		s.remove(number)
		r.stats.Swept++
		ops = append(ops, env.Op{Key: numbered(articlePrefix, number)})
	}
	if full := (w.segment+1)*segmentArticles <= len(s.sizes); full && len(ops) > 0 {
		segment := s.segmentOp(w.segment)
		if !slices.ContainsFunc(s.sizes[w.segment*segmentArticles:(w.segment+1)*segmentArticles], func(size uint32) bool { return size > 0 }) {
			segment.Value = nil
		}
		ops = append(ops, segment)
	}
	w.segment++
	if len(ops) > 0 {
		r.store.Commit(ops, func(err error) {
			if err != nil {
				r.log.Debug("unused articles could not be deleted", "err", err)
			}
		})
	}
}
