package churn

import (
	"context"
	"runtime"
	"time"

	"tidings/lab/mark"
)

// Idle is a run in which nothing happens at all: what a node takes in memory, the
// simulator's part included.
type Idle struct {
	Name  string
	Seed  uint64
	Nodes int
}

// An IdleResult is what it has shown.
type IdleResult struct {
	Scenario     string `json:"scenario"`
	Nodes        int    `json:"nodes"`
	Seed         uint64 `json:"seed"`
	BytesPerNode int    `json:"bytes_per_node"` // of the heap
}

// Run does a run. Nothing else may go on in the process.
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

// heap is how much memory is in use.
func heap() int {
	runtime.GC()
	runtime.GC() // what the first one has finished is swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Of implements Report.
func (r *IdleResult) Describe() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *IdleResult) Marks(*Result) []mark.Mark {
	return []mark.Mark{mark.AtMost("heap of a node", "B", float64(r.BytesPerNode), 40<<10)}
}
