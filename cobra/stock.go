package cobra

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/cobra/index"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// A stock is the articles that are kept.
type stock struct {
	last uint32 // the number that was given last; 0: none
	// sizes of the articles from the number first on: bytes on the disk, 0 of one that is gone.
	first uint32
	sizes []uint32
	came  []uint32 // when each came, in seconds since 1970
	bytes int64

	// Articles on their way to the disk, which readers get from here.
	unwritten map[uint32][]byte
	waiting   int64

	level   level
	why     string  // it is not whole
	strain  float64 // see Reflector.Strain
	sweeper sweeper
}

// shelfArticles is how many articles are counted in one record, so that a start need not read them.
const shelfArticles = 1 << 10

// A level says what is kept of articles that match.
type level uint8

const (
	whole level = iota
	titles
	nothingNew
)

func (l level) String() string { return [...]string{"whole", "titles", "nothing"}[l] }

// keepAs keeps an article that came at a time under the next number, as far as there
// is room. lost is called if the disk refuses it later.
func (r *Reflector) keepAs(m *cobrapb.Article, came time.Time, lost func()) bool {
	r.setLevel()
	if r.stock.level == nothingNew {
		r.stats.Dropped++
		return false
	}
	m.Seen = came.Unix()
	if r.stock.level == titles {
		m.Html, m.Tags, m.Shortened = "", nil, true
		r.stats.Shortened++
	}
	value := marshal(m)
	s := &r.stock
	s.last++
	s.add(s.last, uint32(len(value)), m.Seen)
	number := s.last
	if s.unwritten == nil {
		s.unwritten = map[uint32][]byte{}
	}
	s.unwritten[number] = value
	s.waiting += int64(len(value))
	ops := []env.Op{{Key: numbered(articlePrefix, number), Value: value, Body: true}, r.lastOp()}
	if len(s.sizes)%shelfArticles == 0 {
		ops = append(ops, s.shelfOp(len(s.sizes)/shelfArticles-1))
	}
	r.store.Commit(ops, func(err error) {
		s.waiting -= int64(len(value))
		delete(s.unwritten, number)
		if err != nil {
			r.stats.Failed++
			s.drop(number)
			r.log.Debug("an article could not be stored", "feed", m.Feed, "err", err)
			lost()
		}
		r.setLevel()
	})
	return true
}

// Strain says how much of the memory that the process may have is in use. From
// eight tenths on only titles and links are kept of new articles, and nothing from nine
// tenths on.
func (r *Reflector) Strain(share float64) {
	r.stock.strain = share
	r.setLevel()
}

// setLevel decides what is kept of new articles, and says when that changes.
func (r *Reflector) setLevel() {
	s, c := &r.stock, &r.config
	now, why := whole, ""
	for _, short := range []struct {
		all, some bool
		why       string
	}{
		{s.bytes >= c.Room, s.bytes >= c.Room/10*9, fmt.Sprintf("%d MB of articles are on the disk", s.bytes>>20)},
		{s.waiting >= c.Waiting, s.waiting >= c.Waiting/2, fmt.Sprintf("the disk does not keep up: %d MB wait for it", s.waiting>>20)},
		{s.strain >= 0.9, s.strain >= 0.8, fmt.Sprintf("%.0f %% of the memory is in use", 100*s.strain)},
	} {
		switch {
		case short.all && now < nothingNew:
			now, why = nothingNew, short.why
		case short.some && now < titles:
			now, why = titles, short.why
		}
	}
	s.why = why
	if now != s.level {
		r.log.Warn("amount that searches keep of new articles changed", "from", s.level.String(), "to", now.String(),
			"bytes", s.bytes, "room", c.Room, "waiting", s.waiting, "memory", s.strain)
		s.level = now
	}
}

// add counts an article that is kept.
func (s *stock) add(number, size uint32, seen int64) {
	if len(s.sizes) == 0 {
		s.first = number &^ (shelfArticles - 1)
	}
	for s.first+uint32(len(s.sizes)) <= number {
		s.sizes, s.came = append(s.sizes, 0), append(s.came, 0)
	}
	at := number - s.first
	s.bytes += int64(size) - int64(s.sizes[at])
	s.sizes[at], s.came[at] = size, uint32(seen)
}

// newest orders articles by when they came, the newest first, each once, and cuts off what is too much. By
// their numbers alone, those that somebody began with would hide what came before he subscribed.
func (s *stock) newest(articles []uint32, limit int) []uint32 {
	came := func(n uint32) uint32 {
		if s.has(n) {
			return s.came[n-s.first]
		}
		return 0
	}
	slices.SortFunc(articles, func(a, b uint32) int { return cmp.Or(cmp.Compare(came(b), came(a)), cmp.Compare(b, a)) })
	articles = slices.Compact(articles)
	return articles[:min(limit, len(articles))]
}

// has says whether an article is kept.
func (s *stock) has(number uint32) bool {
	return number >= s.first && int(number-s.first) < len(s.sizes) && s.sizes[number-s.first] > 0
}

// drop counts an article that is not kept any more.
func (s *stock) drop(number uint32) {
	if s.has(number) {
		s.bytes -= int64(s.sizes[number-s.first])
		s.sizes[number-s.first] = 0
	}
}

// trim gives back the room of shelves with nothing on them.
func (s *stock) trim() {
	n := 0
	for n+shelfArticles <= len(s.sizes) && !slices.ContainsFunc(s.sizes[n:n+shelfArticles], func(size uint32) bool { return size > 0 }) {
		n += shelfArticles
	}
	s.sizes, s.came = slices.Clone(s.sizes[n:]), slices.Clone(s.came[n:])
	s.first += uint32(n)
}

// shelfOp writes what a shelf has, so that a start need not read all articles.
func (s *stock) shelfOp(shelf int) env.Op {
	from, to := shelf*shelfArticles, (shelf+1)*shelfArticles
	record := &cobrapb.Shelf{Seen: int64(s.came[from]), Sizes: slices.Clone(s.sizes[from:to])}
	for _, came := range s.came[from:to] {
		record.Later = append(record.Later, int64(came)-record.Seen)
	}
	return env.Op{Key: numbered(shelfPrefix, s.first/shelfArticles+uint32(shelf)), Value: marshal(record)}
}

// loadStock counts the articles that the store has.
func (r *Reflector) loadStock() error {
	s := &r.stock
	var broken error
	err := r.store.Range([]byte(shelfPrefix), func(key, value []byte) bool {
		var shelf cobrapb.Shelf
		if broken = proto.Unmarshal(value, &shelf); broken != nil {
			return false
		}
		first := binary.BigEndian.Uint32(key[1:]) * shelfArticles
		for i, size := range shelf.Sizes {
			came := shelf.Seen
			if len(shelf.Later) == len(shelf.Sizes) {
				came += shelf.Later[i]
			}
			s.add(first+uint32(i), size, came)
		}
		return true
	})
	if err := errors.Join(r.damaged(err), broken); err != nil {
		return err
	}
	// Those of the shelf that is not full.
	for n := max(s.first+uint32(len(s.sizes)), s.last&^(shelfArticles-1), 1); n <= s.last; n++ {
		value, err := r.store.Get(numbered(articlePrefix, n))
		if err := r.damaged(err); err != nil {
			return err
		}
		if value == nil {
			continue // nobody had it any more
		}
		var m cobrapb.Article
		if err := proto.Unmarshal(value, &m); err != nil {
			return fmt.Errorf("article %d: %w", n, err)
		}
		s.add(n, uint32(len(value)), m.Seen)
	}
	return nil
}

// replay matches the articles behind a number again, as they were matched before
// the node ended.
func (r *Reflector) replay(behind uint32) error {
	for n := max(behind+1, r.stock.first); n <= r.stock.last && n > 0; n++ {
		value, err := r.store.Get(numbered(articlePrefix, n))
		if err := r.damaged(err); err != nil {
			return err
		}
		if value == nil {
			continue
		}
		a, err := articleOf(value)
		if err != nil {
			return fmt.Errorf("article %d: %w", n, err)
		}
		if a.early {
			continue
		}
		hits := r.filter.Match(&a.Article)
		hits = slices.DeleteFunc(hits, func(node index.Node) bool { // what was written with it has it
			return r.rings.Last(node) >= n || r.begun(node, &a.Article)
		})
		r.rings.Put(n, hits)
	}
	return nil
}

// Kept is an article as it is kept.
type Kept struct {
	Article
	Seen      time.Time
	Shortened bool // there was no room for its content

	early bool // nobody has it but who subscribed when it had come
}

// A Feed is what a subscription has: the numbers of its articles, the newest first.
// Feeds with equal numbers are equal.
type Feed struct {
	Articles  []uint32          // some perhaps again, by another number, and so more than are kept
	kept      int               // how many different ones it has at most
	unwritten map[uint32][]byte // of these, on their way to the disk
}

// often is how many numbers an article may have in one feed, mostly: one that it was given when it came, and
// some for those who subscribed later.
const often = 4

// Read returns the articles that are kept, in their order, each once. It may be called from any
// goroutine.
func (f Feed) Read(s env.Store) (articles []Kept, err error) {
	for _, n := range f.Articles {
		if len(articles) == f.kept {
			break
		}
		value := f.unwritten[n]
		if value == nil {
			value, err = s.Get(numbered(articlePrefix, n))
		}
		switch {
		case errors.Is(err, env.ErrDamaged) || err == nil && value == nil:
			err = nil
			continue // too old, or on a disk that refused or damaged it
		case err != nil:
			return nil, fmt.Errorf("read article %d: %w", n, err)
		}
		k, err := articleOf(value)
		if err != nil {
			return nil, fmt.Errorf("read article %d: %w", n, err)
		}
		if k.ID == (feed.ID{}) || !slices.ContainsFunc(articles, func(other Kept) bool { return other.ID == k.ID && other.Feed == k.Feed }) {
			articles = append(articles, k)
		}
	}
	return articles, nil
}

// proto is the article as it is kept and sent.
func (a *Article) proto() *cobrapb.Article {
	m := &cobrapb.Article{
		Feed: a.Feed, Id: a.ID[:], Link: a.Link, Title: a.Title, Author: a.Author, Tags: a.Tags, Language: a.Language, Html: a.content(),
		FeedTitle: a.FeedTitle, FeedLink: a.FeedLink,
	}
	if !a.Published.IsZero() {
		m.Published = a.Published.Unix()
	}
	return m
}

// articleOf reads an article.
func articleOf(value []byte) (k Kept, err error) {
	var m cobrapb.Article
	if err := proto.Unmarshal(value, &m); err != nil {
		return Kept{}, err
	}
	if len(m.Id) != len(feed.ID{}) {
		return Kept{}, fmt.Errorf("an identity of %d bytes", len(m.Id))
	}
	k = Kept{Seen: time.Unix(m.Seen, 0), Shortened: m.Shortened, early: m.Early}
	k.Article = Article{
		Feed: m.Feed, ID: feed.ID(m.Id), Link: m.Link, Title: m.Title, Author: m.Author, Tags: m.Tags, Language: m.Language,
		HTML: m.Html, FeedTitle: m.FeedTitle, FeedLink: m.FeedLink,
	}
	if m.Published != 0 {
		k.Published = time.Unix(m.Published, 0)
	}
	return k, nil
}
