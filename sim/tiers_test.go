package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/internal/script"
)

// burstScript publishes an item every so often, and for a while ten times as often. A document shows the last items.
type burstScript struct {
	feed       int
	every      time.Duration
	from, to   time.Duration // of the burst
	end        time.Duration // after which nothing is published
	shows      int
	paragraphs int
}

// burstWords are what queries ask for; item n of feed f contains one of them.
var burstWords = []string{"harbour", "glacier", "orchard", "lantern", "compass", "meadow"}

func (b *burstScript) times(until time.Duration) (at []time.Duration) {
	for t := b.every; t <= min(until, b.end); {
		at = append(at, t)
		if t += b.every; t > b.from && t <= b.to {
			t -= b.every - b.every/10
		}
	}
	return at
}

func (b *burstScript) word(n int) string { return burstWords[(b.feed+n)%len(burstWords)] }

func (b *burstScript) At(t time.Duration) script.Version {
	all := b.times(t)
	var doc strings.Builder
	fmt.Fprintf(&doc, `<rss version="2.0"><channel><title>Feed %d</title><link>http://burst%d.example/</link>`, b.feed, b.feed)
	for n := len(all) - 1; n >= max(0, len(all)-b.shows); n-- {
		fmt.Fprintf(&doc, `<item><guid>f%d-%d</guid><title>f%d-%04d</title><description>%s %s</description></item>`,
			b.feed, n, b.feed, n, b.word(n), strings.Repeat("nothing of interest happens here ", b.paragraphs))
	}
	doc.WriteString(`</channel></rss>`)
	v := script.Version{Index: len(all), ContentType: "application/rss+xml", Body: []byte(doc.String())}
	if len(all) > 0 {
		v.Since = all[len(all)-1]
	}
	return v
}

func (b *burstScript) Next(t time.Duration) (time.Duration, bool) {
	all := b.times(b.end)
	i, found := slices.BinarySearch(all, t)
	if found {
		i++
	}
	if i == len(all) {
		return 0, false
	}
	return all[i], true
}

// A tierWorld is a hosting centre with three filters and three reflectors.
type tierWorld struct {
	*Swarm
	made  map[string][]*Peer
	since time.Time
	feeds []*burstScript
}

const tierEnd = 12 * time.Minute

// newBurstWorld returns a tierWorld with one crawler and a burst of ten times the usual rate.
func newBurstWorld(t *testing.T, seed uint64, c Config, config func(role string, i int) tiers.Config) *tierWorld {
	t.Helper()
	return newTierWorld(t, seed, c, 1, bursts(), config)
}

func bursts() (feeds []*burstScript) {
	for i := range 4 {
		feeds = append(feeds, &burstScript{feed: i, every: 20 * time.Second, from: 4 * time.Minute, to: 7 * time.Minute, end: tierEnd, shows: 120, paragraphs: 150})
	}
	return feeds
}

func newTierWorld(t *testing.T, seed uint64, c Config, crawlers int, feeds []*burstScript, config func(role string, i int) tiers.Config) *tierWorld {
	t.Helper()
	w, urls := newCentre(seed, c, crawlers+6, feeds)
	w.made = w.MakeTiers(crawlers, 3, 3, config, urls)
	w.begin(w.made[provision.Filter])
	return w
}

// newCentre makes peers, all of which are down, and the origins that they will crawl.
func newCentre(seed uint64, c Config, peers int, feeds []*burstScript) (w *tierWorld, urls []string) {
	w = &tierWorld{Swarm: feedSwarm(seed, c), feeds: feeds}
	w.Grow(peers, 100*time.Millisecond)
	w.World.Run(20 * time.Second)
	for i, b := range feeds {
		url := fmt.Sprintf("http://burst%d.example/", i)
		w.Serve(url, b)
		urls = append(urls, url)
	}
	for _, p := range w.Peers() {
		p.Kill(true)
	}
	return w, urls
}

// begin starts the reflectors and some filters, makes the searches, and starts the crawlers.
func (w *tierWorld) begin(filters []*Peer) {
	for _, p := range slices.Concat(w.made[provision.Reflector], filters) {
		p.Start()
	}
	for i, p := range w.made[provision.Reflector] {
		p.Ask(burstWords[i])
		p.Ask(burstWords[i+3] + " OR " + burstWords[i])
		p.Ask("interest " + burstWords[(i+1)%3])
	}
	w.World.Run(5 * time.Second)
	w.since = w.Now()
	for _, p := range w.made[provision.Crawler] {
		p.Start()
	}
}

// missing compares what each query shows with what was published, and fails the test if articles of a feed are out of
// order (if the queries of a reflector are at one filter), or shown twice, or do not match. It returns the articles that no
// query of a reflector shows which should, by reflector.
func (w *tierWorld) missing(t *testing.T, ordered bool) (missing []int) {
	t.Helper()
	for i, p := range w.made[provision.Reflector] {
		lost := map[string]bool{}
		words := [][]string{{burstWords[i]}, {burstWords[i+3], burstWords[i]}, {burstWords[(i+1)%3]}}
		for q, articles := range p.Shown() {
			last := map[string]string{}
			titles := map[string]bool{}
			for _, a := range articles { // the newest first
				if titles[a.Title] {
					t.Errorf("reflector %d shows %s twice", i, a.Title)
				}
				if titles[a.Title] = true; ordered && last[a.Feed] != "" && a.Title > last[a.Feed] {
					t.Errorf("reflector %d shows %s before %s", i, a.Title, last[a.Feed])
				}
				last[a.Feed] = a.Title
			}
			expected := 0
			for _, b := range w.feeds {
				for n := range b.times(b.end) {
					title := fmt.Sprintf("f%d-%04d", b.feed, n)
					if slices.Contains(words[q], b.word(n)) {
						if expected++; !titles[title] {
							lost[title] = true
						}
						delete(titles, title)
					}
				}
			}
			if expected == 0 || len(titles) > 0 {
				t.Errorf("reflector %d, query %d: %d expected, not matching: %v", i, q, expected, titles)
			}
		}
		missing = append(missing, len(lost))
	}
	return missing
}

// small queues fill up within the burst.
var small = tiers.Config{Buffer: 128 << 10}

// stallForAMinute stalls a reflector and returns the node that each role waits for in the end.
func (w *tierWorld) stallForAMinute(p *Peer) (waited map[string]string) {
	p.Stall(true)
	w.World.Run(time.Minute)
	waited = map[string]string{}
	for _, p := range w.Peers() {
		if s := p.node.Tiers.State(); s.WaitsFor != "" {
			waited[s.Role] = s.WaitsFor
		}
	}
	p.Stall(false)
	return waited
}

// TestBlockingTiersLoseNothing: one reflector is stalled for a minute in the burst, nodes of all tiers crash, and frames
// are lost; every article reaches every query that it matches, once and in order, and the nodes say whom they wait for.
func TestBlockingTiersLoseNothing(t *testing.T) {
	seeds(t, 2, 6, func(t *testing.T, seed uint64) {
		w := newBurstWorld(t, seed, Config{NetworkFaults: NetworkFaults{Loss: 0.02}}, func(string, int) tiers.Config { return small })
		rng := rand.New(rand.NewPCG(seed, 41))
		w.World.Run(5 * time.Minute)
		stalled := w.made[provision.Reflector][rng.IntN(3)]
		name := stalled.node.Tiers.State().Name
		waited := w.stallForAMinute(stalled)
		if want := map[string]string{provision.Crawler: name, provision.Filter: name}; !maps.Equal(waited, want) {
			t.Errorf("nodes waited for %v, want %v", waited, want)
		}
		victims := []*Peer{w.made[provision.Filter][rng.IntN(3)], w.made[provision.Crawler][0], stalled}
		for range 4 {
			victims = append(victims, w.Peers()[rng.IntN(7)])
		}
		for _, p := range victims {
			p.Kill(rng.IntN(2) == 0)
			w.World.Run(time.Duration(1+rng.IntN(40)) * time.Second)
			p.Start()
			w.World.Run(time.Duration(rng.IntN(20)) * time.Second)
		}
		w.World.Run(15 * time.Minute)
		for i, n := range w.missing(t, true) {
			if n > 0 {
				t.Errorf("reflector %d lacks %d articles", i, n)
			}
		}
		for _, p := range w.Peers() {
			s := p.node.Tiers.State()
			for _, l := range append(s.Down, s.Up...) {
				if l.Items > 0 || l.Dropped > 0 {
					t.Errorf("%s: link %s: %+v", s.Name, l.Name, l)
				}
			}
			t.Logf("%s: %+v", s.Name, s.Stats)
		}
	})
}

// TestDroppingTiersCountWhatTheyDrop: nobody waits for a stalled reflector, the others show everything, and what the
// stalled one lacks is what its filter counts and has told it.
func TestDroppingTiersCountWhatTheyDrop(t *testing.T) {
	seeds(t, 2, 6, func(t *testing.T, seed uint64) {
		n := int(seed % 3)
		w := newBurstWorld(t, seed, Config{}, func(role string, i int) tiers.Config {
			if role != provision.Crawler && i == n {
				return tiers.Config{Drop: true, Buffer: small.Buffer}
			}
			return tiers.Config{Drop: true} // which has room for what one round of polls finds
		})
		w.World.Run(5 * time.Minute)
		stalled := w.made[provision.Reflector][n]
		if waited := w.stallForAMinute(stalled); len(waited) > 0 {
			t.Errorf("nodes waited for %v", waited)
		}
		w.World.Run(15 * time.Minute)
		missing := w.missing(t, true)
		for i, p := range w.made[provision.Reflector] {
			told, counted := 0, 0
			for _, l := range p.node.Tiers.State().Up {
				told += int(l.Dropped)
			}
			for _, f := range w.made[provision.Filter] {
				for _, l := range f.node.Tiers.State().Down {
					if l.Name == p.node.Tiers.State().Name {
						counted += int(l.Dropped)
					}
				}
			}
			if missing[i] != told || told != counted || (told > 0) != (i == n) {
				t.Errorf("reflector %d lacks %d articles, was told of %d, and its filter counts %d", i, missing[i], told, counted)
			}
		}
		for _, l := range w.made[provision.Crawler][0].node.Tiers.State().Down {
			if l.Dropped > 0 {
				t.Errorf("the crawler dropped %d articles for %s, which was not stalled", l.Dropped, l.Name)
			}
		}
	})
}

// TestAChangedPlanLosesAndRepeatsNothing: in a burst, the topology changes three times, and each time queries move to other
// filters, filters come and go, and feeds move to other crawlers. Nodes see the file at different times, frames are lost,
// and nodes crash while they move. Once an earlier topology comes back, which nodes refuse. Every article reaches every query that it matches, once, and each change completes.
func TestAChangedPlanLosesAndRepeatsNothing(t *testing.T) {
	seeds(t, 1, 8, func(t *testing.T, seed uint64) {
		w, urls := newCentre(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.02}}, 10, bursts())
		rng := rand.New(rand.NewPCG(seed, 43))
		peers := w.Peers()
		crawlers, filters, reflectors := peers[:3], peers[3:7], peers[7:10]
		w.made = map[string][]*Peer{provision.Crawler: crawlers[:2], provision.Filter: filters, provision.Reflector: reflectors}
		first := MeshPlan("1-first", 2, crawlers[:2], filters[:2], reflectors)
		for _, p := range peers {
			p.tier = &tier{config: small, feeds: urls}
			p.tier.config.Plan = first
		}
		w.begin(filters[:2])
		running := slices.Concat(crawlers[:2], filters[:2], reflectors)
		settled := func(digest string, nodes []*Peer) bool {
			for _, p := range nodes {
				if s := p.node.Tiers.State(); !s.Settled || s.Plan != digest {
					return false
				}
			}
			return true
		}
		change := func(plan tiers.Plan, fresh ...*Peer) {
			running = slices.DeleteFunc(running, func(p *Peer) bool { // the operator stops nodes that have left
				left := p.node.Tiers.State().Retired
				if left {
					p.Kill(true)
				}
				return left
			})
			w.Replan(plan, rng)
			for _, p := range fresh {
				p.Start()
			}
			running = append(running, fresh...)
			for range 4 {
				p := running[rng.IntN(len(running))]
				w.World.Run(time.Duration(rng.IntN(12)) * time.Second)
				p.Kill(rng.IntN(2) == 0)
				w.World.Run(time.Duration(1+rng.IntN(12)) * time.Second)
				p.Start()
			}
			if !w.World.RunUntil(func() bool { return settled(plan.Digest, running) }, time.Second, 8*time.Minute) {
				for _, p := range running {
					s := p.node.Tiers.State()
					t.Logf("%s runs %q: settled %v, waits for %q", s.Name, s.Plan, s.Settled, s.WaitsFor)
				}
				t.Fatalf("the change to %s is not complete", plan.Digest)
			}
		}
		w.World.Run(4 * time.Minute)
		change(MeshPlan("2-three filters, one of them gone", 3, crawlers[:2], []*Peer{filters[2], filters[0], filters[3]}, reflectors), filters[2], filters[3])
		for _, p := range running { // the first topology comes back by mistake, and some nodes restart with it
			p.tier.config.Plan = first
		}
		for _, p := range []*Peer{crawlers[0], filters[2], reflectors[rng.IntN(3)]} {
			p.Kill(true)
			p.Start()
		}
		w.World.Run(2 * time.Minute)
		change(MeshPlan("3-half the feeds each, and a third crawler", 1, crawlers, filters[:2], reflectors), crawlers[2], filters[1])
		change(MeshPlan("4-one of each", 1, crawlers[1:2], filters[3:], reflectors), filters[3])
		w.World.Run(15 * time.Minute)
		for i, n := range w.missing(t, false) {
			if n > 0 {
				t.Errorf("reflector %d lacks %d articles", i, n)
			}
		}
		for _, p := range running {
			s := p.node.Tiers.State()
			for _, l := range append(s.Down, s.Up...) {
				if l.Items > 0 || l.Dropped > 0 {
					t.Errorf("%s: link %s: %+v", s.Name, l.Name, l)
				}
			}
			if want := map[string]int{provision.Reflector: 9 / 3, provision.Filter: 9}[s.Role]; !s.Retired && s.Queries != want {
				t.Errorf("%s has %d queries, want %d", s.Name, s.Queries, want)
			}
			if s.Retired && s.Queries > 0 {
				t.Errorf("%s has left the plan and has %d queries", s.Name, s.Queries)
			}
			t.Logf("%s: %+v", s.Name, s.Stats)
		}
	})
}

// TestArticlesOfAFilterThatNeverReturns: a filter dies before a burst and never returns. The operator removes it from the topology.
// Its crawlers then queue their articles for the other filters: ten minutes after the change, or at once if they restart with a still later
// topology. So every article reaches every query that it matches.
func TestArticlesOfAFilterThatNeverReturns(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("crawlers restart: %v", restarts), func(t *testing.T) {
			seeds(t, 2, 6, func(t *testing.T, seed uint64) {
				w, urls := newCentre(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.02}}, 8, bursts())
				rng := rand.New(rand.NewPCG(seed, 44))
				peers := w.Peers()
				crawlers, filters, reflectors := peers[:2], peers[2:5], peers[5:8]
				w.made = map[string][]*Peer{provision.Crawler: crawlers, provision.Filter: filters, provision.Reflector: reflectors}
				for _, p := range peers {
					p.tier = &tier{config: small, feeds: urls}
					p.tier.config.Plan = MeshPlan("1-three filters", 3, crawlers, filters, reflectors)
				}
				w.begin(filters)
				dead := filters[rng.IntN(3)]
				left := slices.DeleteFunc(slices.Clone(filters), func(p *Peer) bool { return p == dead })
				w.World.Run(3 * time.Minute)
				idle := func() bool {
					return !slices.ContainsFunc(dead.node.Tiers.State().Down, func(l tiers.LinkState) bool { return l.Items > 0 })
				}
				if !w.World.RunUntil(idle, 100*time.Millisecond, 30*time.Second) {
					t.Fatal("the filter always has something to pass on")
				}
				dead.Kill(true) // with its disk
				w.World.Run(2 * time.Minute)
				w.Replan(MeshPlan("2-without the dead one", 2, crawlers, left, reflectors), rng)
				w.World.Run(2 * time.Minute)
				rescued := func() (n uint64) {
					for _, p := range crawlers {
						n += p.node.Tiers.Stats().Rescued
					}
					return n
				}
				if restarts {
					for _, p := range slices.Concat(crawlers, left, reflectors) {
						p.tier.config.Plan = MeshPlan("3-one more change", 1, crawlers, left, reflectors)
						p.Kill(rng.IntN(2) == 0)
						w.World.Run(time.Second)
						p.Start()
					}
					w.World.Run(time.Minute)
				}
				if early := rescued() > 0; early != restarts {
					t.Errorf("articles are queued again before ten minutes are over: %v", early)
				}
				w.World.Run(15 * time.Minute)
				if rescued() == 0 {
					t.Error("no article had to be queued again")
				}
				complete := func() {
					t.Helper()
					for i, n := range w.missing(t, false) {
						if n > 0 {
							t.Errorf("reflector %d lacks %d articles", i, n)
						}
					}
				}
				complete()
				for _, p := range crawlers { // nothing is queued again and again
					p.Kill(true)
					p.Start()
				}
				w.World.Run(time.Minute)
				if n := rescued(); n > 0 {
					t.Errorf("%d articles are queued again after a restart", n)
				}
				complete()
				for _, p := range slices.Concat(crawlers, left) {
					for _, l := range p.node.Tiers.State().Down {
						if l.Items > 0 {
							t.Errorf("%d articles wait for %s", l.Items, l.Name)
						}
					}
				}
			})
		})
	}
}
