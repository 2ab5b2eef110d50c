package faults

import (
	"context"
	"sync"
)

// Each runs the worlds of seeds from one on, some at a time, until there were count of
// them (0: without end), or more says that there is no time for another. found is called
// with each result, one at a time, in the order in which they come. Each returns when
// all it began have ended; if the context ends, worlds under way come to nothing.
func RunSeeds(ctx context.Context, c Config, from uint64, count, workers int, more func() bool, found func(Result)) error {
	var (
		mu   sync.Mutex // guards what follows, and calls of found
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
