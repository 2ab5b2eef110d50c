package tiers

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

const (
	// overload is how much of its fair share a crawler polls at most. With less room, feeds of a part of the world where
	// few crawlers are go to far ones, and with more a crawler that is near to everybody polls too much.
	overload = 1.2
	// A feed changes its crawler only if it saves this part of the latency and this many milliseconds: less is within what
	// measurements vary by.
	worthwhile, worthwhileMillis = 0.2, 5
)

// A place says where a feed is polled.
type place struct {
	url    string
	holder int      // the crawler that polls it, by its number
	fixed  bool     // it stays there
	millis []uint32 // latency to each crawler; 0: unknown. Feeds of one host share it
	to     int      // the crawler that should poll it
}

// assign divides feeds among the crawlers that are up, each to the nearest one that has room: first those for which the
// second nearest is much worse. Feeds whose latency to their own crawler is unknown stay.
//
// The paper (section 3.7) lets crawlers choose their nearest feeds in turn, which leaves the last feeds to whoever still
// has room, however far.
func assign(all []place, up []bool) {
	crawlers := 0
	for _, ok := range up {
		if ok {
			crawlers++
		}
	}
	room := make([]int, len(up))
	for i := range room {
		room[i] = int(math.Ceil(overload * float64(len(all)) / float64(max(crawlers, 1))))
	}
	var free []*place
	for i := range all {
		p := &all[i]
		if p.to = p.holder; p.fixed || !up[p.holder] || p.millis[p.holder] == 0 {
			room[p.holder]--
		} else {
			free = append(free, p)
		}
	}
	regrets := make(map[*place]float64, len(free))
	for _, p := range free {
		best, second := math.Inf(1), math.Inf(1)
		for i := range up {
			if c := p.cost(i, up); c < best {
				best, second = c, best
			} else {
				second = min(second, c)
			}
		}
		regrets[p] = second - best
	}
	slices.SortFunc(free, func(a, b *place) int {
		return cmp.Or(cmp.Compare(regrets[b], regrets[a]), strings.Compare(a.url, b.url))
	})
	for _, p := range free {
		best := math.Inf(1)
		for i := range up {
			if c := p.cost(i, up); c < best && room[i] > 0 {
				best, p.to = c, i
			}
		}
		room[p.to]--
	}
}

// cost is what a crawler's polls of a feed cost.
func (p *place) cost(crawler int, up []bool) float64 {
	millis := float64(p.millis[crawler])
	switch {
	case millis == 0 || !up[crawler]:
		return math.Inf(1)
	case crawler == p.holder:
		return millis - max(worthwhile*millis, worthwhileMillis)
	}
	return millis
}
