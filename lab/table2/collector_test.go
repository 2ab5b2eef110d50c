package table2

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// Garbage is collected when there is much of it relative to live memory, and the heap is above its
// target.
func TestGarbageIsCollectedInTime(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const much = 64 << 20
	for _, c := range []struct {
		room      int
		dead      float64 // relative to live memory
		collected bool
	}{
		{0, maxGarbage - 0.1, false},
		{0, maxGarbage + 0.1, true},
		{8 * much, 2, false},
		{8 * much, 8, true},
	} {
		live := make([]byte, much)
		of := newCollector(c.room)
		before, was := collections(), of.size()
		dead := make([]byte, int(c.dead*float64(was)))
		runtime.KeepAlive(dead)
		of.collectIfDue()
		if done := collections() > before; done != c.collected {
			t.Errorf("%+v: collected is %v", c, done)
		}
		if size := of.size(); c.collected && size > was+was/2 {
			t.Errorf("%+v: %d bytes afterwards, of %d that live", c, size, was)
		}
		runtime.KeepAlive(live)
	}
}

func collections() uint32 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.NumGC
}
