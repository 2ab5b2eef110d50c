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
	"tidings/internal/locale"
	"tidings/internal/loop"
	"tidings/internal/store"
	"tidings/proxy"
)

// keywords matches new articles with keyword subscriptions. It has a loop and a store of its own, which drive
// a [cobra.Reflector]: matching many subscriptions takes long, and must not delay messages of the node.
type keywords struct {
	loop    *loop.Loop
	disk    *store.Disk
	store   env.Store // the disk; tests replace it
	config  cobra.Config
	log     *slog.Logger
	loaded  chan struct{} // closed when reflector or loadErr is set
	loadErr error
	// The reflector is owned by the loop.
	reflector *cobra.Reflector

	arrivals        arrivals
	missed          missedArticles
	tier            tierArticles
	restoredText    locale.Text    // what was restored of a damaged or lost store; empty: nothing was
	memoryShare     func() float64 // share of the memory limit in use, 0 to 1; tests replace it
	memoryCheckedAt time.Time      // when memoryShare was last called; owned by the loop

	told toldSearches

	matched func(number uint32, a *cobra.Article) // called on the loop when an article has matched a search
	created func(number uint32)                   // called on the loop for a new search
	// placed is called when a search is made or ended, if it is not nil.
	placed        func(number cobra.SubscriptionID, text string, made bool)
	subscriptions atomic.Int64 // number of subscriptions, copied from the reflector
	owned         atomic.Int64 // those of tokens, likewise
	creating      atomic.Int64 // subscriptions being created
	waitingBytes  atomic.Int64 // bytes of articles queued for the loop
	dropped       atomic.Uint64
	// unreadable counts subscriptions whose query cannot be parsed any more.
	unreadable atomic.Int64
	shortage   atomic.Pointer[shortage]
	stopped    chan struct{}
}

// A shortage says which parts of new articles are not kept.
type shortage struct {
	level int // as in cobra.Stats: 1 or 2
	text  locale.Text
}

const (
	// maxWaitingBytes bounds the articles queued for the loop, in bytes. Beyond it articles are not matched
	// on arrival; the doctor reports them, and they are read again later.
	maxWaitingBytes = 64 << 20
	// maxWaitingArticles bounds the number of queued articles.
	maxWaitingArticles = 1 << 14
)

// openKeywords opens the store of keyword subscriptions.
func openKeywords(path string, config cobra.Config, log *slog.Logger) (*keywords, error) {
	k := &keywords{
		loop:   loop.New(loop.Config{Bulk: maxWaitingArticles}),
		log:    log,
		config: config, missed: missedArticles{delay: retryDelay}, memoryShare: memoryInUse,
		loaded: make(chan struct{}), stopped: make(chan struct{}), matched: func(uint32, *cobra.Article) {}, created: func(uint32) {},
		told: toldSearches{named: func() []string { return nil }},
	}
	k.arrivals.completeSince, k.arrivals.maxAge = time.Now(), arrivalMaxAge
	_, statErr := os.Stat(path) // if it does not exist, the node is new and lost nothing
	subscriptions, numbers := cobra.IrreplaceableKeys()
	disk, err := store.Open(path, k.loop.Deliver, store.SecondCopy{Prefix: []string{subscriptions}, Lazy: []string{numbers}})
	if err != nil {
		return nil, fmt.Errorf("searches: %w", err)
	}
	k.disk, k.store = disk, disk
	if why := disk.Lost(); why != "" {
		switch restored, complete := disk.Restored(); {
		case complete && (restored > 0 || !errors.Is(statErr, fs.ErrNotExist)):
			k.restoredText = locale.Say("the store of searches was damaged or lost when the node started: no search is lost, %d came back from the second copy, %s.second", restored, keywordsFile)
			k.log.Warn("store is damaged", "details", k.restoredText.String(), "remedy", checkDisk.String())
		case !errors.Is(statErr, fs.ErrNotExist):
			k.log.Error("searches were lost with their store, and their addresses are no longer valid", "reason", why)
		}
		if err := disk.AcceptLoss(); err != nil {
			return nil, errors.Join(fmt.Errorf("searches: %w", err), disk.Close())
		}
	}
	return k, nil
}

// run loads the subscriptions and drives the reflector until ctx ends.
func (k *keywords) run(ctx context.Context) {
	defer close(k.stopped)
	k.reflector, k.loadErr = cobra.Open(env.Env{Clock: k.loop, Worker: k.loop, Store: k.store, Log: k.log}, k.config)
	if k.loadErr != nil {
		k.log.Error("searches cannot be read", "err", k.loadErr)
		close(k.loaded)
		return
	}
	k.publishCounts()
	close(k.loaded)
	_ = k.loop.Run(ctx, k) // it ends for no other reason than ctx
	if _, _, n := k.missed.counts(); n > 0 {
		k.log.Warn("node stops before all articles were searched", "articles", n)
	}
}

const (
	// memoryCheckInterval is the time between two checks of the memory in use.
	memoryCheckInterval = time.Second
	// highMemoryShare is the share of the memory limit from which on the articles kept for new subscriptions
	// are dropped. The reflector begins to shorten articles at the same share.
	highMemoryShare = 0.8
)

// Run implements [loop.Runner].
func (k *keywords) Run(now time.Time) (next time.Time) {
	if wait := now.Sub(k.memoryCheckedAt); wait >= memoryCheckInterval || wait < 0 {
		k.memoryCheckedAt = now
		share := k.memoryShare()
		k.reflector.SetMemoryUse(share)
		if share >= highMemoryShare {
			k.arrivals.clear(now)
		}
	}
	k.tier.run(k)
	next = k.reflector.Run(now)
	k.publishCounts()
	s := k.reflector.Stats()
	switch s.Level {
	case 0:
		k.shortage.Store(nil)
	case 1:
		k.shortage.Store(&shortage{1, locale.Say("only titles and links of new articles are kept: %s", s.Why)})
	default:
		k.shortage.Store(&shortage{2, locale.Say("new articles are not kept: %s", s.Why)})
	}
	for _, at := range []time.Time{k.memoryCheckedAt.Add(memoryCheckInterval), k.retryMissed(now)} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// publishCounts makes the reflector's counts readable for other goroutines.
func (k *keywords) publishCounts() {
	s := k.reflector.Stats()
	k.subscriptions.Store(int64(s.Subscriptions))
	k.owned.Store(int64(s.Owned))
	k.unreadable.Store(int64(s.Unreadable))
}

// resourceRemedy is the remedy if articles were missed.
var resourceRemedy = locale.Say("check whether the machine has enough processor time, memory and disk space")

// ready reports whether the reflector is loaded.
func (k *keywords) ready() bool { return isClosed(k.loaded) && k.loadErr == nil }

// findings returns the doctor's findings about keyword subscriptions. channels counts the subscribed
// channels.
func (k *keywords) findings(channels int, filter bool) (findings []proxy.Finding) {
	if !isClosed(k.loaded) {
		return nil
	}
	if len(k.restoredText) > 0 {
		findings = append(findings, proxy.Finding{Level: levelNote, What: k.restoredText, Do: checkDisk})
	}
	if k.loadErr != nil {
		findings = append(findings, proxy.Finding{Level: levelProblem, What: locale.Say("searches cannot be read: %s", k.loadErr.Error()), Do: diskRemedy})
	}
	if n := k.unreadable.Load(); n > 0 {
		findings = append(findings, proxy.Finding{
			Level: levelNote, What: locale.Say("%d searches of an earlier version cannot be read any more, and no article matches; the log has the queries", n),
			Do: locale.Say("unwatch these queries, and watch new ones"),
		})
	}
	if n := k.subscriptions.Load(); n > 0 {
		what := locale.Say("searches: %d, which cover new articles of this node's subscriptions (%d)", n, channels)
		switch {
		case k.tier.hosted:
			what = locale.Say("searches: %d, which cover new articles of all feeds that the crawlers of the hosting centre poll", n)
		case filter:
			what = locale.Say("searches: %d, which cover new articles of all feeds of the network", n)
		}
		findings = append(findings, proxy.Finding{Level: levelOK, What: what})
	}
	if s := k.shortage.Load(); s != nil {
		level := levelNote
		if s.level > 1 {
			level = levelProblem
		}
		findings = append(findings, proxy.Finding{Level: level, What: locale.Say("searches: %s", s.text), Do: locale.Say("free memory or disk space; the node then asks again for missed articles, as far as they still exist")})
	}
	if n := k.missed.refusals(); n > 0 {
		findings = append(findings, proxy.Finding{
			Level: levelNote, Do: resourceRemedy,
			What: locale.Say("for lack of time or space the node did not search %d entries of the network, which did not come again", n),
		})
	}
	if n := k.dropped.Load(); n > 0 {
		recovered, lost, outstanding := k.missed.counts()
		findings = append(findings, proxy.Finding{
			Level: levelNote, Do: resourceRemedy,
			What: locale.Say("since the start the node could not search or keep %d articles on arrival: searched later %d, to be asked for again %d, lost %d", n, recovered, outstanding, lost),
		})
	}
	return findings
}

// do runs f on the keyword loop.
func (k *keywords) do(ctx context.Context, f func()) error {
	select {
	case <-k.loaded:
	case <-k.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	if k.loadErr != nil {
		return k.loadErr
	}
	err := k.loop.Call(ctx, f)
	if errors.Is(err, loop.ErrStopped) {
		return ErrStopped
	}
	return err
}

func (k *keywords) ended() <-chan struct{} { return k.stopped }

// idle reports that there are no keyword subscriptions. It is false while the store is being loaded.
func (k *keywords) idle() bool {
	return isClosed(k.loaded) && (k.loadErr != nil || k.subscriptions.Load()+k.creating.Load() == 0)
}

// addItems queues the new items of a channel for matching. changes are in the order of the document, the
// newest first.
func (k *keywords) addItems(s feedtree.Subscription, changes []difference.Change) {
	if k.idle() {
		return
	}
	for _, c := range slices.Backward(changes) {
		if c.Edited {
			continue
		}
		item := c.Item
		item.Raw = bytes.Clone(item.Raw) // so that the item does not keep its whole document in memory
		size := int64(len(item.Raw))
		queued := k.waitingBytes.Add(size) <= maxWaitingBytes && k.loop.Post(env.Bulk, func() {
			k.waitingBytes.Add(-size)
			k.match(s, &item, func() { k.noteMissed(s, item.ID) })
		})
		if !queued {
			k.waitingBytes.Add(-size)
			k.noteMissed(s, item.ID)
		}
	}
}

// addEntry queues a new entry of any channel of the network, as received by a filter. It returns false if
// there is no room; the entry then comes again with the next digests.
func (k *keywords) addEntry(d firehose.Dispatch) bool {
	if isClosed(k.loaded) && k.loadErr != nil {
		return true // there is no reflector to match it
	}
	size := int64(len(d.Body))
	s := k.shortage.Load()
	room := k.waitingBytes.Add(size) <= maxWaitingBytes && (s == nil || s.level < 2)
	accepted := room && k.loop.Post(env.Bulk, func() {
		k.waitingBytes.Add(-size)
		delta, err := difference.Decode(d.Body)
		if err != nil {
			k.log.Debug("entry is partly unreadable, so only the rest is searched", "url", d.URL, "err", err)
		}
		about := feedtree.Subscription{Key: d.Entry.Key, URL: d.URL, Title: d.Title, Link: d.Link, Language: d.Language}
		for _, c := range slices.Backward(delta.Changes) {
			if !c.Edited {
				k.match(about, &c.Item, func() { k.noteMissed(about, c.Item.ID) })
			}
		}
	})
	if !accepted {
		k.waitingBytes.Add(-size)
	}
	accepted = accepted || k.idle() // an idle node misses nothing
	k.missed.noteEntry(d.Entry.Hash, accepted)
	return accepted
}

// noteMissed counts an article that was not matched or not kept, so that it is read again later.
func (k *keywords) noteMissed(s feedtree.Subscription, id feed.ID) {
	if k.dropped.Add(1) == 1 {
		k.log.Warn("articles are searched later, for lack of time or space", "url", s.URL)
	}
	k.missed.add(s, id, k.loop.Now())
}

// match gives an item to the reflector as an article. lost is called, now or later, if the article is not
// kept.
func (k *keywords) match(s feedtree.Subscription, item *feed.Item, lost func()) {
	a, ok := articleOf(s, item)
	if !ok {
		k.log.Debug("item is unreadable and was not searched", "url", s.URL)
		return
	}
	k.receive(a, lost)
}

func (k *keywords) receive(a *cobra.Article, lost func()) {
	now := k.loop.Now()
	if now.Sub(arrivalTime(a, now)) > recentAge {
		return // the backlog of a new subscription
	}
	k.arrivals.add(a, now)
	k.reflector.Receive(a, lost)
	for _, number := range k.told.matched(k.reflector, now) {
		k.matched(uint32(number), a)
	}
}
