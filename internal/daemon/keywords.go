package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"tidings/cobra"
	"tidings/cobra/firehose"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/loop"
	"tidings/internal/store"
	"tidings/proxy"
)

// keywords is a node's second loop, with a store of its own: a reflector, which matches what is new in
// the channels that the node subscribes to. To match takes long where many watch, and must not keep
// the node from its peers.
type keywords struct {
	loop   *loop.Loop
	disk   *store.Disk
	store  env.Store // the disk, as the reflector writes to it
	config cobra.Config
	log    *slog.Logger
	opened chan struct{} // closed when there is a reflector, or failed says why not
	failed error
	// reflector belongs to the loop.
	reflector *cobra.Reflector

	recent recent
	missed missed
	// asking has room for one who watches: who asks for the same at once has the same.
	asking chan struct{}
	back   string         // what came back of a store that was damaged or lost, in words; "": it was neither
	memory func() float64 // share of the memory that the process may have
	looked time.Time      // at memory; the loop's

	watched atomic.Int64 // subscriptions, as the reflector counts them
	wanted  atomic.Int64 // that are being made
	waiting atomic.Int64 // bytes of articles on their way to the loop
	dropped atomic.Uint64
	// unreadable counts subscriptions whose queries cannot be read any more.
	unreadable atomic.Int64
	short      atomic.Pointer[short]
	stopped    chan struct{}
}

// short says what of new articles is not kept, nil if all is.
type short struct {
	level int // of cobra.Stats
	what  string
}

const (
	// maxWaiting is how many bytes of articles may wait for the second loop. What comes then is
	// not matched; the node says so.
	maxWaiting = 64 << 20
	// maxArticles is how many may wait.
	maxArticles = 1 << 14
)

// openKeywords opens the store of a node's keyword subscriptions.
func openKeywords(path string, config cobra.Config, log *slog.Logger) (*keywords, error) {
	k := &keywords{
		loop:   loop.New(loop.Config{Bulk: maxArticles}),
		log:    log,
		config: config, missed: missed{after: againAfter}, memory: memoryInUse,
		asking: make(chan struct{}, 1), opened: make(chan struct{}), stopped: make(chan struct{}),
	}
	k.recent.brought.since, k.recent.brought.keep = time.Now(), broughtFor
	_, none := os.Stat(path) // then it is a new node's, and nothing is lost
	subscriptions, numbers := cobra.IrreplaceableKeys()
	disk, err := store.Open(path, k.loop.Deliver, store.Twice{Prefix: []string{subscriptions}, Along: []string{numbers}})
	if err != nil {
		return nil, fmt.Errorf("searches: %w", err)
	}
	k.disk, k.store = disk, disk
	if why := disk.Lost(); why != "" {
		switch back, whole := disk.Restored(); {
		case whole && (back > 0 || !errors.Is(none, fs.ErrNotExist)):
			k.back = fmt.Sprintf("the store of searches was damaged or lost when the node started: no search is lost, %d came back from the second copy, %s.second", back, keywordsFile)
			k.log.Warn("store is damaged", "details", k.back, "remedy", diskHealth)
		case !errors.Is(none, fs.ErrNotExist):
			k.log.Error("searches were lost with their store, and their addresses are no longer valid", "reason", why)
		}
		if err := disk.Accept(); err != nil {
			return nil, errors.Join(fmt.Errorf("searches: %w", err), disk.Close())
		}
	}
	return k, nil
}

// run reads the store and drives the reflector until ctx ends.
func (k *keywords) run(ctx context.Context) {
	defer close(k.stopped)
	k.reflector, k.failed = cobra.Open(env.Env{Clock: k.loop, Worker: k.loop, Store: k.store, Log: k.log}, k.config)
	if k.failed != nil {
		k.log.Error("searches cannot be read", "err", k.failed)
		close(k.opened)
		return
	}
	k.count()
	close(k.opened)
	_ = k.loop.Run(ctx, k) // which ends for no other reason
	if n := k.missed.count(); n > 0 {
		k.log.Warn("node stops before all articles were searched", "articles", n)
	}
}

const (
	// memoryEvery is the time between two looks at the memory.
	memoryEvery = time.Second
	// tight is the share of it from which on what is kept for those who may watch is given back: when the
	// reflector begins to shorten, too.
	tight = 0.8
)

// Run implements [loop.Runner].
func (k *keywords) Run(now time.Time) (next time.Time) {
	if wait := now.Sub(k.looked); wait >= memoryEvery || wait < 0 {
		k.looked = now
		share := k.memory()
		k.reflector.SetMemoryUse(share)
		if share >= tight {
			k.recent.brought.release(now)
		}
	}
	next = k.reflector.Run(now)
	k.count()
	s := k.reflector.Stats()
	switch s.Level {
	case 0:
		k.short.Store(nil)
	case 1:
		k.short.Store(&short{1, "only titles and links of new articles are kept: " + s.Why})
	default:
		k.short.Store(&short{2, "new articles are not kept: " + s.Why})
	}
	for _, at := range []time.Time{k.looked.Add(memoryEvery), k.again(now)} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// count tells other goroutines how many subscriptions there are.
func (k *keywords) count() {
	s := k.reflector.Stats()
	k.watched.Store(int64(s.Subscriptions))
	k.unreadable.Store(int64(s.Unreadable))
}

// makeRoom is what to do where articles were missed.
const makeRoom = "check whether the machine has enough processor time, memory and disk space"

// ready says whether there is a reflector.
func (k *keywords) ready() bool {
	select {
	case <-k.opened:
		return k.failed == nil
	default:
		return false
	}
}

// findings is what can be said of keyword subscriptions.
func (k *keywords) findings(channels int, filter bool) (of []proxy.Finding) {
	select {
	case <-k.opened:
	default:
		return nil
	}
	if k.back != "" {
		of = append(of, proxy.Finding{Level: levelNote, What: k.back, Do: diskHealth})
	}
	if k.failed != nil {
		of = append(of, proxy.Finding{Level: levelProblem, What: "searches cannot be read: " + k.failed.Error(), Do: diskRemedy})
	}
	with := fmt.Sprintf("this node's subscriptions (%d)", channels)
	if filter {
		with = "all feeds of the network"
	}
	if n := k.unreadable.Load(); n > 0 {
		of = append(of, proxy.Finding{
			Level: levelNote, What: proxy.Plural(n, "search", "searches") + " of an earlier version cannot be read any more, and no article matches; the log has the queries",
			Do: "unwatch these queries, and watch new ones",
		})
	}
	if n := k.watched.Load(); n > 0 {
		of = append(of, proxy.Finding{Level: levelOK, What: fmt.Sprintf("searches: %d, which cover new articles of %s", n, with)})
	}
	if s := k.short.Load(); s != nil {
		level := levelNote
		if s.level > 1 {
			level = levelProblem
		}
		of = append(of, proxy.Finding{Level: level, What: "searches: " + s.what, Do: "free memory or disk space; the node then asks again for missed articles, as far as they still exist"})
	}
	if n := k.missed.refusals(); n > 0 {
		of = append(of, proxy.Finding{
			Level: levelNote, Do: makeRoom,
			What: "for lack of time or space the node did not search " + proxy.Plural(n, "entry", "entries") + " of the network, which did not come again",
		})
	}
	if n := k.dropped.Load(); n > 0 {
		again, lost, open := k.missed.ends()
		of = append(of, proxy.Finding{
			Level: levelNote, Do: makeRoom,
			What: fmt.Sprintf("since the start the node could not search or keep %s on arrival: searched later %d, to be asked for again %d, lost %d", proxy.Plural(n, "article", "articles"), again, open, lost),
		})
	}
	return of
}

// do runs f on the second loop.
func (k *keywords) do(ctx context.Context, f func()) error {
	select {
	case <-k.opened:
	case <-k.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	if k.failed != nil {
		return k.failed
	}
	err := k.loop.Call(ctx, f)
	if errors.Is(err, loop.ErrStopped) {
		return ErrStopped
	}
	return err
}

// unwatched says that nobody watches anything. While the store is being read, that is not known.
func (k *keywords) unwatched() bool {
	select {
	case <-k.opened:
		return k.failed != nil || k.watched.Load()+k.wanted.Load() == 0
	default:
		return false
	}
}

// news takes what is new in a channel, in the order of its document, the newest first.
func (k *keywords) news(s feedtree.Subscription, changes []difference.Change) {
	if k.unwatched() {
		return
	}
	for _, c := range slices.Backward(changes) {
		if c.Edited {
			continue
		}
		item := c.Item
		item.Raw = bytes.Clone(item.Raw) // its document is not kept for it
		size := int64(len(item.Raw))
		taken := k.waiting.Add(size) <= maxWaiting && k.loop.Post(env.Bulk, func() {
			k.waiting.Add(-size)
			k.take(s, &item, func() { k.miss(s, item.ID) })
		})
		if !taken {
			k.waiting.Add(-size)
			k.miss(s, item.ID)
		}
	}
}

// dispatched takes a new entry of any channel of the network, as a filter does; false: there is no
// room for it, and it comes again with the next digests.
func (k *keywords) dispatched(d firehose.Dispatch) bool {
	select {
	case <-k.opened:
		if k.failed != nil {
			return true // nobody will take it
		}
	default:
	}
	size := int64(len(d.Body))
	s := k.short.Load()
	room := k.waiting.Add(size) <= maxWaiting && (s == nil || s.level < 2)
	taken := room && k.loop.Post(env.Bulk, func() {
		k.waiting.Add(-size)
		delta, err := difference.Decode(d.Body)
		if err != nil {
			k.log.Debug("entry is partly unreadable, so only the rest is searched", "url", d.URL, "err", err)
		}
		about := feedtree.Subscription{Key: d.Entry.Key, URL: d.URL, Title: d.Title, Link: d.Link, Language: d.Language}
		for _, c := range slices.Backward(delta.Changes) {
			if !c.Edited {
				k.take(about, &c.Item, func() { k.miss(about, c.Item.ID) })
			}
		}
	})
	if !taken {
		k.waiting.Add(-size)
	}
	taken = taken || k.unwatched() // then nobody misses it
	k.missed.offered(d.Entry.Hash, taken)
	return taken
}

// miss notes that an article was not matched or not kept.
func (k *keywords) miss(s feedtree.Subscription, id feed.ID) {
	if k.dropped.Add(1) == 1 {
		k.log.Warn("articles are searched later, for lack of time or space", "url", s.URL)
	}
	k.missed.add(s, id, k.loop.Now())
}

// take matches an item as an article. lost is called, now or later, if it is not kept.
func (k *keywords) take(s feedtree.Subscription, item *feed.Item, lost func()) {
	a, ok := articleOf(s, item)
	if !ok {
		k.log.Debug("item is unreadable and was not searched", "url", s.URL)
		return
	}
	now := k.loop.Now()
	if now.Sub(cameOf(a, now)) > recentFor {
		return // a feed that was just subscribed to has some of long ago
	}
	k.recent.brought.add(a, now)
	k.reflector.Receive(a, lost)
}

// asked runs f on the second loop and returns what it answers later.
func asked[T any](ctx context.Context, k *keywords, f func(answer func(T))) (a T, err error) {
	answers := make(chan T, 1)
	if err := k.do(ctx, func() { f(func(a T) { answers <- a }) }); err != nil {
		return a, err
	}
	select {
	case a = <-answers:
		return a, nil
	case <-ctx.Done():
		return a, ctx.Err()
	case <-k.stopped:
		return a, ErrStopped
	}
}
