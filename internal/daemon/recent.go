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
// match. Those of the channels that the node subscribes to are in their documents, and what the reflector
// was brought is kept beside them: all that a filter hears for a week, else for the moment until it is in
// a document.
type recent struct {
	mu      sync.Mutex // held while documents are read: who asks meanwhile waits for the same
	at      time.Time  // when they were read
	late    []cobra.Late
	rates   rates
	brought brought
}

// rates say how many articles of a channel in a day one of its articles of late stands for.
type rates struct {
	share map[string]float64 // by its URL
	other float64            // of channels that are not there
}

func (r rates) of(url string) float64 {
	if s, ok := r.share[url]; ok {
		return s
	}
	return r.other
}

// brought is what the reflector was brought of late, since the node's start.
type brought struct {
	keep  time.Duration
	mu    sync.Mutex
	late  []arrival // in order
	size  int       // of their contents, in bytes
	since time.Time // from then on all are there
}

// An arrival is an article, and when it was brought.
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
	for n < len(b.late) && (len(b.late)-n > maxRecent || b.size > recentBytes || now.Sub(b.late[n].at) > b.keep) {
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

// after returns those that were brought from a time on.
func (b *brought) after(at time.Time) (late []cobra.Late) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.late {
		if !b.late[i].at.Before(at) {
			late = append(late, b.late[i].Late)
		}
	}
	return late
}

// begun is from when on all are there.
func (b *brought) begun() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since
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

// recently returns the articles of late, the oldest first, and what they say of a day. Whatever the reflector
// was brought before now is among them, and with fresh all that documents have.
func (d *Daemon) recently(ctx context.Context, fresh bool) ([]cobra.Late, rates, error) {
	r := &d.keywords.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if fresh || now.Sub(r.at) >= recentTime {
		late, of, err := d.subscribedLate(ctx, now)
		if err != nil {
			return nil, rates{}, err
		}
		r.at, r.late, r.rates = now, late, of
	}
	late, since := r.brought.all(slices.Clone(r.late))
	of := r.rates
	if d.config.Filter { // it hears of all alike
		of = rates{other: perDay(now.Sub(since))}
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
	late = newestOf(late)
	slices.Reverse(late)
	return late, of, nil
}

// newestOf returns as many of the newest as are looked at.
func newestOf(late []cobra.Late) []cobra.Late {
	n, size := 0, 0
	for n < min(len(late), maxRecent) && size < recentBytes {
		size += len(late[n].Article.HTML)
		n++
	}
	return late[:n:n]
}

// perDay is how many articles of a day one stands for that came in a time.
func perDay(in time.Duration) float64 {
	return float64(24*time.Hour) / float64(max(in, leastCovered))
}

// subscribedLate returns the articles of late of the channels that the node subscribes to.
func (d *Daemon) subscribedLate(ctx context.Context, now time.Time) (late []cobra.Late, of rates, err error) {
	of.share = map[string]float64{}
	var all []feedtree.Subscription
	if err := d.do(ctx, func() { all = d.node.Feeds.Subscriptions() }); err != nil {
		return nil, of, err
	}
	looked := all[:min(len(all), maxRecentChannels)]
	for _, s := range looked {
		type read struct {
			s   feedtree.Subscription
			doc feedtree.Document
		}
		is, err := ask(ctx, d, func(answer func(read)) {
			d.node.Feeds.Read(s.Key, func(doc feedtree.Document) {
				s, _ := d.node.Feeds.Subscription(s.Key) // whose title and language are known when it was read
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
		of.share[is.s.URL] = perDay(covered) * float64(len(all)) / float64(len(looked))
	}
	slices.SortStableFunc(late, func(a, b cobra.Late) int { return b.Came.Compare(a.Came) })
	return newestOf(late), of, nil
}

// lateOf returns a document's articles of late, and the time that these are all of.
func lateOf(s feedtree.Subscription, doc feedtree.Document, now time.Time) (late []cobra.Late, covered time.Duration) {
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
			late = append(late, cobra.Late{Article: a, Came: came})
		}
	}
	covered = recentFor
	if len(doc.Entries) >= fullDocument {
		covered = min(recentFor, max(now.Sub(oldest), now.Sub(s.Since)))
	}
	return late, covered
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
	late, of, err := d.recently(ctx, false)
	if err != nil {
		return p, err
	}
	now := time.Now()
	since := now.Add(-recentFor)
	if b := &d.keywords.recent.brought; d.config.Filter && b.begun().After(since) {
		since = b.begun()
	}
	return previewOf(q, late, of, since, now), nil
}

// previewOf says what a query would have matched of late.
func previewOf(q *query.Expr, late []cobra.Late, rates rates, since, now time.Time) proxy.Preview {
	match := matchesOf(q, late)
	p := proxy.Preview{Query: q.String(), Hints: q.Hints()}
	for _, l := range match {
		if !l.Came.Before(since) {
			p.PerDay += rates.of(l.Article.Feed)
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
