package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/proxy"
)

// TestKilledSequencer kills the only process that polls a feed, its sequencer, and restarts it. Another node soon
// polls, and no reader misses an item or gets one twice.
func TestKilledSequencer(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	const interval = 2 * time.Second
	o := newTestOrigin(t)
	o.Play("/feed", growingFeed("feed", 5, 300))
	url := o.url + "/feed"

	nodes := startNetwork(t, 5, "--network", "killed", "--owners", "3", "--load", "0.2",
		"--poll-interval", interval.String(), "--maintenance-interval", "20s", "--beat-interval", "20s")
	addresses := make([]string, len(nodes))
	for i, n := range nodes {
		addresses[i] = n.subscribe(url)
	}
	has := func(i, items int) error {
		f, _, err := readFeed(addresses[i])
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		if err := checkTitles("feed", items, titles(f)); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		return nil
	}
	items := 5
	for i := range nodes {
		eventually(t, timeout, "the first reading", func() error { return has(i, items) })
	}

	// From now on, about one item appears per second.
	news := time.NewTicker(1100 * time.Millisecond)
	defer news.Stop()
	// pass lets items appear until done returns nil.
	pass := func(within time.Duration, what string, done func() error) {
		t.Helper()
		late := time.After(within)
		for err := done(); err != nil; err = done() {
			select {
			case <-news.C:
				o.step()
				items++
			case <-late:
				t.Fatalf("%s: not within %v: %v", what, within, err)
			}
		}
	}
	atLeast := func(i, want int) func() error {
		return func() error {
			f, _, err := readFeed(addresses[i])
			if err == nil && len(f.Items) < want {
				err = fmt.Errorf("node %d: %d items of %d", i, len(f.Items), want)
			}
			return err
		}
	}
	pass(timeout, "items on their way", atLeast(0, 10))

	poller := -1
	for i, n := range nodes {
		if n.list()[url].Rank != nil {
			if poller >= 0 {
				t.Errorf("nodes %d and %d poll the feed", poller, i)
			}
			poller = i
		}
	}
	if poller < 0 {
		t.Fatal("nobody polls the feed")
	}
	other := (poller + 1) % len(nodes)
	nodes[poller].kill()
	killed := time.Now()
	pass(max(3*interval, time.Minute)+interval, "a poll by another owner", func() error {
		if o.polls("/feed", killed.Add(50*time.Millisecond), time.Now()) == 0 {
			return fmt.Errorf("none after %v", time.Since(killed))
		}
		return nil
	})
	t.Logf("another owner polls %.1f s after the kill (3 intervals or 60 s are allowed)", time.Since(killed).Seconds())
	pass(timeout, "items by the new poller", atLeast(other, items+3))

	nodes[poller].restart()
	if c, ok := nodes[poller].list()[url]; !ok {
		t.Errorf("the node that was killed has forgotten its subscription")
	} else if c.URL != url {
		t.Errorf("the node that was killed subscribes to %s", c.URL)
	}
	pass(2*timeout, "the killed node catching up", atLeast(poller, items+3))

	// No more items appear: all nodes have all of them, once, in order, and identical.
	var first *feed.Feed
	for i := range nodes {
		eventually(t, 2*timeout, "all items", func() error { return has(i, items) })
		f, _, err := readFeed(addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = f
		}
		if !slices.EqualFunc(first.Items, f.Items, func(a, b feed.Item) bool { return a.ID == b.ID && a.Hash == b.Hash }) {
			t.Errorf("nodes 0 and %d show different documents", i)
		}
	}
	t.Logf("%d items at each of %d readers, %.1f s after the kill", items, len(nodes), time.Since(killed).Seconds())
}

// TestKilledRepeatedly kills a node while it receives subscribe and unsubscribe requests. All acknowledged
// requests must have taken effect.
func TestKilledRepeatedly(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	const talkers = 4
	rounds := longtest.Pick(8, 20)
	n := startNode(t, "--allow-private-origins")
	seed := rand.Uint64()
	dice := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)

	// The acknowledged state of each feed. Requests in progress during the kill may or may not have taken effect.
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	writes := 0
	for round := range rounds {
		// The kill comes after a number of writes, so that it hits the middle of writing. On a busy machine, a time
		// would pass before any write.
		killAfter, enough, once := writes+5+dice.IntN(60), make(chan struct{}), sync.Once{}
		wrote := func() { // called with mu held
			if writes++; writes >= killAfter {
				once.Do(func() { close(enough) })
			}
		}
		var talking sync.WaitGroup
		for talker := range talkers {
			talking.Go(func() {
				var mine []string
				for i := 0; ; i++ {
					url := fmt.Sprintf("http://127.0.0.1:1/%d/%d/%d", round, talker, i)
					if post(n, "subscribe", url) != nil {
						return
					}
					mine = append(mine, url)
					mu.Lock()
					acknowledged[url] = true
					wrote()
					mu.Unlock()
					if i%5 != 4 {
						continue
					}
					mu.Lock()
					delete(acknowledged, mine[i-2]) // unknown until the answer arrives
					mu.Unlock()
					if post(n, "unsubscribe", mine[i-2]) != nil {
						return
					}
					mu.Lock()
					acknowledged[mine[i-2]] = false
					wrote()
					mu.Unlock()
				}
			})
		}
		select {
		case <-enough:
		case <-time.After(timeout):
			t.Errorf("round %d: %d writes are not acknowledged within %v", round, killAfter, timeout)
		}
		n.kill()
		talking.Wait()
		n.restart()
		var channels map[string]proxy.Channel
		eventually(t, timeout, "a list", func() error {
			l, err := askJSON[proxy.ListResponse](n, "list")
			channels = map[string]proxy.Channel{}
			for _, c := range l.Channels {
				channels[c.URL] = c
			}
			return err
		})
		lost := 0
		for url, subscribed := range acknowledged {
			if _, ok := channels[url]; ok != subscribed {
				lost++
			}
		}
		if lost > 0 {
			t.Fatalf("round %d: %d of %d acknowledged writes are lost", round, lost, writes)
		}
	}
	t.Logf("%d acknowledged writes, %d kills, none lost", writes, rounds)
}

// post sends a request to a node with a short timeout. The request may have taken effect even if there is an error.
func post(n *nodeProcess, what, url string) error {
	body, err := json.Marshal(proxy.SubscribeMessage{URL: url})
	if err == nil {
		_, err = n.call(http.MethodPost, what, body)
	}
	return err
}

// TestKilledEverything kills all processes of a network at once. After a restart without bootstrap addresses, they
// find each other and continue where they were.
func TestKilledEverything(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o := newTestOrigin(t)
	nodes := startNetwork(t, 3, "--network", "all", "--owners", "3",
		"--poll-interval", "1s", "--maintenance-interval", "20s", "--beat-interval", "20s")
	addresses := map[string][]string{}
	names := []string{"one", "two", "three"}
	for _, name := range names {
		o.Play("/"+name, growingFeed(name, 5, 100))
		for _, n := range nodes {
			addresses[name] = append(addresses[name], n.subscribe(o.url+"/"+name))
		}
	}
	items := 5
	everywhere := func(what string) {
		t.Helper()
		for _, name := range names {
			for i, address := range addresses[name] {
				eventually(t, 2*timeout, what, func() error {
					f, _, err := readFeed(address)
					if err == nil {
						err = checkTitles(name, items, titles(f))
					}
					if err != nil {
						err = fmt.Errorf("%s at node %d: %w", name, i, err)
					}
					return err
				})
			}
		}
	}
	everywhere("the first items")
	for range 3 {
		o.step()
		items++
	}
	everywhere("items before the kill")
	for _, n := range nodes {
		n.stopExpected = true
		_ = n.cmd.Process.Kill()
	}
	for _, n := range nodes {
		<-n.ended
	}
	o.step() // while no node polls
	items++
	began := time.Now()
	for _, n := range nodes {
		n.restart()
		if channels := n.list(); len(channels) != len(names) {
			t.Errorf("a node has %d of %d subscriptions", len(channels), len(names))
		}
	}
	everywhere("the item that came meanwhile")
	t.Logf("all feeds go on %.1f s after the start", time.Since(began).Seconds())
	for range 3 {
		o.step()
		items++
	}
	everywhere("items after the kill")
	waitForMembers(t, nodes)
}
