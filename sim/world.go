package sim

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

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
}

// A World is a network of hosts and its time. It is used from one goroutine.
type World struct {
	config Config
	now    int64
	queue  env.Calendar[event]
	events uint64
	trace  uint64

	hosts  []*Host
	byID   map[env.PeerID]*Host
	inside *Host // whose node is being called

	sides    int   // of a partition: how many, or oneWay
	partedAt int64 // when the last partition ended
	lossyAt  int64 // when the network last ceased to lose many frames

	frames   slab[transit]
	whispers slab[whisper]
	fetches  slab[fetch]
	dones    slab[func()]
	scripts  slab[func()]
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
	return &World{config: c, now: c.Start.UnixNano(), byID: map[env.PeerID]*Host{}}
}

// Seed is the seed the world was made from.
func (w *World) Seed() uint64 { return w.config.Seed }

// Now is the world's time, in UTC. A host's own clock may be off.
func (w *World) Now() time.Time { return instant(w.now) }

// Hosts are all hosts, in the order of their indices.
func (w *World) Hosts() []*Host { return w.hosts }

// At calls do at t, or now if t is past. Scripts and nodes take turns: do may
// boot, crash and call nodes.
func (w *World) At(t time.Time, do func()) {
	w.push(max(t.UnixNano(), w.now), nil, turn, w.scripts.put(do))
}

// After calls do when d has passed.
func (w *World) After(d time.Duration, do func()) { w.At(w.Now().Add(d), do) }

// Run lets d of virtual time pass.
func (w *World) Run(d time.Duration) {
	w.outside("Run")
	var e event
	defer w.explain(&e)
	end := w.Now().Add(d)
	for {
		var at time.Time
		var due bool
		if e, at, due = w.queue.Pop(end); !due {
			break
		}
		w.now = at.UnixNano()
		w.dispatch(&e)
	}
	w.now = end.UnixNano()
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

// explain adds to a panic where in which world it happened.
func (w *World) explain(e *event) {
	if r := recover(); r != nil {
		panic(fmt.Sprintf("sim: seed %d, %v, host %d, %v: %v",
			w.config.Seed, w.Now().Format(time.RFC3339Nano), e.host, e.kind, r))
	}
}

// outside panics when a script's verb is used by a node in its turn.
func (w *World) outside(verb string) {
	if w.inside != nil {
		panic(fmt.Sprintf("sim: %s while the node of host %d runs: use World.At", verb, w.inside.index))
	}
}

// push makes an event; a nil host is the world itself.
func (w *World) push(at int64, h *Host, k kind, item uint32) {
	e := event{host: -1, item: item, kind: k}
	if h != nil {
		e.host, e.life = h.index, h.life
	}
	w.queue.Add(instant(at), e)
}

// dispatch lets one event happen. Payloads leave their slabs even when the
// event is void.
func (w *World) dispatch(e *event) {
	w.events++
	if e.kind == turn {
		w.fold(e, 0)
		w.scripts.take(e.item)()
		return
	}
	h := w.hosts[e.host]
	if h.stall == nil {
		w.handle(e)
	} else if e.kind == rouse {
		if e.life == h.life {
			h.goOn()
		}
	} else if !h.stall.delay(h, e) {
		w.handle(e)
	}
}

// handle lets an event happen to a host that can handle it.
func (w *World) handle(e *event) {
	h := w.hosts[e.host]
	if e.kind == alarm {
		h.alarmed(e)
		return
	}
	live := h.node != nil && h.life == e.life
	w.inside = h
	payload := uint64(e.item)
	switch e.kind {
	case frame:
		t := w.frames.take(e.item)
		if !live || h.shuns(w.hosts[t.from]) {
			w.hosts[t.from].stats.Unheard++
			live = false
		} else {
			payload = t.sum()
			h.receive(&t)
		}
	case fetched:
		f := w.fetches.take(e.item)
		if live {
			a := w.config.Origin(instant(f.at), f.request)
			payload = scatter(uint64(f.handle)) ^ uint64(a.Status)<<32 ^ uint64(len(a.Body))
			h.answered(f.handle, a)
		}
	case computed:
		if done := w.dones.take(e.item); live {
			done()
		}
	case durable:
		if live {
			h.disk.sync()
		}
	case gossip:
		t := w.whispers.take(e.item)
		if payload = xxhash.Sum64(t.msg); live {
			h.overhear(&t)
		}
	case down:
		if live {
			h.node.PeerDown(w.hosts[e.item].id)
		}
	case found:
		if live {
			h.node.Found(w.hosts[e.item].Peer())
		}
	case reachable:
		if live {
			h.node.Reachable([]string{h.addr})
		}
	case asked:
		if do := w.scripts.take(e.item); live {
			do()
		}
	case rouse:
		live = false // the stall is over
	}
	if live {
		w.fold(e, payload)
		h.run()
	}
	w.inside = nil
}

// never is the alarm of a node that waits for something to happen.
const never = math.MaxInt64

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }
