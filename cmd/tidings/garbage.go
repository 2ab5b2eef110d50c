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
// in use cannot be returned to the system later. With half of it, an import of a hundred thousand subscriptions takes a third longer.
const (
	leastGarbage     = 20
	mostGarbage      = 80
	mostGarbageBytes = 384 << 20
)

// At rest, unused memory is returned to the system every releasePause, if it has at least leastUnused bytes and one part in
// leastUnusedPart of what is needed. Go itself keeps a tenth of what was in use before the last collection.
const (
	releasePause    = 5 * time.Minute
	leastUnused     = 16 << 20
	leastUnusedPart = 50
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
	percent int           // before mostGarbageBytes limits it
	share   float64       // of a core that collections have taken lately
	since   time.Duration // the last return of memory
}

// A heap is what the collector says of the memory of the process.
type heap struct {
	collecting time.Duration // processor time that collections have taken from the rest of the process so far
	needed     uint64        // bytes that the last collection has left
	unused     uint64        // bytes that could be returned to the system
}

// next takes the processor time of the collections in a time, and the heap at its end. It returns how much garbage there may be from now
// on, and whether to return unused memory to the system: after a time of much work, and from time to time at rest.
func (t *garbageTuner) next(collecting, passed time.Duration, h heap) (percent int, release bool) {
	old := math.Exp(-passed.Seconds() / garbageMemory.Seconds())
	t.share = old*t.share + (1-old)*collecting.Seconds()/passed.Seconds()
	t.since += passed
	before := t.percent
	switch {
	case t.share > highShare:
		t.percent = min(2*t.percent, mostGarbage)
	case t.share < lowShare:
		t.percent = max(t.percent/2, leastGarbage)
	}
	if t.percent == leastGarbage {
		surplus := h.unused > max(leastUnused, h.needed/leastUnusedPart)
		if release = t.percent < before || surplus && t.since >= releasePause; release {
			t.since = 0
		}
	}
	most := uint64(100) * mostGarbageBytes / max(h.needed, 1)
	return max(int(min(uint64(t.percent), most)), leastGarbage), release
}

// tuneGarbage says how much garbage the process may have, until ctx ends, and returns unused memory to the system.
func tuneGarbage(ctx context.Context) {
	t, set := garbageTuner{percent: mostGarbage, share: highShare}, mostGarbage
	debug.SetGCPercent(set)
	last := readHeap()
	at := time.Now()
	tick := time.NewTicker(garbagePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		h, now := readHeap(), time.Now()
		percent, release := t.next(h.collecting-last.collecting, now.Sub(at), h)
		if percent != set {
			set = percent
			debug.SetGCPercent(set)
		}
		if release {
			debug.FreeOSMemory()
			h = readHeap() // the collection that this makes does not count
		}
		last, at = h, now
	}
}

func readHeap() (h heap) {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	h.collecting = time.Duration((samples[0].Value.Float64() + samples[1].Value.Float64()) * float64(time.Second))
	h.needed, h.unused = samples[2].Value.Uint64(), samples[3].Value.Uint64()
	return h
}
