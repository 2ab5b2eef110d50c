package tiers

import (
	"time"

	"tidings/cobra"
	"tidings/internal/env"
)

// rescue takes care of what receivers that are gone have not acknowledged. Filters have no other copy of an article, so a crawler queues it
// for the filters of the present plan; at those that have matched it already it matches again, and reflectors drop what they have. A
// reflector takes its searches with it when it goes, so a filter drops the article. A crawler that has left the plan itself has no other
// filters, and keeps it.
func (t *Tiers) rescue(now time.Time) {
	if t.crawler != nil && t.retired() {
		return
	}
	gone := t.out.lost
	t.out.lost = nil
	for _, l := range t.out.links {
		if t.crawler != nil && !l.givenUp && t.out.gone(&t.plans, l, now) {
			gone = append(gone, l)
		}
	}
	for _, l := range gone {
		if len(l.pending) > 0 {
			l.givenUp = true
			t.giveUp(l)
		}
	}
}

// giveUp ends what is pending for a receiver, when copies of it are durable.
func (t *Tiers) giveUp(l *outLink) {
	last := l.pending[len(l.pending)-1].position
	if t.crawler == nil {
		t.out.done(l, last)
		return
	}
	var ops []env.Op
	var written []*queued
	for _, q := range l.pending {
		again, more := t.requeue(q.article)
		ops, written = append(ops, more...), append(written, again...)
	}
	t.store.Commit(ops, func(err error) {
		if t.out.written(written, err); err == nil {
			t.out.done(l, last)
		}
	})
}

// requeue queues an article for the filters of the present plan.
func (t *Tiers) requeue(article []byte) (written []*queued, ops []env.Op) {
	a, err := cobra.DecodeArticle(article)
	if err != nil {
		t.stats.Garbage++
		return nil, nil
	}
	q, ops := t.out.appendTo(t.plans.linksTo(t.out, a.Feed), article)
	if q.waiting > 0 {
		t.stats.Rescued++
	}
	if f := t.crawler.feeds[a.Feed]; f != nil {
		f.last = t.out.last
	}
	return []*queued{q}, ops
}
