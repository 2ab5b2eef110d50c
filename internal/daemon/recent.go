package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/cobra"
	"tidings/cobra/query"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/proxy"
)

// recent is the articles of late: a query is tried on them, and who watches it begins with those that
// match. Those of the channels that the node subscribes to are put together of their documents when
// somebody asks; a filter keeps those that it is brought.
type recent struct {
	mu      sync.Mutex // held while they are put together: who asks meanwhile waits for the same
	at      time.Time
	late    []cobra.Late // the oldest first
	since   time.Time    // none is missing that came from then on
	brought brought
}

// brought is what a filter was brought of late, since its start.
type brought struct {
	mu    sync.Mutex
	late  []arrival // in order
	size  int       // of their contents, in bytes
	since time.Time // from then on all are there
}

// An arrival is an article, and when a filter was brought it.
type arrival struct {
	cobra.Late
	at time.Time
}

// add keeps an article; the oldest go for it where there are too many.
func (b *brought) add(a *cobra.Article, now time.Time) {
	kept := *a
	kept.HTML = strings.ToValidUTF8(strings.Clone(a.HTML[:min(len(a.HTML), cobra.MaxHTML)]), "") // and not the message it came in
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = append(b.late, arrival{cobra.Late{Article: &kept, Came: cameOf(a, now)}, now})
	b.size += len(kept.HTML)
	n := 0
	for n < len(b.late) && (len(b.late)-n > maxRecent || b.size > recentBytes || now.Sub(b.late[n].at) > recentFor) {
		b.size -= len(b.late[n].Article.HTML)
		b.since = b.late[n].at
		b.late[n] = arrival{} // for what is behind it in the array
		n++
	}
	b.late = b.late[n:]
}

// all appends them, and says since when none is missing.
func (b *brought) all(late []cobra.Late) ([]cobra.Late, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.late {
		late = append(late, b.late[i].Late)
	}
	return late, b.since
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
	// recentFor is how late they are; recentTime is how long they are good enough.
	recentFor  = 7 * 24 * time.Hour
	recentTime = time.Minute
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

// recently returns the articles of late, the oldest first, and since when none is missing.
func (d *Daemon) recently(ctx context.Context) ([]cobra.Late, time.Time, error) {
	r := &d.keywords.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.at) < recentTime {
		return r.late, r.since, nil
	}
	late, err := d.subscribedLate(ctx, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	since := now.Add(-recentFor)
	if d.config.Filter {
		var begun time.Time
		if late, begun = r.brought.all(late); begun.After(since) {
			since = begun
		}
	}
	// The newest first; one that came in two ways is once there.
	slices.SortStableFunc(late, func(a, b cobra.Late) int { return b.Came.Compare(a.Came) })
	type name struct {
		feed string
		id   feed.ID
	}
	seen := make(map[name]bool, len(late))
	late = slices.DeleteFunc(late, func(l cobra.Late) bool {
		of := name{l.Article.Feed, l.Article.ID}
		twice := seen[of]
		seen[of] = true
		return twice
	})
	n, size := 0, 0
	for n < min(len(late), maxRecent) && size < recentBytes {
		size += len(late[n].Article.HTML)
		n++
	}
	if n < len(late) && late[n].Came.After(since) {
		since = late[n].Came
	}
	late = late[:n:n]
	slices.Reverse(late)
	r.at, r.late, r.since = now, late, since
	return late, since, nil
}

// subscribedLate returns the articles of late of the channels that the node subscribes to.
func (d *Daemon) subscribedLate(ctx context.Context, now time.Time) (late []cobra.Late, err error) {
	var subscriptions []feedtree.Subscription
	if err := d.do(ctx, func() { subscriptions = d.node.Feeds.Subscriptions() }); err != nil {
		return nil, err
	}
	for _, s := range subscriptions[:min(len(subscriptions), maxRecentChannels)] {
		doc, err := ask(ctx, d, func(answer func(feedtree.Document)) { d.node.Feeds.Read(s.Key, answer) })
		if err != nil {
			return nil, err
		}
		for _, e := range doc.Entries {
			if now.Sub(e.At) > recentFor || len(e.Item.Raw) == 0 {
				continue
			}
			a, ok := articleOf(s, &e.Item)
			if !ok {
				continue
			}
			if came := cameOf(a, e.At); now.Sub(came) <= recentFor {
				late = append(late, cobra.Late{Article: a, Came: came})
			}
		}
	}
	return late, nil
}

// matchesOf returns those of some articles that match a query.
func matchesOf(q *query.Expr, late []cobra.Late) (of []cobra.Late) {
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
	late, since, err := d.recently(ctx)
	if err != nil {
		return p, err
	}
	return previewOf(q, late, since, time.Now()), nil
}

// previewOf says what a query would have matched of late: of articles since when, none is missing.
func previewOf(q *query.Expr, late []cobra.Late, since, now time.Time) proxy.Preview {
	match := matchesOf(q, late)
	p := proxy.Preview{Query: q.String(), Hints: q.Hints()}
	from := func(of []cobra.Late, begin time.Time) int {
		n := slices.IndexFunc(of, func(l cobra.Late) bool { return !l.Came.Before(begin) })
		if n < 0 {
			return 0
		}
		return len(of) - n
	}
	// A day is enough where it has articles enough, and else all is looked at that is there.
	begin := now.Add(-24 * time.Hour)
	if begin.Before(since) || from(late, begin) < enough {
		begin = since
	}
	p.Of, p.Matching, p.Time = from(late, begin), from(match, begin), now.Sub(begin)
	for _, l := range slices.Backward(match) {
		if len(p.Entries) == shown {
			break
		}
		p.Entries = append(p.Entries, entryOf(&cobra.Kept{Article: *l.Article, Seen: l.Came}))
	}
	return p
}

// enough is how many articles of a day say what a day is like.
const enough = 50
