package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// A node that collects garbage all the time may have more of it, and one at rest less, whose rare collections do not count as
// much.
func TestGarbageDependsOnTheWork(t *testing.T) {
	tuner := garbageTuner{percent: leastGarbage}
	h, rests := heap{needed: 100 << 20}, 0
	after := func(d, each, collecting time.Duration) (percent int) {
		for passed := time.Duration(0); passed < d; passed += garbagePause {
			var now time.Duration
			if passed%each == 0 {
				now = collecting
			}
			var rested bool
			if percent, rested = tuner.next(now, garbagePause, h); rested {
				rests++
			}
		}
		return percent
	}
	if p := after(time.Minute, garbagePause, 2*time.Second); p != mostGarbage {
		t.Errorf("%d %% after a minute of work", p)
	}
	h.needed = 2 * mostGarbageBytes
	if p := after(garbagePause, garbagePause, 2*time.Second); p != 50 {
		t.Errorf("%d %% of a large node that works", p)
	}
	h.needed = 100 << 20
	if p := after(time.Minute, garbagePause, 370*time.Millisecond); p != mostGarbage {
		t.Errorf("%d %% between the two shares, after a minute of work", p)
	}
	if rests != 0 {
		t.Errorf("it rested %d times while it worked", rests)
	}
	if p := after(5*time.Minute, time.Minute, 1250*time.Millisecond); p != leastGarbage || rests != 1 {
		t.Errorf("%d %% after five minutes with rare collections, and it rested %d times", p, rests)
	}
	if p := after(time.Minute, garbagePause, 370*time.Millisecond); p != leastGarbage {
		t.Errorf("%d %% between the two shares, after rest", p)
	}
	h.unused = leastUnused
	after(time.Hour, time.Minute, 100*time.Millisecond)
	if h.unused++; rests != 1 {
		t.Errorf("it rested %d times with little unused memory", rests)
	}
	after(time.Hour, time.Minute, 100*time.Millisecond)
	if rests != 1+int(time.Hour/releasePause) {
		t.Errorf("it rested %d times in an hour with unused memory", rests-1)
	}
	after(time.Minute, garbagePause, 2*time.Second)
	if rests != 1+int(time.Hour/releasePause) {
		t.Error("it rested while it worked")
	}
}

func TestCollectionsAreMeasured(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		tuneGarbage(ctx)
		close(ended)
	}()
	end()
	<-ended
	if got := debug.SetGCPercent(100); got != mostGarbage {
		t.Errorf("%d %% at the start", got)
	}
	began := readHeap()
	trees := make([][]*int, 1000)
	for i := range trees {
		trees[i] = []*int{new(int), new(int)}
	}
	for range 3 {
		runtime.GC()
	}
	runtime.KeepAlive(trees)
	if now := readHeap(); now.collecting <= began.collecting || now.needed == 0 {
		t.Error("collections take no time")
	}
}
