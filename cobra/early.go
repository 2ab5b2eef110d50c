package cobra

import (
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
	numbers map[uint64][]uint32 // by the sum of what they are, in order
}

const (
	// maxEarly is how many articles are known. All are forgotten then: an article may then be kept twice, and
	// Feed.Read shows it once.
	maxEarly = 1 << 14
	// maxNumbers is how many numbers of an article are known, the last ones.
	maxNumbers = 8
)

// beginShare is the share of Config.Waiting, one by it, that one subscription may begin with: half of it would
// shorten what comes to others.
const beginShare = 4

func (e *early) of(a *Article) []uint32 {
	if a.ID == (feed.ID{}) {
		return nil
	}
	return e.numbers[sumOf(a.Feed, a.ID)]
}

func (e *early) add(a *Article, n uint32) {
	if e.numbers == nil || len(e.numbers) >= maxEarly {
		e.numbers = map[uint64][]uint32{}
	}
	sum := sumOf(a.Feed, a.ID)
	of := append(e.numbers[sum], n)
	e.numbers[sum] = of[max(0, len(of)-maxNumbers):]
}

func (e *early) forget(a *Article, n uint32) {
	sum := sumOf(a.Feed, a.ID)
	of := slices.DeleteFunc(e.numbers[sum], func(other uint32) bool { return other == n })
	if e.numbers[sum] = of; len(of) == 0 {
		delete(e.numbers, sum)
	}
}

// begun says whether a node has an article because somebody began with it.
func (r *Reflector) begun(node index.Node, a *Article) bool {
	return slices.ContainsFunc(r.early.of(a), func(n uint32) bool { return r.rings.Has(node, n) })
}

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
	// Rings have articles in the order of their numbers, and the first one goes for a new one: it has to be that
	// which came first. So an article that has a number has another one if those before it have higher ones.
	before := uint32(0)
	for _, b := range slices.Backward(of) {
		a := b.late.Article
		at := slices.IndexFunc(r.early.of(a), func(n uint32) bool { return n > before && r.stock.has(n) })
		if at >= 0 {
			before = r.early.of(a)[at]
		} else {
			m, n := a.proto(), r.stock.last+1
			m.Early = true
			if !r.keepAs(m, b.late.Came, func() { r.early.forget(a, n) }) {
				continue
			}
			before = n
			r.early.add(a, n)
		}
		r.stock.sweeper.has(before)
		r.rings.Put(before, b.nodes)
	}
}

// first is what a subscription's rings have, for its record: they are written with its page later, and when
// another one with the same clauses has ended, nobody else has them. It is nil if they have nothing.
func (r *Reflector) first(number Number) (b []byte) {
	some := false
	for _, n := range r.filter.Of(number) {
		ring := r.rings.Newest(n, nil)
		some = some || len(ring) > 0
		b = appendRing(b, ring)
	}
	if !some {
		return nil
	}
	return b
}
