package cobra

import (
	"maps"
	"slices"
	"time"

	"tidings/cobra/index"
	"tidings/internal/feed"
)

// Late is an article that came before somebody subscribed to what it matches.
type Late struct {
	Article *Article
	Came    time.Time
}

// early knows the numbers of articles that were kept for who subscribed when they had come. Those may
// be on their way to the reflector still, and somebody else may begin with them, too.
type early struct {
	numbers map[uint64]uint32 // by the sum of what they are
}

// maxEarly is how many are known. All are forgotten then: an article may then be kept twice, and Feed.Read
// shows it once.
const maxEarly = 1 << 14

// beginShare is the share of Config.Waiting, one by it, that one subscription may begin with: half of it would
// shorten what comes to others.
const beginShare = 4

func (e *early) number(a *Article) (n uint32, ok bool) {
	if a.ID == (feed.ID{}) {
		return 0, false
	}
	n, ok = e.numbers[sumOf(a.Feed, a.ID)]
	return n, ok
}

func (e *early) add(a *Article, n uint32) {
	if e.numbers == nil || len(e.numbers) >= maxEarly {
		e.numbers = map[uint64]uint32{}
	}
	e.numbers[sumOf(a.Feed, a.ID)] = n
}

func (e *early) forget(a *Article) { delete(e.numbers, sumOf(a.Feed, a.ID)) }

// begin gives new nodes those of the articles of late that match: each as many of the newest as it keeps, and
// all together no more than a part of what may wait for the disk. It orders late, which may tell of one twice.
func (r *Reflector) begin(nodes []index.Node, late []Late) {
	type beginning struct {
		late  Late
		nodes []index.Node
	}
	var of []beginning
	has := map[index.Node]int{}
	full, room := 0, r.config.Waiting/beginShare
	slices.SortStableFunc(late, func(a, b Late) int { return a.Came.Compare(b.Came) })
	told := map[uint64]bool{}
	for _, l := range slices.Backward(late) {
		if full == len(nodes) || room < 0 {
			break
		}
		hits := slices.DeleteFunc(r.filter.Match(l.Article), func(n index.Node) bool {
			return !slices.Contains(nodes, n) || has[n] == r.config.Kept
		})
		sum := sumOf(l.Article.Feed, l.Article.ID)
		if len(hits) == 0 || told[sum] {
			continue
		}
		told[sum] = l.Article.ID != feed.ID{}
		for _, n := range hits {
			if has[n]++; has[n] == r.config.Kept {
				full++
			}
		}
		room -= int64(l.Article.Size())
		of = append(of, beginning{l, slices.Clone(hits)})
	}
	rings := map[uint32][]index.Node{}
	for _, b := range slices.Backward(of) {
		a := b.late.Article
		n, ok := r.early.number(a)
		if !ok || !r.stock.has(n) {
			m := a.proto()
			m.Early = true
			if !r.keepAs(m, b.late.Came, func() { r.early.forget(a) }) {
				continue
			}
			n = r.stock.last
			r.early.add(a, n)
		}
		r.stock.sweeper.has(n)
		rings[n] = b.nodes
	}
	// Rings have articles in the order of their numbers.
	for _, n := range slices.Sorted(maps.Keys(rings)) {
		r.rings.Put(n, rings[n])
	}
}
