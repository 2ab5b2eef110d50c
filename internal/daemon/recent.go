package daemon

import (
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

// recent holds the recent articles of subscribed channels, from the channels' documents. A query is tried on
// them, and a new keyword subscription begins with those that match. Articles that the reflector received are
// added from the arrivals, which keep them for a week in a filter, otherwise for the minutes until they stand in
// a document.
type recent struct {
	mu       sync.Mutex // held while documents are read, so that concurrent callers share the result
	readAt   time.Time  // when the documents were read
	articles []cobra.BacklogArticle
	coverage coverage
}

// A coverage says of which period recent articles are complete: from a time on, and for each channel for a
// length of time.
type coverage struct {
	since    time.Time
	channels map[string]time.Duration // by URL; other channels are covered since the start of the period
	scale    float64                  // subscribed channels divided by channels that were read, at least 1
}

// perDay returns how many articles per day one article of a channel stands for.
func (c coverage) perDay(url string, now time.Time) float64 {
	period := now.Sub(c.since)
	if covered, ok := c.channels[url]; ok {
		period = min(period, covered)
	}
	return c.scale * float64(24*time.Hour) / float64(max(period, minCoverage))
}

// arrivalTime returns when an article came. seen is the time at which the node saw it. In the backlog of a
// new subscription, articles may be much older.
func arrivalTime(a *cobra.Article, seen time.Time) time.Time {
	if !a.Published.IsZero() && a.Published.Before(seen) {
		return a.Published
	}
	return seen
}

const (
	// recentAge is the age up to which articles are recent. recentCacheTime is how long documents are not
	// read again for previews; articles that arrive meanwhile are added.
	recentAge       = 7 * 24 * time.Hour
	recentCacheTime = time.Minute
	// arrivalMaxAge is how long a node that is no filter keeps received articles.
	arrivalMaxAge = 5 * time.Minute
	// fullDocument is the number of articles from which on a document may have left out older ones.
	// minCoverage is the shortest period that a document is assumed to cover: ten articles in a minute are a
	// burst, not a rate.
	fullDocument = 10
	minCoverage  = time.Hour
	// maxRecent and maxRecentBytes bound the recent articles to the newest ones. maxRecentChannels bounds the
	// channels whose documents are read.
	maxRecent         = 10_000
	maxRecentBytes    = 32 << 20
	maxRecentChannels = 1_000
	// maxPreviewEntries bounds the matches that a preview shows.
	maxPreviewEntries = 20
)

// articleOf returns an item as an article; ok is false if the item is unreadable.
func articleOf(s feedtree.Subscription, item *feed.Item) (a *cobra.Article, ok bool) {
	a, err := cobra.NewArticle(s.URL, s.Title, s.Link, s.Language, item)
	return a, err == nil
}

// recentArticles returns the recent articles, the oldest first, and the period that they cover. All articles
// that the reflector has received are among them. fresh reads the documents again.
func (ws *watches) recentArticles(ctx context.Context, fresh bool) ([]cobra.BacklogArticle, coverage, error) {
	r := &ws.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if fresh || now.Sub(r.readAt) >= recentCacheTime {
		articles, covered, err := ws.subscribedArticles(ctx, now)
		if err != nil {
			return nil, coverage{}, err
		}
		r.readAt, r.articles, r.coverage = now, articles, covered
	}
	covered := r.coverage
	articles, since := ws.keywords.arrivals.appendAll(slices.Clone(r.articles))
	if ws.filter { // a filter receives all channels alike
		covered = coverage{since: now.Add(-recentAge), scale: 1}
		if since.After(covered.since) {
			covered.since = since
		}
	}
	articles, covered.since = newestOf(articles, covered.since)
	slices.Reverse(articles)
	return articles, covered, nil
}

// forget drops the received articles of a channel, and lets the documents be read again.
func (ws *watches) forget(url string) {
	ws.keywords.arrivals.forgetFeed(url)
	r := &ws.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAt = time.Time{}
}

// newestOf returns the newest articles within the bounds, the newest first and each once. The list is
// complete since the time that it returns, which is since or later.
func newestOf(articles []cobra.BacklogArticle, since time.Time) ([]cobra.BacklogArticle, time.Time) {
	slices.SortStableFunc(articles, func(a, b cobra.BacklogArticle) int { return b.Received.Compare(a.Received) })
	type articleID struct {
		feed string
		id   feed.ID
	}
	seen := make(map[articleID]bool, len(articles))
	articles = slices.DeleteFunc(articles, func(l cobra.BacklogArticle) bool {
		key := articleID{l.Article.Feed, l.Article.ID}
		duplicate := seen[key]
		seen[key] = true
		return duplicate
	})
	n, size := 0, 0
	for n < min(len(articles), maxRecent) && size < maxRecentBytes {
		size += articles[n].Article.Size()
		n++
	}
	if n < len(articles) && articles[n].Received.After(since) {
		since = articles[n].Received
	}
	return articles[:n:n], since
}

// subscribedArticles returns the recent articles of the subscribed channels, the newest first.
func (ws *watches) subscribedArticles(ctx context.Context, now time.Time) (articles []cobra.BacklogArticle, covered coverage, err error) {
	keys, err := ws.subscriptionKeys(ctx)
	if err != nil {
		return nil, covered, err
	}
	all := len(keys)
	keys = keys[:min(all, maxRecentChannels)]
	covered = coverage{now.Add(-recentAge), map[string]time.Duration{}, float64(all) / float64(max(len(keys), 1))}
	type read struct {
		s   feedtree.Subscription
		doc feedtree.Document
	}
	for _, key := range keys {
		got, err := ask(ctx, ws, func(answer func(read)) {
			ws.readWindow(key, func(s feedtree.Subscription, doc feedtree.Document) { answer(read{s, doc}) })
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

// documentArticles returns the recent articles of a document, and the length of time that they cover.
func documentArticles(s feedtree.Subscription, doc feedtree.Document, now time.Time) (articles []cobra.BacklogArticle, covered time.Duration) {
	oldest := now
	for _, e := range doc.Entries {
		if len(e.Item.Raw) == 0 {
			continue
		}
		a, ok := articleOf(s, &e.Item)
		if !ok {
			continue
		}
		came := arrivalTime(a, e.Arrived)
		if came.Before(oldest) {
			oldest = came
		}
		if now.Sub(came) <= recentAge {
			articles = append(articles, cobra.BacklogArticle{Article: a, Received: came})
		}
	}
	covered = recentAge
	if len(doc.Entries) >= fullDocument {
		covered = min(recentAge, max(now.Sub(oldest), now.Sub(s.Since)))
	}
	return articles, covered
}

// matchesOf returns the articles that match a query.
func matchesOf(q *query.Expr, candidates []cobra.BacklogArticle) (matches []cobra.BacklogArticle) {
	articles := make([]*cobra.Article, len(candidates))
	for i := range candidates {
		articles[i] = candidates[i].Article
	}
	for _, i := range cobra.Preview(q, articles) {
		matches = append(matches, candidates[i])
	}
	return matches
}

// Preview tries a query on recent articles; see proxy.Keywords.
func (ws *watches) Preview(ctx context.Context, text string) (p proxy.Preview, err error) {
	q, err := query.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	if ws.keywords.tier.hosted { // it has what the searches of others have found
		return proxy.Preview{Query: q.String(), Hints: q.Hints()}, nil
	}
	articles, covered, err := ws.recentArticles(ctx, false)
	if err != nil {
		return p, err
	}
	return previewOf(q, articles, covered, time.Now()), nil
}

// previewOf returns which recent articles a query would have matched.
func previewOf(q *query.Expr, articles []cobra.BacklogArticle, covered coverage, now time.Time) proxy.Preview {
	match := matchesOf(q, articles)
	p := proxy.Preview{Query: q.String(), Hints: q.Hints()}
	if covered.since.After(now) { // the clock was set back
		covered.since = now
	}
	const day = 24 * time.Hour
	p.Days = make([]int, now.Sub(covered.since)/day)
	for _, l := range match {
		if !l.Received.Before(covered.since) {
			p.PerDay += covered.perDay(l.Article.Feed, now)
		}
		if ago := int(max(0, now.Sub(l.Received)) / day); ago < len(p.Days) {
			p.Days[len(p.Days)-1-ago]++
		}
	}
	countFrom := func(list []cobra.BacklogArticle, begin time.Time) int {
		n := slices.IndexFunc(list, func(l cobra.BacklogArticle) bool { return !l.Received.Before(begin) })
		if n < 0 {
			return 0
		}
		return len(list) - n
	}
	// The last day is shown if it has enough articles, otherwise the whole period.
	begin := now.Add(-24 * time.Hour)
	if begin.Before(covered.since) || countFrom(articles, begin) < minDayArticles {
		begin = covered.since
	}
	p.Articles, p.Matching, p.Period = countFrom(articles, begin), countFrom(match, begin), now.Sub(begin)
	for _, l := range slices.Backward(match) {
		if len(p.Entries) == maxPreviewEntries {
			break
		}
		p.Entries = append(p.Entries, entryOf(&cobra.StoredArticle{Article: *l.Article, Received: l.Received}))
	}
	return p
}

// minDayArticles is the number of articles that make a day representative.
const minDayArticles = 50
