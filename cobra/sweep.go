package cobra

import (
	"slices"
	"time"

	"tidings/cobra/index"
	"tidings/internal/env"
)

// Sweeps delete articles that no ring has, and such as are too old. There is no
// count of who has an article: rings would have to look at an article far away
// for each that they forget, while a sweep reads them in their order.
const (
	sweepEvery = time.Hour
	sweepSoon  = time.Minute // while not all is kept that comes
	sweepStep  = 1 << 16     // rings that are read at a time, a few milliseconds
)

// A sweeper is how far a sweep is.
type sweeper struct {
	due   time.Time
	marks []uint64 // of articles that a ring has, from first on; nil: no sweep is under way
	first uint32
	limit uint32 // articles from here on came since it began
	node  int    // the next ring to be read
	shelf int    // the next shelf, once all are read
}

// sweep does the next step of a sweep, if one is due.
func (r *Reflector) sweep(now time.Time) (next time.Time) {
	s, w := &r.stock, &r.stock.sweeper
	switch {
	case w.marks == nil && s.level != whole && w.due.After(now.Add(sweepSoon)):
		w.due = now.Add(sweepSoon)
	case w.due.IsZero():
		w.due = now.Add(sweepEvery)
	}
	if now.Before(w.due) {
		return w.due
	}
	switch {
	case w.marks == nil:
		*w = sweeper{due: now, marks: make([]uint64, len(s.sizes)/64+1), first: s.first, limit: s.first + uint32(len(s.sizes))}
	case w.node < r.filter.index.Limit():
		r.mark()
	case w.shelf*shelfArticles < len(s.sizes):
		r.clean(now)
	default:
		s.trim()
		r.setLevel()
		*w = sweeper{due: now.Add(sweepEvery)}
		if s.level != whole {
			w.due = now.Add(sweepSoon)
		}
		return w.due
	}
	return now
}

// mark marks the articles of the next rings.
func (r *Reflector) mark() {
	w := &r.stock.sweeper
	var ring []uint32
	for end := min(w.node+sweepStep, r.filter.index.Limit()); w.node < end; w.node++ {
		ring = r.rings.Newest(index.Node(w.node), ring[:0])
		for _, article := range ring {
			w.has(article)
		}
	}
}

// has marks an article that a ring has. Whoever puts an old one into a ring says so, too: the ring may have
// been read.
func (w *sweeper) has(article uint32) {
	if w.marks != nil && article >= w.first && article < w.limit {
		w.marks[(article-w.first)/64] |= 1 << ((article - w.first) % 64)
	}
}

// clean deletes from the next shelf what is not marked or too old.
func (r *Reflector) clean(now time.Time) {
	s, w := &r.stock, &r.stock.sweeper
	oldest := now.Add(-r.config.MaxAge).Unix()
	var ops []env.Op
	for i := w.shelf * shelfArticles; i < min((w.shelf+1)*shelfArticles, len(s.sizes)); i++ {
		number := s.first + uint32(i)
		marked := number >= w.limit || w.marks[i/64]&(1<<(i%64)) != 0
		if s.sizes[i] == 0 || marked && int64(s.came[i]) >= oldest || s.unwritten[number] != nil {
			continue
		}
		s.drop(number)
		r.stats.Swept++
		ops = append(ops, env.Op{Key: numbered(articlePrefix, number)})
	}
	if full := (w.shelf+1)*shelfArticles <= len(s.sizes); full && len(ops) > 0 {
		shelf := s.shelfOp(w.shelf)
		if !slices.ContainsFunc(s.sizes[w.shelf*shelfArticles:(w.shelf+1)*shelfArticles], func(size uint32) bool { return size > 0 }) {
			shelf.Value = nil
		}
		ops = append(ops, shelf)
	}
	w.shelf++
	if len(ops) > 0 {
		r.store.Commit(ops, func(err error) {
			if err != nil {
				r.log.Debug("unused articles could not be deleted", "err", err)
			}
		})
	}
}
