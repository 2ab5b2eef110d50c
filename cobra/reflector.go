package cobra

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/cobra/index"
	"tidings/cobra/query"
	"tidings/internal/check"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// A Config holds the limits of a reflector. A zero field means its default.
type Config struct {
	// MaxSubscriptions bounds the subscriptions, 1 to HighestMaxSubscriptions. Default DefaultMaxSubscriptions. A million
	// take a hundred megabytes of memory. Subscriptions that exist stay if the limit is lowered.
	MaxSubscriptions int
	// ArticlesPerFeed is the most articles of a feed, 1 to MaxArticlesPerFeed: the paper's k.
	// Default DefaultArticlesPerFeed. Each distinct clause needs four bytes of memory per article.
	ArticlesPerFeed int
	// MaxPendingBytes bounds the bytes of articles that wait to be written, at least 1. From half
	// of it on, only titles and links are kept. Default 32 MiB, which all are in memory. With less, a
	// slow disk shortens articles earlier.
	MaxPendingBytes int64
	// MaxBytes bounds the bytes of encoded articles on disk, 1 MiB to HighestMaxBytes. Default DefaultMaxBytes. From nine
	// tenths of it on, only titles and links are kept.
	MaxBytes int64
}

const (
	// MaxArticlesPerFeed bounds Config.ArticlesPerFeed, because a position in a ring is one byte.
	MaxArticlesPerFeed = 200
	// DefaultArticlesPerFeed is the default of Config.ArticlesPerFeed.
	DefaultArticlesPerFeed = 10
	// HighestMaxSubscriptions bounds Config.MaxSubscriptions, because numbers of clauses have 31 bits.
	HighestMaxSubscriptions = 1_000_000_000
	// DefaultMaxSubscriptions is the default of Config.MaxSubscriptions. As many take three gigabytes of memory.
	DefaultMaxSubscriptions = 50_000_000
	// HighestMaxBytes bounds Config.MaxBytes.
	HighestMaxBytes = 1 << 40
	// DefaultMaxBytes is the default of Config.MaxBytes.
	DefaultMaxBytes = 1 << 30
)

// Limits of a node with a few million subscriptions.
const (
	// maxArticleAge is how long an article is kept.
	maxArticleAge = 30 * 24 * time.Hour
	// ringWriteInterval is the least time in which all rings are written once.
	ringWriteInterval = time.Minute
)

func (c Config) withDefaults() Config {
	c.MaxSubscriptions = cmp.Or(c.MaxSubscriptions, DefaultMaxSubscriptions)
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.ArticlesPerFeed = cmp.Or(c.ArticlesPerFeed, DefaultArticlesPerFeed)
	c.MaxPendingBytes = cmp.Or(c.MaxPendingBytes, 32<<20)
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	return cmp.Or(
		check.Between("cobra: MaxSubscriptions", c.MaxSubscriptions, 1, HighestMaxSubscriptions),
		check.Between("cobra: MaxBytes", c.MaxBytes, 1<<20, HighestMaxBytes),
		check.Between("cobra: ArticlesPerFeed", c.ArticlesPerFeed, 1, MaxArticlesPerFeed),
		check.AtLeast("cobra: MaxPendingBytes", c.MaxPendingBytes, 1),
	)
}

// ErrFull is returned by Subscribe if there are Config.MaxSubscriptions already.
var ErrFull = errors.New("this node has as many searches as it takes")

// ErrUnknown is returned for a number without a subscription.
var ErrUnknown = errors.New("there is no such search")

// Prefixes of the keys of records.
const (
	subscriptionPrefix = "s" // then the number, 4 bytes
	articlePrefix      = "a" // then the number, 4 bytes
	segmentPrefix      = "h" // then the number of the segment, 4 bytes
	ringsPrefix        = "r" // then the number of the page, 4 bytes
	countersKey        = "n"
)

func numbered(prefix string, n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(prefix), n)
}

// Stats holds the state of a reflector, and counts events since its start.
type Stats struct {
	Subscriptions int    // searches
	Unreadable    int    // searches whose query cannot be read any more
	Owned         int    // searches of others than the node's user
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

// A Reflector holds keyword subscriptions and their feeds.
type Reflector struct {
	config Config
	clock  env.Clock
	store  env.Store
	worker env.Worker
	log    *slog.Logger

	filter   *Filter
	rings    *index.Rings   // by clause
	next     SubscriptionID // number of the next subscription
	articles articleStore
	pages    pageWriter
	recent   recentArticles
	backlog  backlogNumbers // articles that were stored for new subscriptions only
	stats    Stats
	hits     []index.ClauseID // that the last article matched
	// unreadable holds the subscriptions whose queries can no longer be parsed.
	unreadable map[SubscriptionID]bool
	// removing counts the calls of Unsubscribe that wait for the disk, by subscription.
	removing map[SubscriptionID]int
	// owned holds the subscriptions of each owner, those of the node's user excepted, in ascending order.
	owned map[uint32][]SubscriptionID
}

// IrreplaceableKeys returns the keys of records that cannot be restored from the network: the
// prefix of subscriptions, and the key of the counters.
func IrreplaceableKeys() (subscriptions, numbers string) { return subscriptionPrefix, countersKey }

// Open returns the reflector in a store, or a new one if the store is empty. It reads the whole
// store before it returns.
func Open(e env.Env, c Config) (*Reflector, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	x := index.New()
	r := &Reflector{
		config: c, clock: e.Clock, store: e.Store, worker: e.Worker, log: e.Log,
		filter: NewFilter(c, x), rings: index.NewRings(c.ArticlesPerFeed),
		unreadable: map[SubscriptionID]bool{}, removing: map[SubscriptionID]int{}, owned: map[uint32][]SubscriptionID{},
	}
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("searches: %w", err)
	}
	return r, nil
}

// load reads subscriptions, their rings, and the articles that are newer than the rings.
func (r *Reflector) load() error {
	counters, err := readCounters(r.store)
	if err != nil {
		return err
	}
	r.articles.last = counters.LastArticle
	initialRings := map[SubscriptionID][]byte{}
	var broken error
	r.filter.max = math.MaxInt // the limit may have been lowered since
	err = r.store.Range([]byte(subscriptionPrefix), func(key, value []byte) bool {
		var s cobrapb.Subscription
		if broken = proto.Unmarshal(value, &s); broken != nil {
			return false
		}
		n := SubscriptionID(binary.BigEndian.Uint32(key[1:]))
		r.addOwned(n, s.Owner)
		clauses, err := query.Clauses(s.Query)
		if err != nil {
			// An earlier version accepted this query. The record stays, but matches nothing.
			r.log.Warn("a search cannot be read any more", "number", uint32(n), "query", s.Query, "err", err)
			r.unreadable[n] = true
			return true
		}
		broken = r.filter.Add(n, clauses, func(index.ClauseID) {})
		if len(s.InitialRings) > 0 {
			initialRings[n] = s.InitialRings
		}
		return broken == nil
	})
	r.filter.max = r.config.MaxSubscriptions
	if err := errors.Join(r.skipDamaged(err), broken); err != nil {
		return err
	}
	r.next = max(SubscriptionID(counters.NextSubscription), SubscriptionID(len(r.filter.entries)))
	r.filter.Pack()
	r.rings.Grow(r.filter.index.Limit())
	for n, first := range initialRings {
		r.loadInitialRings(n, first)
	}
	writtenThrough, err := r.loadRings()
	if err != nil {
		return err
	}
	if err := r.loadArticles(); err != nil {
		return err
	}
	if err := r.loadRecent(); err != nil {
		return err
	}
	return r.replay(writtenThrough)
}

// skipDamaged logs that the disk has lost records, so that load continues without them, and
// returns any other error. Lost articles are missing in feeds, lost rings are matched again
// from the articles that exist, and a lost subscription is unknown to its readers.
func (r *Reflector) skipDamaged(err error) error {
	if !errors.Is(err, env.ErrDamaged) {
		return err
	}
	r.log.Error("articles of searches are damaged on the disk", "err", err)
	return nil
}

// Subscribe subscribes to the articles that match a query, for an owner; 0 is the node's user. done is called when the
// subscription is on disk; from then on its number is never used again. Possible errors are *query.Error, ErrFull and those
// of the disk.
//
// The feed starts with the matching articles of the backlog, which Subscribe may sort. A clause
// that another subscription already has starts with the ring of that clause instead.
func (r *Reflector) Subscribe(owner uint32, text string, backlog []BacklogArticle, done func(SubscriptionID, error)) {
	clauses, err := query.Clauses(text)
	number := r.next
	var newIDs []index.ClauseID
	if err == nil {
		err = r.filter.Add(number, clauses, func(n index.ClauseID) {
			r.prepareRing(n)
			newIDs = append(newIDs, n)
		})
	}
	if err != nil {
		done(0, err)
		return
	}
	r.next++
	r.addOwned(number, owner)
	record := &cobrapb.Subscription{Query: text, Since: r.clock.Now().Unix(), Owner: owner}
	if len(newIDs) > 0 {
		r.addBacklog(newIDs, backlog)
	}
	record.InitialRings = r.initialRings(number)
	ops := []env.Op{{Key: numbered(subscriptionPrefix, uint32(number)), Value: wire.Encode(record)}, r.countersOp()}
	if number%pageSubscriptions == 0 {
		ops = append(ops, r.newPage())
	}
	r.store.Commit(ops, func(err error) {
		if err != nil {
			r.filter.Remove(number, clauses)
			r.removeOwned(number, owner)
			err = fmt.Errorf("subscribe to %q: %w", text, err)
		}
		done(number, err)
	})
}

// prepareRing makes room for a new clause, whose number may have belonged to another one.
func (r *Reflector) prepareRing(n index.ClauseID) {
	r.rings.Grow(int(n) + 1)
	r.rings.Clear(n)
}

// Unsubscribe removes a subscription. When done is called without an error, the subscription is
// deleted and no article matches it any more; its number is never used again. The error is
// ErrUnknown or that of the disk. If the disk fails, the subscription continues, as it would
// after a restart.
func (r *Reflector) Unsubscribe(number SubscriptionID, done func(error)) {
	var s Subscription
	var err error
	r.worker.Do(func() { s, err = Query(r.store, number) }, func() {
		if err == nil && len(r.filter.ClauseIDs(number)) == 0 && !r.unreadable[number] { // called twice
			err = ErrUnknown
		}
		var clauses []query.Clause
		if err == nil && !r.unreadable[number] {
			clauses, err = query.Clauses(s.Query)
		}
		if err != nil {
			done(fmt.Errorf("search: %w", err))
			return
		}
		r.removing[number]++
		r.store.Commit([]env.Op{{Key: numbered(subscriptionPrefix, uint32(number))}}, func(err error) {
			if r.removing[number]--; r.removing[number] == 0 {
				delete(r.removing, number)
			}
			switch {
			case err != nil:
				err = fmt.Errorf("search: %w", err)
			case len(r.filter.ClauseIDs(number)) > 0:
				r.filter.Remove(number, clauses)
			case !r.unreadable[number]:
				err = ErrUnknown // another call has just removed it
			}
			if err == nil {
				delete(r.unreadable, number)
				r.removeOwned(number, s.Owner)
			}
			done(err)
		})
	})
}

// Active reports whether there is a subscription that is not being removed.
func (r *Reflector) Active(number SubscriptionID) bool {
	return len(r.filter.ClauseIDs(number)) > 0 && r.removing[number] == 0
}

// countersOp writes the counters for new numbers.
func (r *Reflector) countersOp() env.Op {
	return env.Op{Key: []byte(countersKey), Value: wire.Encode(&cobrapb.Counters{LastArticle: r.articles.last, NextSubscription: uint32(r.next)})}
}

// Receive matches an article, and stores it if a subscription matches. It ignores an article
// that was received recently. failed is called, at once or later, if the article could not be
// stored; the caller may pass the article again when there is room.
func (r *Reflector) Receive(a *Article, failed func()) {
	channel, id := a.Feed, a.ID
	r.hits = nil
	if !r.recent.add(channel, id) {
		r.stats.Again++
		return
	}
	callerFailed := failed
	failed = func() {
		r.recent.remove(channel, id)
		callerFailed()
	}
	r.stats.Articles++
	hits := r.filter.Match(a)
	if len(r.backlog.of(a)) > 0 { // new subscriptions already have it
		hits = slices.DeleteFunc(hits, func(id index.ClauseID) bool { return r.hasFromBacklog(id, a) })
	}
	if len(hits) == 0 {
		return
	}
	r.stats.Matched++
	if !r.storeArticle(a.toProto(), r.clock.Now(), failed) {
		failed()
		return
	}
	r.rings.Put(r.articles.last, hits)
	r.hits = hits
}

// Matched returns the subscriptions that the article of the last call of Receive has matched and was stored for, the
// oldest first. It looks at all subscriptions, which takes milliseconds for a million.
func (r *Reflector) Matched() []SubscriptionID {
	if len(r.hits) == 0 {
		return nil
	}
	all := make([]SubscriptionID, r.next)
	for n := range all {
		all[n] = SubscriptionID(n)
	}
	return r.MatchedOf(all)
}

// MatchedOf returns which of some subscriptions that article has matched and was stored for, in their order.
func (r *Reflector) MatchedOf(of []SubscriptionID) (numbers []SubscriptionID) {
	if len(r.hits) == 0 {
		return nil
	}
	hit := make(map[index.ClauseID]struct{}, len(r.hits))
	for _, id := range r.hits {
		hit[id] = struct{}{}
	}
	for _, n := range of {
		if slices.ContainsFunc(r.filter.ClauseIDs(n), func(id index.ClauseID) bool { _, ok := hit[id]; return ok }) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Find returns the subscriptions that are not being removed and whose queries have these clauses, the oldest first.
func (r *Reflector) Find(clauses []query.Clause) []SubscriptionID {
	return slices.DeleteFunc(r.filter.Find(clauses), func(n SubscriptionID) bool { return !r.Active(n) })
}

// Unreadable returns the subscriptions whose queries can no longer be parsed, the oldest first.
func (r *Reflector) Unreadable() []SubscriptionID { return slices.Sorted(maps.Keys(r.unreadable)) }

// Feed returns the present feed of a subscription, and whether there is such a subscription.
func (r *Reflector) Feed(number SubscriptionID) (f Feed, ok bool) {
	ids := r.filter.ClauseIDs(number)
	for _, n := range ids {
		f.Articles = r.rings.Newest(n, f.Articles)
	}
	f.limit = r.config.ArticlesPerFeed
	f.Articles = r.articles.newestFirst(f.Articles, numbersPerArticle*f.limit)
	for _, n := range f.Articles {
		if value := r.articles.unwritten[n]; value != nil {
			if f.unwritten == nil {
				f.unwritten = map[uint32][]byte{}
			}
			f.unwritten[n] = value
		}
	}
	return f, len(ids) > 0
}

func readCounters(s env.Store) (*cobrapb.Counters, error) {
	counters := &cobrapb.Counters{}
	value, err := s.Get([]byte(countersKey))
	if err == nil {
		err = proto.Unmarshal(value, counters)
	}
	return counters, err
}

// Stats returns the state and the counters of the reflector.
func (r *Reflector) Stats() Stats {
	s := r.stats
	s.Unreadable = len(r.unreadable)
	s.Subscriptions, s.Nodes = r.filter.Subscriptions(), r.filter.index.Clauses()
	s.Bytes, s.Waiting = r.articles.bytes, r.articles.pendingBytes
	s.Level, s.Why = int(r.articles.retention), r.articles.why
	return s
}

// Run does what is due and returns the time at which it wants to run next.
func (r *Reflector) Run(now time.Time) (next time.Time) {
	next = r.writePages(now)
	if sweep := r.sweep(now); sweep.Before(next) {
		next = sweep
	}
	return next
}
