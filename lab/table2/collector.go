package table2

import (
	"runtime"
	"runtime/metrics"
)

// A collector has garbage collected between the turns of the lanes, when no member is at work: all processors
// look for what is dead then, and none of the lanes is kept back by it while the other waits. Go's own collections
// are off (debug.SetGCPercent), but for those by its memory limit; nor does it give back memory between, piece by
// piece, of which large pages would be small ones afterwards.
type garbageCollector struct {
	heap       []metrics.Sample // what is there in bytes, the dead included
	nextSize   uint64           // how much that is at the next collection
	heapTarget uint64           // a heap of as much is let grow
}

// maxDead is how much dead there may be for what lives. Worlds are large and live long, and grow among what lives
// for moments: to let more of that pile up would leave holes between.
const maxGarbage = 0.5

func newCollector(room int) *garbageCollector {
	c := &garbageCollector{heap: []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}, heapTarget: uint64(room)}
	runtime.GC() // of the world before
	c.setTarget()
	return c
}

func (c *garbageCollector) size() uint64 {
	metrics.Read(c.heap)
	return c.heap[0].Value.Uint64()
}

func (c *garbageCollector) setTarget() {
	c.nextSize = max(uint64((1+maxGarbage)*float64(c.size())), c.heapTarget)
}

// look collects if it is time to.
func (c *garbageCollector) collectIfDue() {
	if c.size() >= c.nextSize {
		runtime.GC()
		c.setTarget()
	}
}
