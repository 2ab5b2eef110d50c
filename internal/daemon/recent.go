package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"tidings/cobra"
	"tidings/cobra/query"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/proxy"
)

// recent is the articles of late: a query is tried on them, and who watches it begins with those that
// match. Those of the channels that the node subscribes to are in their documents, and what the reflector
// was brought is kept beside them: all that a filter hears for a week, else for the moment until it is in
// a document.
type recent struct {
	mu       sync.Mutex // held while documents are read: who asks meanwhile waits for the same
	readAt   time.Time  // when they were read
	articles []cobra.Late
	coverage coverage
	arrivals arrivals
}

// covers say what the articles of late are all of: those that came from a time on, and of each channel in
// how long a time.
type coverage struct {
	since    time.Time
	channels map[string]time.Duration // by its URL; of another one all the time
	scale    float64                  // channels, to those that were looked at
}

// perDay is how many articles in a day one of a channel stands for.
func (c coverage) perDay(url string, now time.Time) float64 {
	in := now.Sub(c.since)
	if of, ok := c.channels[url]; ok {
		in = min(in, of)
	}
	return c.scale * float64(24*time.Hour) / float64(max(in, minCoverage))
}

// cameOf is when an article came that was seen at a time: a feed that was just subscribed to has some of
// long ago.
func arrivalTime(a *cobra.Article, seen time.Time) time.Time {
	if !a.Published.IsZero() && a.Published.Before(seen) {
		return a.Published
	}
	return seen
}

const (
	// recentFor is how late they are; recentTime is how long documents that were read are good enough for
	// a preview, together with what was brought since.
	recentAge       = 7 * 24 * time.Hour
	recentCacheTime = time.Minute
	// broughtFor is for how long a node that is no filter keeps what the reflector was brought.
	arrivalMaxAge = 5 * time.Minute
	// fullDocument is how many articles a document has that may have left out older ones. leastCovered is the
	// shortest time that one is taken to cover: who has written ten in a minute does not go on so.
	fullDocument = 10
	minCoverage  = time.Hour
	// maxRecent and recentBytes bound them: the newest are taken. maxRecentChannels bounds the channels
	// that are looked through.
	maxRecent         = 10_000
	maxRecentBytes    = 32 << 20
	maxRecentChannels = 1_000
	// shown is how many matches a preview shows.
	maxPreviewEntries = 20
)

// articleOf is an item as an article; ok is false if it says nothing that can be read.
func articleOf(s feedtree.Subscription, item *feed.Item) (a *cobra.Article, ok bool) {
	m, err := item.Meaning(originURL(s.URL))
	if err != nil {
		return nil, false
	}
	published := m.Published
	if published.IsZero() {
		published = m.Updated
	}
	return &cobra.Article{
		Feed: s.URL, FeedTitle: s.Title, FeedLink: s.Link, Language: s.Language,
		ID: item.ID, Link: m.Link, Title: m.Title, Author: m.Author, Tags: m.Categories,
		HTML: cmp.Or(m.Content, m.Summary), Published: published,
	}, true
}

// recently returns the articles of late, the oldest first, and what they are all of. Whatever the reflector
// was brought before now is among them, and with fresh all that documents have.
func (d *Daemon) recentArticles(ctx context.Context, fresh bool) ([]cobra.Late, coverage, error) {
	r := &d.keywords.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if fresh || now.Sub(r.readAt) >= recentCacheTime {
		articles, covered, err := d.subscribedArticles(ctx, now)
		if err != nil {
			return nil, coverage{}, err
		}
		r.readAt, r.articles, r.coverage = now, articles, covered
	}
	covered := r.coverage
	articles, since := r.arrivals.appendAll(slices.Clone(r.articles))
	if d.config.Filter { // it hears of all alike
		covered = coverage{since: now.Add(-recentAge), scale: 1}
		if since.After(covered.since) {
			covered.since = since
		}
	}
	articles, covered.since = newestOf(articles, covered.since)
	slices.Reverse(articles)
	return articles, covered, nil
}

// forget knows no article of a channel that was brought, nor what documents had.
func (r *recent) forget(url string) {
	r.arrivals.forgetFeed(url)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAt = time.Time{}
}

// newestOf returns as many of the newest as are looked at, the newest first and each once, and from when on
// these are all: since, or later.
func newestOf(articles []cobra.Late, since time.Time) ([]cobra.Late, time.Time) {
	slices.SortStableFunc(articles, func(a, b cobra.Late) int { return b.Came.Compare(a.Came) })
	type name struct {
		feed string
		id   feed.ID
	}
	seen := make(map[name]bool, len(articles))
	articles = slices.DeleteFunc(articles, func(l cobra.Late) bool {
		of := name{l.Article.Feed, l.Article.ID}
		twice := seen[of]
		seen[of] = true
		return twice
	})
	n, size := 0, 0
	for n < min(len(articles), maxRecent) && size < maxRecentBytes {
		size += articles[n].Article.Size()
		n++
	}
	if n < len(articles) && articles[n].Came.After(since) {
		since = articles[n].Came
	}
	return articles[:n:n], since
}

// subscribedLate returns the articles of late of the channels that the node subscribes to, the newest first.
func (d *Daemon) subscribedArticles(ctx context.Context, now time.Time) (articles []cobra.Late, covered coverage, err error) {
	var all []feedtree.Subscription
	if err := d.do(ctx, func() { all = d.node.Feeds.Subscriptions() }); err != nil {
		return nil, covered, err
	}
	channels := all[:min(len(all), maxRecentChannels)]
	covered = coverage{now.Add(-recentAge), map[string]time.Duration{}, float64(len(all)) / float64(max(len(channels), 1))}
	type read struct {
		s   feedtree.Subscription
		doc feedtree.Document
	}
	for _, s := range channels {
		got, err := ask(ctx, d, func(answer func(read)) {
			d.node.Feeds.Read(s.Key, func(doc feedtree.Document) {
				s, _ := d.node.Feeds.Subscription(s.Key) // whose title and language are known when it was read
				doc.Entries = withRequiredProvenance(s, doc.Entries)
				answer(read{s, doc})
			})
		})
		if err != nil {
			return nil, covered, err
		}
		if got.s.URL == "" {
			continue // it was unsubscribed from meanwhile
		}
		found, documentCovers := documentArticles(got.s, got.doc, now)
		articles = append(articles, found...)
		covered.channels[got.s.URL] = documentCovers
	}
	articles, covered.since = newestOf(articles, covered.since)
	return articles, covered, nil
}

// lateOf returns a document's articles of late, and the time that these are all of.
func documentArticles(s feedtree.Subscription, doc feedtree.Document, now time.Time) (articles []cobra.Late, covered time.Duration) {
	oldest := now
	for _, e := range doc.Entries {
		if len(e.Item.Raw) == 0 {
			continue
		}
		a, ok := articleOf(s, &e.Item)
		if !ok {
			continue
		}
		came := arrivalTime(a, e.At)
		if came.Before(oldest) {
			oldest = came
		}
		if now.Sub(came) <= recentAge {
			articles = append(articles, cobra.Late{Article: a, Came: came})
		}
	}
	covered = recentAge
	if len(doc.Entries) >= fullDocument {
		covered = min(recentAge, max(now.Sub(oldest), now.Sub(s.Since)))
	}
	return articles, covered
}

// matchesOf returns those of some articles that match a query.
func matchesOf(q *query.Expr, candidates []cobra.Late) (matches []cobra.Late) {
	articles := make([]*cobra.Article, len(candidates))
	for i := range candidates {
		articles[i] = candidates[i].Article
	}
	for _, i := range cobra.Preview(q, articles) {
		matches = append(matches, candidates[i])
	}
	return matches
}

// Preview tries a query on the articles of late; see proxy.Keywords.
func (d *Daemon) Preview(ctx context.Context, text string) (p proxy.Preview, err error) {
	q, err := query.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	articles, covered, err := d.recentArticles(ctx, false)
	if err != nil {
		return p, err
	}
	return previewOf(q, articles, covered, time.Now()), nil
}

// previewOf says what a query would have matched of late.
func previewOf(q *query.Expr, articles []cobra.Late, covered coverage, now time.Time) proxy.Preview {
	match := matchesOf(q, articles)
	p := proxy.Preview{Query: q.String(), Hints: q.Hints()}
	for _, l := range match {
		if !l.Came.Before(covered.since) {
			p.PerDay += covered.perDay(l.Article.Feed, now)
		}
	}
	from := func(of []cobra.Late, begin time.Time) int {
		n := slices.IndexFunc(of, func(l cobra.Late) bool { return !l.Came.Before(begin) })
		if n < 0 {
			return 0
		}
		return len(of) - n
	}
	// A day is enough where it has articles enough, and else all is looked at that is there.
	begin := now.Add(-24 * time.Hour)
	if begin.Before(covered.since) || from(articles, begin) < minDayArticles {
		begin = covered.since
	}
	p.Of, p.Matching, p.Time = from(articles, begin), from(match, begin), now.Sub(begin)
	for _, l := range slices.Backward(match) {
		if len(p.Entries) == maxPreviewEntries {
			break
		}
		p.Entries = append(p.Entries, entryOf(&cobra.Kept{Article: *l.Article, Seen: l.Came}))
	}
	return p
}

// enough is how many articles of a day say what a day is like.
const minDayArticles = 50
