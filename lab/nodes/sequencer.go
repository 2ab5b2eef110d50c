package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"tidings/internal/daemon/origin"
	"tidings/internal/script"
	"tidings/overlay"
)

// sequencerExits ends the sequencer of a feed again and again, in each of the modes. Each node has
// a process of its own, and all of them follow the feed, whose origin runs in this process.
//
// The feed is polled at the default interval, so that the overlay detects a death before a missing
// item does. A node is the new sequencer when it is elected and polls. The owners are complete when
// it lists as many live owners as a key has.
func (n *network) sequencerExits(ctx context.Context, c Scenario, r *Result) error {
	url, stop, err := serveFeed(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for range c.Nodes {
		if err := n.startGroup(ctx, 1, 0); err != nil {
			return err
		}
	}
	if _, err := n.awaitRight(ctx, n.lastStart, r); err != nil {
		return err
	}
	if _, err := n.sendAll(ctx, command{Follow: url}); err != nil {
		return err
	}
	key := overlay.Key(n.params.Name, url)
	for range c.Killed {
		for _, way := range []string{Leave, Closed, Silent} {
			end, err := n.sequencerExit(ctx, key, way)
			if err != nil {
				return fmt.Errorf("end of a sequencer, mode %s: %w", way, err)
			}
			r.SequencerExits = append(r.SequencerExits, end)
		}
	}
	return nil
}

// sequencerExit ends the sequencer of a key, and waits for the next.
func (n *network) sequencerExit(ctx context.Context, key overlay.ID, way string) (e SequencerExit, err error) {
	states, err := n.awaitOwners(ctx, key)
	if err != nil {
		return e, err
	}
	leads := func(l NodeState) bool { return l.leads(key) != nil }
	victim := n.remove(slices.IndexFunc(states, leads)) // each process has one node
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- victim.exit(ctx, way) }() // leaving takes some time
	_, err = n.await(ctx, "another sequencer", func(states []NodeState) (float64, string, error) {
		if slices.ContainsFunc(states, leads) {
			return 1, "", nil
		}
		return 0, "nobody leads", nil
	})
	e = SequencerExit{Mode: way, SequencerS: time.Since(began).Seconds()}
	if err = errors.Join(err, <-ended); err != nil {
		return e, err
	}
	_, err = n.awaitOwners(ctx, key)
	e.OwnersS = time.Since(began).Seconds()
	return e, err
}

// awaitOwners waits until one node leads the log of a key, and all its owners are alive.
func (n *network) awaitOwners(ctx context.Context, key overlay.ID) ([]NodeState, error) {
	return n.await(ctx, "all owners live", func(states []NodeState) (float64, string, error) {
		var leaders, alive int
		for _, l := range states {
			led := l.leads(key)
			if led == nil {
				continue
			}
			leaders++
			for _, m := range states {
				if slices.Contains(led.Owners, m.ID) {
					alive++
				}
			}
		}
		if want := min(n.params.Owners, len(states)); leaders != 1 || alive != want {
			return float64(min(alive, want)) / float64(want), fmt.Sprintf("the log has %d sequencers, and %[3]d of %[2]d owners are alive", leaders, want, alive), nil
		}
		return 1, "", nil
	})
}

// leads returns the feed of a key that the node leads; nil if there is none.
func (l NodeState) leads(key overlay.ID) *LedFeed {
	if i := slices.IndexFunc(l.LedFeeds, func(led LedFeed) bool { return led.Key == key }); i >= 0 {
		return &l.LedFeeds[i]
	}
	return nil
}

// serveFeed serves a feed with frequent items on loopback.
func serveFeed(ctx context.Context) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serve a feed: %w", err)
	}
	o := origin.New(origin.Clock(1))
	o.Play("/feed.xml", script.NewLively(script.Config{}))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = o.Serve(ctx, listener) // ends with ctx
	}()
	return "http://" + listener.Addr().String() + "/feed.xml", func() { cancel(); <-done }, nil
}
