package cobra

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra/query"
	"tidings/internal/env"
)

// A disk is a store in memory. A crash loses all commits that write has not applied. The disk
// is also a clock and a worker.
type disk struct {
	records map[string][]byte
	queue   []commit
	now     time.Time
	full    bool
}

type commit struct {
	ops  []env.Op
	done func(error)
}

func (d *disk) Now() time.Time       { return d.now }
func (d *disk) Do(pure, done func()) { pure(); done() }
func (d *disk) env() env.Env {
	return env.Env{Clock: d, Worker: d, Store: d, Log: slog.New(slog.DiscardHandler)}
}
func (d *disk) Get(key []byte) ([]byte, error) { return d.records[string(key)], nil }

func (d *disk) Commit(ops []env.Op, done func(error)) { d.queue = append(d.queue, commit{ops, done}) }

func (d *disk) Range(prefix []byte, each func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(d.records)) {
		if strings.HasPrefix(key, string(prefix)) && !each([]byte(key), d.records[key]) {
			return nil
		}
	}
	return nil
}

var errFullDisk = errors.New("no space left on device")

// write applies the next n commits.
func (d *disk) write(n int) {
	for range min(n, len(d.queue)) {
		c := d.queue[0]
		d.queue = d.queue[1:]
		if d.full {
			c.done(errFullDisk)
			continue
		}
		for _, op := range c.ops {
			if op.Value == nil {
				delete(d.records, string(op.Key))
			} else {
				d.records[string(op.Key)] = bytes.Clone(op.Value)
			}
		}
		c.done(nil)
	}
}

func newDisk() *disk { return &disk{records: map[string][]byte{}, now: time.Unix(1_700_000_000, 0)} }

func open(t *testing.T, d *disk, c Config) *Reflector {
	t.Helper()
	r, err := Open(d.env(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func article(n int, text string) *Article {
	return &Article{Feed: "https://example.org/f", Link: fmt.Sprint("https://example.org/", n), Title: fmt.Sprint("Article ", n), HTML: text}
}

func subscribe(t *testing.T, r *Reflector, d *disk, text string) (n SubscriptionID) {
	t.Helper()
	r.Subscribe(0, text, nil, func(number SubscriptionID, err error) {
		if err != nil {
			t.Fatal(err)
		}
		n = number
	})
	d.write(100)
	return n
}

// titlesOf returns the titles of a subscription's feed.
func titlesOf(t *testing.T, r *Reflector, d *disk, n SubscriptionID) (titles []string) {
	t.Helper()
	f, ok := r.Feed(n)
	if !ok {
		t.Fatalf("there is no subscription %d", n)
	}
	kept, err := f.Read(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kept {
		titles = append(titles, k.Title)
	}
	return titles
}

// TestFeedHasTheLastMatchingArticles: "Cobra caches the last k matching articles" (section
// 3.3). With alternatives, an article that matches any of them counts.
func TestFeedHasTheLastMatchingArticles(t *testing.T) {
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 3
	r := open(t, d, c)
	solar, both := subscribe(t, r, d, "solar"), subscribe(t, r, d, "wind OR solar OR (solar wind)")
	for i, text := range []string{"solar", "wind", "solar wind", "nothing", "solar", "wind"} {
		r.Receive(article(i, text), func() {})
		if i%2 == 0 { // the others are still on their way to the disk
			d.write(1)
		}
	}
	if got, want := titlesOf(t, r, d, solar), []string{"Article 4", "Article 2", "Article 0"}; !slices.Equal(got, want) {
		t.Errorf("solar has %v, not %v", got, want)
	}
	if got, want := titlesOf(t, r, d, both), []string{"Article 5", "Article 4", "Article 2"}; !slices.Equal(got, want) {
		t.Errorf("wind or solar has %v, not %v", got, want)
	}
}

// TestReflectorSurvivesCrashes checks that everything that was acknowledged exists after a
// crash, with its articles, and that nothing unwritten exists in part.
func TestReflectorSurvivesCrashes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 1))
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 4
	r := open(t, d, c)
	type known struct {
		query *query.Expr
		since int // number of articles before it
		has   []string
	}
	acknowledged := map[SubscriptionID]*known{}
	at, came, given := 0, 0, 0 // articles, matching articles on disk, subscriptions
	subscriptions := func() []SubscriptionID { return slices.Sorted(maps.Keys(acknowledged)) }
	const steps = 6000
	for step := range steps {
		d.now = d.now.Add(time.Duration(random.IntN(20)) * time.Second)
		switch random.IntN(12) {
		case 0, 1:
			text := randomQuery(random, 2)
			q, err := query.Parse(text)
			if err != nil {
				break
			}
			since := at
			r.Subscribe(0, text, nil, func(n SubscriptionID, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if _, taken := acknowledged[n]; taken {
					t.Fatalf("step %d: number %d is given twice", step, n)
				}
				acknowledged[n] = &known{query: q, since: since}
				given++
			})
		case 2, 3:
			if of := subscriptions(); len(of) > 60 {
				n := of[random.IntN(len(of))]
				delete(acknowledged, n) // a crash may keep it
				r.Unsubscribe(n, func(err error) {
					if err != nil {
						t.Fatal(err)
					}
				})
				d.write(100)
			}
		case 4:
			r.Run(d.now)
		case 5:
			if random.IntN(20) == 0 { // a crash
				d.queue = nil
				r = open(t, d, c)
			}
		case 6, 7:
			d.write(random.IntN(6))
		default:
			a := randomArticle(random)
			a.Title = fmt.Sprintf("%06d %s", at, a.Title)
			before := len(d.queue)
			r.Receive(a, func() {})
			if len(d.queue) > before {
				n, number, done := newNaive(a), at, d.queue[before].done
				d.queue[before].done = func(err error) {
					came++
					for _, k := range acknowledged {
						if number >= k.since && n.matches(k.query) {
							k.has = append(k.has, a.Title)
						}
					}
					done(err)
				}
			}
			at++
		}
		if step%50 != 0 {
			continue
		}
		d.write(1000)
		for n, k := range acknowledged {
			want := slices.Clone(k.has[max(0, len(k.has)-c.ArticlesPerFeed):])
			slices.Reverse(want)
			got := titlesOf(t, r, d, n)
			if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
				t.Fatalf("step %d: %d, %q since %d: %q, not %q", step, n, k.query, k.since, got, want)
			}
		}
	}
	if given < steps/60 || came < steps/12 {
		t.Errorf("%d subscriptions and %d articles: the test covers too little", given, came)
	}
}
