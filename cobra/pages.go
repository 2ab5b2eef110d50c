package cobra

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/cobra/index"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// Rings are written in pages of subscriptions instead of clauses, because subscriptions keep
// their numbers while clauses are renumbered at every start.
const pageSubscriptions = 1 << 12

// maxWriteRate bounds the bytes of rings that are written in a second. At forty million
// subscriptions a round then takes seven minutes, and a start has to match the articles of
// about as long again.
const maxWriteRate = 2 << 20

// A pageWriter writes the pages of rings in turn.
type pageWriter struct {
	lastArticles []uint32 // for each page, the last article before the page was written
	next         uint32
	due          time.Time
	writing      bool
}

// writePages writes the next page of rings if it is due.
func (r *Reflector) writePages(now time.Time) (next time.Time) {
	p := &r.pages
	n := len(p.lastArticles)
	wait := ringWriteInterval / time.Duration(max(n, 1))
	if n == 0 || p.writing || now.Before(p.due) {
		if p.due.Before(now) {
			p.due = now.Add(wait)
		}
		return p.due
	}
	page := p.next % uint32(n)
	p.next = page + 1
	p.due = now.Add(wait)
	if p.lastArticles[page] == r.articles.last {
		return p.due // no article has been added since
	}
	value := wire.Encode(&cobrapb.Rings{LastArticle: r.articles.last, Rings: r.encodePage(page)})
	p.due = now.Add(max(wait, time.Duration(len(value))*time.Second/maxWriteRate))
	p.writing = true
	previous := p.lastArticles[page]
	p.lastArticles[page] = r.articles.last
	// The counters are written with the page. If the disk has refused an article, its number
	// would otherwise be used again after a crash, for an article that these rings do not
	// contain.
	r.store.Commit([]env.Op{{Key: numbered(ringsPrefix, page), Value: value}, r.countersOp()}, func(err error) {
		p.writing = false
		if err != nil {
			p.lastArticles[page] = previous
			r.log.Debug("a page of search feeds could not be written", "page", page, "err", err)
		}
	})
	return p.due
}

// newPage writes the first version of the next page. Its subscriptions are new, so it misses no
// earlier article.
func (r *Reflector) newPage() env.Op {
	page := uint32(len(r.pages.lastArticles))
	r.pages.lastArticles = append(r.pages.lastArticles, r.articles.last)
	return env.Op{Key: numbered(ringsPrefix, page), Value: wire.Encode(&cobrapb.Rings{LastArticle: r.articles.last})}
}

// encodePage returns the rings of a page's subscriptions.
func (r *Reflector) encodePage(page uint32) (b []byte) {
	first := SubscriptionID(page * pageSubscriptions)
	var ring []uint32
	for n := first; n < min(first+pageSubscriptions, r.next); n++ {
		ids := r.filter.ClauseIDs(n)
		b = binary.AppendUvarint(b, uint64(len(ids)))
		for _, id := range ids {
			ring = r.rings.Newest(id, ring[:0])
			b = appendRing(b, ring)
		}
	}
	return b
}

func appendRing(b []byte, ring []uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(ring)))
	previous := uint32(0)
	for i, article := range ring {
		if i == 0 {
			b = binary.AppendUvarint(b, uint64(article))
		} else {
			b = binary.AppendUvarint(b, uint64(previous-article))
		}
		previous = article
	}
	return b
}

// loadRings reads all pages. It returns the last article up to which all rings are complete.
func (r *Reflector) loadRings() (writtenThrough uint32, err error) {
	n := (int(r.next) + pageSubscriptions - 1) / pageSubscriptions
	r.pages.lastArticles = make([]uint32, n)
	var broken error
	err = r.store.Range([]byte(ringsPrefix), func(key, value []byte) bool {
		page := binary.BigEndian.Uint32(key[1:])
		var m cobrapb.Rings
		if broken = proto.Unmarshal(value, &m); broken == nil && int(page) < n {
			r.pages.lastArticles[page] = m.LastArticle
			broken = r.loadPage(page, m.Rings)
		}
		if broken != nil {
			broken = fmt.Errorf("page %d of keyword feeds: %w", page, broken)
		}
		return broken == nil
	})
	if err := errors.Join(r.skipDamaged(err), broken); err != nil {
		return 0, err
	}
	writtenThrough = r.articles.last
	for _, last := range r.pages.lastArticles {
		writtenThrough = min(writtenThrough, last)
	}
	return writtenThrough, nil
}

func (r *Reflector) loadPage(page uint32, b []byte) error {
	c := varintReader{b: b}
	for i := uint32(0); len(c.b) > 0; i++ {
		ids := r.filter.ClauseIDs(SubscriptionID(page*pageSubscriptions + i))
		count := c.next()
		for j := range count {
			ring := c.ring(r.config.ArticlesPerFeed)
			if c.invalid {
				return errors.New("it ends too early")
			}
			if int(count) == len(ids) { // otherwise the subscription has ended since
				r.setRing(ids[j], ring)
			}
		}
	}
	return nil
}

// loadInitialRings sets the rings of a subscription to those of its record.
func (r *Reflector) loadInitialRings(number SubscriptionID, initial []byte) {
	c := varintReader{b: initial}
	for _, id := range r.filter.ClauseIDs(number) {
		if ring := c.ring(r.config.ArticlesPerFeed); !c.invalid {
			r.setRing(id, ring)
		}
	}
}

// setRing sets the ring of a clause unless the present one is newer. Pages that share a clause were
// written at different times, and the latest counts.
func (r *Reflector) setRing(id index.ClauseID, ring []uint32) {
	if len(ring) == 0 || r.rings.Last(id) >= ring[0] {
		return
	}
	r.rings.Clear(id)
	for _, article := range slices.Backward(ring) {
		r.rings.Put(article, []index.ClauseID{id})
	}
}

// A varintReader reads varints until one is invalid.
type varintReader struct {
	b       []byte
	invalid bool
}

func (c *varintReader) next() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.invalid = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

// ring reads the articles of a ring and returns at most limit of them.
func (c *varintReader) ring(limit int) (ring []uint32) {
	last := uint64(0)
	for i := range c.next() {
		v := c.next()
		if i > 0 {
			v = last - v
		}
		if c.invalid || v == 0 || v > 1<<32-1 {
			c.invalid = true
			return nil
		}
		if last = v; len(ring) < limit {
			ring = append(ring, uint32(v))
		}
	}
	return ring
}
