package daemon

import (
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/cobra"
)

// arrivals holds the articles that the reflector received lately, since the node's start.
type arrivals struct {
	maxAge        time.Duration
	mu            sync.Mutex
	articles      []arrival // in order of arrival
	size          int       // of all articles, in bytes
	completeSince time.Time // no article that arrived after it is missing
}

// An arrival is an article and the time of its arrival.
type arrival struct {
	cobra.Late
	at time.Time
}

// maxNewAge is the age up to which an article counts as new on arrival, because feeds are polled some time
// after an article's publication. Older articles are the backlog of a new subscription.
const maxNewAge = 24 * time.Hour

// add appends an article. The oldest articles are dropped if there are too many, or if they are too large or
// too old.
func (b *arrivals) add(a *cobra.Article, now time.Time) {
	came := arrivalTime(a, now)
	if now.Sub(came) < maxNewAge {
		came = now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.articles = append(b.articles, arrival{cobra.Late{Article: trimmed(a), Came: came}, now})
	b.size += b.articles[len(b.articles)-1].Article.Size()
	n := 0
	for n < len(b.articles) && (len(b.articles)-n > maxRecent || b.size > maxRecentBytes || now.Sub(b.articles[n].at) > b.maxAge) {
		b.size -= b.articles[n].Article.Size()
		b.completeSince = b.articles[n].at
		b.articles[n] = arrival{} // lets its memory go: the array stays
		n++
	}
	b.articles = b.articles[n:]
}

// trimmed returns a copy of an article with only as much content as is matched. The copy shares no memory
// with the message that brought the article.
func trimmed(a *cobra.Article) *cobra.Article {
	kept := *a
	kept.HTML = strings.ToValidUTF8(a.HTML[:min(len(a.HTML), cobra.MaxHTML)], "")
	for _, text := range []*string{&kept.Link, &kept.Title, &kept.Author, &kept.HTML} {
		*text = strings.Clone(*text)
	}
	kept.Tags = slices.Clone(a.Tags)
	for i := range kept.Tags {
		kept.Tags[i] = strings.Clone(kept.Tags[i])
	}
	return &kept
}

// clear drops all articles when memory is short.
func (b *arrivals) clear(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.articles, b.size, b.completeSince = nil, 0, now
}

// forgetFeed drops the articles of a feed.
func (b *arrivals) forgetFeed(url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.articles = slices.DeleteFunc(b.articles, func(a arrival) bool {
		if a.Article.Feed != url {
			return false
		}
		b.size -= a.Article.Size()
		return true
	})
}

// appendAll appends all articles to a list, and returns the time since which none is missing.
func (b *arrivals) appendAll(articles []cobra.Late) ([]cobra.Late, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.articles {
		articles = append(articles, b.articles[i].Late)
	}
	return articles, b.completeSince
}

// after returns the articles that arrived at a time or later.
func (b *arrivals) after(at time.Time) (articles []cobra.Late) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.articles {
		if !b.articles[i].at.Before(at) {
			articles = append(articles, b.articles[i].Late)
		}
	}
	return articles
}
