package keywords

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"tidings/cobra"
	"tidings/cobra/index"
	"tidings/cobra/query"
)

// A MatchConfig says what Match measures.
type MatchConfig struct {
	Subscriptions int
	Lengths       []int // of articles, in words; Mix for all lengths
	Distinct      bool  // equal subscriptions share no memory
	General       bool  // subscriptions consist of frequent words only
	Phrases       bool  // with General: every other one is a phrase
	// Real are articles to match instead of random ones; subscriptions then consist of their words.
	Real []cobra.Article
	// Peer, if set, matches the first articles of each length, too.
	Peer *Postgres
	// Resident returns the memory of this process in bytes; 0 if unknown.
	Resident func() int
	// CPUTime returns the CPU time of this process; 0 if unknown.
	CPUTime func() time.Duration
}

// keptArticles is how many articles each subscription keeps, as in the paper.
const keptArticles = 10

// Number of measurements.
const (
	articlesEach = 400
	articlesMix  = 2000
	changeCount  = 20000 // subscriptions that are added and removed again
)

// A MatchRun is the result for articles of one length. Times are in microseconds per article,
// including ring writes, except those that begin with Match.
type MatchRun struct {
	Subscriptions int     `json:"subscriptions"`
	Refused       int     `json:"refused"` // of these, by the configuration of the daemon
	Nodes         int     `json:"nodes"`   // distinct subscriptions
	Words         int     `json:"words"`   // 0: all lengths
	Path          string  `json:"path"`    // "match", or "html" for the whole path from HTML
	P50           float64 `json:"p50_us"`
	P90           float64 `json:"p90_us"`
	P99           float64 `json:"p99_us"`
	Mean          float64 `json:"mean_us"`
	CPU           float64 `json:"cpu_mean_us"` // CPU time, without other work of the machine
	MatchP50      float64 `json:"match_p50_us"`
	MatchP90      float64 `json:"match_p90_us"`
	Matches       float64 `json:"matches_mean"` // matching subscriptions
	Hits          float64 `json:"nodes_mean"`
	Bytes         float64 `json:"bytes_per_subscription"`
	FilterBytes   float64 `json:"filter_bytes_per_subscription"` // part of Bytes, without rings
	RSS           int     `json:"rss_bytes"`
	// Peers are the CPU times of a database for the first of the articles, by layout, and its
	// matches, which must be the same.
	Peers []PeerRun `json:"peers,omitempty"`
}

// A Change is the time to add a subscription, from its text until the next article matches it, and
// to remove one, in microseconds.
type Change struct {
	Subscriptions int     `json:"subscriptions"`
	AddP50        float64 `json:"add_p50_us"`
	AddP90        float64 `json:"add_p90_us"`
	RemoveP50     float64 `json:"remove_p50_us"`
	RemoveP90     float64 `json:"remove_p90_us"`
}

// A bench is a filter in memory.
type bench struct {
	config      MatchConfig
	words       *Words
	index       *index.Index
	filter      *cobra.Filter
	rings       *index.Rings
	bytes       float64 // per subscription
	filterBytes float64 // of these, without rings
	nextID      cobra.SubscriptionID
	lastArticle uint32 // number of the last article
	refused     int    // subscriptions
	hits        []index.ClauseID
}

// Match makes the measurements, and calls each with every result.
func Match(ctx context.Context, c MatchConfig, progress func(float64), each func(MatchRun)) (Change, error) {
	b := &bench{config: c, words: PaperWords(), index: index.New()}
	if c.Distinct {
		b.index = index.NewSeparate()
	}
	if c.Real != nil {
		b.words = wordsOf(c.Real)
	}
	b.filter = cobra.NewFilter(cobra.Config{}, b.index)
	if err := b.subscribe(ctx, progress); err != nil {
		return Change{}, err
	}
	// Garbage is collected before the measurement, and not during it.
	tidy := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(tidy)
	for _, length := range c.Lengths {
		articles := b.articles(length)
		run := b.match(length, articles)
		if c.Peer != nil {
			var err error
			if run.Peers, err = b.peer(length, articles); err != nil {
				return Change{}, err
			}
		}
		each(run)
		if length == Mix || c.Real != nil {
			each(b.wholePath(length, articles))
		}
		if ctx.Err() != nil {
			return Change{}, context.Cause(ctx)
		}
	}
	debug.SetGCPercent(tidy)
	return b.change()
}

// subscribe fills the filter, as the start of a node does.
func (b *bench) subscribe(ctx context.Context, progress func(float64)) error {
	before := b.config.Resident()
	b.seed()
	r := rand.New(rand.NewPCG(7, 1))
	var words []uint32
	var text []byte
	for i := range b.config.Subscriptions {
		if i%4096 == 0 {
			progress(float64(i) / float64(b.config.Subscriptions))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		words = b.draw(r, words[:0])
		if text = b.words.Text(text[:0], words); b.config.Phrases && i%2 == 0 {
			text = append(append([]byte{'"'}, text...), '"')
		}
		clauses, err := query.Clauses(string(text))
		if err != nil {
			return fmt.Errorf("subscription %q: %w", text, err)
		}
		if err := b.filter.Add(b.nextID, clauses, func(index.ClauseID) {}); err != nil {
			b.refused++
			continue
		}
		b.nextID++
	}
	b.filter.Pack()
	debug.FreeOSMemory()
	b.filterBytes = float64(b.config.Resident()-before) / float64(b.config.Subscriptions)
	b.rings = index.NewRings(keptArticles)
	b.rings.Grow(b.index.Limit())
	for b.lastArticle < keptArticles { // fill all rings, as in a filter that has run for a while
		b.lastArticle++
		b.hits = b.hits[:0]
		for n := range b.index.Limit() {
			b.hits = append(b.hits, index.ClauseID(n))
			if len(b.hits) == 1<<16 || n == b.index.Limit()-1 {
				b.rings.Put(b.lastArticle, b.hits)
				b.hits = b.hits[:0]
			}
		}
	}
	debug.FreeOSMemory()
	b.bytes = float64(b.config.Resident()-before) / float64(b.config.Subscriptions)
	return nil
}

// draw appends the words of a random subscription.
func (b *bench) draw(r *rand.Rand, words []uint32) []uint32 {
	if b.config.General {
		return b.words.General(r, words)
	}
	return b.words.Subscription(r, words)
}

// seed tells the index the frequencies of words, as it would learn them in operation.
func (b *bench) seed() {
	const articles = 1 << 20
	b.index.SeedArticles(articles)
	for i, name := range b.words.names[1:] {
		key := string(query.WordKey(nil, query.Any, []byte(name)))
		b.index.SeedKey(key, uint32(articles*b.words.Share(uint32(i)+1, mixMean)))
	}
}

// articles returns articles of a length, as HTML.
func (b *bench) articles(length int) (articles []cobra.Article) {
	if b.config.Real != nil {
		return b.config.Real
	}
	n := articlesEach
	if length == Mix {
		n = articlesMix
	}
	r := rand.New(rand.NewPCG(99, uint64(max(0, slices.Index([]int{MedianWords, ManyWords, LongWords}, length)))))
	for range n {
		text := append([]byte("<p>"), b.words.Text(nil, b.words.Article(r, length, nil))...)
		articles = append(articles, cobra.Article{HTML: string(append(text, "</p>"...))})
	}
	return articles
}

// match matches parsed articles twice; the second time counts.
func (b *bench) match(length int, articles []cobra.Article) MatchRun {
	read := make([]index.Article, len(articles))
	for i := range articles {
		b.filter.Extract(&articles[i], &read[i])
	}
	run := MatchRun{Subscriptions: b.config.Subscriptions, Refused: b.refused, Nodes: b.index.Clauses(), Words: length, Path: "match", Bytes: b.bytes, FilterBytes: b.filterBytes}
	var match, all []float64
	var spent time.Duration
	for pass := range 2 {
		spent = b.config.CPUTime()
		for i := range read {
			b.lastArticle++
			begin := time.Now()
			b.hits = b.index.Match(&read[i], b.hits[:0])
			matched := time.Since(begin)
			b.rings.Put(b.lastArticle, b.hits)
			took := time.Since(begin)
			if pass == 1 {
				match, all = append(match, micro(matched)), append(all, micro(took))
				run.Hits += float64(len(b.hits)) / float64(len(read))
				for _, n := range b.hits {
					run.Matches += float64(b.index.Uses(n)) / float64(len(read))
				}
			}
		}
	}
	run.CPU = micro(b.config.CPUTime()-spent) / float64(len(read))
	run.times(all)
	slices.Sort(match)
	run.MatchP50, run.MatchP90 = quantile(match, 0.5), quantile(match, 0.9)
	run.RSS = b.config.Resident()
	return run
}

// peer makes the peer match articles, and compares the number of matches.
func (b *bench) peer(length int, articles []cobra.Article) ([]PeerRun, error) {
	articles = articles[:min(len(articles), peerArticles)]
	var words [][]string
	matches := 0
	for i := range articles {
		text := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(articles[i].HTML, "<p>"), "</p>"))
		slices.Sort(text)
		words = append(words, slices.Compact(text))
		for _, n := range b.filter.Match(&articles[i]) {
			matches += b.index.Uses(n)
		}
	}
	runs, err := b.config.Peer.Match(length, words)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	for _, run := range runs {
		if run.Matches != matches {
			return runs, fmt.Errorf("PostgreSQL (%s) finds %d matches, where %d were found here", run.Layout, run.Matches, matches)
		}
	}
	return runs, nil
}

// wholePath parses articles and matches them.
func (b *bench) wholePath(length int, articles []cobra.Article) MatchRun {
	run := MatchRun{Subscriptions: b.config.Subscriptions, Refused: b.refused, Nodes: b.index.Clauses(), Words: length, Path: "html", Bytes: b.bytes, FilterBytes: b.filterBytes}
	var all []float64
	var spent time.Duration
	for pass := range 2 {
		spent = b.config.CPUTime()
		for i := range articles {
			b.lastArticle++
			begin := time.Now()
			hits := b.filter.Match(&articles[i])
			b.rings.Put(b.lastArticle, hits)
			if took := time.Since(begin); pass == 1 {
				all = append(all, micro(took))
				run.Hits += float64(len(hits)) / float64(len(articles))
			}
		}
	}
	run.CPU = micro(b.config.CPUTime()-spent) / float64(len(articles))
	run.times(all)
	run.RSS = b.config.Resident()
	return run
}

func (run *MatchRun) times(us []float64) {
	for _, t := range us {
		run.Mean += t / float64(len(us))
	}
	slices.Sort(us)
	run.P50, run.P90, run.P99 = quantile(us, 0.5), quantile(us, 0.9), quantile(us, 0.99)
}

// change adds subscriptions and removes them again.
func (b *bench) change() (Change, error) {
	r := rand.New(rand.NewPCG(1234, 1))
	c := Change{Subscriptions: b.config.Subscriptions}
	texts := make([]string, changeCount)
	for i := range texts {
		texts[i] = string(b.words.Text(nil, b.draw(r, nil)))
	}
	var add, remove []float64
	first := b.nextID
	for _, text := range texts {
		begin := time.Now()
		clauses, err := query.Clauses(text)
		if err != nil {
			return c, err
		}
		if err := b.filter.Add(b.nextID, clauses, func(n index.ClauseID) { b.rings.Grow(int(n) + 1) }); err != nil {
			return c, err
		}
		add = append(add, micro(time.Since(begin)))
		b.nextID++
	}
	for i, text := range texts {
		begin := time.Now()
		clauses, err := query.Clauses(text)
		if err != nil {
			return c, err
		}
		b.filter.Remove(first+cobra.SubscriptionID(i), clauses)
		remove = append(remove, micro(time.Since(begin)))
	}
	slices.Sort(add)
	slices.Sort(remove)
	c.AddP50, c.AddP90, c.RemoveP50, c.RemoveP90 = quantile(add, 0.5), quantile(add, 0.9), quantile(remove, 0.5), quantile(remove, 0.9)
	return c, nil
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// quantile returns a quantile of sorted values.
func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
