package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tidings/cobra"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/news"
	"tidings/internal/store"
	"tidings/proxy"
)

// recorder brings what readers see into the journal of news. Others mark feeds and searches that have changed; run reads
// them. After a start it reads those whose logs have grown since they were recorded, so that nothing is missing that came just
// before the node stopped.
type recorder struct {
	*nodeLoop
	journal *news.Journal
	private *privateFeeds
	watches *watches
	log     *slog.Logger

	wake  chan struct{} // holds one token if something is marked
	hurry chan struct{} // holds one token if a feed is marked that may not be known yet: what comes after this moment is new

	mu       sync.Mutex               // guards the fields below
	feeds    map[string]*markedFeed   // by URL, or by the name of a private feed
	items    int                      // in feeds
	searches map[uint32]*markedSearch // marked searches, by number
	articles int                      // in searches
	whole    map[string]wholeRecord   // feeds of which the journal has all, by URL or name
}

// A markedFeed is a feed that has changed.
type markedFeed struct {
	all     bool      // the changed items are not known
	changed []feed.ID // changed items
	found   []feed.ID // those of them that this node has found itself
}

// A markedSearch is a search whose feed may have changed.
type markedSearch struct {
	isNew   bool
	matched []*cobra.Article // articles that have just matched it, the oldest first
}

const (
	// recordRetry is the time after which a feed or a search is recorded again whose events could not be written.
	recordRetry = 30 * time.Second
	// maxMarkedArticles bounds the articles that wait to be recorded. Beyond it, only those are recorded that the feed of
	// the search still has.
	maxMarkedArticles = 1_000
	// maxMarkedItems bounds the items in recorder.feeds. A feed with further ones is recorded as a whole, and they count as
	// found by other nodes.
	maxMarkedItems = 10_000
	// maxPartItems and maxPartTime bound what is recorded of a feed in parts. Then all of it is recorded again, because only a
	// whole document shows which items have left it. A feed that was longer when it was last recorded as a whole may have as many
	// items in parts as it had then.
	maxPartItems = 1_000
	maxPartTime  = 24 * time.Hour
	// The pause after a record is recordShare times as long as the record took, at least recordPause and at most maxRecordPause.
	// Items that come in a burst are recorded together, each for a fraction of the cost.
	recordPause, recordShare, maxRecordPause = 50 * time.Millisecond, 4, time.Second
	// recordsAtOnce bounds the feeds that are being read or recorded at a time.
	recordsAtOnce = 32
)

func openNews(path string) (*news.Journal, *store.Disk, error) {
	disk, err := store.Open(path, func(f func()) { f() }, store.SecondCopy{})
	if err != nil {
		return nil, nil, fmt.Errorf("news: %w", err)
	}
	if disk.Lost() != "" {
		err = disk.AcceptLoss() // what is new is found out anew
	}
	var journal *news.Journal
	if err == nil {
		journal, err = news.Open(disk, time.Now, proxy.Sanitise)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("news: %w", err), disk.Close())
	}
	return journal, disk, nil
}

// mark notes that a feed has changed, or that its subscription has ended.
func (r *recorder) mark(url string) { r.markFeed(url, markedFeed{all: true}) }

// markChanges notes which items of a feed have changed, and which of them this node has found itself.
func (r *recorder) markChanges(url string, changes []difference.Change, found []feed.ID) {
	m := markedFeed{found: found}
	for i := range changes {
		m.changed = append(m.changed, changes[i].Item.ID)
	}
	r.markFeed(url, m)
}

func (r *recorder) markFeed(url string, more markedFeed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.feeds == nil {
		r.feeds = map[string]*markedFeed{}
	}
	m := r.feeds[url]
	if m == nil {
		m = &markedFeed{}
		r.feeds[url] = m
	}
	if m.all = m.all || more.all; more.all {
		signal(r.hurry)
	}
	if r.items+len(more.changed) > maxMarkedItems {
		m.all, more.changed, more.found = true, nil, nil
	}
	r.items += len(more.changed)
	m.changed, m.found = append(m.changed, more.changed...), append(m.found, more.found...)
	signal(r.wake)
}

// markSearch notes that the feed of a search may have changed.
func (r *recorder) markSearch(number uint32, change func(*markedSearch)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.searches == nil {
		r.searches = map[uint32]*markedSearch{}
	}
	s := r.searches[number]
	if s == nil {
		s = &markedSearch{}
		r.searches[number] = s
	}
	before := len(s.matched)
	change(s)
	r.articles += len(s.matched) - before
	signal(r.wake)
}

// markNew notes that a search has just been made.
func (r *recorder) markNew(number uint32) {
	if r.watches.CountWatches() > maxToldSearches {
		return // nobody can have named it yet
	}
	r.markSearch(number, func(s *markedSearch) { s.isNew = true })
}

// markMatch notes that an article has matched a search.
func (r *recorder) markMatch(number uint32, a *cobra.Article) {
	r.markSearch(number, func(s *markedSearch) {
		if r.articles < maxMarkedArticles {
			s.matched = append(s.matched, a)
		}
	})
}

// signal puts a token into a channel, unless it has one.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// take returns what is marked, which is then marked no more.
func (r *recorder) take() (feeds map[string]*markedFeed, searches map[uint32]*markedSearch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	feeds, searches = r.feeds, r.searches
	r.feeds, r.items, r.searches, r.articles = nil, 0, nil, 0
	return feeds, searches
}

// run records what is marked until ctx ends.
func (r *recorder) run(ctx context.Context) {
	r.markAll(ctx)
	retry, pause := time.NewTimer(0), time.NewTimer(recordPause)
	defer retry.Stop()
	defer pause.Stop()
	for {
		select {
		case <-r.wake:
		case <-r.hurry:
		case <-retry.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		if failed := r.recordMarked(ctx); failed {
			retry.Reset(recordRetry)
		}
		pause.Reset(pauseAfter(time.Since(began)))
		select {
		case <-pause.C:
		case <-r.hurry:
			signal(r.wake)
		case <-ctx.Done():
			return
		}
	}
}

// pauseAfter returns the pause after a record that took a time.
func pauseAfter(took time.Duration) time.Duration {
	return min(max(recordPause, recordShare*took), maxRecordPause)
}

// markAll marks everything that the node follows, except for the feeds of which the journal has all.
func (r *recorder) markAll(ctx context.Context) {
	_ = r.eachSubscription(ctx, func(s feedtree.Subscription) { // an error means that the node stops
		if !r.resume(s) {
			r.mark(s.URL)
		}
	})
	for _, name := range r.private.names() {
		r.mark(name)
	}
	searches, err := r.toldWatches(ctx)
	if err != nil && ctx.Err() == nil {
		r.log.Error("searches cannot be read, so programs are not told what is new in them", "err", err)
	}
	for _, w := range searches {
		r.markSearch(w.Number, func(*markedSearch) {})
	}
}

// toldWatches returns the searches whose news the journal records; see toldSearches.
func (r *recorder) toldWatches(ctx context.Context) (all []proxy.Watch, err error) {
	page, err := r.watches.Watches(ctx, proxy.WatchList{Limit: maxToldSearches})
	if err != nil || page.Next == 0 {
		return page.Watches, err
	}
	for _, text := range r.watches.keywords.told.named() {
		same, err := r.watches.sameWatches(ctx, text, 0)
		if err != nil {
			return all, err
		}
		all = append(all, same...)
	}
	return all, nil
}

// recordMarked records what is marked. If that fails, it marks it again.
func (r *recorder) recordMarked(ctx context.Context) (failed bool) {
	feeds, searches := r.take()
	failed = r.recordFeeds(ctx, feeds)
	for number, marked := range searches {
		if err := r.recordSearch(ctx, number, marked); err != nil && ctx.Err() == nil {
			r.log.Warn("news of a search cannot be recorded, next try in half a minute", "err", err)
			r.markSearch(number, func(s *markedSearch) {
				s.isNew, s.matched = s.isNew || marked.isNew, append(marked.matched, s.matched...)
			})
			failed = true
		}
	}
	return failed
}

// A feedReading is what was read of a marked feed.
type feedReading struct {
	url    string
	marked *markedFeed
	items  int           // that were read; 0: all
	doc    news.Document // doc.Document is nil if there is nothing to record
	err    error
}

// recordFeeds records feeds. It reads some at a time, and records together what has been read meanwhile, so that a burst does
// not wait for the disk once for each feed.
func (r *recorder) recordFeeds(ctx context.Context, feeds map[string]*markedFeed) (failed bool) {
	read, places := make(chan feedReading), make(chan struct{}, recordsAtOnce)
	go func() {
		defer close(read)
		var reading sync.WaitGroup
		defer reading.Wait()
		for url, marked := range feeds {
			places <- struct{}{} // until it is recorded
			reading.Go(func() { read <- r.readFeed(ctx, url, marked) })
		}
	}()
	inGroups(read, recordsAtOnce, func(group []feedReading) {
		failed = !r.recordGroup(ctx, group) || failed
		for range group {
			<-places
		}
	})
	return failed
}

// inGroups passes everything that arrives on a channel to each. What has arrived meanwhile is one group, up to a number.
func inGroups[T any](from <-chan T, most int, each func([]T)) {
	for first := range from {
		group := []T{first}
		for more := true; more && len(group) < most; {
			select {
			case next, ok := <-from:
				if more = ok; ok {
					group = append(group, next)
				}
			default:
				more = false
			}
		}
		each(group)
	}
}

// recordGroup records what was read of some feeds. A feed that cannot be recorded is marked again, and keeps no other from it.
func (r *recorder) recordGroup(ctx context.Context, group []feedReading) (ok bool) {
	var of []news.Recording
	for _, f := range group {
		if f.err == nil && f.doc.Document != nil {
			of = append(of, news.Recording{Source: news.Source{URL: f.url, Title: f.doc.Head.Title}, Document: f.doc})
		}
	}
	_, err := r.journal.RecordAll(of...)
	if err != nil && len(group) > 1 {
		ok = true
		for i := range group {
			ok = r.recordGroup(ctx, group[i:i+1]) && ok
		}
		return ok
	}
	ok = true
	for _, f := range group {
		switch err := cmp.Or(f.err, err); {
		case err == nil:
			r.recorded(f)
		case ctx.Err() == nil:
			r.log.Warn("news of a feed cannot be recorded, next try in half a minute", "url", f.url, "err", err)
			r.markFeed(f.url, *f.marked)
			ok = false
		}
	}
	return ok
}

// readFeed reads the changes of a feed, or all of it.
func (r *recorder) readFeed(ctx context.Context, url string, marked *markedFeed) feedReading {
	f := feedReading{url: url, marked: marked}
	items := marked.changed
	switch {
	case r.recordsAll(url, marked):
		items = nil
	case len(items) == 0:
		return f
	}
	doc, subscribed, err := r.document(ctx, url, items)
	switch {
	case err != nil:
		f.err = err
	case !subscribed:
		r.mu.Lock()
		delete(r.whole, url)
		r.mu.Unlock()
		f.err = r.journal.Forget(news.Source{URL: url})
	default:
		f.doc, f.items = doc, len(items)
		f.doc.FoundHere = func(e *feed.Entry) bool { return isPrivateName(url) || slices.Contains(marked.found, e.Item.ID) }
	}
	return f
}

// recordsAll reports whether all of a feed is to be recorded, not only what is marked.
func (r *recorder) recordsAll(url string, marked *markedFeed) bool {
	r.mu.Lock()
	since, known := r.whole[url]
	r.mu.Unlock()
	return marked.all || !known || since.items+len(marked.changed) > max(maxPartItems, since.length) || time.Since(since.at) > maxPartTime
}

// recorded notes what was recorded of a feed. As long as older items are on their way, the next record has all again.
func (r *recorder) recorded(f feedReading) {
	if f.doc.Document == nil || !f.doc.Complete && !f.doc.Part {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	since := r.whole[f.url]
	if !f.doc.Part {
		since = wholeRecord{at: time.Now(), length: len(f.doc.Entries)}
	}
	since.items += f.items
	r.whole[f.url] = since
}

// document returns what readers of a feed see: some items, or all if items is nil, without the content of those that the journal
// has. doc.Document is nil if they see nothing yet.
func (r *recorder) document(ctx context.Context, url string, items []feed.ID) (doc news.Document, subscribed bool, err error) {
	if isPrivateName(url) {
		w, ok := r.private.peek(url)
		if !ok || w.Document.Head.Raw == nil {
			return doc, ok, nil
		}
		return news.Document{Document: &w.Document, Complete: true}, true, nil
	}
	known := func(feed.ID, feed.Hash) bool { return false }
	if items == nil {
		if known, err = r.journal.Known(news.Source{URL: url}); err != nil {
			return doc, false, err
		}
	}
	type answer struct {
		sub  feedtree.Subscription
		read feedtree.Document
	}
	a, err := ask(ctx, r, func(say func(answer)) {
		key := r.key(url)
		if _, ok := r.node.NodeOf(key).Feeds.Subscription(key); !ok {
			say(answer{})
			return
		}
		then := func(sub feedtree.Subscription, read feedtree.Document) { say(answer{sub, read}) }
		if items == nil {
			r.readUnknown(key, known, then)
		} else {
			r.readItems(key, items, then)
		}
	})
	if err != nil || a.sub.URL == "" {
		return doc, false, err
	}
	if a.read.Head != nil {
		doc.Document = &feed.Document{Base: originURL(url), Head: *a.read.Head, Entries: a.read.Entries}
		doc.Complete, doc.Part = !a.sub.Repairing, items != nil
		r.nameState(url, &doc, a.sub, a.read.Shown)
	}
	return doc, true, nil
}

// recordSearch records the feed of a search, and articles that have just matched it, which may have left the feed already.
func (r *recorder) recordSearch(ctx context.Context, number uint32, marked *markedSearch) error {
	found, err := r.watches.Watched(ctx, number)
	var w proxy.Watch
	var kept []feed.Entry
	if err == nil {
		w, kept, err = found.Read()
	}
	if errors.Is(err, proxy.ErrNoSubscription) {
		return nil // its query is not known any more, and what the journal knows of it is small
	}
	if err != nil {
		return err
	}
	if w.Token != "" && !slices.Contains(r.watches.keywords.told.named(), w.Query) {
		return nil // it is not the search of the node's user, and nobody is told of it
	}
	source := news.Source{Query: w.Query}
	if marked.isNew { // there may have been a search for the same words before, which missed articles since
		if err := r.journal.Forget(source); err != nil {
			return err
		}
	}
	doc := &feed.Document{}
	now := time.Now()
	for _, a := range slices.Backward(marked.matched) {
		doc.Entries = append(doc.Entries, entryOf(&cobra.StoredArticle{Article: *a, Received: now}))
	}
	fresh := len(doc.Entries)
	for _, e := range kept {
		if !slices.ContainsFunc(doc.Entries[:fresh], func(f feed.Entry) bool { return f.Meaning.GUID == e.Meaning.GUID }) {
			doc.Entries = append(doc.Entries, e)
		}
	}
	_, err = r.journal.Record(source, news.Document{Document: doc, Complete: true, Fresh: fresh})
	return err
}

// A newsReader gives the journal to the server of readers; see proxy.News.
type newsReader struct{ *news.Journal }

func (n newsReader) After(number uint64, limit int) ([]proxy.Event, bool, error) {
	events, missed, err := n.Journal.After(number, limit)
	all := make([]proxy.Event, len(events))
	for i, e := range events {
		all[i] = proxy.Event{Number: e.Number, URL: e.URL, Query: e.Query, Health: e.Health != nil, JSON: events[i].JSON}
	}
	return all, missed, err
}
