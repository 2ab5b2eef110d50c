package churn

import (
	"context"
	"runtime"
	"time"

	"tidings/lab/mark"
)

// Idle is a run without any load. It measures the memory of a node, including its part of the
// simulator.
type Idle struct {
	Name  string
	Seed  uint64
	Nodes int
}

// An IdleResult is the outcome.
type IdleResult struct {
	Scenario     string `json:"scenario"`
	Nodes        int    `json:"nodes"`
	Seed         uint64 `json:"seed"`
	BytesPerNode int    `json:"bytes_per_node"` // of heap
}

// Run makes the run. The process must not do anything else meanwhile.
func (c Idle) Run(ctx context.Context, progress func(float64)) (IdleResult, error) {
	r := IdleResult{Scenario: c.Name, Nodes: c.Nodes, Seed: c.Seed}
	before := heap()
	grow := time.Duration(c.Nodes)*growInterval + 2*settleTime
	w := newWorld(ctx, c.Seed, grow, progress)
	w.Grow(c.Nodes, growInterval)
	if err := w.advance(grow); err != nil {
		return r, err
	}
	r.BytesPerNode = (heap() - before) / c.Nodes
	runtime.KeepAlive(w)
	return r, nil
}

// heap returns the memory in use.
func heap() int {
	runtime.GC()
	runtime.GC() // sweeps what the first one has marked
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Describe implements Report.
func (r *IdleResult) Describe() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *IdleResult) Marks(*Result) []mark.Mark {
	return []mark.Mark{mark.AtMost("heap of a node", "B", float64(r.BytesPerNode), 40<<10)}
}
