package sim

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"tidings/internal/env"
)

// Config describes a world. The zero value is one without faults.
type Config struct {
	Seed     uint64
	Start    time.Time    // zero: the start of 2026, UTC
	Topology Topology     // nil: Plane(Seed)
	Faults   Faults       // until SetFaults
	Origin   Origin       // nil: every request is answered 304
	Log      slog.Handler // of all nodes; nil: nothing is logged

	// Lanes is into how many parts the hosts are split that go side by side; zero: one.
	Lanes int
	// Stride is for how long a lane goes on by itself. No frame travels faster: hosts that
	// are nearer each other are taken to be so far apart. It is needed by more than one lane.
	Stride time.Duration
	// Beside returns what calls functions side by side, each time it is called, and returns when
	// all have; and what ends that. nil: one after the other. Which of both is no difference to a world.
	Beside func(do []func()) (all, end func())
}

// A World is a network of hosts and its time. It is used from one goroutine; what is done
// in lanes is Config.Beside's.
type World struct {
	config Config
	own    *lane   // of the scripts; its time is the world's
	lanes  []*lane // of the hosts; if it is one, it is the world's own
	runs   []func()
	until  time.Time // how far they go on by themselves

	hosts []*Host
	byID  map[env.PeerID]*Host

	sides    int   // of a partition: how many, or oneWay
	partedAt int64 // when the last partition ended
	lossyAt  int64 // when the network last ceased to lose many frames
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
	c.Faults.check()
	w := &World{config: c, byID: map[env.PeerID]*Host{}}
	w.own = &lane{world: w}
	w.split(max(c.Lanes, 1))
	w.reach(c.Start.UnixNano())
	return w
}

// Seed is the seed the world was made from.
func (w *World) Seed() uint64 { return w.config.Seed }

// Now is the world's time, in UTC. A host's own clock may be off.
func (w *World) Now() time.Time { return instant(w.own.now) }

// Hosts are all hosts, in the order of their indices.
func (w *World) Hosts() []*Host { return w.hosts }

// At calls do at t, or now if t is past. Scripts and nodes take turns: do may
// boot, crash and call nodes.
func (w *World) At(t time.Time, do func()) {
	w.own.push(t.UnixNano(), nil, turn, w.own.scripts.Put(do))
}

// After calls do when d has passed.
func (w *World) After(d time.Duration, do func()) { w.At(w.Now().Add(d), do) }

// Run lets d of virtual time pass.
func (w *World) Run(d time.Duration) {
	w.outside("Run")
	end := w.Now().Add(d)
	if len(w.lanes) == 1 {
		w.own.run(end)
	} else {
		w.abreast(end)
	}
	w.reach(end.UnixNano())
}

// RunUntil lets time pass until cond holds, and reports whether it did within
// limit. It asks now and then every step of virtual time.
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

// outside panics when a script's verb is used by a node in its turn.
func (w *World) outside(verb string) {
	for _, l := range w.lanes {
		if l.inside != nil {
			panic(fmt.Sprintf("sim: %s while the node of host %d runs: use World.At", verb, l.inside.index))
		}
	}
}

// never is the alarm of a node that waits for something to happen.
const never = math.MaxInt64

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }
