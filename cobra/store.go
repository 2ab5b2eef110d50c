package cobra

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/cobra/index"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// An articleStore keeps account of the articles on disk.
type articleStore struct {
	last uint32 // number of the last article; 0 if there is none
	// sizes of articles on disk in bytes, by number from first on; 0 for a deleted article.
	first    uint32
	sizes    []uint32
	received []uint32 // time of arrival of each, in seconds since 1970
	bytes    int64    // sum of sizes

	// unwritten holds encoded articles on their way to the disk, so that they can be read
	// already.
	unwritten    map[uint32][]byte
	pendingBytes int64

	retention retention // what is kept of new articles
	why       string    // reason, if retention is not keepAll
	memoryUse float64   // see Reflector.SetMemoryUse
	sweeper   sweeper
}

// segmentArticles is the number of articles that one record describes, so that a start need not
// read them.
const segmentArticles = 1 << 10

// A retention determines what is kept of new articles that match.
type retention uint8

const (
	keepAll retention = iota
	keepTitles
	keepNothing
)

func (l retention) String() string { return [...]string{"whole", "titles", "nothing"}[l] }

// storeArticle stores an article with its time of arrival under the next number, unless there
// is no room. failed is called if the disk refuses the article later.
func (r *Reflector) storeArticle(m *cobrapb.Article, received time.Time, failed func()) bool {
	r.updateRetention()
	if r.articles.retention == keepNothing {
		r.stats.Dropped++
		return false
	}
	m.Received = received.Unix()
	if r.articles.retention == keepTitles {
		m.Html, m.Tags, m.Shortened = "", nil, true
		r.stats.Shortened++
	}
	value := wire.Encode(m)
	s := &r.articles
	s.last++
	s.add(s.last, uint32(len(value)), m.Received)
	number := s.last
	if s.unwritten == nil {
		s.unwritten = map[uint32][]byte{}
	}
	s.unwritten[number] = value
	s.pendingBytes += int64(len(value))
	ops := []env.Op{{Key: numbered(articlePrefix, number), Value: value, Body: true}, r.countersOp()}
	if len(s.sizes)%segmentArticles == 0 {
		ops = append(ops, s.segmentOp(len(s.sizes)/segmentArticles-1))
	}
	r.store.Commit(ops, func(err error) {
		s.pendingBytes -= int64(len(value))
		delete(s.unwritten, number)
		if err != nil {
			r.stats.Failed++
			s.remove(number)
			r.log.Debug("an article could not be stored", "feed", m.Feed, "err", err)
			failed()
		}
		r.updateRetention()
	})
	return true
}

// SetMemoryUse sets the used share of the memory that the process may have, 0 to 1. From 0.8 on
// only titles and links of new articles are kept, and from 0.9 on none.
func (r *Reflector) SetMemoryUse(share float64) {
	r.articles.memoryUse = share
	r.updateRetention()
}

// updateRetention decides what is kept of new articles, and logs a change.
func (r *Reflector) updateRetention() {
	s, c := &r.articles, &r.config
	now, why := keepAll, ""
	for _, limit := range []struct {
		all, some bool
		why       string
	}{
		{s.bytes >= c.MaxBytes, s.bytes >= c.MaxBytes/10*9, fmt.Sprintf("%d MB of articles are on the disk", s.bytes>>20)},
		{s.pendingBytes >= c.MaxPendingBytes, s.pendingBytes >= c.MaxPendingBytes/2, fmt.Sprintf("the disk does not keep up: %d MB wait for it", s.pendingBytes>>20)},
		{s.memoryUse >= 0.9, s.memoryUse >= 0.8, fmt.Sprintf("%.0f %% of the memory is in use", 100*s.memoryUse)},
	} {
		switch {
		case limit.all && now < keepNothing:
			now, why = keepNothing, limit.why
		case limit.some && now < keepTitles:
			now, why = keepTitles, limit.why
		}
	}
	s.why = why
	if now != s.retention {
		r.log.Warn("amount that searches keep of new articles changed", "from", s.retention.String(), "to", now.String(),
			"bytes", s.bytes, "room", c.MaxBytes, "waiting", s.pendingBytes, "memory", s.memoryUse)
		s.retention = now
	}
}

// add counts a stored article.
func (s *articleStore) add(number, size uint32, received int64) {
	if len(s.sizes) == 0 {
		s.first = number &^ (segmentArticles - 1)
	}
	for s.first+uint32(len(s.sizes)) <= number {
		s.sizes, s.received = append(s.sizes, 0), append(s.received, 0)
	}
	at := number - s.first
	s.bytes += int64(size) - int64(s.sizes[at])
	s.sizes[at], s.received[at] = size, uint32(received)
}

// newestFirst sorts articles by time of arrival, the newest first, removes duplicates and
// truncates the list. The order of numbers would not do, because articles of a backlog have
// high numbers.
func (s *articleStore) newestFirst(articles []uint32, limit int) []uint32 {
	received := func(n uint32) uint32 {
		if s.has(n) {
			return s.received[n-s.first]
		}
		return 0
	}
	slices.SortFunc(articles, func(a, b uint32) int { return cmp.Or(cmp.Compare(received(b), received(a)), cmp.Compare(b, a)) })
	articles = slices.Compact(articles)
	return articles[:min(limit, len(articles))]
}

// has reports whether an article is stored.
func (s *articleStore) has(number uint32) bool {
	return number >= s.first && int(number-s.first) < len(s.sizes) && s.sizes[number-s.first] > 0
}

// remove counts a deleted article.
func (s *articleStore) remove(number uint32) {
	if s.has(number) {
		s.bytes -= int64(s.sizes[number-s.first])
		s.sizes[number-s.first] = 0
	}
}

// dropEmptySegments frees the memory of leading segments without articles.
func (s *articleStore) dropEmptySegments() {
	n := 0
	for n+segmentArticles <= len(s.sizes) && !slices.ContainsFunc(s.sizes[n:n+segmentArticles], func(size uint32) bool { return size > 0 }) {
		n += segmentArticles
	}
	s.sizes, s.received = slices.Clone(s.sizes[n:]), slices.Clone(s.received[n:])
	s.first += uint32(n)
}

// segmentOp writes the record of a segment, so that a start need not read all its articles.
func (s *articleStore) segmentOp(segment int) env.Op {
	from, to := segment*segmentArticles, (segment+1)*segmentArticles
	record := &cobrapb.Segment{Received: int64(s.received[from]), Sizes: slices.Clone(s.sizes[from:to])}
	for _, received := range s.received[from:to] {
		record.Delays = append(record.Delays, int64(received)-record.Received)
	}
	return env.Op{Key: numbered(segmentPrefix, s.first/segmentArticles+uint32(segment)), Value: wire.Encode(record)}
}

// loadArticles reads the sizes of all stored articles.
func (r *Reflector) loadArticles() error {
	s := &r.articles
	var broken error
	err := r.store.Range([]byte(segmentPrefix), func(key, value []byte) bool {
		var segment cobrapb.Segment
		if broken = proto.Unmarshal(value, &segment); broken != nil {
			return false
		}
		first := binary.BigEndian.Uint32(key[1:]) * segmentArticles
		for i, size := range segment.Sizes {
			received := segment.Received
			if len(segment.Delays) == len(segment.Sizes) {
				received += segment.Delays[i]
			}
			s.add(first+uint32(i), size, received)
		}
		return true
	})
	if err := errors.Join(r.skipDamaged(err), broken); err != nil {
		return err
	}
	// The last segment, which is not full, has no record yet.
	for n := max(s.first+uint32(len(s.sizes)), s.last&^(segmentArticles-1), 1); n <= s.last; n++ {
		value, err := r.store.Get(numbered(articlePrefix, n))
		if err := r.skipDamaged(err); err != nil {
			return err
		}
		if value == nil {
			continue // it was deleted
		}
		var m cobrapb.Article
		if err := proto.Unmarshal(value, &m); err != nil {
			return fmt.Errorf("article %d: %w", n, err)
		}
		s.add(n, uint32(len(value)), m.Received)
	}
	return nil
}

// replay matches the articles after writtenThrough again, as they were matched before the
// restart.
func (r *Reflector) replay(writtenThrough uint32) error {
	for n := max(writtenThrough+1, r.articles.first); n <= r.articles.last && n > 0; n++ {
		value, err := r.store.Get(numbered(articlePrefix, n))
		if err := r.skipDamaged(err); err != nil {
			return err
		}
		if value == nil {
			continue
		}
		a, err := decodeArticle(value)
		if err != nil {
			return fmt.Errorf("article %d: %w", n, err)
		}
		if a.fromBacklog {
			continue
		}
		hits := r.filter.Match(&a.Article)
		hits = slices.DeleteFunc(hits, func(id index.ClauseID) bool { // initial rings may already have it
			return r.rings.Last(id) >= n || r.hasFromBacklog(id, &a.Article)
		})
		r.rings.Put(n, hits)
	}
	return nil
}

// A StoredArticle is an article as it is stored.
type StoredArticle struct {
	Article
	Received  time.Time
	Shortened bool // there was no room for its content

	fromBacklog bool // stored for new subscriptions only
}

// A Feed holds the article numbers of a subscription, the newest first. Feeds with equal
// numbers are equal.
type Feed struct {
	Articles  []uint32          // may contain an article under several numbers, so there may be more than limit
	limit     int               // number of different articles at most
	unwritten map[uint32][]byte // those of Articles that are not on disk yet
}

// numbersPerArticle is the number of numbers that an article usually has in one feed at most:
// one from its arrival, and some from backlogs.
const numbersPerArticle = 4

// Read returns the stored articles of the feed in its order, without duplicates. It may be
// called from any goroutine.
func (f Feed) Read(s env.Store) (articles []StoredArticle, err error) {
	for _, n := range f.Articles {
		if len(articles) == f.limit {
			break
		}
		value := f.unwritten[n]
		if value == nil {
			value, err = s.Get(numbered(articlePrefix, n))
		}
		switch {
		case errors.Is(err, env.ErrDamaged) || err == nil && value == nil:
			err = nil
			continue // too old, or refused or damaged by the disk
		case err != nil:
			return nil, fmt.Errorf("read article %d: %w", n, err)
		}
		k, err := decodeArticle(value)
		if err != nil {
			return nil, fmt.Errorf("read article %d: %w", n, err)
		}
		if k.ID == (feed.ID{}) || !slices.ContainsFunc(articles, func(other StoredArticle) bool { return other.ID == k.ID && other.Feed == k.Feed }) {
			articles = append(articles, k)
		}
	}
	return articles, nil
}

// toProto returns the article as it is stored.
func (a *Article) toProto() *cobrapb.Article {
	m := &cobrapb.Article{
		Feed: a.Feed, Id: a.ID[:], Link: a.Link, Title: a.Title, Author: a.Author, Tags: a.Tags, Language: a.Language, Html: a.keptContent(),
		FeedTitle: a.FeedTitle, FeedLink: a.FeedLink,
	}
	if !a.Published.IsZero() {
		m.Published = a.Published.Unix()
	}
	return m
}

// Encode returns the article as bytes for another node, with at most room bytes of its content.
func (a *Article) Encode(room int) []byte {
	m := a.toProto()
	if len(m.Html) > room {
		m.Html = strings.ToValidUTF8(m.Html[:room], "")
	}
	return wire.Encode(m)
}

// DecodeArticle reads the bytes that Encode returned.
func DecodeArticle(value []byte) (*Article, error) {
	k, err := decodeArticle(value)
	return &k.Article, err
}

// decodeArticle decodes a stored article.
func decodeArticle(value []byte) (k StoredArticle, err error) {
	var m cobrapb.Article
	if err := proto.Unmarshal(value, &m); err != nil {
		return StoredArticle{}, err
	}
	if len(m.Id) != len(feed.ID{}) {
		return StoredArticle{}, fmt.Errorf("an identity of %d bytes", len(m.Id))
	}
	k = StoredArticle{Received: time.Unix(m.Received, 0), Shortened: m.Shortened, fromBacklog: m.FromBacklog}
	k.Article = Article{
		Feed: m.Feed, ID: feed.ID(m.Id), Link: m.Link, Title: m.Title, Author: m.Author, Tags: m.Tags, Language: m.Language,
		HTML: m.Html, FeedTitle: m.FeedTitle, FeedLink: m.FeedLink,
	}
	if m.Published != 0 {
		k.Published = time.Unix(m.Published, 0)
	}
	return k, nil
}
