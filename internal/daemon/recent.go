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
	mu      sync.Mutex // held while documents are read: who asks meanwhile waits for the same
	at      time.Time  // when they were read
	late    []cobra.BacklogArticle
	covers  covers
	brought brought
}

// covers say what the articles of late are all of: those that came from a time on, and of each channel in
// how long a time.
type covers struct {
	since    time.Time
	channels map[string]time.Duration // by its URL; of another one all the time
	scale    float64                  // channels, to those that were looked at
}

// perDay is how many articles in a day one of a channel stands for.
func (c covers) perDay(url string, now time.Time) float64 {
	in := now.Sub(c.since)
	if of, ok := c.channels[url]; ok {
		in = min(in, of)
	}
	return c.scale * float64(24*time.Hour) / float64(max(in, leastCovered))
}

// cameOf is when an article came that was seen at a time: a feed that was just subscribed to has some of
// long ago.
func cameOf(a *cobra.Article, seen time.Time) time.Time {
	if !a.Published.IsZero() && a.Published.Before(seen) {
		return a.Published
	}
	return seen
}

const (
	// recentFor is how late they are; recentTime is how long documents that were read are good enough for
	// a preview, together with what was brought since.
	recentFor  = 7 * 24 * time.Hour
	recentTime = time.Minute
	// broughtFor is for how long a node that is no filter keeps what the reflector was brought.
	broughtFor = 5 * time.Minute
	// fullDocument is how many articles a document has that may have left out older ones. leastCovered is the
	// shortest time that one is taken to cover: who has written ten in a minute does not go on so.
	fullDocument = 10
	leastCovered = time.Hour
	// maxRecent and recentBytes bound them: the newest are taken. maxRecentChannels bounds the channels
	// that are looked through.
	maxRecent         = 10_000
	recentBytes       = 32 << 20
	maxRecentChannels = 1_000
	// shown is how many matches a preview shows.
	shown = 20
)

// articleOf is an item as an article; ok is false if it says nothing that can be read.
func articleOf(s feedtree.Subscription, item *feed.Item) (a *cobra.Article, ok bool) {
	m, err := item.Meaning(origin(s.URL))
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
func (d *Daemon) recently(ctx context.Context, fresh bool) ([]cobra.BacklogArticle, covers, error) {
	r := &d.keywords.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if fresh || now.Sub(r.at) >= recentTime {
		late, of, err := d.subscribedLate(ctx, now)
		if err != nil {
			return nil, covers{}, err
		}
		r.at, r.late, r.covers = now, late, of
	}
	of := r.covers
	late, since := r.brought.all(slices.Clone(r.late))
	if d.config.Filter { // it hears of all alike
		of = covers{since: now.Add(-recentFor), scale: 1}
		if since.After(of.since) {
			of.since = since
		}
	}
	late, of.since = newestOf(late, of.since)
	slices.Reverse(late)
	return late, of, nil
}

// forget knows no article of a channel that was brought, nor what documents had.
func (r *recent) forget(url string) {
	r.brought.forget(url)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Time{}
}

// newestOf returns as many of the newest as are looked at, the newest first and each once, and from when on
// these are all: since, or later.
func newestOf(late []cobra.BacklogArticle, since time.Time) ([]cobra.BacklogArticle, time.Time) {
	slices.SortStableFunc(late, func(a, b cobra.BacklogArticle) int { return b.Received.Compare(a.Received) })
	type name struct {
		feed string
		id   feed.ID
	}
	seen := make(map[name]bool, len(late))
	late = slices.DeleteFunc(late, func(l cobra.BacklogArticle) bool {
		of := name{l.Article.Feed, l.Article.ID}
		twice := seen[of]
		seen[of] = true
		return twice
	})
	n, size := 0, 0
	for n < min(len(late), maxRecent) && size < recentBytes {
		size += late[n].Article.Size()
		n++
	}
	if n < len(late) && late[n].Received.After(since) {
		since = late[n].Received
	}
	return late[:n:n], since
}

// subscribedLate returns the articles of late of the channels that the node subscribes to, the newest first.
func (d *Daemon) subscribedLate(ctx context.Context, now time.Time) (late []cobra.BacklogArticle, of covers, err error) {
	var all []feedtree.Subscription
	if err := d.do(ctx, func() { all = d.node.Feeds.Subscriptions() }); err != nil {
		return nil, of, err
	}
	looked := all[:min(len(all), maxRecentChannels)]
	of = covers{now.Add(-recentFor), map[string]time.Duration{}, float64(len(all)) / float64(max(len(looked), 1))}
	type read struct {
		s   feedtree.Subscription
		doc feedtree.Document
	}
	for _, s := range looked {
		is, err := ask(ctx, d, func(answer func(read)) {
			d.node.Feeds.Read(s.Key, func(doc feedtree.Document) {
				s, _ := d.node.Feeds.Subscription(s.Key) // whose title and language are known when it was read
				doc.Entries = vouched(s, doc.Entries)
				answer(read{s, doc})
			})
		})
		if err != nil {
			return nil, of, err
		}
		if is.s.URL == "" {
			continue // it was unsubscribed from meanwhile
		}
		articles, covered := lateOf(is.s, is.doc, now)
		late = append(late, articles...)
		of.channels[is.s.URL] = covered
	}
	late, of.since = newestOf(late, of.since)
	return late, of, nil
}

// lateOf returns a document's articles of late, and the time that these are all of.
func lateOf(s feedtree.Subscription, doc feedtree.Document, now time.Time) (late []cobra.BacklogArticle, covered time.Duration) {
	oldest := now
	for _, e := range doc.Entries {
		if len(e.Item.Raw) == 0 {
			continue
		}
		a, ok := articleOf(s, &e.Item)
		if !ok {
			continue
		}
		came := cameOf(a, e.At)
		if came.Before(oldest) {
			oldest = came
		}
		if now.Sub(came) <= recentFor {
			late = append(late, cobra.BacklogArticle{Article: a, Received: came})
		}
	}
	covered = recentFor
	if len(doc.Entries) >= fullDocument {
		covered = min(recentFor, max(now.Sub(oldest), now.Sub(s.Since)))
	}
	return late, covered
}

// matchesOf returns those of some articles that match a query.
func matchesOf(q *query.Expr, late []cobra.BacklogArticle) (of []cobra.BacklogArticle) {
	articles := make([]*cobra.Article, len(late))
	for i := range late {
		articles[i] = late[i].Article
	}
	for _, i := range cobra.Preview(q, articles) {
		of = append(of, late[i])
	}
	return of
}

// Preview tries a query on the articles of late; see proxy.Keywords.
func (d *Daemon) Preview(ctx context.Context, text string) (p proxy.Preview, err error) {
	q, err := query.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	late, of, err := d.recently(ctx, false)
	if err != nil {
		return p, err
	}
	return previewOf(q, late, of, time.Now()), nil
}

// previewOf says what a query would have matched of late.
func previewOf(q *query.Expr, late []cobra.BacklogArticle, covers covers, now time.Time) proxy.Preview {
	match := matchesOf(q, late)
	p := proxy.Preview{Query: q.String(), Hints: q.Hints()}
	for _, l := range match {
		if !l.Received.Before(covers.since) {
			p.PerDay += covers.perDay(l.Article.Feed, now)
		}
	}
	from := func(of []cobra.BacklogArticle, begin time.Time) int {
		n := slices.IndexFunc(of, func(l cobra.BacklogArticle) bool { return !l.Received.Before(begin) })
		if n < 0 {
			return 0
		}
		return len(of) - n
	}
	// A day is enough where it has articles enough, and else all is looked at that is there.
	begin := now.Add(-24 * time.Hour)
	if begin.Before(covers.since) || from(late, begin) < enough {
		begin = covers.since
	}
	p.Of, p.Matching, p.Time = from(late, begin), from(match, begin), now.Sub(begin)
	for _, l := range slices.Backward(match) {
		if len(p.Entries) == shown {
			break
		}
		p.Entries = append(p.Entries, entryOf(&cobra.StoredArticle{Article: *l.Article, Received: l.Received}))
	}
	return p
}

// enough is how many articles of a day say what a day is like.
const enough = 50
