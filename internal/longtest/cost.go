package longtest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"
)

// MaxTime and MaxMemory are what the largest document may cost, whatever a stranger writes into it.
const (
	MaxTime   = time.Second
	MaxMemory = 128 << 20
	maxTries  = 3
	// yardTime is what yard takes on a core of a server from 2024 that does nothing else.
	yardTime = 50 * time.Millisecond
)

// Bounded runs do, and fails if it takes more than MaxTime of processor time or makes the heap grow by more than MaxMemory
// at the peak. Garbage that is not collected yet counts. No other test may run in parallel. A processor that others share
// does less in the same processor time: the bound is MaxTime times the factor by which yard is slower than yardTime then, and
// the best of maxTries counts.
func Bounded(t testing.TB, do func()) {
	t.Helper()
	var took, bound time.Duration
	var peak uint64
	for try := range maxTries {
		again, most := cost(t, do)
		if again <= MaxTime && most <= MaxMemory {
			t.Logf("%v of processor time, %d MiB", again, most>>20)
			return
		}
		measured, _ := cost(t, yard)
		if try == 0 || again-boundOf(measured) < took-bound {
			took, bound = again, boundOf(measured)
		}
		if try == 0 || most < peak {
			peak = most
		}
	}
	if took > bound || peak > MaxMemory {
		t.Errorf("%v of processor time and %d MiB, more than %v, or than %d MiB", took, peak>>20, bound, MaxMemory>>20)
	}
}

// boundOf returns what may take MaxTime on a machine on which yard takes yardTime.
func boundOf(yard time.Duration) time.Duration {
	return MaxTime * max(yard, yardTime) / yardTime
}

// yard is work of the kind that documents cost: small values that are made, kept in a map, and collected.
func yard() {
	kept := map[string]*[64]byte{}
	for i := range 300_000 {
		kept[strconv.Itoa(i%50_000)] = new([64]byte)
	}
	runtime.KeepAlive(kept)
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
