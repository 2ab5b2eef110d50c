package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/corona"
	"tidings/internal/longtest"
	"tidings/internal/node"
	"tidings/internal/script"
	"tidings/internal/wire"
)

// A claimWorld is a swarm with some feeds of one domain, all of which the same member leads at first.
type claimWorld struct {
	*Swarm
	urls    []string
	leader  *Peer
	audited bool // stewards compare claims of readers with the second trees
	// stats are the last counters of each life of a member. Stewards that have asked may be gone at the end.
	stats map[*node.Node]corona.Stats
}

// newClaimWorld returns a world of members that poll a feed every 15 minutes. The leader's own scribe counts any number of
// readers behind it.
func newClaimWorld(seed uint64, members, feeds int, loss float64, audited bool) *claimWorld {
	network := wire.DefaultNetwork("sim")
	network.PollInterval, network.Wedge = 15*time.Minute, "rank"
	var lying bool
	w := &claimWorld{audited: audited, stats: map[*node.Node]corona.Stats{}, Swarm: NewSwarm(SwarmConfig{
		World: Config{Seed: seed, NetworkFaults: NetworkFaults{Loss: loss}}, Network: network,
		Tune: func(c *node.Config) {
			if lying {
				c.Scribe.MaxWeight = 1 << 20
			}
		},
	})}
	w.every(10*time.Second, func() {
		for _, p := range w.Live() {
			if w.stats[p.node] = p.node.Corona.Stats(); !audited {
				p.Do(func() { p.node.Corona.AuditReaders(nil) })
			}
		}
	})
	w.Grow(members, 100*time.Millisecond)
	w.World.Run(time.Minute)
	w.leader = w.Peers()[1]
	w.leader.Kill(true)
	w.World.Run(time.Minute)
	lying = true
	w.leader.Start()
	lying = false
	w.World.Run(2 * time.Minute)
	for i := 0; len(w.urls) < feeds; i++ {
		if url := fmt.Sprintf("http://claims.example/%d", i); w.Root(w.Key(url)) == w.leader {
			w.Serve(url, script.NewLively(script.Config{Seed: uint64(i), Every: time.Hour})).Public = true
			w.urls = append(w.urls, url)
		}
	}
	return w
}

// subscribe makes so many members other than the leader read all feeds.
func (w *claimWorld) subscribe(readers int) {
	for _, url := range w.urls {
		for _, p := range w.Peers()[2 : 2+readers] {
			p.SubscribeFeed(url)
		}
	}
}

// polls returns the requests in each of the next spans of ten minutes.
func (w *claimWorld) polls(spans int) (of []int) {
	count := func() (n int) {
		for _, url := range w.urls {
			n += w.feeds.byURL[url].Polls
		}
		return n
	}
	for range spans {
		before := count()
		w.World.Run(10 * time.Minute)
		of = append(of, count()-before)
	}
	return of
}

// audits returns how many claims were compared, and how many were found to be too high.
func (w *claimWorld) audits() (all, over uint64) {
	for _, st := range w.stats {
		all, over = all+st.Audited, over+st.Overclaimed
	}
	return all, over
}

// The leader of a domain's feeds that claims thousands of readers for each draws less than twice the polls that the true
// readers allow. Without audits it draws all that the members can make.
func TestClaimedReadersDoNotRaiseABudget(t *testing.T) {
	t.Parallel()
	const members, feeds, readers = 40, 20, 9
	const budget = feeds * readers * 10 / 15 // polls in ten minutes
	for _, audited := range []bool{true, false} {
		w := newClaimWorld(1, members, feeds, 0, audited)
		w.subscribe(readers)
		for _, url := range w.urls {
			w.leader.JoinGroup(w.Key(url), 5000)
		}
		of := w.polls(longtest.Pick(6, 12))
		all, over := w.audits()
		t.Logf("audited %v: %v polls in ten minutes, %d audits, %d false claims; the budget is %d", audited, of, all, over, budget)
		switch most := slices.Max(of); {
		case audited && (most > 2*budget || over == 0):
			t.Errorf("%d polls in ten minutes, %d false claims; the budget is %d", most, over, budget)
		case !audited && most < 4*budget:
			t.Errorf("without audits the lie draws only %d polls in ten minutes", most)
		}
	}
}

// Honest feeds lose nothing by audits: not while members and readers come, die and return on a network that loses frames, so
// that trees get other roots. Few questions are asked.
func TestHonestClaimsCountInFull(t *testing.T) {
	seeds(t, 1, 2, func(t *testing.T, seed uint64) {
		members, feeds := longtest.Pick(24, 40), longtest.Pick(8, 12)
		var sums [2]int
		for i, audited := range []bool{true, false} {
			w := newClaimWorld(seed, members, feeds, 0.02, audited)
			w.subscribe(members / 3)
			of := w.polls(4)
			w.Grow(members*2, 5*time.Second)
			w.subscribe(2*members - 6)
			of = append(of, w.polls(4)...)
			end := w.Churn(Churn{Sessions: Sessions{Median: 40 * time.Minute}, Silent: 0.5, Returning: 0.7})
			of = append(of, w.polls(longtest.Pick(4, 10))...)
			end()
			for _, n := range of {
				sums[i] += n
			}
			all, over := w.audits()
			t.Logf("audited %v: %v, %d polls, %d audits, %d doubts", audited, of, sums[i], all, over)
			if over*20 > all {
				t.Errorf("%d of %d audits doubt an honest claim", over, all)
			}
			if claims := feeds * len(of); audited && (all == 0 || int(all) > claims/2) {
				t.Errorf("%d audits of some %d claims", all, claims)
			}
		}
		if float64(sums[0]) < 0.9*float64(sums[1]) {
			t.Errorf("%d polls, and %d without audits", sums[0], sums[1])
		}
	})
}
