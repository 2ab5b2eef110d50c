package daemon

import (
	"context"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
)

const (
	// heartbeatCheckInterval is the time between two checks whether feeds published here are due for a heartbeat.
	heartbeatCheckInterval = time.Second
	// maxHeartbeatPause bounds the time between two looks at a feed that is not due, because its publisher may choose a shorter
	// interval, and because the last push may have failed.
	maxHeartbeatPause = 10 * time.Second
)

// runHeartbeats publishes a heartbeat for each feed of the node's signer, once in a heartbeat interval.
// If a feed has none for two intervals, other nodes assume that its publisher is gone. A failed heartbeat is
// tried again after a quarter of the interval.
func (b *publishing) runHeartbeats(ctx context.Context) {
	tick := time.NewTicker(heartbeatCheckInterval)
	defer tick.Stop()
	plans := map[string]*heartbeatPlan{} // by URL; a key may publish thousands of feeds
	for {
		for url, accepted := range b.signer.Feeds() {
			plan := plans[url]
			if plan == nil {
				plan = &heartbeatPlan{}
				plans[url] = plan
			}
			if time.Now().Before(plan.lookAt) {
				continue
			}
			interval, err := b.heartbeatInterval(ctx, url)
			if err != nil {
				break
			}
			if !plan.due(time.Now(), interval, b.queues.sinceLastPush(url)) {
				continue
			}
			if err := b.publishHeartbeat(ctx, url, accepted, silenceOf(interval)); err != nil && ctx.Err() == nil {
				b.log.Warn("heartbeat for a published feed failed", "url", url, "err", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// silenceOf returns the time after a push when a heartbeat is due.
func silenceOf(interval time.Duration) time.Duration { return interval * 3 / 4 }

// A heartbeatPlan says when to look at a feed again. What it decides depends on the present interval only, because the node may
// learn of another one at any time, also from the push of a heartbeat.
type heartbeatPlan struct {
	triedAt, lookAt time.Time
}

// due reports whether a heartbeat is to be tried now, in a feed with a heartbeat interval, given the time since its last push.
func (p *heartbeatPlan) due(now time.Time, interval, sincePush time.Duration) bool {
	wait := max(silenceOf(interval)-sincePush, interval/4-now.Sub(p.triedAt))
	if wait > 0 {
		p.lookAt = now.Add(min(wait, maxHeartbeatPause))
		return false
	}
	p.triedAt, p.lookAt = now, now // the next check looks at its outcome
	return true
}

// heartbeatInterval returns the heartbeat interval of a feed: its publisher's, or else the network's.
func (b *publishing) heartbeatInterval(ctx context.Context, url string) (interval time.Duration, err error) {
	err = b.do(ctx, func() {
		interval = b.network.BeatInterval
		if s, ok := b.node.NodeOf(b.key(url)).Feeds.Subscription(b.key(url)); ok && s.Publisher != nil && s.Publisher.Beat > 0 {
			interval = s.Publisher.Beat
		}
	})
	return interval, err
}

// publishHeartbeat publishes a heartbeat, unless something was pushed within minSilence. accepted says that the
// network has accepted items of the feed, so it knows the feed's key; if this node does not know the key yet,
// it waits. A first item that was never accepted is pushed again.
func (b *publishing) publishHeartbeat(ctx context.Context, url string, accepted bool, minSilence time.Duration) error {
	turn, err := b.queues.begin(ctx, url, nil)
	if err != nil {
		return err
	}
	defer turn.end()
	if signed, _ := b.signer.Signed(url); !signed || b.queues.sinceLastPush(url) < minSilence {
		return nil // the first item was refused meanwhile, or a heartbeat is not due yet
	}
	// Items that were signed earlier are sent even if the origin cannot be read.
	if err := b.subscriptions.subscribeTentatively(ctx, url); err != nil {
		return err
	}
	p, err := b.awaitPublisher(ctx, url)
	if err != nil || accepted && len(p.Key) == 0 {
		return err
	}
	if err := b.checkKey(&p); err != nil {
		return err
	}
	var head feed.Hash
	copy(head[:], p.Head)
	seq, head := turn.predecessor(p.Seq, head)
	return b.signer.PushHeartbeat(url, seq, head, time.Now(), func(p *difference.Publication) error {
		return b.pushSigned(ctx, turn, []*difference.Publication{p}, nil)[0]
	})
}
