package table2

import (
	"runtime"
	"runtime/metrics"
)

// A garbageCollector collects garbage between the windows of the lanes, when no member is running.
// Then all processors take part, and no lane is delayed while the other waits. Go's own collections
// are off (debug.SetGCPercent), except at its memory limit. Go also returns no memory to the system
// in between; doing so piece by piece would break up large pages.
type garbageCollector struct {
	heap       []metrics.Sample // bytes in the heap, including garbage
	nextSize   uint64           // heap size of the next collection
	heapTarget uint64           // heap size up to which nothing is collected
}

// maxGarbage is the largest share of garbage relative to live memory. Worlds are large and live
// long, and short-lived objects lie between long-lived ones; more garbage would leave many holes.
const maxGarbage = 0.5

func newCollector(room int) *garbageCollector {
	c := &garbageCollector{heap: []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}, heapTarget: uint64(room)}
	runtime.GC() // frees the previous world
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

// collectIfDue collects garbage if it is time to.
func (c *garbageCollector) collectIfDue() {
	if c.size() >= c.nextSize {
		runtime.GC()
		c.setTarget()
	}
}
