package tree

import (
	"runtime"
	"time"

	"tidings/overlay/scribe"
)

// idle measures what hosts send while nothing is published.
func (g *treeHosts) idle(r *Result) error {
	if err := g.bench.wait(g.ctx, "trees forget", g.bench.ForgetTime); err != nil {
		return err
	}
	before, err := g.sent()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := g.bench.wait(g.ctx, "trees rest", g.bench.Idle); err != nil {
		return err
	}
	after, err := g.sent()
	all, took := sum(after).since(sum(before)), time.Since(began)
	r.IdleS = took.Seconds()
	r.OverlayMessagesAfter, r.OverlayBytesAfter = g.rate(all.overlay, took)
	r.IdleKinds = map[string]Count{"carried by the overlay": all.carrying}
	for kind, c := range all.scribe {
		if c.Messages > 0 {
			r.IdleKinds[nameOf(kind)] = c
		}
	}
	all.scribe[0] = all.carrying
	r.IdleMessages, r.IdleBytes = g.rate(all.trees(), took)
	return err
}

// linkCloseTime is a little more than the time after which unused links close; until then the heap
// shrinks by itself.
const linkCloseTime = 200 * time.Second

// measureHeap removes all trees, waits until unused links have closed, and measures how much memory
// is freed when the trees are dropped.
func (g *treeHosts) measureHeap(r *Result) error {
	held := make([]*scribe.Scribe, len(g.hosts))
	if err := g.each(func(i int, h *host) { held[i] = h.removeScribe() }); err != nil {
		return err
	}
	if err := g.bench.wait(g.ctx, "links close", min(linkCloseTime, g.bench.ForgetTime)); err != nil {
		return err
	}
	with, noise := liveHeap()
	runtime.KeepAlive(held)
	held = nil
	without, more := liveHeap()
	r.HeapPerSubscription = (with - without) / float64(g.plan.subscriptions)
	r.HeapNoise = (noise + more) / float64(g.plan.subscriptions)
	return nil
}

// rate returns a count per host and second.
func (g *treeHosts) rate(c Count, d time.Duration) (messages, bytes float64) {
	n := float64(len(g.hosts)) * d.Seconds()
	if n <= 0 {
		return 0, 0
	}
	return float64(c.Messages) / n, float64(c.Bytes) / n
}
