package longtest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// MaxTime and MaxMemory are what the largest document may cost, whatever a stranger writes into it.
const (
	MaxTime   = time.Second
	MaxMemory = 128 << 20
	maxTries  = 3
)

// Bounded runs do, and fails if it takes more than MaxTime of processor time, which a busy machine does not change, or
// makes the heap grow by more than MaxMemory at the peak. Garbage that is not collected yet counts. No other test may
// run in parallel. Threads that share a core take longer each, so the best of maxTries counts.
func Bounded(t testing.TB, do func()) {
	t.Helper()
	took, peak := cost(t, do)
	for try := 1; try < maxTries && (took > MaxTime || peak > MaxMemory); try++ {
		again, most := cost(t, do)
		took, peak = min(took, again), min(peak, most)
	}
	if took > MaxTime || peak > MaxMemory {
		t.Errorf("%v of processor time and %d MiB, more than %v or %d MiB", took, peak>>20, MaxTime, MaxMemory>>20)
	} else {
		t.Logf("%v of processor time, %d MiB", took, peak>>20)
	}
}

// cost runs do, and measures the processor time and the growth of the heap.
func cost(t testing.TB, do func()) (took time.Duration, peak uint64) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // see Main
	runtime.GC()
	before := heap()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		seen := before
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			seen = max(seen, heap())
			select {
			case <-tick.C:
			case <-stop:
				most <- max(seen, heap()) - before
				return
			}
		}
	}()
	began, err := processorTime()
	if err != nil {
		t.Fatal(err)
	}
	do()
	ended, err := processorTime()
	if err != nil {
		t.Fatal(err)
	}
	close(stop)
	return ended - began, <-most
}

// heap returns the size of the objects in the heap, in bytes.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
