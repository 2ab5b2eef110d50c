package keywords

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"tidings/cobra"
	"tidings/internal/env"
	"tidings/internal/store"
)

// A ReflectConfig says what Reflect measures.
type ReflectConfig struct {
	Subscriptions int
	Articles      int
	Words         int    // per article; Mix for all lengths
	Dir           string // of the store
	Resident      func() int
	Mapped        func() int           // part of the resident memory that is pages of files
	CPUTime       func() time.Duration // CPU time
}

// A ReflectRun is the result for a reflector with a real disk, which holds the texts of
// subscriptions, the articles and the rings.
type ReflectRun struct {
	Subscriptions int      `json:"subscriptions"`
	Articles      int      `json:"articles"`
	Live          int      `json:"live"`   // of these, kept in at least one feed
	Growth        []Memory `json:"growth"` // of the memory
	RSS           int      `json:"rss_bytes"`
	Mapped        int      `json:"mapped_bytes"` // of these, pages of files
	Disk          int64    `json:"disk_bytes"`
	Mean          float64  `json:"us_per_article"` // from HTML to the ring
	P50           float64  `json:"p50_us"`
	P90           float64  `json:"p90_us"`
	Subscribe     float64  `json:"us_per_subscription"` // until all are on the disk
	Load          float64  `json:"load_s"`              // until a restarted reflector has all subscriptions and their feeds
	LoadCPU       float64  `json:"load_cpu_s"`          // CPU time of that
	Same          bool     `json:"same"`                // every feed is the same after the restart
}

// Memory is what a reflector takes after some articles.
type Memory struct {
	Articles int `json:"articles"`
	RSS      int `json:"rss_bytes"`
	Mapped   int `json:"mapped_bytes"` // of these, pages of files
}

// memoryPoints is how often the memory is measured.
const memoryPoints = 30

// A realReflector is a reflector over a real disk, on the goroutine that calls it. Its clock
// follows the articles, so that rings are written as often as in operation.
type realReflector struct {
	now       time.Time
	disk      *store.Disk
	calls     chan func()
	reflector *cobra.Reflector
}

func openReflector(dir string, now time.Time) (*realReflector, error) {
	d := &realReflector{now: now, calls: make(chan func(), 1<<10)}
	var err error
	if d.disk, err = store.Open(filepath.Join(dir, "keywords.db"), func(f func()) { d.calls <- f }, secondCopy()); err != nil {
		return nil, err
	}
	if d.disk.Lost() != "" { // a new store, as far as it knows
		if err := d.disk.AcceptLoss(); err != nil {
			return nil, errors.Join(err, d.disk.Close())
		}
	}
	c := cobra.Config{MaxSubscriptions: cobra.HighestMaxSubscriptions} // otherwise that of the daemon
	d.reflector, err = cobra.Open(env.Env{Clock: d, Worker: d, Store: d.disk, Log: slog.New(slog.DiscardHandler)}, c)
	return d, err
}

// secondCopy selects the records with a second copy, as the daemon does.
func secondCopy() store.SecondCopy {
	subscriptions, numbers := cobra.IrreplaceableKeys()
	return store.SecondCopy{Prefix: []string{subscriptions}, Lazy: []string{numbers}}
}

func (d *realReflector) Now() time.Time       { return d.now }
func (d *realReflector) Do(pure, done func()) { pure(); done() }

// runCalls runs the callbacks of the disk.
func (d *realReflector) runCalls() {
	for {
		select {
		case f := <-d.calls:
			f()
		default:
			return
		}
	}
}

// until runs the callbacks of the disk until a condition holds.
func (d *realReflector) until(ctx context.Context, so func() bool) error {
	for !so() {
		select {
		case f := <-d.calls:
			f()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Reflect makes the measurement.
func Reflect(ctx context.Context, c ReflectConfig, progress func(float64)) (run ReflectRun, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	d, err := openReflector(c.Dir, time.Now())
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, d.disk.Close()) }()
	run = ReflectRun{Subscriptions: c.Subscriptions, Articles: c.Articles}
	words := PaperWords()
	begin := time.Now()
	if err := d.subscribe(ctx, words, rand.New(rand.NewPCG(7, 1)), c.Subscriptions, func(done float64) { progress(0.5 * done) }); err != nil {
		return run, err
	}
	run.Subscribe = micro(time.Since(begin)) / float64(run.Subscriptions)
	if err := d.takeArticles(ctx, words, c, &run, progress); err != nil {
		return run, err
	}
	feeds := d.feeds(c.Subscriptions)
	live := map[uint32]bool{}
	for _, feed := range feeds {
		for _, article := range feed {
			live[article] = true
		}
	}
	run.Live = len(live)
	return run, d.restart(ctx, c, feeds, &run)
}

// subscribe makes n subscriptions.
func (d *realReflector) subscribe(ctx context.Context, words *Words, r *rand.Rand, n int, progress func(float64)) error {
	const waiting = 1 << 14 // the largest number of outstanding acknowledgements
	acknowledged, asked := 0, 0
	var failed error
	for asked < n && failed == nil {
		d.reflector.Subscribe(0, string(words.Text(nil, words.Subscription(r, nil))), nil, func(_ cobra.SubscriptionID, err error) {
			acknowledged++
			failed = cmp.Or(failed, err)
		})
		if asked++; asked%1024 == 0 {
			progress(float64(asked) / float64(n))
		}
		d.runCalls()
		if err := d.until(ctx, func() bool { return asked-acknowledged < waiting }); err != nil {
			return err
		}
	}
	if err := d.until(ctx, func() bool { return acknowledged == asked }); err != nil {
		return err
	}
	return failed
}

// articleInterval is the time between two articles of a million feeds: 48.5 come per second (Figure
// 7).
const articleInterval = time.Second * 10 / 485

// takeArticles matches the articles.
func (d *realReflector) takeArticles(ctx context.Context, words *Words, c ReflectConfig, run *ReflectRun, progress func(float64)) error {
	r := rand.New(rand.NewPCG(5, 5))
	var us []float64
	every := max(1, c.Articles/memoryPoints)
	for i := range c.Articles {
		if i%every == 0 {
			run.Growth = append(run.Growth, c.memory(i))
		}
		a := cobra.Article{
			Feed: fmt.Sprintf("https://feed-%d.example/", i%1000), Link: fmt.Sprintf("https://feed-%d.example/%d", i%1000, i), Title: "An article",
			HTML: "<p>" + string(words.Text(nil, words.Article(r, c.Words, nil))) + "</p>",
		}
		begin := time.Now()
		d.reflector.Receive(&a, func() {})
		us = append(us, micro(time.Since(begin)))
		d.runCalls()
		d.now = d.now.Add(articleInterval)
		for d.reflector.Run(d.now).Compare(d.now) <= 0 { // a sweep has several steps
			d.runCalls()
		}
		if err := d.until(ctx, func() bool { return d.reflector.Stats().Waiting < 8<<20 }); err != nil {
			return err
		}
		if i%256 == 0 {
			progress(0.5 + 0.5*float64(i)/float64(c.Articles))
		}
	}
	if err := d.until(ctx, func() bool { return d.reflector.Stats().Waiting == 0 }); err != nil {
		return err
	}
	for _, t := range us {
		run.Mean += t / float64(len(us))
	}
	slices.Sort(us)
	run.P50, run.P90 = quantile(us, 0.5), quantile(us, 0.9)
	last := c.memory(c.Articles)
	run.Growth = append(run.Growth, last)
	run.RSS, run.Mapped, run.Disk = last.RSS, last.Mapped, d.reflector.Stats().Bytes
	return nil
}

// memory measures what the process takes without its garbage.
func (c ReflectConfig) memory(articles int) Memory {
	debug.FreeOSMemory()
	return Memory{articles, c.Resident(), c.Mapped()}
}

// feeds returns the articles of every subscription's feed.
func (d *realReflector) feeds(subscriptions int) [][]uint32 {
	feeds := make([][]uint32, subscriptions)
	for n := range feeds {
		f, _ := d.reflector.Feed(cobra.SubscriptionID(n))
		feeds[n] = f.Articles
	}
	return feeds
}

// restart opens the store again, as after a crash: what was not written is lost.
func (d *realReflector) restart(ctx context.Context, c ReflectConfig, feeds [][]uint32, run *ReflectRun) error {
	if err := d.disk.Close(); err != nil {
		return err
	}
	debug.FreeOSMemory()
	begin, spent := time.Now(), c.CPUTime()
	again, err := openReflector(c.Dir, d.now)
	if err != nil {
		return err
	}
	run.Load, run.LoadCPU = time.Since(begin).Seconds(), (c.CPUTime() - spent).Seconds()
	*d = *again
	run.Same = true
	for n, feed := range d.feeds(c.Subscriptions) {
		if !slices.Equal(feed, feeds[n]) {
			run.Same = false
			break
		}
	}
	return ctx.Err()
}

// TempDir creates a directory for a store within another one, or within the system's directory for
// temporary files; remove deletes it.
func TempDir(within string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(within, "tidings-lab-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}
