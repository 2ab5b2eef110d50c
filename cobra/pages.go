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
)

// Rings are written by pages of subscriptions and not of nodes: subscriptions
// keep their numbers, while nodes get other ones at every start.
const pageSubscriptions = 1 << 12

// pageRate is how many bytes of rings are written in a second at most. With
// forty million subscriptions a round takes seven minutes then, and a start
// matches the articles of as long again.
const pageRate = 2 << 20

// pages is where the round is that writes rings.
type pages struct {
	asOf    []uint32 // of each page, the last article before it was written
	next    uint32
	due     time.Time
	writing bool
}

// writePages writes the next page of rings if it is due.
func (r *Reflector) writePages(now time.Time) (next time.Time) {
	p := &r.pages
	n := len(p.asOf)
	wait := r.config.Round / time.Duration(max(n, 1))
	if n == 0 || p.writing || now.Before(p.due) {
		if p.due.Before(now) {
			p.due = now.Add(wait)
		}
		return p.due
	}
	page := p.next % uint32(n)
	p.next = page + 1
	p.due = now.Add(wait)
	if p.asOf[page] == r.stock.last {
		return p.due // nothing has come since
	}
	value := marshal(&cobrapb.Rings{AsOf: r.stock.last, Rings: r.page(page)})
	p.due = now.Add(max(wait, time.Duration(len(value))*time.Second/pageRate))
	p.writing = true
	before := p.asOf[page]
	p.asOf[page] = r.stock.last
	// With the last number: where the disk refused an article, it has not been told of that yet, and would give
	// it to another one that these rings have not.
	r.store.Commit([]env.Op{{Key: numbered(ringsPrefix, page), Value: value}, r.lastOp()}, func(err error) {
		p.writing = false
		if err != nil {
			p.asOf[page] = before
			r.log.Debug("a page of search feeds could not be written", "page", page, "err", err)
		}
	})
	return p.due
}

// newPage writes the next page, whose subscriptions are new: no article that came
// before is missing in it.
func (r *Reflector) newPage() env.Op {
	page := uint32(len(r.pages.asOf))
	r.pages.asOf = append(r.pages.asOf, r.stock.last)
	return env.Op{Key: numbered(ringsPrefix, page), Value: marshal(&cobrapb.Rings{AsOf: r.stock.last})}
}

// page returns the rings of a page's subscriptions.
func (r *Reflector) page(page uint32) (b []byte) {
	first := Number(page * pageSubscriptions)
	var ring []uint32
	for n := first; n < min(first+pageSubscriptions, r.next); n++ {
		nodes := r.filter.Of(n)
		b = binary.AppendUvarint(b, uint64(len(nodes)))
		for _, node := range nodes {
			ring = r.rings.Newest(node, ring[:0])
			b = appendRing(b, ring)
		}
	}
	return b
}

func appendRing(b []byte, ring []uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(ring)))
	before := uint32(0)
	for i, article := range ring {
		if i == 0 {
			b = binary.AppendUvarint(b, uint64(article))
		} else {
			b = binary.AppendUvarint(b, uint64(before-article))
		}
		before = article
	}
	return b
}

// loadRings reads all pages. It returns the last article that is in all rings it
// belongs to.
func (r *Reflector) loadRings() (behind uint32, err error) {
	n := (int(r.next) + pageSubscriptions - 1) / pageSubscriptions
	r.pages.asOf = make([]uint32, n)
	var broken error
	err = r.store.Range([]byte(ringsPrefix), func(key, value []byte) bool {
		page := binary.BigEndian.Uint32(key[1:])
		var m cobrapb.Rings
		if broken = proto.Unmarshal(value, &m); broken == nil && int(page) < n {
			r.pages.asOf[page] = m.AsOf
			broken = r.loadPage(page, m.Rings)
		}
		if broken != nil {
			broken = fmt.Errorf("page %d of keyword feeds: %w", page, broken)
		}
		return broken == nil
	})
	if err := errors.Join(r.damaged(err), broken); err != nil {
		return 0, err
	}
	behind = r.stock.last
	for _, asOf := range r.pages.asOf {
		behind = min(behind, asOf)
	}
	return behind, nil
}

func (r *Reflector) loadPage(page uint32, b []byte) error {
	c := cursor{b: b}
	for i := uint32(0); len(c.b) > 0; i++ {
		nodes := r.filter.Of(Number(page*pageSubscriptions + i))
		count := c.next()
		for j := range count {
			ring := c.ring(r.config.Kept)
			if c.broken {
				return errors.New("it ends too early")
			}
			if int(count) == len(nodes) { // else the subscription has ended since
				r.put(nodes[j], ring)
			}
		}
	}
	return nil
}

// fill puts the articles into a subscription's rings that it had at once.
func (r *Reflector) fill(number Number, first []byte) {
	c := cursor{b: first}
	for _, node := range r.filter.Of(number) {
		if ring := c.ring(r.config.Kept); !c.broken {
			r.put(node, ring)
		}
	}
}

// put puts articles into a node's ring that has none newer. Pages that share a node
// have it as of different times, and the latest counts.
func (r *Reflector) put(node index.Node, ring []uint32) {
	if len(ring) == 0 || r.rings.Last(node) >= ring[0] {
		return
	}
	r.rings.Clear(node)
	for _, article := range slices.Backward(ring) {
		r.rings.Put(article, []index.Node{node})
	}
}

// A cursor reads varints.
type cursor struct {
	b      []byte
	broken bool
}

func (c *cursor) next() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.broken = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

// ring reads the articles of a ring, as many as are kept.
func (c *cursor) ring(kept int) (ring []uint32) {
	last := uint64(0)
	for i := range c.next() {
		v := c.next()
		if i > 0 {
			v = last - v
		}
		if c.broken || v == 0 || v > 1<<32-1 {
			c.broken = true
			return nil
		}
		if last = v; len(ring) < kept {
			ring = append(ring, uint32(v))
		}
	}
	return ring
}
