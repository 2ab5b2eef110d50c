package sim

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
)

// A scriptedNode does what its test says and records what happened to it. The zero value does
// nothing.
type scriptedNode struct {
	env.Env
	run     func(now time.Time) time.Time
	receive func(from env.PeerID, msg []byte) error

	ran     []time.Time
	heard   []string
	downs   []env.PeerID
	peers   []env.Peer
	addrs   []string
	answers []env.Handle
}

func (p *scriptedNode) Run(now time.Time) time.Time {
	p.ran = append(p.ran, now)
	if p.run == nil {
		return time.Time{}
	}
	return p.run(now)
}

func (p *scriptedNode) Receive(from env.PeerID, msg []byte) error {
	p.heard = append(p.heard, string(msg))
	if p.receive == nil {
		return nil
	}
	return p.receive(from, msg)
}

func (p *scriptedNode) Found(peer env.Peer)                   { p.peers = append(p.peers, peer) }
func (p *scriptedNode) Reachable(addrs []string)              { p.addrs = addrs }
func (p *scriptedNode) PeerDown(peer env.PeerID)              { p.downs = append(p.downs, peer) }
func (p *scriptedNode) Answered(h env.Handle, _ env.Answer)   { p.answers = append(p.answers, h) }
func (p *scriptedNode) boot(h *Host) *scriptedNode            { h.Boot(p.build); return p }
func (p *scriptedNode) build(e env.Env) env.Node              { p.Env = e; return p }
func (p *scriptedNode) say(to *Host, format string, a ...any) { p.sayTo(to.Peer(), format, a...) }
func (p *scriptedNode) sayTo(to env.Peer, f string, a ...any) {
	p.Network.Send(to, env.Control, fmt.Appendf(nil, f, a...))
}
func (p *scriptedNode) clear() { *p = scriptedNode{Env: p.Env, run: p.run, receive: p.receive} }

// scriptedWorld boots n open hosts at equal distances, 50 ms by default.
func scriptedWorld(c Config, n int) (*World, []*scriptedNode) {
	if c.Topology == nil {
		c.Topology = Uniform(50 * time.Millisecond)
	}
	w := New(c)
	var all []*scriptedNode
	for range n {
		all = append(all, new(scriptedNode).boot(w.Host(HostConfig{Open: true})))
	}
	return w, all
}

// panics returns the message with which do panics.
func panics(t *testing.T, do func()) (words string) {
	t.Helper()
	defer func() {
		if r := recover(); r == nil {
			t.Error("no panic")
		} else {
			words = fmt.Sprint(r)
		}
	}()
	do()
	return ""
}

// busyWorld is a world of nodes that use all interfaces and all random streams.
func busyWorld(c Config) *World {
	c.NetworkFaults = NetworkFaults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.05}
	w := New(c)
	for range 50 {
		w.Host(HostConfig{Open: true})
	}
	for i, h := range w.Hosts() {
		p := &scriptedNode{}
		p.run = func(now time.Time) time.Time {
			to := w.Hosts()[p.Rand.IntN(len(w.Hosts()))]
			p.say(to, "%d from %d", p.Rand.Uint64(), i)
			p.Worker.Do(func() {}, func() {
				p.Store.Commit([]env.Op{{Key: []byte("k"), Value: []byte("v")}}, func(error) {
					p.Fetcher.Fetch(env.Handle(i), env.Request{URL: "https://a.example/"})
				})
			})
			return now.Add(time.Duration(1 + p.Rand.IntN(int(time.Second))))
		}
		// Only alarms start new work; otherwise a node would never be idle.
		alarm := p.run
		var next time.Time
		p.run = func(now time.Time) time.Time {
			if !now.Before(next) {
				next = alarm(now)
			}
			return next
		}
		p.boot(h)
	}
	w.After(20*time.Second, func() { w.Hosts()[3].Crash(true); w.Partition(w.Hosts()[:20]) })
	w.After(40*time.Second, func() { w.Hosts()[3].Restart(); w.Heal() })
	w.Run(time.Minute)
	return w
}

func TestOneSeedGivesOneTrace(t *testing.T) {
	t.Parallel()
	a, b, c := busyWorld(Config{Seed: 1}), busyWorld(Config{Seed: 1}), busyWorld(Config{Seed: 2})
	if a.TraceHash() != b.TraceHash() || a.Events() != b.Events() {
		t.Errorf("seed 1 gave %d events with hash %x, then %d with %x",
			a.Events(), a.TraceHash(), b.Events(), b.TraceHash())
	}
	for i := range a.Hosts() {
		if a.Hosts()[i].Stats() != b.Hosts()[i].Stats() {
			t.Errorf("host %d: %+v, then %+v", i, a.Hosts()[i].Stats(), b.Hosts()[i].Stats())
		}
	}
	if a.TraceHash() == c.TraceHash() {
		t.Error("seeds 1 and 2 gave the same trace")
	}
	if a.Events() < 10_000 {
		t.Errorf("only %d events: too few to prove anything", a.Events())
	}
}

func TestTraceSeesEachByte(t *testing.T) {
	t.Parallel()
	said := func(words string) uint64 {
		w, all := scriptedWorld(Config{}, 2)
		w.Hosts()[0].Do(func() { all[0].say(w.Hosts()[1], "%s", words) })
		w.Run(time.Second)
		return w.TraceHash()
	}
	once, again, other := said("tidings"), said("tidings"), said("tidingz")
	if once != again || once == other {
		t.Error("the trace hash does not follow the bytes of frames")
	}
}

func TestRandomStreamsOfHostsAreIndependent(t *testing.T) {
	t.Parallel()
	arrivals := func(busy bool) (at []time.Time) {
		w, all := scriptedWorld(Config{Seed: 7, NetworkFaults: NetworkFaults{Loss: 0.2, Reorder: 0.2}}, 4)
		all[1].receive = func(env.PeerID, []byte) error { at = append(at, w.Now()); return nil }
		for i := range 100 {
			w.After(time.Duration(i)*time.Second, func() {
				if busy {
					w.Hosts()[2].Do(func() { all[2].Rand.Uint64(); all[2].say(w.Hosts()[3], "noise") })
				}
				w.Hosts()[0].Do(func() { all[0].say(w.Hosts()[1], "signal") })
			})
		}
		w.Run(3 * time.Minute)
		return at
	}
	if quiet, busy := arrivals(false), arrivals(true); !slices.Equal(quiet, busy) {
		t.Error("frames between two hosts depend on frames between two others")
	}
}

func TestEventsOfOneInstantKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w := New(Config{})
	var got []int
	at := w.Now().Add(time.Second)
	for i := range 200 {
		w.At(at, func() { got = append(got, i) })
	}
	w.At(at.Add(-time.Hour), func() { got = append(got, -1) }) // past: called now
	w.Run(time.Minute)
	if len(got) != 201 || got[0] != -1 || !slices.IsSorted(got) {
		t.Errorf("order %v", got)
	}
}

func TestRunStopsAtItsTimeAndRunUntilAtItsCondition(t *testing.T) {
	t.Parallel()
	w := New(Config{Start: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
	rang := false
	w.After(time.Hour, func() { rang = true })
	w.Run(time.Hour - 1)
	if rang || !w.Now().Equal(time.Date(2030, 1, 1, 0, 59, 59, 999999999, time.UTC)) {
		t.Errorf("rang %v at %v", rang, w.Now())
	}
	if !w.RunUntil(func() bool { return rang }, time.Second, time.Minute) {
		t.Error("RunUntil returned false although the condition came true")
	}
	before := w.Now()
	if w.RunUntil(func() bool { return false }, 7*time.Second, time.Minute) || w.Now().Sub(before) != time.Minute {
		t.Errorf("an unsuccessful wait took %v, want 1m", w.Now().Sub(before))
	}
}

func TestNodeRunsWhenItAsksTo(t *testing.T) {
	t.Parallel()
	w := New(Config{})
	h := w.Host(HostConfig{ClockOffset: 3 * time.Hour})
	p := &scriptedNode{run: func(now time.Time) time.Time { return now.Add(time.Minute) }}
	start := w.Now().Add(3 * time.Hour)
	p.boot(h)
	w.Run(10 * time.Minute)
	if len(p.ran) != 11 {
		t.Fatalf("run %d times in ten minutes, want 11", len(p.ran))
	}
	for i, at := range p.ran {
		if !at.Equal(start.Add(time.Duration(i) * time.Minute)) {
			t.Errorf("run %d at %v", i, at)
		}
	}
}

// Postponing a run does not add an alarm, and an earlier run does not leave the later alarm behind
// for ever.
func TestNodeHasOneAlarm(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 1)
	w.Run(time.Second)
	p, h := all[0], w.Hosts()[0]
	due := w.Now().Add(time.Hour)
	p.run = func(time.Time) time.Time { return due }
	for range 1000 {
		h.Do(func() {})
		due = due.Add(time.Second)
	}
	if pending := w.pending(); pending != 1 {
		t.Errorf("%d alarms pending, want 1", pending)
	}
	p.clear()
	w.Run(time.Hour + 30*time.Second) // the first alarm fires; the next run is later
	if len(p.ran) != 0 {
		t.Errorf("run %d times before it asked to", len(p.ran))
	}
	due = w.Now().Add(time.Minute)
	h.Do(func() {})
	p.clear()
	before := w.Now()
	p.run = func(time.Time) time.Time { return time.Time{} }
	w.Run(2 * time.Hour)
	if len(p.ran) != 1 || p.ran[0].Sub(before) != time.Minute {
		t.Errorf("run at %v, want once, a minute after %v", p.ran, before)
	}
	if w.pending() != 0 {
		t.Errorf("%d events pending for an idle node", w.pending())
	}
}

func TestARunInThePastHappensNow(t *testing.T) {
	t.Parallel()
	w := New(Config{})
	p := &scriptedNode{}
	p.run = func(now time.Time) time.Time {
		if len(p.ran) < 5 {
			return now.Add(-time.Hour)
		}
		return time.Time{}
	}
	p.boot(w.Host(HostConfig{}))
	w.Run(time.Second)
	if len(p.ran) != 5 || !p.ran[4].Equal(p.ran[0]) {
		t.Errorf("run at %v", p.ran)
	}
}

func TestNodeWithoutProgressPanicsWithDetails(t *testing.T) {
	t.Parallel()
	w := New(Config{Seed: 42})
	p := &scriptedNode{run: func(now time.Time) time.Time { return now }}
	p.boot(w.Host(HostConfig{}))
	words := panics(t, func() { w.Run(time.Second) })
	for _, want := range []string{"no progress", "seed 42", "host 0", "2026-01-01"} {
		if !strings.Contains(words, want) {
			t.Errorf("panic %q lacks %q", words, want)
		}
	}
}

func TestScriptMethodsAreNotForNodes(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	for name, verb := range map[string]func(){
		"Run":   func() { w.Run(1) },
		"Crash": func() { w.Hosts()[1].Crash(false) },
		"Boot":  func() { w.Hosts()[1].Restart() },
		"Do":    func() { w.Hosts()[1].Do(func() {}) },
	} {
		all[0].run = func(time.Time) time.Time { verb(); return time.Time{} }
		words := panics(t, func() { w.Hosts()[0].Do(func() {}) })
		if !strings.Contains(words, name+" while the node of host 0 runs") {
			t.Errorf("%s: panic %q", name, words)
		}
		w.scriptLane.running = nil
	}
}

func TestOpenHostIsDialledBack(t *testing.T) {
	t.Parallel()
	w := New(Config{})
	open, closed := w.Host(HostConfig{Open: true}), w.Host(HostConfig{})
	a, b := new(scriptedNode).boot(open), new(scriptedNode).boot(closed)
	open.Found(closed)
	w.Run(time.Second)
	if !slices.Equal(a.addrs, open.Peer().Addrs) || b.addrs != nil {
		t.Errorf("open host reachable at %q, closed one at %q", a.addrs, b.addrs)
	}
	if len(a.peers) != 1 || a.peers[0].ID != closed.ID() || len(b.peers) != 0 {
		t.Errorf("found %v and %v", a.peers, b.peers)
	}
}

func TestHostsAreTheSameForOneSeed(t *testing.T) {
	t.Parallel()
	a, b, c := New(Config{Seed: 1}), New(Config{Seed: 1}), New(Config{Seed: 2})
	seen := map[env.PeerID]bool{}
	for i := range 20 {
		x, y, z := a.Host(HostConfig{}), b.Host(HostConfig{}), c.Host(HostConfig{})
		if x.ID() != y.ID() || x.ID() == z.ID() || x.Index() != i || seen[x.ID()] {
			t.Errorf("host %d: ids %x, %x, %x", i, x.ID(), y.ID(), z.ID())
		}
		seen[x.ID()] = true
	}
}

func TestLogTellsVirtualTime(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := New(Config{Log: slog.NewTextHandler(&out, nil)})
	p := new(scriptedNode).boot(w.Host(HostConfig{ClockOffset: time.Minute}))
	w.After(time.Hour, func() { p.Log.WithGroup("g").With("a", 1).Info("hello") })
	w.Run(2 * time.Hour)
	if got, want := out.String(), "time=2026-01-01T01:01:00.000Z level=INFO msg=hello host=0 g.a=1\n"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
}
