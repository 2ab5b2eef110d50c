// Package hosting measures hosting centres (cobra/tiers) in virtual time, with the real nodes of package sim, for the
// figures of Cobra (NSDI 2007).
package hosting

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/internal/env"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/sim"
)

// A CrawlConfig describes crawlers and web servers, which are scattered as King's hosts are.
type CrawlConfig struct {
	Seed     uint64
	Crawlers int
	Hosts    int // web servers
	Feeds    int // divided among the web servers by Zipf's law
	Interval time.Duration
	Length   time.Duration
}

// A CrawlResult is the latency of polls, to the first byte of the answer. Its fields are its JSON.
type CrawlResult struct {
	Random   Assignment `json:"random"`   // each feed at any crawler: computed
	Balanced Assignment `json:"balanced"` // by the hash of its URL, as crawlers begin: their first polls
	FirstFit Assignment `json:"firstfit"` // the paper's algorithm with the true latencies: computed
	Aware    Assignment `json:"aware"`    // where the crawlers have moved it: their last polls
	Nearest  Assignment `json:"nearest"`  // at the nearest crawler, whatever its load: computed

	Handed uint64  `json:"handed"` // feeds that went from one crawler to another, each time
	Probes uint64  `json:"probes"`
	Polls  uint64  `json:"polls"`
	Feeds  int     `json:"feeds"` // that a crawler polled at the end
	Places []Place `json:"-"`
}

// An Assignment says how far crawlers are from their feeds.
type Assignment struct {
	Median float64   `json:"median_ms"`
	P90    float64   `json:"p90_ms"`
	Most   float64   `json:"most"` // feeds of the crawler with the most, relative to its fair share
	Millis []float64 `json:"-"`    // of all feeds, sorted
}

// A Place is a crawler with its nearest feeds' hosts, in King's plane.
type Place struct {
	X, Y           float64
	HostsX, HostsY []float64
}

// newAssignment sums up latencies and how many feeds each crawler has.
func newAssignment(millis []float64, counts []int) Assignment {
	slices.Sort(millis)
	return Assignment{
		Median: quantile(millis, 0.5), P90: quantile(millis, 0.9), Millis: millis,
		Most: float64(slices.Max(counts)*len(counts)) / float64(max(1, len(millis))),
	}
}

// quantile returns a quantile of sorted values; 0 if there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// static is a feed that does not change.
type static struct{ v script.Version }

func (s static) At(time.Duration) script.Version                  { return s.v }
func (static) Next(time.Duration) (next time.Duration, more bool) { return 0, false }

// A crawl is a running world.
type crawl struct {
	CrawlConfig
	*sim.Swarm
	urls   []string
	host   map[string]int // of a URL
	king   sim.Topology
	first  map[string]poll
	last   map[string]poll
	placed int // hosts of the world before the web servers
}

// A poll is who polled a feed, and how long it waited.
type poll struct {
	crawler int
	millis  float64
}

// rtt returns the round-trip time between a host of the world and a web server.
func (w *crawl) rtt(host, server int) time.Duration { return 2 * w.king(host, w.placed+server) }

// Run lets the crawlers work.
func (c CrawlConfig) Run(ctx context.Context, progress func(float64)) (r CrawlResult, err error) {
	w := &crawl{CrawlConfig: c, king: sim.King(c.Seed), host: map[string]int{}, first: map[string]poll{}, last: map[string]poll{}, placed: c.Crawlers + 2}
	network := wire.DefaultNetwork("sim")
	network.PollInterval = c.Interval
	w.Swarm = sim.NewSwarm(sim.SwarmConfig{Network: network, World: sim.Config{
		Seed: c.Seed, Topology: w.king, ToOrigin: func(host int, url string) time.Duration { return w.rtt(host, w.host[url]) },
	}})
	doc := static{script.Version{Index: 1, ContentType: "application/rss+xml", Body: []byte(`<rss version="2.0"><channel><title>Feed</title></channel></rss>`)}}
	for i := range c.Feeds {
		server := c.server(i)
		url := fmt.Sprintf("http://host%d.example/%d", server, i)
		w.urls, w.host[url] = append(w.urls, url), server
		w.Serve(url, doc)
	}
	crawlers := startCentre(w.Swarm, func(string, int) tiers.Config { return tiers.Config{} }, c.Crawlers, 1, 1, w.urls)[provision.Crawler]
	for i, p := range crawlers {
		p.FilterAnswer = func(r env.Request, a env.Answer) env.Answer {
			if r.LastModified == "" { // no probe: the web servers give ETags only
				q := poll{i, float64(a.Latency) / float64(time.Millisecond)}
				if w.last[r.URL] = q; w.first[r.URL] == (poll{}) {
					w.first[r.URL] = q
				}
			}
			return a
		}
	}
	for end := w.Now().Add(c.Length); w.Now().Before(end); {
		if err := context.Cause(ctx); err != nil {
			return r, err
		}
		w.World.Run(time.Minute)
		progress(1 - float64(end.Sub(w.Now()))/float64(c.Length))
	}
	r.Balanced, r.Aware = w.measured(w.first), w.measured(w.last)
	w.compare(&r)
	for i, p := range crawlers {
		s := p.Layers().Tiers.State()
		r.Handed, r.Probes, r.Polls, r.Feeds = r.Handed+s.Stats.Handed, r.Probes+s.Stats.Probes, r.Polls+s.Stats.Polls, r.Feeds+s.Feeds
		r.Places = append(r.Places, w.place(p, i))
	}
	return r, nil
}

// server returns the web server of a feed: the r-th has a share of the feeds in proportion to 1/r, and each has at least one.
func (c *CrawlConfig) server(feed int) int {
	if feed < c.Hosts {
		return feed
	}
	u := (float64(feed-c.Hosts) + 0.5) / float64(c.Feeds-c.Hosts)
	return min(c.Hosts-1, int(math.Pow(float64(c.Hosts+1), u))-1)
}

// startCentre makes a hosting centre of the first nodes of a world, which has none yet.
func startCentre(s *sim.Swarm, config func(string, int) tiers.Config, crawlers, filters, reflectors int, urls []string) map[string][]*sim.Peer {
	s.Grow(crawlers+filters+reflectors, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	for _, p := range s.Peers() {
		p.Kill(true)
	}
	made := s.MakeTiers(crawlers, filters, reflectors, config, urls)
	for _, role := range []string{provision.Reflector, provision.Filter, provision.Crawler} {
		for _, p := range made[role] {
			p.Start()
		}
	}
	return made
}

// measured sums up polls.
func (w *crawl) measured(polls map[string]poll) Assignment {
	var millis []float64
	counts := make([]int, w.Crawlers)
	for _, q := range polls {
		millis = append(millis, q.millis)
		counts[q.crawler]++
	}
	return newAssignment(millis, counts)
}

// compare computes the assignments that no crawler makes.
func (w *crawl) compare(r *CrawlResult) {
	rng := rand.New(rand.NewPCG(w.Seed, 37))
	by := func(choose func(i int) int) Assignment {
		var millis []float64
		counts := make([]int, w.Crawlers)
		for i, url := range w.urls {
			crawler := choose(i)
			counts[crawler]++
			millis = append(millis, float64(w.rtt(crawler, w.host[url]))/float64(time.Millisecond)+meanServing)
		}
		return newAssignment(millis, counts)
	}
	nearest := func(i int) int {
		best := 0
		for crawler := range w.Crawlers {
			if w.rtt(crawler, w.host[w.urls[i]]) < w.rtt(best, w.host[w.urls[i]]) {
				best = crawler
			}
		}
		return best
	}
	r.Random = by(func(int) int { return rng.IntN(w.Crawlers) })
	r.Nearest = by(nearest)
	fit := w.firstFit()
	r.FirstFit = by(func(i int) int { return fit[i] })
}

// meanServing is the mean time that a web server takes in package sim, in milliseconds.
const meanServing = 15

// firstFit is the paper's algorithm: the crawlers choose their nearest feed in turn, until none is left.
func (w *crawl) firstFit() []int {
	chosen := make([]int, len(w.urls))
	order := make([][]int, w.Crawlers)
	for crawler := range order {
		chosenBy := make([]int, len(w.urls))
		for i := range chosenBy {
			chosenBy[i], chosen[i] = i, -1
		}
		slices.SortFunc(chosenBy, func(a, b int) int {
			return cmp.Or(cmp.Compare(w.rtt(crawler, w.host[w.urls[a]]), w.rtt(crawler, w.host[w.urls[b]])), cmp.Compare(a, b))
		})
		order[crawler] = chosenBy
	}
	for left := len(w.urls); left > 0; {
		for crawler := range order {
			for len(order[crawler]) > 0 && chosen[order[crawler][0]] >= 0 {
				order[crawler] = order[crawler][1:]
			}
			if len(order[crawler]) > 0 {
				chosen[order[crawler][0]] = crawler
				left--
			}
		}
	}
	return chosen
}

// place returns where a crawler is, and the five nearest web servers of its feeds.
func (w *crawl) place(p *sim.Peer, crawler int) (at Place) {
	var servers []int
	for url, q := range w.last {
		if server := w.host[url]; q.crawler == crawler && !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	slices.SortFunc(servers, func(a, b int) int {
		return cmp.Or(cmp.Compare(w.rtt(p.Index(), a), w.rtt(p.Index(), b)), cmp.Compare(a, b))
	})
	at.X, at.Y = sim.KingPlace(w.Seed, p.Index())
	for _, server := range servers[:min(5, len(servers))] {
		x, y := sim.KingPlace(w.Seed, w.placed+server)
		at.HostsX, at.HostsY = append(at.HostsX, x), append(at.HostsY, y)
	}
	return at
}
