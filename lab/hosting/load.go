package hosting

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/internal/env"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/sim"
)

// A LoadConfig describes a crawler, filters and as many reflectors. Each filter has its own searches, one of which every
// article matches, so that each article goes to every reflector.
type LoadConfig struct {
	Seed     uint64
	Filters  int
	Feeds    int
	Every    time.Duration // between two items of a feed
	Interval time.Duration // of polls
	Length   time.Duration // of the measurement
	Pace     time.Duration // that a reflector takes for an article
	Stall    time.Duration // for which the first reflector does nothing, in the middle of the measurement
	Drop     bool          // senders drop, instead of waiting, what a full queue has no room for
	Buffer   int           // of a link, in bytes; 0: that of the daemon
}

// A LoadResult is how articles went through the tiers. Its fields are its JSON.
type LoadResult struct {
	Rate     float64   `json:"articles_per_s"`
	Busy     float64   `json:"busy"`     // part of the time that a reflector works
	Internal Latency   `json:"internal"` // from the crawler to a reflector that was not stalled
	Update   Latency   `json:"update"`   // from the web server to it
	Stalled  Latency   `json:"stalled"`  // from the crawler to the stalled reflector
	Missing  int       `json:"missing"`  // articles that a reflector did not get by the end, once for each
	Dropped  uint64    `json:"dropped"`
	Tiers    TierBytes `json:"bytes_per_s"`
}

// TierBytes is what the nodes of each tier send together, and what the crawler downloads, in bytes a second.
type TierBytes struct {
	Downloaded float64 `json:"downloaded"`
	Crawlers   float64 `json:"crawlers"`
	Filters    float64 `json:"filters"`
	Reflectors float64 `json:"reflectors"`
}

// A Latency is a distribution, in seconds.
type Latency struct {
	Median float64   `json:"median_s"`
	P99    float64   `json:"p99_s"`
	All    []float64 `json:"-"` // sorted
}

func newLatency(all []float64) Latency {
	slices.Sort(all)
	return Latency{Median: quantile(all, 0.5), P99: quantile(all, 0.99), All: all}
}

// ticking is a feed with an item every so often, of which a document shows the last ones.
type ticking struct {
	feed         int
	phase, every time.Duration
	end          time.Duration
	shows        int
}

// count returns the number of items at a time.
func (s *ticking) count(t time.Duration) int {
	if t = min(t, s.end); t < s.phase {
		return 0
	}
	return int((t-s.phase)/s.every) + 1
}

// words make an article as long as the median one of the paper's Figure 5: 61 words.
var words = strings.Repeat("nothing of interest has happened here again this week ", 7)

func (s *ticking) At(t time.Duration) script.Version {
	n := s.count(t)
	var doc strings.Builder
	fmt.Fprintf(&doc, `<rss version="2.0"><channel><title>Feed %d</title>`, s.feed)
	for i := n - 1; i >= max(0, n-s.shows); i-- {
		fmt.Fprintf(&doc, `<item><guid>%d-%d</guid><title>%d-%d</title><description>%s</description></item>`, s.feed, i, s.feed, i, words)
	}
	doc.WriteString(`</channel></rss>`)
	return script.Version{Index: n, ContentType: "application/rss+xml", Body: []byte(doc.String())}
}

func (s *ticking) Next(t time.Duration) (time.Duration, bool) {
	at := s.phase + time.Duration(s.count(t))*s.every
	return at, at <= s.end
}

// An article is on its way.
type article struct {
	published, crawled time.Time
	reflected          []time.Time // by reflector
}

// A load is a running world.
type load struct {
	LoadConfig
	*sim.Swarm
	made     map[string][]*sim.Peer
	scripts  []*ticking
	began    time.Time
	articles map[string]*article // by title
	bytes    uint64              // downloaded
}

// warmUp is the time until articles count, and drain the time after the last one.
const warmUp, drain = 2 * time.Minute, 5 * time.Minute

// Run lets the tiers work.
func (c LoadConfig) Run(ctx context.Context, progress func(float64)) (r LoadResult, err error) {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = c.Interval
	w := &load{LoadConfig: c, articles: map[string]*article{}, Swarm: sim.NewSwarm(sim.SwarmConfig{
		Network: network, World: sim.Config{Seed: c.Seed, Topology: sim.King(c.Seed)},
	})}
	var urls []string
	for i := range c.Feeds {
		s := &ticking{
			feed: i, every: c.Every, phase: c.Every * time.Duration(i) / time.Duration(c.Feeds), end: warmUp + c.Length,
			shows: 3*int(c.Interval/c.Every) + int(2*c.Stall/c.Every) + 10,
		}
		w.scripts = append(w.scripts, s)
		urls = append(urls, fmt.Sprintf("http://feed%d.example/", i))
	}
	w.SetHooks(sim.Hooks{Reflected: w.reflected})
	w.made = startCentre(w.Swarm, func(string, int) tiers.Config { return tiers.Config{Drop: c.Drop, Buffer: c.Buffer} }, 1, c.Filters, c.Filters, urls)
	w.began = w.Now()
	for i, s := range w.scripts {
		w.Serve(urls[i], s)
	}
	w.made[provision.Crawler][0].FilterAnswer = w.crawled
	for _, p := range w.made[provision.Reflector] {
		p.Ask("interest")
		p.Pace(c.Pace)
	}
	advance := func(d time.Duration) error {
		for end := w.Now().Add(d); w.Now().Before(end) && ctx.Err() == nil; {
			w.World.Run(min(10*time.Second, end.Sub(w.Now())))
			progress(min(1, float64(w.Now().Sub(w.began))/float64(warmUp+c.Length+drain)))
		}
		return context.Cause(ctx)
	}
	if err := advance(warmUp); err != nil {
		return r, err
	}
	before := w.sent()
	if err := advance((c.Length - c.Stall) / 2); err != nil {
		return r, err
	}
	if c.Stall > 0 {
		w.made[provision.Reflector][0].Stall(true)
	}
	if err := advance(c.Stall); err != nil {
		return r, err
	}
	w.made[provision.Reflector][0].Stall(false)
	if err := advance((c.Length - c.Stall) / 2); err != nil {
		return r, err
	}
	after := w.sent()
	if err := advance(drain + c.Interval); err != nil {
		return r, err
	}
	r = w.result()
	seconds := c.Length.Seconds()
	r.Tiers = TierBytes{
		Downloaded: (after.Downloaded - before.Downloaded) / seconds, Crawlers: (after.Crawlers - before.Crawlers) / seconds,
		Filters: (after.Filters - before.Filters) / seconds, Reflectors: (after.Reflectors - before.Reflectors) / seconds,
	}
	return r, nil
}

// sent returns the bytes of each tier so far.
func (w *load) sent() (b TierBytes) {
	b.Downloaded = float64(w.bytes)
	for role, sum := range map[string]*float64{provision.Crawler: &b.Crawlers, provision.Filter: &b.Filters, provision.Reflector: &b.Reflectors} {
		for _, p := range w.made[role] {
			for _, t := range p.Stats().Sent {
				*sum += float64(t.Bytes)
			}
		}
	}
	return b
}

// crawled notes which articles a document has that the crawler gets.
func (w *load) crawled(r env.Request, a env.Answer) env.Answer {
	w.bytes += uint64(len(a.Body))
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://feed"), ".")
	i, err := strconv.Atoi(name)
	if err != nil || a.Status != 200 {
		return a
	}
	s := w.scripts[i]
	n, err := strconv.Atoi(strings.Trim(a.ETag, `"`))
	for n--; err == nil && n >= 0; n-- {
		title := fmt.Sprintf("%d-%d", i, n)
		if w.articles[title] != nil {
			break
		}
		w.articles[title] = &article{
			published: w.began.Add(s.phase + time.Duration(n)*s.every), crawled: w.Now(), reflected: make([]time.Time, w.Filters),
		}
	}
	return a
}

func (w *load) reflected(p *sim.Peer, a *cobra.Article) {
	if on := w.articles[a.Title]; on != nil {
		on.reflected[slices.Index(w.made[provision.Reflector], p)] = w.Now()
	}
}

// result sums up the articles that were published while it was measured.
func (w *load) result() (r LoadResult) {
	var internal, update, stalled []float64
	counted := 0
	for _, a := range w.articles {
		if a.published.Before(w.began.Add(warmUp)) {
			continue
		}
		counted++
		for i, at := range a.reflected {
			switch seconds := at.Sub(a.crawled).Seconds(); {
			case at.IsZero():
				r.Missing++
			case w.Stall > 0 && i == 0:
				stalled = append(stalled, seconds)
			default:
				internal, update = append(internal, seconds), append(update, at.Sub(a.published).Seconds())
			}
		}
	}
	published := 0
	for _, s := range w.scripts {
		published += s.count(warmUp+w.Length) - s.count(warmUp-1)
	}
	r.Missing += (published - counted) * w.Filters // which the crawler never saw
	r.Rate = float64(published) / w.Length.Seconds()
	r.Busy = r.Rate * w.Pace.Seconds()
	r.Internal, r.Update, r.Stalled = newLatency(internal), newLatency(update), newLatency(stalled)
	for _, p := range w.Peers() {
		r.Dropped += p.Layers().Tiers.Stats().Dropped
	}
	return r
}
