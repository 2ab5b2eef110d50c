package daemon

import (
	"sync/atomic"
	"time"

	"tidings/cobra"
	"tidings/internal/env"
)

// tierArticles are the articles that the filters of a hosting centre have sent to this node, a reflector. The credit of
// its links bounds them. They are owned by the loop of keywords.
type tierArticles struct {
	hosted  bool         // the node is part of a hosting centre
	drop    bool         // do not wait for room
	matched atomic.Int64 // nanoseconds spent on articles
	waiting []tierArticle
}

type tierArticle struct {
	article *cobra.Article
	done    func(ok bool)
}

// tierKey is the key of a record that is written after each article, whose own records are durable before it.
const tierKey = "tier"

// reflect takes an article of a filter and calls done, on the loop of keywords, when it is stored. Articles wait while the
// reflector keeps nothing for lack of room, unless the plan says that they are dropped.
func (k *keywords) reflect(a *cobra.Article, done func(ok bool)) {
	k.loop.Deliver(func() {
		k.tier.waiting = append(k.tier.waiting, tierArticle{a, done})
		k.tier.run(k)
	})
}

// run stores the articles that wait, as long as there is room.
func (t *tierArticles) run(k *keywords) {
	for len(t.waiting) > 0 && (t.drop || k.reflector.Stats().Level < 2) {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		lost := false
		began := time.Now()
		k.receive(next.article, func() { lost = true })
		t.matched.Add(int64(time.Since(began)))
		k.store.Commit([]env.Op{{Key: []byte(tierKey), Value: []byte{1}}}, func(err error) { next.done(err == nil && !lost) })
	}
}
