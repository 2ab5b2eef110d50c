package table2

import (
	"runtime"
	"runtime/metrics"
)

// A collector has garbage collected between the turns of the lanes, when no member is at work: all processors
// look for what is dead then, and none of the lanes is kept back by it while the other waits. Go's own collections
// are off (debug.SetGCPercent), but for those by its memory limit; nor does it give back memory between, piece by
// piece, of which large pages would be small ones afterwards.
type collector struct {
	heap []metrics.Sample // what is there in bytes, the dead included
	next uint64           // how much that is at the next collection
	room uint64           // a heap of as much is let grow
}

// maxDead is how much dead there may be for what lives. Worlds are large and live long, and grow among what lives
// for moments: to let more of that pile up would leave holes between.
const maxDead = 0.5

func newCollector(room int) *collector {
	c := &collector{heap: []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}, room: uint64(room)}
	runtime.GC() // of the world before
	c.plan()
	return c
}

func (c *collector) size() uint64 {
	metrics.Read(c.heap)
	return c.heap[0].Value.Uint64()
}

func (c *collector) plan() { c.next = max(uint64((1+maxDead)*float64(c.size())), c.room) }

// look collects if it is time to.
func (c *collector) look() {
	if c.size() >= c.next {
		runtime.GC()
		c.plan()
	}
}
