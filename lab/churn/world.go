package churn

import (
	"context"
	"math/rand/v2"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/sim"
)

// A world is a swarm with the progress of a run.
type world struct {
	*sim.Swarm
	ctx      context.Context
	progress func(float64)
	began    time.Time
	total    time.Duration // approximate length of the run
}

// newWorld returns a world without members.
func newWorld(ctx context.Context, seed uint64, total time.Duration, progress func(float64)) *world {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = pollInterval
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: seed, Topology: sim.King(seed)}, Network: network})
	return &world{Swarm: s, ctx: ctx, progress: progress, began: s.Now(), total: total}
}

// advance lets time pass, unless the run is interrupted.
func (w *world) advance(d time.Duration) error {
	for end := w.Now().Add(d); w.Now().Before(end) && w.ctx.Err() == nil; {
		w.World.Run(min(10*time.Second, end.Sub(w.Now())))
		w.progress(min(float64(w.Now().Sub(w.began))/float64(w.total), 1))
	}
	return context.Cause(w.ctx)
}

// until calls then as soon as cond holds; it checks ten times a second.
func (w *world) until(cond func() bool, then func()) {
	w.After(100*time.Millisecond, func() {
		if cond() {
			then()
		} else {
			w.until(cond, then)
		}
	})
}

// randomKey returns a random key.
func randomKey(rng *rand.Rand) (key overlay.ID) {
	for i := range key {
		key[i] = byte(rng.Uint32())
	}
	return key
}
