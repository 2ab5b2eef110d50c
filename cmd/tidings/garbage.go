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
//
// mostGarbageBytes bounds the garbage of a large node that works, unless leastGarbage allows more. What lies between objects that are
// in use cannot be returned to the system later.
const (
	leastGarbage     = 20
	mostGarbage      = 80
	mostGarbageBytes = 512 << 20
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
	percent int     // before mostGarbageBytes limits it
	share   float64 // of a core that collections have taken lately
}

// next takes the processor time of the collections in a time and the bytes that are needed. It returns how much garbage there may be
// from now on, and whether a time of much work has ended.
func (t *garbageTuner) next(collecting, passed time.Duration, needed uint64) (percent int, rested bool) {
	old := math.Exp(-passed.Seconds() / garbageMemory.Seconds())
	t.share = old*t.share + (1-old)*collecting.Seconds()/passed.Seconds()
	before := t.percent
	switch {
	case t.share > highShare:
		t.percent = min(2*t.percent, mostGarbage)
	case t.share < lowShare:
		t.percent = max(t.percent/2, leastGarbage)
	}
	most := uint64(100) * mostGarbageBytes / max(needed, 1)
	return max(int(min(uint64(t.percent), most)), leastGarbage), t.percent < before && t.percent == leastGarbage
}

// tuneGarbage says how much garbage the process may have, until ctx ends. When a time of much work has ended, as after the start,
// it returns to the system what that has left.
func tuneGarbage(ctx context.Context) {
	t, set := garbageTuner{percent: mostGarbage, share: highShare}, mostGarbage
	debug.SetGCPercent(set)
	last, _ := collections()
	at := time.Now()
	tick := time.NewTicker(garbagePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		collected, needed := collections()
		now := time.Now()
		percent, rested := t.next(collected-last, now.Sub(at), needed)
		if percent != set {
			set = percent
			debug.SetGCPercent(set)
		}
		if rested {
			debug.FreeOSMemory()
			collected, _ = collections() // without the collection that this makes
		}
		last, at = collected, now
	}
}

// collections returns the processor time that collections have taken from the rest of the process so far, and the bytes that the last
// one has left.
func collections() (spent time.Duration, needed uint64) {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindFloat64:
			spent += time.Duration(s.Value.Float64() * float64(time.Second))
		case metrics.KindUint64:
			needed = s.Value.Uint64()
		}
	}
	return spent, needed
}
