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
	// maxHeartbeatPause bounds the time between two looks at a feed that is not due, because its publisher may choose another interval.
	maxHeartbeatPause = time.Minute
)

// runHeartbeats publishes a heartbeat for each feed of the node's signer, once in a heartbeat interval.
// If a feed has none for two intervals, other nodes assume that its publisher is gone. A failed heartbeat is
// tried again after a quarter of the interval.
func (b *publishing) runHeartbeats(ctx context.Context) {
	tick := time.NewTicker(heartbeatCheckInterval)
	defer tick.Stop()
	lookAt := map[string]time.Time{} // by URL; a key may publish thousands of feeds
	for {
		for url, accepted := range b.signer.Feeds() {
			if time.Until(lookAt[url]) > 0 {
				continue
			}
			interval, err := b.heartbeatInterval(ctx, url)
			if err != nil {
				break
			}
			silence := interval * 3 / 4
			pause := min(silence-b.queues.sinceLastPush(url), maxHeartbeatPause)
			if pause <= 0 {
				if err := b.publishHeartbeat(ctx, url, accepted, silence); err != nil && ctx.Err() == nil {
					b.log.Warn("heartbeat for a published feed failed", "url", url, "err", err)
				}
				pause = interval / 4
			}
			lookAt[url] = time.Now().Add(pause)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
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
