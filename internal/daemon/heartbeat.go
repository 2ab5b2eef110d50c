package daemon

import (
	"context"
	"time"

	"tidings/internal/feed"
)

// speakLook is the time between two looks whether a feed that is published here has been silent for too
// long.
const heartbeatCheckInterval = time.Second

// speak says for each feed that the node's author publishes that nothing is new, once in its
// beat interval: of one that says nothing for two of them all others think that its publisher is
// gone. What went wrong is tried again after a quarter of the interval.
func (d *Daemon) publishHeartbeats(ctx context.Context) {
	tick := time.NewTicker(heartbeatCheckInterval)
	defer tick.Stop()
	tried := map[string]time.Time{}
	for {
		for url, taken := range d.config.Signer.Feeds() {
			interval, err := d.heartbeatInterval(ctx, url)
			if err != nil || time.Since(tried[url]) < interval/4 {
				continue
			}
			tried[url] = time.Now()
			if err := d.publishHeartbeat(ctx, url, taken, interval*3/4); err != nil && ctx.Err() == nil {
				d.log.Warn("could not announce that nothing is new", "url", url, "err", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// beatOf is the beat interval of a feed: its publisher's, or else the network's.
func (d *Daemon) heartbeatInterval(ctx context.Context, url string) (interval time.Duration, err error) {
	err = d.do(ctx, func() {
		interval = d.dataDir.network.BeatInterval
		if s, ok := d.node.Feeds.Subscription(d.key(url)); ok && s.Publisher != nil && s.Publisher.Beat > 0 {
			interval = s.Publisher.Beat
		}
	})
	return interval, err
}

// alive says that nothing is new in a feed, unless something was said a while ago. Of a feed that has
// taken something the network knows the key, or will when this node has arrived; what nobody has ever
// taken is tried again.
func (d *Daemon) publishHeartbeat(ctx context.Context, url string, taken bool, minSilence time.Duration) error {
	turn, err := d.publishQueues.begin(ctx, url)
	if err != nil {
		return err
	}
	defer turn.end()
	if _, signed := d.config.Signer.Feeds()[url]; !signed || d.publishQueues.sinceLastPush(url) < minSilence {
		return nil // what was signed first was refused meanwhile
	}
	// Something is signed already: that goes out though the origin cannot be read.
	if err := d.subscribeTentatively(ctx, url); err != nil {
		return err
	}
	p, err := d.awaitPublisher(ctx, url)
	if err != nil || taken && len(p.Key) == 0 {
		return err
	}
	if err := d.checkKey(&p); err != nil {
		return err
	}
	var head feed.Hash
	copy(head[:], p.Head)
	seq, head := turn.predecessor(p.Seq, head)
	return d.config.Signer.PushHeartbeat(url, seq, head, time.Now(), func(envelope []byte) error { return d.pushSigned(ctx, url, envelope, turn, nil) })
}
