package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon/origin"
)

// TestAKilledSubscriberIsReplaced kills the process of eight that subscribes at a feed's hub. The other one that hubs reach
// subscribes long before the lease ends, and no reader misses an item or gets one twice.
func TestAKilledSubscriberIsReplaced(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	site, err := origin.ServeHub(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(); site.Close() })
	url := site.URL(0)

	var nodes []*nodeProcess
	var public []string
	for i := range 8 {
		flags := []string{"--allow-private-origins"}
		if i == 0 {
			flags = append(flags, "--network", "spare", "--maintenance-interval", "20s", "--beat-interval", "20s")
		} else {
			flags = append(flags, "--bootstrap", nodes[0].peer)
		}
		if i >= 6 {
			at := "127.0.0.1:" + checktest.Port(t)
			public = append(public, "http://"+at)
			flags = append(flags, "--public-url", "http://"+at, "--public-listen", at)
		}
		nodes = append(nodes, startNode(t, flags...))
	}
	waitForMembers(t, nodes)
	addresses := make([]string, len(nodes))
	for i, n := range nodes {
		addresses[i] = n.subscribe(url)
	}
	items := 1
	publish := func() {
		t.Helper()
		if _, _, err := site.Publish(ctx, 0); err != nil {
			t.Fatal(err)
		}
		items++
	}
	// show waits until readers of all nodes but one have all items, once.
	show := func(within time.Duration, but int) {
		t.Helper()
		for i := range nodes {
			if i == but {
				continue
			}
			eventually(t, within, "all items", func() error {
				f, _, err := readFeed(addresses[i])
				if err != nil {
					return err
				}
				got, want := titles(f), make([]string, items)
				for j := range want {
					want[j] = origin.ItemTitle(0, items-j)
				}
				if !slices.Equal(got, want) {
					return fmt.Errorf("node %d: %q", i, got)
				}
				return nil
			})
		}
	}
	pushed := func() {
		t.Helper()
		eventually(t, timeout, "a feed that its hub pushes", func() error {
			if c := nodes[0].list()[url]; c.PushedBy == "" {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
	}
	// subscriber waits until a node other than this one has subscribed.
	subscriber := func(other int) (index int) {
		t.Helper()
		eventually(t, 3*time.Minute, "a subscription at the hub", func() error {
			for _, callback := range site.Callbacks(0) {
				for i, at := range public {
					if index = 6 + i; strings.HasPrefix(callback, at+"/") && index != other {
						return nil
					}
				}
			}
			return fmt.Errorf("callbacks %q", site.Callbacks(0))
		})
		return index
	}
	dead := subscriber(-1)
	show(timeout, -1)
	publish()
	show(timeout, -1)
	pushed()

	nodes[dead].kill()
	killed := time.Now()
	publish() // the hub sends it to nobody
	subscriber(dead)
	t.Logf("the spare has subscribed %.1f s after the kill", time.Since(killed).Seconds())
	show(timeout, dead)
	publish()
	show(timeout, dead)
	pushed()
	nodes[dead].restart()
	publish()
	show(2*timeout, -1)
}
