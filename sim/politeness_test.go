package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay"
)

// The whole network polls a domain of many feeds no more often than the domain's budget allows, and
// not much more rarely, also when two of its stewards die and members join. All its readers get new
// items.
func TestADomainIsAskedNoOftenerThanItsBudget(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Minute
	members, feeds, windows := longtest.Pick(16, 24), longtest.Pick(20, 40), longtest.Pick(15, 30)
	network := wire.DefaultNetwork("sim")
	s := NewSwarm(SwarmConfig{World: Config{Seed: 1, NetworkFaults: NetworkFaults{Loss: 0.01}}, Network: network})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(time.Minute)
	rng := rand.New(rand.NewPCG(s.Seed(), 1))
	var urls []string
	readers := 0
	for i := range feeds { // all members read the first, hardly any the last
		url := fmt.Sprintf("http://blogs.example/%d", i)
		s.Serve(url, script.NewLively(script.Config{Seed: uint64(i), Every: 15 * time.Minute, Limit: 5, Rebuild: 30 * time.Minute})).Public = true
		urls = append(urls, url)
		for _, p := range s.Peers() {
			if rng.IntN(feeds) >= i || p == s.Peers()[0] {
				p.SubscribeFeed(url)
				readers++
			}
		}
	}
	polled := func() (n int) {
		for _, url := range urls {
			n += s.feeds.byURL[url].Polls
		}
		return n
	}
	budget := float64(readers) * window.Seconds() / network.PollInterval.Seconds()
	t.Logf("%d readers: %.1f requests in ten minutes", readers, budget)
	stewards := s.nearest(overlay.StewardKey(network.Name, "blogs.example"))
	before := 0
	for i := range windows {
		switch i {
		case windows * 2 / 5: // kill its sequencer and another steward
			n := 0
			for p := range stewards {
				if p.Active() {
					p.Kill(false)
					n++
				}
				if n == 2 {
					break
				}
			}
		case windows * 3 / 5:
			s.Grow(members+6, time.Second)
		}
		s.World.Run(window)
		n := polled()
		t.Logf("%3d min: %d requests", (i+1)*10, n-before)
		if x := float64(n - before); x > 1.1*budget || i >= 3 && x < budget/2 {
			t.Errorf("%d requests in ten minutes, from minute %d on: the budget is %.1f", n-before, i*10, budget)
		}
		before = n
	}
	s.CheckReaders()
	for _, v := range s.Violations() {
		t.Error(v)
	}
	for _, url := range urls {
		if s.feeds.byURL[url].Polls == 0 {
			t.Errorf("%s was never polled", url)
		}
	}
}

// The stewards of a domain know what they have granted, also if all of them are restarted at once. So the domain is asked as
// often as before, and no more often.
func TestGrantsOutliveARestartOfAllStewards(t *testing.T) {
	t.Parallel()
	const window, feeds = 10 * time.Minute, 10
	network := wire.DefaultNetwork("sim")
	s := NewSwarm(SwarmConfig{World: Config{Seed: 2}, Network: network})
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(time.Minute)
	readers := 0
	for i := range feeds {
		url := fmt.Sprintf("http://blogs.example/%d", i)
		s.Serve(url, script.NewLively(script.Config{Seed: uint64(i), Every: time.Hour, Rebuild: 30 * time.Minute})).Public = true
		for _, p := range s.Peers() {
			p.SubscribeFeed(url)
			readers++
		}
	}
	budget := float64(readers) * window.Seconds() / network.PollInterval.Seconds()
	before := 0
	for i := range 12 {
		if i == 8 {
			stewards := s.Nearest(overlay.StewardKey(network.Name, "blogs.example"), network.Owners)
			for _, p := range stewards {
				p.Kill(true)
			}
			for _, p := range stewards {
				p.Start()
			}
		}
		s.World.Run(window)
		polled := 0
		for _, f := range s.feeds.byURL {
			polled += f.Polls
		}
		n := float64(polled - before)
		t.Logf("%3d min: %.0f requests, budget %.1f", (i+1)*10, n, budget)
		if n > 1.1*budget || i >= 6 && n < budget/2 {
			t.Errorf("%.0f requests in ten minutes, from minute %d on: the budget is %.1f", n, i*10, budget)
		}
		before = polled
	}
}
