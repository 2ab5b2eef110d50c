package provision

import (
	"fmt"
	"math"
)

// Constraints hold the capacity of a node.
type Constraints struct {
	Bandwidth float64 // bits per second, in each direction
	Memory    float64 // megabytes
	CPU       float64 // processor seconds per second; 1 is the processor of the model
	// Overprovision is the share of capacity to add to every need: the paper's 0.1.
	Overprovision float64
}

// A Load is the demand to plan for.
type Load struct{ Feeds, Subscriptions float64 }

// Counts are the numbers of nodes. There are InFilters × OutFilters filters: in-replicas have
// different feeds, out-replicas different subscriptions.
type Counts struct {
	Crawlers, InFilters, OutFilters, Reflectors int
}

// Filters returns the number of filters.
func (c Counts) Filters() int { return c.InFilters * c.OutFilters }

// maxNodes bounds the nodes of a plan.
const maxNodes = 1 << 20

// A violation is a constraint that the nodes of one kind violate.
type violation struct {
	rank       int // lower ranks are resolved first
	constraint string
	need       float64
	has        float64
	unit       string
	count      func(*Counts) *int // the count that resolves it when increased; nil if none does
}

func (v violation) String() string {
	return fmt.Sprintf("%s: needs %.4g %s, has %.4g", v.constraint, v.need, v.unit, v.has)
}

// A problem is a load for nodes of given capacity at given costs.
type problem struct {
	load  Load
	nodes Constraints
	model Model
}

// violations returns the violated constraints; those of equal rank are in the order of
// resolution.
func (p *problem) violations(c Counts) (of []violation) {
	m, n := &p.model, &p.nodes
	feeds, subs := p.load.Feeds, p.load.Subscriptions
	crawlers, in, out, reflectors := float64(c.Crawlers), float64(c.InFilters), float64(c.OutFilters), float64(c.Reflectors)
	articles := m.ArticleRate * feeds // per second
	stream := articles * 8 * m.ArticleBytes
	moreCrawlers := func(c *Counts) *int { return &c.Crawlers }
	moreIn := func(c *Counts) *int { return &c.InFilters }
	moreOut := func(c *Counts) *int { return &c.OutFilters }
	moreReflectors := func(c *Counts) *int { return &c.Reflectors }
	check := func(rank int, what, unit string, need, has float64, more func(*Counts) *int) {
		if need *= 1 + n.Overprovision; need > has {
			of = append(of, violation{rank, what, need, has, unit, more})
		}
	}
	check(0, "crawlers, bandwidth in", "bit/s", feeds/crawlers*m.DocumentBytes*m.DownloadShare*8/m.CrawlInterval, n.Bandwidth, moreCrawlers)
	check(0, "filters, bandwidth in", "bit/s", stream/in, n.Bandwidth, moreIn)
	check(1, "crawlers, bandwidth out", "bit/s", stream/crawlers*out, n.Bandwidth, moreCrawlers)
	check(1, "filters, bandwidth out", "bit/s", stream*m.PassShare/in*math.Max(1, math.Ceil(reflectors/out)), n.Bandwidth, moreIn)
	check(2, "filters, processor", "s/s", articles/in*m.matchSeconds(subs/out), n.CPU, moreOut)
	check(2, "filters, memory", "MB", m.FilterFixed+m.FilterPerMillion*subs/out/1e6, n.Memory, moreOut)
	check(2, "reflectors, bandwidth out", "bit/s", subs/reflectors*8*m.PollBytes/m.PollInterval, n.Bandwidth, moreReflectors)
	check(2, "reflectors, processor", "s/s", articles*m.PassShare*m.matchSeconds(subs/reflectors), n.CPU, moreReflectors)
	check(2, "reflectors, memory", "MB", m.ReflectorFixed+m.ReflectorPerMillion*subs/reflectors/1e6, n.Memory, moreReflectors)
	check(3, "reflectors, bandwidth in", "bit/s", stream*m.PassShare, n.Bandwidth, nil)
	return of
}

// solve computes the numbers of nodes. It also returns the violations that cannot be resolved.
func (p *problem) solve() (c Counts, violated []violation) {
	c = Counts{1, 1, 1, 1}
	for {
		var first *violation
		violated = p.violations(c)
		for i := range violated {
			if v := &violated[i]; v.count != nil && (first == nil || v.rank < first.rank) {
				first = v
			}
		}
		if first == nil || !p.canResolve(first) || c.Crawlers+c.Filters()+c.Reflectors >= maxNodes {
			return c, violated
		}
		*first.count(&c)++
	}
}

// canResolve reports whether a very large number of nodes would satisfy a constraint. No number
// does if the fixed cost of a node alone is too high.
func (p *problem) canResolve(v *violation) bool {
	many := Counts{1, 1, 1, 1}
	*v.count(&many) = maxNodes
	for _, still := range p.violations(many) {
		if still.constraint == v.constraint {
			return false
		}
	}
	return true
}
