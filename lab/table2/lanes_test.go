package table2

import (
	"runtime"
	"sync"
	"testing"

	"tidings/internal/longtest"
)

// A worker runs each round once, whether it was awake, asleep, or about to sleep when the round
// began.
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
		case 1: // about as long as it spins
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

// When a round is over all workers have done their part. between runs before each round, and no
// worker runs after the end.
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
