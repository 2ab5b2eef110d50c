package provision

import (
	"fmt"
	"math"
)

// Constraints are what each node can do.
type Constraints struct {
	Bandwidth float64 // bits a second, in and out
	Memory    float64 // megabytes
	CPU       float64 // seconds of the model's processor in a second
	// Over is by how much more than is needed there is to be of everything: the
	// paper's 0.1.
	Over float64
}

// A Load is what is to be carried.
type Load struct{ Feeds, Subscriptions float64 }

// Counts is how many nodes there are. Filters are InFilters × OutFilters: in-replicas
// have other feeds, out-replicas other subscriptions.
type Counts struct {
	Crawlers, InFilters, OutFilters, Reflectors int
}

// Filters is how many filters there are.
func (c Counts) Filters() int { return c.InFilters * c.OutFilters }

// maxNodes is how many nodes a plan may have: more do not help.
const maxNodes = 1 << 20

// A violation is a constraint that nodes of one kind do not keep.
type violation struct {
	rank int // those of lower ones are resolved first
	what string
	need float64
	has  float64
	unit string
	more func(*Counts) *int // of whom there are to be more; nil: nothing helps
}

func (v violation) String() string {
	return fmt.Sprintf("%s: needs %.4g %s, has %.4g", v.what, v.need, v.unit, v.has)
}

// A problem is a load to be carried by nodes of a kind at a cost.
type problem struct {
	load  Load
	nodes Constraints
	model Model
}

// violations returns what is violated, of equal rank in the order in which it is
// resolved.
func (p *problem) violations(c Counts) (of []violation) {
	m, n := &p.model, &p.nodes
	feeds, subs := p.load.Feeds, p.load.Subscriptions
	crawlers, in, out, reflectors := float64(c.Crawlers), float64(c.InFilters), float64(c.OutFilters), float64(c.Reflectors)
	articles := m.Articles * feeds // a second
	stream := articles * 8 * m.Article
	moreCrawlers := func(c *Counts) *int { return &c.Crawlers }
	moreIn := func(c *Counts) *int { return &c.InFilters }
	moreOut := func(c *Counts) *int { return &c.OutFilters }
	moreReflectors := func(c *Counts) *int { return &c.Reflectors }
	check := func(rank int, what, unit string, need, has float64, more func(*Counts) *int) {
		if need *= 1 + n.Over; need > has {
			of = append(of, violation{rank, what, need, has, unit, more})
		}
	}
	check(0, "crawlers, bandwidth in", "bit/s", feeds/crawlers*m.Feed*m.Downloaded*8/m.Crawl, n.Bandwidth, moreCrawlers)
	check(0, "filters, bandwidth in", "bit/s", stream/in, n.Bandwidth, moreIn)
	check(1, "crawlers, bandwidth out", "bit/s", stream/crawlers*out, n.Bandwidth, moreCrawlers)
	check(1, "filters, bandwidth out", "bit/s", stream/in*math.Max(1, math.Ceil(reflectors/out)), n.Bandwidth, moreIn)
	check(2, "filters, processor", "s/s", articles/in*m.match(subs/out), n.CPU, moreOut)
	check(2, "filters, memory", "MB", m.FilterFixed+m.FilterEach*subs/out/1e6, n.Memory, moreOut)
	check(2, "reflectors, bandwidth out", "bit/s", subs/reflectors*8*m.Poll/m.Polls, n.Bandwidth, moreReflectors)
	check(2, "reflectors, processor", "s/s", articles*m.match(subs/reflectors), n.CPU, moreReflectors)
	check(2, "reflectors, memory", "MB", m.ReflectorFixed+m.ReflectorEach*subs/reflectors/1e6, n.Memory, moreReflectors)
	check(3, "reflectors, bandwidth in", "bit/s", stream, n.Bandwidth, nil)
	return of
}

// solve finds how many nodes it takes. What cannot be resolved is returned besides.
func (p *problem) solve() (c Counts, violated []violation) {
	c = Counts{1, 1, 1, 1}
	for {
		var first *violation
		violated = p.violations(c)
		for i := range violated {
			if v := &violated[i]; v.more != nil && (first == nil || v.rank < first.rank) {
				first = v
			}
		}
		if first == nil || !p.solvable(first) || c.Crawlers+c.Filters()+c.Reflectors >= maxNodes {
			return c, violated
		}
		*first.more(&c)++
	}
}

// solvable says whether very many nodes would keep a constraint: what one costs
// without any subscription, no number of them makes less.
func (p *problem) solvable(v *violation) bool {
	many := Counts{1, 1, 1, 1}
	*v.more(&many) = maxNodes
	for _, still := range p.violations(many) {
		if still.what == v.what {
			return false
		}
	}
	return true
}
