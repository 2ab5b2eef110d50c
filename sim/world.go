package sim

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"tidings/internal/env"
)

// Config describes a world. The zero value is a world without faults.
type Config struct {
	Seed          uint64
	Start         time.Time     // zero: the start of 2026, UTC
	Topology      Topology      // nil: Plane(Seed)
	NetworkFaults NetworkFaults // until SetNetworkFaults
	Origin        Origin        // nil: every request is answered 304
	Log           slog.Handler  // of all nodes; nil: no log
	// ToOrigin returns the round-trip time between a host and the web server of a URL. nil: it is not known, and fetches take a
	// random time.
	ToOrigin func(host int, url string) time.Duration

	// Lanes is the number of parts into which hosts are split that run in parallel; zero: one.
	Lanes int
	// Lookahead is how long a lane runs without synchronising with the others. No frame is faster:
	// hosts that are closer are treated as this far apart. Several lanes need it.
	Lookahead time.Duration
	// Parallel returns two functions: all runs the given functions in parallel, each time it is
	// called, and returns when they have returned; end frees its resources. nil: they run one after
	// the other. The choice does not change the result.
	Parallel func(do []func()) (all, end func())
}

// A World is a network of hosts with a virtual time. It must be used from one goroutine; only
// Config.Parallel uses others.
type World struct {
	config     Config
	scriptLane *lane   // runs scripts; its time is the world's
	lanes      []*lane // of the hosts; a single one is scriptLane itself
	laneRuns   []func()
	windowEnd  time.Time // end of the window in which lanes run independently

	hosts []*Host
	byID  map[env.PeerID]*Host

	partitionSides int   // number of sides of the partition, or oneWay; 0: none
	healedAt       int64 // when the last partition ended
	lossEndedAt    int64 // when heavy loss last ended
}

// New returns a world without hosts.
func New(c Config) *World {
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if c.Topology == nil {
		c.Topology = Plane(c.Seed)
	}
	if c.Origin == nil {
		c.Origin = func(time.Time, env.Request) env.Answer { return env.Answer{Status: 304} }
	}
	if c.Log == nil {
		c.Log = slog.DiscardHandler
	}
	c.NetworkFaults.check()
	w := &World{config: c, byID: map[env.PeerID]*Host{}}
	w.scriptLane = &lane{world: w}
	w.makeLanes(max(c.Lanes, 1))
	w.setTime(c.Start.UnixNano())
	return w
}

// Seed returns the seed of the world.
func (w *World) Seed() uint64 { return w.config.Seed }

// Now returns the world's time, in UTC. A host's clock may differ.
func (w *World) Now() time.Time { return instant(w.scriptLane.now) }

// Hosts returns all hosts, in the order of their indices.
func (w *World) Hosts() []*Host { return w.hosts }

// At calls do at t, or now if t is past. Scripts and nodes never run at once, so do may boot, crash
// and call nodes.
func (w *World) At(t time.Time, do func()) {
	w.scriptLane.schedule(t.UnixNano(), nil, eventScript, w.scriptLane.scripts.Put(do))
}

// After calls do when d has passed.
func (w *World) After(d time.Duration, do func()) { w.At(w.Now().Add(d), do) }

// Run lets d of virtual time pass.
func (w *World) Run(d time.Duration) {
	w.checkNotNested("Run")
	end := w.Now().Add(d)
	if len(w.lanes) == 1 {
		w.scriptLane.run(end)
	} else {
		w.runLanes(end)
	}
	w.setTime(end.UnixNano())
}

// RunUntil lets time pass until cond holds, and reports whether that happened within limit. It
// calls cond now and then every step of virtual time.
func (w *World) RunUntil(cond func() bool, step, limit time.Duration) bool {
	for passed := time.Duration(0); ; passed += step {
		if cond() {
			return true
		}
		if passed >= limit {
			return false
		}
		w.Run(min(step, limit-passed))
	}
}

// checkNotNested panics if a script's method is called from within a node's turn.
func (w *World) checkNotNested(verb string) {
	for _, l := range w.lanes {
		if l.running != nil {
			panic(fmt.Sprintf("sim: %s while the node of host %d runs: use World.At", verb, l.running.index))
		}
	}
}

// never is the next run of a node that waits for an event.
const never = math.MaxInt64

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }
