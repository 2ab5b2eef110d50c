package tiers

import (
	"time"

	"tidings/cobra"
	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// A strandedArticle was queued for a receiver that has left the plan before it acknowledged the article, and is gone. Filters have no
// other copy of what they match, so that a crawler queues the article for the filters of the present plan. A reflector takes its
// searches with it when it goes, so that a filter drops the article.
type strandedArticle struct {
	*queued
	to env.PeerID
}

// strand takes from a link what its receiver has not acknowledged.
func (o *outbox) strand(l *outLink) {
	for _, q := range l.pending {
		o.stranded = append(o.stranded, strandedArticle{q, l.to.Peer.ID})
		l.acked = q.position
	}
	l.pending, l.bytes, l.sent, l.received = nil, 0, 0, max(l.received, l.acked)
}

// rescue queues stranded articles again or drops them. A crawler gives up a filter that is gone without another change of the plan or a
// restart; if it has left the plan itself, it has no other filters, and waits.
func (t *Tiers) rescue(now time.Time) {
	o, crawls := t.out, t.crawler != nil && !t.retired()
	for _, l := range o.links {
		if crawls && len(l.pending) > 0 && o.gone(&t.plans, l, now) {
			o.strand(l)
		}
	}
	if len(o.stranded) == 0 {
		return
	}
	var ops []env.Op
	var written []*queued
	again := map[uint64]bool{} // by position: some were for two filters that are gone
	for i, s := range o.stranded {
		if crawls && !again[s.position] {
			again[s.position] = true
			q, more := t.requeue(s.article)
			ops, written = append(ops, more...), append(written, q...)
		}
		if s.waiting--; s.waiting == 0 {
			ops = append(ops, env.Op{Key: queuedKey(s.position)})
		}
		if i == len(o.stranded)-1 || o.stranded[i+1].to != s.to { // the last one of the receiver, which is done now
			ops = append(ops, env.Op{Key: linkKey(s.to), Value: wire.Encode(&tierspb.Link{Acked: s.position})})
		}
	}
	o.stranded = nil
	o.store.Commit(ops, func(err error) { o.written(written, err) })
}

// requeue queues an article for the filters of the present plan. At those that have matched it already it matches again, and the
// reflectors drop what they have.
func (t *Tiers) requeue(article []byte) (written []*queued, ops []env.Op) {
	a, err := cobra.DecodeArticle(article)
	if err != nil {
		t.failed("stranded article")(err)
		return nil, nil
	}
	links := t.plans.linksTo(t.out, a.Feed)
	if len(links) == 0 {
		return nil, nil // the plan has no filters for this crawler
	}
	q, ops := t.out.appendTo(links, article)
	if f := t.crawler.feeds[a.Feed]; f != nil {
		f.last = t.out.last
	}
	t.stats.Rescued++
	return []*queued{q}, ops
}
