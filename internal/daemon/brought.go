package daemon

import (
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/cobra"
)

// brought is what the reflector was brought of late, since the node's start.
type brought struct {
	keep  time.Duration
	mu    sync.Mutex
	late  []arrival // in order
	size  int       // of all articles, in bytes
	since time.Time // from then on all are there
}

// An arrival is an article, and when it was brought.
type arrival struct {
	cobra.BacklogArticle
	at time.Time
}

// freshFor is how long ago an article may say that it was published to count as new when it is brought: feeds
// are polled a while later. One of before was in a feed that somebody has just subscribed to.
const freshFor = 24 * time.Hour

// add keeps an article; the oldest go for it where there are too many.
func (b *brought) add(a *cobra.Article, now time.Time) {
	came := cameOf(a, now)
	if now.Sub(came) < freshFor {
		came = now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = append(b.late, arrival{cobra.BacklogArticle{Article: cut(a), Received: came}, now})
	b.size += b.late[len(b.late)-1].Article.Size()
	n := 0
	for n < len(b.late) && (len(b.late)-n > maxRecent || b.size > recentBytes || now.Sub(b.late[n].at) > b.keep) {
		b.size -= b.late[n].Article.Size()
		b.since = b.late[n].at
		b.late[n] = arrival{} // for what is behind it in the array
		n++
	}
	b.late = b.late[n:]
}

// cut is an article as it is kept: as much of its content as is matched, and nothing of the message that it
// came in.
func cut(a *cobra.Article) *cobra.Article {
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

// release gives them all back, where memory is short.
func (b *brought) release(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late, b.size, b.since = nil, 0, now
}

// forget gives back those of a channel.
func (b *brought) forget(url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = slices.DeleteFunc(b.late, func(a arrival) bool {
		if a.Article.Feed != url {
			return false
		}
		b.size -= a.Article.Size()
		return true
	})
}

// all appends them, and says since when none is missing.
func (b *brought) all(late []cobra.BacklogArticle) ([]cobra.BacklogArticle, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.late {
		late = append(late, b.late[i].BacklogArticle)
	}
	return late, b.since
}

// after returns those that were brought from a time on.
func (b *brought) after(at time.Time) (late []cobra.BacklogArticle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.late {
		if !b.late[i].at.Before(at) {
			late = append(late, b.late[i].BacklogArticle)
		}
	}
	return late
}
