package cobra

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/cobra/index"
	"tidings/cobra/query"
	"tidings/internal/env"
)

// A Config bounds a reflector.
type Config struct {
	Filter FilterConfig
	// Kept is how many articles a feed has at most, up to MaxKept: the paper's k. It costs each
	// different clause four bytes an article.
	Kept int
	// Subscriptions is how many there may be.
	Subscriptions int
	// MaxAge is for how long an article is kept.
	MaxAge time.Duration
	// Room is how many bytes articles may take on the disk, packed. From nine
	// tenths of it on only their titles and links are kept.
	Room int64
	// Waiting is how many bytes of articles may wait for the disk. From half of
	// it on only titles and links are kept.
	Waiting int64
	// Round is the time in which all rings are written once, at least.
	Round time.Duration
}

// MaxKept is what Config.Kept may be: a place in a ring is one byte.
const MaxKept = 200

// DefaultConfig is for a node of a few million subscriptions.
func DefaultConfig() Config {
	return Config{
		Filter:        DefaultFilterConfig(),
		Kept:          10,
		Subscriptions: 50_000_000,
		MaxAge:        30 * 24 * time.Hour,
		Room:          1 << 30,
		Waiting:       32 << 20,
		Round:         time.Minute,
	}
}

// ErrFull is the error of a subscription beyond Config.Subscriptions.
var ErrFull = errors.New("this node has as many searches as it takes")

// ErrUnknown is the error of a number nobody has.
var ErrUnknown = errors.New("there is no such search")

// Keys of records.
const (
	subscriptionPrefix = "s" // then the number, 4 bytes
	articlePrefix      = "a" // then the number, 4 bytes
	shelfPrefix        = "h" // then the shelf, 4 bytes
	ringsPrefix        = "r" // then the page, 4 bytes
	lastKey            = "n"
)

func numbered(prefix string, n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(prefix), n)
}

// Stats counts what a reflector did since its start, and what it has.
type Stats struct {
	Subscriptions int    // searches
	Unreadable    int    // searches whose query cannot be read any more
	Nodes         int    // different clauses of queries
	Again         uint64 // articles that had come already
	Articles      uint64 // articles received
	Matched       uint64 // articles that matched a search
	Shortened     uint64 // matching articles kept without their content
	Dropped       uint64 // matching articles that were not kept
	Failed        uint64 // articles lost because the disk refused them
	Swept         uint64 // articles deleted because no search had them any more, or because of their age
	Bytes         int64  // bytes of articles on the disk
	Waiting       int64  // bytes that wait for the disk
	Level         int    // what is kept of new articles: 0 everything, 1 titles and links, 2 nothing
	Why           string // the reason if not everything is kept
}

// A Reflector has keyword subscriptions and their feeds.
type Reflector struct {
	config Config
	clock  env.Clock
	store  env.Store
	worker env.Worker
	log    *slog.Logger

	filter *Filter
	rings  *index.Rings
	next   Number // subscription
	stock  stock
	pages  pages
	once   once
	early  early
	stats  Stats
	// unreadable are the numbers whose queries cannot be read any more.
	unreadable map[Number]bool
	// ending counts, by number, who waits for the disk to forget it.
	ending map[Number]int
}

// Precious are the keys of what no one else could give back: of subscriptions, by how they begin, and of the
// numbers that were given so far.
func Precious() (subscriptions, numbers string) { return subscriptionPrefix, lastKey }

// Open returns the reflector that a store remembers, or a new one. It reads all of
// the store, and waits for it.
func Open(e env.Env, c Config) (*Reflector, error) {
	x := index.New()
	r := &Reflector{
		config: c, clock: e.Clock, store: e.Store, worker: e.Worker, log: e.Log,
		filter: NewFilter(c.Filter, x), rings: index.NewRings(c.Kept),
		unreadable: map[Number]bool{}, ending: map[Number]int{},
	}
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("searches: %w", err)
	}
	return r, nil
}

// load reads subscriptions, their rings, and the articles that came behind these.
func (r *Reflector) load() error {
	last := &cobrapb.Last{}
	if value, err := r.store.Get([]byte(lastKey)); err != nil {
		return err
	} else if err := proto.Unmarshal(value, last); err != nil {
		return err
	}
	r.stock.last = last.Article
	firsts := map[Number][]byte{}
	var broken error
	unlimited := r.filter.config
	r.filter.config.Generals = 1 << 30 // what was taken once is
	err := r.store.Range([]byte(subscriptionPrefix), func(key, value []byte) bool {
		var s cobrapb.Subscription
		if broken = proto.Unmarshal(value, &s); broken != nil {
			return false
		}
		n := Number(binary.BigEndian.Uint32(key[1:]))
		clauses, err := query.Clauses(s.Query)
		if err != nil {
			// Taken by an earlier version. It keeps its record and matches nothing.
			r.log.Warn("a search cannot be read any more", "number", uint32(n), "query", s.Query, "err", err)
			r.unreadable[n] = true
			return true
		}
		broken = r.filter.Add(n, clauses, func(index.Node) {})
		if len(s.First) > 0 {
			firsts[n] = s.First
		}
		return broken == nil
	})
	r.filter.config = unlimited
	if err := errors.Join(r.damaged(err), broken); err != nil {
		return err
	}
	r.next = max(Number(last.Subscription), Number(len(r.filter.nodes)))
	r.filter.Pack()
	r.rings.Grow(r.filter.index.Limit())
	for n, first := range firsts {
		r.fill(n, first)
	}
	behind, err := r.loadRings()
	if err != nil {
		return err
	}
	if err := r.loadStock(); err != nil {
		return err
	}
	if err := r.recall(); err != nil {
		return err
	}
	return r.replay(behind)
}

// damaged says what the disk has lost, and goes on without it; another error is
// returned. Articles that are lost are missing in feeds, rings are matched again as
// far back as there are articles, and who has an address of a lost subscription
// is told that there is none.
func (r *Reflector) damaged(err error) error {
	if !errors.Is(err, env.ErrDamaged) {
		return err
	}
	r.log.Error("articles of searches are damaged on the disk", "err", err)
	return nil
}

// Subscribe subscribes to the articles that match a query. done is called when that
// is durable; from then on the number is taken for good. An error is a
// *query.Error, ErrGeneral, ErrFull, or the disk's. Of the articles of late, which it may order, it has
// those that match from the start; a clause that others have already has what they have.
func (r *Reflector) Subscribe(text string, late []Late, done func(Number, error)) {
	clauses, err := query.Clauses(text)
	if err == nil && r.filter.Subscriptions() >= r.config.Subscriptions {
		err = ErrFull
	}
	number := r.next
	var grown []index.Node
	if err == nil {
		err = r.filter.Add(number, clauses, func(n index.Node) {
			r.grow(n)
			grown = append(grown, n)
		})
	}
	if err != nil {
		done(0, err)
		return
	}
	r.next++
	record := &cobrapb.Subscription{Query: text, Since: r.clock.Now().Unix()}
	if len(grown) > 0 {
		r.begin(grown, late)
	}
	record.First = r.first(number)
	ops := []env.Op{{Key: numbered(subscriptionPrefix, uint32(number)), Value: marshal(record)}, r.lastOp()}
	if number%pageSubscriptions == 0 {
		ops = append(ops, r.newPage())
	}
	r.store.Commit(ops, func(err error) {
		if err != nil {
			r.filter.Remove(number, clauses)
			err = fmt.Errorf("subscribe to %q: %w", text, err)
		}
		done(number, err)
	})
}

// grow makes room for a new node, whose number another one may have had.
func (r *Reflector) grow(n index.Node) {
	r.rings.Grow(int(n) + 1)
	r.rings.Clear(n)
}

// Unsubscribe ends a subscription: when done is called, nothing matches it and it
// is forgotten. Its number is not given again. The error is ErrUnknown or the
// disk's; a subscription that the disk keeps goes on, as it would after a start.
func (r *Reflector) Unsubscribe(number Number, done func(error)) {
	var text string
	var err error
	r.worker.Do(func() { text, _, err = Query(r.store, number) }, func() {
		if err == nil && len(r.filter.Of(number)) == 0 && !r.unreadable[number] { // asked twice
			err = ErrUnknown
		}
		var clauses []query.Clause
		if err == nil && !r.unreadable[number] {
			clauses, err = query.Clauses(text)
		}
		if err != nil {
			done(fmt.Errorf("search: %w", err))
			return
		}
		r.ending[number]++
		r.store.Commit([]env.Op{{Key: numbered(subscriptionPrefix, uint32(number))}}, func(err error) {
			if r.ending[number]--; r.ending[number] == 0 {
				delete(r.ending, number)
			}
			switch {
			case err != nil:
				err = fmt.Errorf("search: %w", err)
			case len(r.filter.Of(number)) > 0:
				r.filter.Remove(number, clauses)
			case !r.unreadable[number]:
				err = ErrUnknown // another one has just ended it
			}
			if err == nil {
				delete(r.unreadable, number)
			}
			done(err)
		})
	})
}

// Lasts says whether there is a subscription that nobody is about to end.
func (r *Reflector) Lasts(number Number) bool {
	return len(r.filter.Of(number)) > 0 && r.ending[number] == 0
}

// lastOp writes the numbers that were given last.
func (r *Reflector) lastOp() env.Op {
	return env.Op{Key: []byte(lastKey), Value: marshal(&cobrapb.Last{Article: r.stock.last, Subscription: uint32(r.next)})}
}

// Take matches an article, and keeps it if anybody's subscription does. One that was taken
// of late is not taken again. lost is called, now or later, if it could not be kept: it may be
// taken again when there is room.
func (r *Reflector) Take(a *Article, lost func()) {
	channel, id := a.Feed, a.ID
	if !r.once.first(channel, id) {
		r.stats.Again++
		return
	}
	gone := lost
	lost = func() {
		r.once.forget(channel, id)
		gone()
	}
	r.stats.Articles++
	hits := r.filter.Match(a)
	if len(r.early.of(a)) > 0 { // who subscribed a moment before has it
		hits = slices.DeleteFunc(hits, func(node index.Node) bool { return r.begun(node, a) })
	}
	if len(hits) == 0 {
		return
	}
	r.stats.Matched++
	if !r.keepAs(a.proto(), r.clock.Now(), lost) {
		lost()
		return
	}
	r.rings.Put(r.stock.last, hits)
}

// Feed returns a subscription's feed as it is now, and whether there is such a
// subscription.
func (r *Reflector) Feed(number Number) (f Feed, ok bool) {
	nodes := r.filter.Of(number)
	for _, n := range nodes {
		f.Articles = r.rings.Newest(n, f.Articles)
	}
	f.kept = r.config.Kept
	f.Articles = r.stock.newest(f.Articles, often*f.kept)
	for _, n := range f.Articles {
		if value := r.stock.unwritten[n]; value != nil {
			if f.unwritten == nil {
				f.unwritten = map[uint32][]byte{}
			}
			f.unwritten[n] = value
		}
	}
	return f, len(nodes) > 0
}

// Query returns a subscription's text and when it was made. It may be called from
// any goroutine.
func Query(s env.Store, number Number) (text string, since time.Time, err error) {
	value, err := s.Get(numbered(subscriptionPrefix, uint32(number)))
	if err == nil && value == nil {
		err = ErrUnknown
	}
	var record cobrapb.Subscription
	if err == nil {
		err = proto.Unmarshal(value, &record)
	}
	return record.Query, time.Unix(record.Since, 0), err
}

// Subscriptions tells of all subscriptions of a store, by number, until each returns false. It may be
// called from any goroutine.
func Subscriptions(s env.Store, each func(number Number, text string, since time.Time) bool) error {
	var broken error
	err := s.Range([]byte(subscriptionPrefix), func(key, value []byte) bool {
		var record cobrapb.Subscription
		if broken = proto.Unmarshal(value, &record); broken != nil {
			return false
		}
		return each(Number(binary.BigEndian.Uint32(key[1:])), record.Query, time.Unix(record.Since, 0))
	})
	return errors.Join(err, broken)
}

// Stats returns what the reflector did, and what it has.
func (r *Reflector) Stats() Stats {
	s := r.stats
	s.Unreadable = len(r.unreadable)
	s.Subscriptions, s.Nodes = r.filter.Subscriptions(), r.filter.index.Nodes()
	s.Bytes, s.Waiting = r.stock.bytes, r.stock.waiting
	s.Level, s.Why = int(r.stock.level), r.stock.why
	return s
}

// Run does what is due and returns when there is something again.
func (r *Reflector) Run(now time.Time) (next time.Time) {
	next = r.writePages(now)
	if sweep := r.sweep(now); sweep.Before(next) {
		next = sweep
	}
	return next
}

// marshal is of messages that cannot fail to be.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("cobra: " + err.Error())
	}
	return b
}
