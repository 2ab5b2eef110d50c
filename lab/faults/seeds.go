package faults

import (
	"context"
	"sync"
)

// RunSeeds runs the scenarios of consecutive seeds, several at a time, until count have started (0:
// no limit), or more returns false. It calls found with each result, one at a time, in the order in
// which they end, and returns when all have ended. If the context ends, unfinished runs are
// dropped.
func RunSeeds(ctx context.Context, c Config, from uint64, count, workers int, more func() bool, found func(Result)) error {
	var (
		mu   sync.Mutex // guards the variables below, and calls of found
		next = from
		all  sync.WaitGroup
	)
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || count > 0 && next >= from+uint64(count) || !more() {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range workers {
		all.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				r, err := Run(ctx, c.Scenario(seed), func(float64) {})
				if err != nil {
					return
				}
				mu.Lock()
				found(r)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
