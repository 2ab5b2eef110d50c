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
func (l *arrivals) add(a *cobra.Article, now time.Time) {
	came := arrivalTime(a, now)
	if now.Sub(came) < maxNewAge {
		came = now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.articles = append(l.articles, arrival{cobra.Late{Article: trimmed(a), Came: came}, now})
	l.size += l.articles[len(l.articles)-1].Article.Size()
	n := 0
	for n < len(l.articles) && (len(l.articles)-n > maxRecent || l.size > maxRecentBytes || now.Sub(l.articles[n].at) > l.maxAge) {
		l.size -= l.articles[n].Article.Size()
		l.completeSince = l.articles[n].at
		l.articles[n] = arrival{} // frees the article, which the array would keep
		n++
	}
	l.articles = l.articles[n:]
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
func (l *arrivals) clear(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.articles, l.size, l.completeSince = nil, 0, now
}

// forgetFeed drops the articles of a feed.
func (l *arrivals) forgetFeed(url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.articles = slices.DeleteFunc(l.articles, func(a arrival) bool {
		if a.Article.Feed != url {
			return false
		}
		l.size -= a.Article.Size()
		return true
	})
}

// appendAll appends all articles to a list, and returns the time since which none is missing.
func (l *arrivals) appendAll(articles []cobra.Late) ([]cobra.Late, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.articles {
		articles = append(articles, l.articles[i].Late)
	}
	return articles, l.completeSince
}

// after returns the articles that arrived at a time or later.
func (l *arrivals) after(at time.Time) (articles []cobra.Late) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.articles {
		if !l.articles[i].at.Before(at) {
			articles = append(articles, l.articles[i].Late)
		}
	}
	return articles
}
