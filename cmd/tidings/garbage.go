package main

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Limits of how much garbage a node may have beside what it needs, in percent. With mostGarbage, a node with a hundred thousand
// subscriptions takes half as much memory again as with leastGarbage. While it imports them, or starts, the collections of
// leastGarbage would take more processor time than all the rest. At rest collections are rare: Go forces one every two minutes anyway.
const (
	leastGarbage = 20
	mostGarbage  = 80
)

// Shares of a core that collections should take: below lowShare a node saves memory, above highShare processor time.
// garbagePause is the time between two looks, and garbageMemory that over which the share is a mean, so that one collection in a
// minute counts little.
const (
	lowShare      = 0.05
	highShare     = 0.10
	garbagePause  = 5 * time.Second
	garbageMemory = 15 * time.Second
)

// A garbageTuner says how much garbage there may be.
type garbageTuner struct {
	percent int
	share   float64 // of a core that collections have taken lately
}

// next takes the processor time of the collections in a time, and returns how much garbage there may be from now on.
func (t *garbageTuner) next(collecting, passed time.Duration) int {
	old := math.Exp(-passed.Seconds() / garbageMemory.Seconds())
	t.share = old*t.share + (1-old)*collecting.Seconds()/passed.Seconds()
	switch {
	case t.share > highShare:
		t.percent = min(2*t.percent, mostGarbage)
	case t.share < lowShare:
		t.percent = max(t.percent/2, leastGarbage)
	}
	return t.percent
}

// tuneGarbage says how much garbage the process may have, until ctx ends. When a time of much work has ended, as after the start,
// it returns to the system what that has left.
func tuneGarbage(ctx context.Context) {
	t := garbageTuner{percent: mostGarbage, share: highShare}
	debug.SetGCPercent(t.percent)
	last, at := collectingTime(), time.Now()
	tick := time.NewTicker(garbagePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		collected, now, before := collectingTime(), time.Now(), t.percent
		if t.next(collected-last, now.Sub(at)) != before {
			debug.SetGCPercent(t.percent)
			if t.percent == leastGarbage {
				debug.FreeOSMemory()
				collected = collectingTime() // without the collection that this makes
			}
		}
		last, at = collected, now
	}
}

// collectingTime returns the processor time that collections have taken from the rest of the process so far.
func collectingTime() time.Duration {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}}
	metrics.Read(samples)
	var sum float64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindFloat64 {
			sum += s.Value.Float64()
		}
	}
	return time.Duration(sum * float64(time.Second))
}
