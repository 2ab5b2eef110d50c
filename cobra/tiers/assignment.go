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
	// A feed changes its crawler only if that saves this part of the latency and this many milliseconds: less is within
	// what measurements vary by. Two feeds that change places have to save as much together.
	worthwhile, worthwhileMillis = 0.2, 5
	// maxPasses bounds the improvements of one assignment. The next one goes on where it ends.
	maxPasses = 8
)

// A place says where a feed is polled.
type place struct {
	url    string
	holder int      // the crawler that polls it, by its number
	fixed  bool     // it stays there
	millis []uint32 // latency to each crawler; 0: unknown. Feeds of one host share it
	to     int      // the crawler that should poll it
}

// assign improves who polls which feed: first feeds move to nearer crawlers that have room, those first that gain most;
// then feeds of two crawlers change places, the pairs first that gain most together. It begins with what is, and
// every change saves something, so that assignments with the same latencies come to rest.
//
// Each crawler assigns the feeds of its own share, without asking the others: of those, no crawler gets more than overload
// times the fair part, and so it does not of all together. A feed counts, and moves, once all crawlers that are up have measured
// its host; until then it stays where it is.
//
// The paper (section 3.7) lets crawlers choose their nearest feed in turn, which leaves the last feeds to whoever still
// has room, however far.
func assign(all []place, up []bool) {
	slices.SortFunc(all, func(a, b place) int { return strings.Compare(a.url, b.url) })
	crawlers, known := 0, 0
	for _, ok := range up {
		if ok {
			crawlers++
		}
	}
	room := make([]int, len(up))
	for i := range all {
		p := &all[i]
		if p.to = p.holder; p.known(up) {
			known++
			room[p.holder]--
		} else {
			p.fixed = true
		}
	}
	for i := range room {
		room[i] += int(math.Ceil(overload * float64(known) / float64(max(crawlers, 1))))
	}
	for range maxPasses {
		if fill(all, up, room)+swap(all, up) == 0 {
			return
		}
	}
}

// known reports whether all crawlers that are up have measured the host of a feed that one of them has.
func (p *place) known(up []bool) bool {
	for i, ok := range up {
		if ok && p.millis[i] == 0 {
			return false
		}
	}
	return up[p.holder]
}

// gain returns how many milliseconds a feed gains at another crawler, and whether it can go there.
func (p *place) gain(to int, up []bool) (millis float64, ok bool) {
	if p.fixed || to == p.to || !up[to] {
		return 0, false
	}
	return float64(p.millis[p.to]) - float64(p.millis[to]), true
}

// An exchange is a feed with what it gains elsewhere.
type exchange struct {
	*place
	gain float64
}

func byGain(a, b exchange) int {
	return cmp.Or(cmp.Compare(b.gain, a.gain), strings.Compare(a.url, b.url))
}

// fill moves feeds to crawlers that have room, and returns how many.
func fill(all []place, up []bool, room []int) (moved int) {
	var best []exchange
	for i := range all {
		most := math.Inf(-1)
		for to := range up {
			if g, ok := all[i].gain(to, up); ok {
				most = max(most, g)
			}
		}
		if most > 0 || room[all[i].to] < 0 && !math.IsInf(most, -1) {
			best = append(best, exchange{&all[i], most})
		}
	}
	slices.SortFunc(best, byGain)
	for _, p := range best {
		target, most := p.to, max(worthwhile*float64(p.millis[p.to]), worthwhileMillis)
		if room[p.to] < 0 { // its crawler polls too much
			most = math.Inf(-1)
		}
		for to := range up {
			if g, ok := p.place.gain(to, up); ok && room[to] > 0 && g >= most {
				target, most = to, g
			}
		}
		if target != p.to {
			room[p.to]++
			room[target]--
			p.to = target
			moved++
		}
	}
	return moved
}

// swap lets feeds of two crawlers change places, and returns how many pairs did.
func swap(all []place, up []bool) (swapped int) {
	at := make([][]*place, len(up))
	for i := range all {
		at[all[i].to] = append(at[all[i].to], &all[i])
	}
	gains := func(from, to int) (list []exchange) {
		for _, p := range at[from] {
			if g, ok := p.gain(to, up); ok && p.to == from {
				list = append(list, exchange{p, g})
			}
		}
		slices.SortFunc(list, byGain)
		return list
	}
	for a := range up {
		for b := range a {
			there, back := gains(a, b), gains(b, a)
			for i := range min(len(there), len(back)) {
				x, y := there[i], back[i]
				if x.gain+y.gain < max(worthwhile*float64(x.millis[a]+y.millis[b]), 2*worthwhileMillis) {
					break
				}
				x.to, y.to = b, a
				swapped++
			}
		}
	}
	return swapped
}
