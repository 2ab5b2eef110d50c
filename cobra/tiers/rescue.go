package tiers

import (
	"slices"
	"time"

	"tidings/cobra"
	"tidings/internal/env"
)

// rescue takes care of what receivers that are gone have not acknowledged. Only the crawler has an article that a filter has not taken,
// so it queues the article for the filters of the present plan. Filters that have matched it already match it again, and reflectors drop
// what they have. A reflector takes its searches with it when it goes, so a filter drops the article. A crawler that has left the plan itself
// has no other filters, and keeps the article.
func (t *Tiers) rescue(now time.Time) {
	o := t.out
	if t.crawler != nil && t.retired() {
		return
	}
	if t.crawler != nil {
		o.links = slices.DeleteFunc(o.links, func(l *outLink) bool {
			gone := o.gone(&t.plans, l, now)
			if gone {
				o.lost = append(o.lost, l)
			}
			return gone
		})
	}
	for _, l := range o.lost {
		if len(l.pending) > 0 {
			t.giveUp(l)
		}
	}
	o.lost = nil
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
