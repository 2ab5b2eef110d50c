package table2

import (
	"runtime"
	"sync"
	"testing"

	"tidings/internal/longtest"
)

// A side has each turn once, whether it was awake when the turn began, asleep, or about to be.
func TestAWorkerRunsEachRoundOnce(t *testing.T) {
	o := &worker{wake: make(chan struct{}, 1)}
	turns, all := uint64(0), longtest.Pick[uint64](600, 3000)
	var running sync.WaitGroup
	running.Go(func() { o.run(func() { turns++ }) })
	for turn := uint64(1); turn <= all; turn++ {
		switch turn % 3 {
		case 0:
			for !o.asleep.Load() {
				runtime.Gosched()
			}
		case 1: // about as long as it looks
			for range spinCount {
				runtime.Gosched()
			}
		}
		o.begin()
		for o.done.Load() != turn {
			runtime.Gosched()
		}
		if turns != turn {
			t.Fatalf("%d turns instead of %d", turns, turn)
		}
	}
	o.over.Store(true)
	o.begin()
	running.Wait()
	if turns != all {
		t.Errorf("a turn more when it was over")
	}
}

// All have done their part when a turn is over, before which there is time for what is done between, and none goes on when all is.
func TestInParallelWaitsForAll(t *testing.T) {
	var done [3]int
	var do []func()
	between := 0
	for i := range done {
		do = append(do, func() { done[i]++ })
	}
	all, end := inParallel(do, func() { between++ })
	for turn := range 1000 {
		if all(); done != [3]int{turn + 1, turn + 1, turn + 1} || between != turn+1 {
			t.Fatalf("turn %d: %v, %d between", turn, done, between)
		}
	}
	end()
}
