package cobra

import (
	"slices"
	"time"

	"tidings/cobra/index"
	"tidings/internal/feed"
)

// A BacklogArticle is an article that was received before a subscription that it matches.
type BacklogArticle struct {
	Article  *Article
	Received time.Time
}

// backlogNumbers remembers the numbers of articles that were stored for new subscriptions. Such
// an article may still reach the reflector through a feed, and other new subscriptions may
// start with it, too.
type backlogNumbers struct {
	numbers map[uint64][]uint32 // by articleHash, ascending
}

const (
	// maxBacklogArticles bounds the articles. When it is reached all are forgotten: an article
	// may then be stored twice, and Feed.Read still shows it once.
	maxBacklogArticles = 1 << 14
	// maxBacklogNumbers bounds the numbers of one article; the oldest are forgotten first.
	maxBacklogNumbers = 8
)

// The backlog of one subscription may use 1/backlogShare of Config.MaxPendingBytes. Half of it
// would already shorten other articles.
const backlogShare = 4

func (e *backlogNumbers) of(a *Article) []uint32 {
	if a.ID == (feed.ID{}) {
		return nil
	}
	return e.numbers[articleHash(a.Feed, a.ID)]
}

func (e *backlogNumbers) add(a *Article, n uint32) {
	if e.numbers == nil || len(e.numbers) >= maxBacklogArticles {
		e.numbers = map[uint64][]uint32{}
	}
	hash := articleHash(a.Feed, a.ID)
	of := append(e.numbers[hash], n)
	e.numbers[hash] = of[max(0, len(of)-maxBacklogNumbers):]
}

func (e *backlogNumbers) remove(a *Article, n uint32) {
	hash := articleHash(a.Feed, a.ID)
	of := slices.DeleteFunc(e.numbers[hash], func(other uint32) bool { return other == n })
	if e.numbers[hash] = of; len(of) == 0 {
		delete(e.numbers, hash)
	}
}

// hasFromBacklog reports whether a clause's ring has an article from the backlog.
func (r *Reflector) hasFromBacklog(id index.ClauseID, a *Article) bool {
	return slices.ContainsFunc(r.backlog.of(a), func(n uint32) bool { return r.rings.Contains(id, n) })
}

// addBacklog adds matching articles of the backlog to the rings of new clauses: the newest ones,
// as many as a ring holds, and no more bytes than a part of MaxPendingBytes. It sorts the
// backlog, which may contain duplicates.
func (r *Reflector) addBacklog(ids []index.ClauseID, backlog []BacklogArticle) {
	type match struct {
		backlog BacklogArticle
		ids     []index.ClauseID
	}
	var matches []match
	counts := map[index.ClauseID]int{}
	fullRings, room := 0, r.config.MaxPendingBytes/backlogShare
	slices.SortStableFunc(backlog, func(a, b BacklogArticle) int { return a.Received.Compare(b.Received) })
	seen := map[uint64]bool{}
	for _, l := range slices.Backward(backlog) {
		if fullRings == len(ids) || room < 0 {
			break
		}
		hits := slices.DeleteFunc(r.filter.Match(l.Article), func(n index.ClauseID) bool {
			return !slices.Contains(ids, n) || counts[n] == r.config.ArticlesPerFeed
		})
		hash := articleHash(l.Article.Feed, l.Article.ID)
		if len(hits) == 0 || seen[hash] {
			continue
		}
		seen[hash] = l.Article.ID != feed.ID{}
		for _, n := range hits {
			if counts[n]++; counts[n] == r.config.ArticlesPerFeed {
				fullRings++
			}
		}
		room -= int64(l.Article.Size())
		matches = append(matches, match{l, slices.Clone(hits)})
	}
	// A ring holds articles in the order of their numbers, and a new article replaces the
	// lowest number. Numbers must therefore ascend with the time of arrival. If an article's
	// present number is lower than that of the article before it, the article gets another
	// number.
	previous := uint32(0)
	for _, b := range slices.Backward(matches) {
		a := b.backlog.Article
		at := slices.IndexFunc(r.backlog.of(a), func(n uint32) bool { return n > previous && r.articles.has(n) })
		if at >= 0 {
			previous = r.backlog.of(a)[at]
		} else {
			m, n := a.toProto(), r.articles.last+1
			m.FromBacklog = true
			if !r.storeArticle(m, b.backlog.Received, func() { r.backlog.remove(a, n) }) {
				continue
			}
			previous = n
			r.backlog.add(a, n)
		}
		r.articles.sweeper.mark(previous)
		r.rings.Put(previous, b.ids)
	}
}

// initialRings encodes the rings of a new subscription for its record, because the page of its
// rings is written later. Until then the articles would be lost if another subscription with
// the same clauses ended. The result is nil if all rings are empty.
func (r *Reflector) initialRings(number SubscriptionID) (b []byte) {
	found := false
	for _, n := range r.filter.ClauseIDs(number) {
		ring := r.rings.Newest(n, nil)
		found = found || len(ring) > 0
		b = appendRing(b, ring)
	}
	if !found {
		return nil
	}
	return b
}
