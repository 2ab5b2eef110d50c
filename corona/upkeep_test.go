package corona

import (
	"fmt"
	"testing"
	"time"

	"tidings/internal/env"
)

// A node that leads many channels wakes up for batches of them, and each channel's turn comes as often as that of few.
func TestManyChannelsAreKeptUpInBatches(t *testing.T) {
	for _, n := range []int{batchedChannels - 1, batchedChannels} {
		l := newLab(t)
		p := l.poller(Config{MaintenanceInterval: 10 * time.Minute, PollInterval: 30 * time.Minute})
		for i := range n {
			url := fmt.Sprintf("http://%d.example/", i)
			l.origins[url] = serves(rss("A", "", "one"))
			p.lead(url, nil)
			l.run(time.Millisecond, p)
		}
		l.run(2*idleCheck, p)
		for range 8 {
			wakeUps := map[env.Moment]bool{}
			for key, of := range p.sequencer.leaders {
				if wakeUps[of.upkeepAt] = true; !of.upkeepAt.After(l.now) || of.upkeepAt.After(l.now.Add(idleCheck)) {
					t.Fatalf("%d channels: %s is kept up in %v", n, key.Short(), of.upkeepAt.Time().Sub(l.now))
				}
			}
			if batched := n >= batchedChannels; batched && len(wakeUps) > upkeepBatches+1 || !batched && len(wakeUps) < n {
				t.Fatalf("%d channels are kept up at %d times", n, len(wakeUps))
			}
			l.run(idleCheck/7, p)
		}
	}
}
