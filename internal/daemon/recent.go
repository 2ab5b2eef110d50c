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

// recent is the articles of late in the channels that the node subscribes to: a query is tried on
// them, and who watches it begins with those that match. It is put together when somebody asks.
type recent struct {
	mu   sync.Mutex // held while they are put together: who asks meanwhile waits for the same
	at   time.Time
	late []cobra.Late
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

// recent returns the articles of late, the oldest first.
func (d *Daemon) recently(ctx context.Context) ([]cobra.Late, error) {
	r := &d.keywords.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.at) < recentTime {
		return r.late, nil
	}
	var subscriptions []feedtree.Subscription
	if err := d.do(ctx, func() { subscriptions = d.node.Feeds.Subscriptions() }); err != nil {
		return nil, err
	}
	var late []cobra.Late
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
			came := e.At
			if !a.Published.IsZero() && a.Published.Before(came) {
				came = a.Published
			}
			if now.Sub(came) <= recentFor {
				late = append(late, cobra.Late{Article: a, Came: came})
			}
		}
	}
	slices.SortStableFunc(late, func(a, b cobra.Late) int { return b.Came.Compare(a.Came) })
	n, size := 0, 0
	for n < min(len(late), maxRecent) && size < recentBytes {
		size += len(late[n].Article.HTML)
		n++
	}
	late = late[:n:n]
	slices.Reverse(late)
	r.at, r.late = now, late
	return late, nil
}

// matching returns those of the articles of late that match a query.
func (d *Daemon) matching(ctx context.Context, q *query.Expr) (late, matching []cobra.Late, err error) {
	if late, err = d.recently(ctx); err != nil {
		return nil, nil, err
	}
	articles := make([]*cobra.Article, len(late))
	for i := range late {
		articles[i] = late[i].Article
	}
	for _, i := range cobra.Preview(q, articles) {
		matching = append(matching, late[i])
	}
	return late, matching, nil
}

// Preview tries a query on the articles of late; see proxy.Keywords.
func (d *Daemon) Preview(ctx context.Context, text string) (p proxy.Preview, err error) {
	q, err := query.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	late, matching, err := d.matching(ctx, q)
	if err != nil {
		return p, err
	}
	p.Query, p.Days = q.String(), 1
	// A day is enough where it has articles enough, and else the week is looked at.
	day := func(of []cobra.Late) int {
		yesterday := time.Now().Add(-24 * time.Hour)
		return len(of) - slices.IndexFunc(append(of, cobra.Late{Came: yesterday}), func(l cobra.Late) bool { return !l.Came.Before(yesterday) })
	}
	p.Of, p.Matching = day(late), day(matching)
	if p.Of < enough {
		p.Of, p.Matching, p.Days = len(late), len(matching), int(recentFor/(24*time.Hour))
	}
	for _, l := range slices.Backward(matching) {
		if len(p.Entries) == shown {
			break
		}
		p.Entries = append(p.Entries, entryOf(&cobra.Kept{Article: *l.Article, Seen: l.Came}))
	}
	return p, nil
}

// enough is how many articles of a day say what a day is like.
const enough = 50
