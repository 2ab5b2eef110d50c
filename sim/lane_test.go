package sim

import (
	"sync"
	"testing"
	"time"

	"tidings/internal/env"
)

// inParallel is a Config.Parallel that uses goroutines.
func inParallel(do []func()) (all, end func()) {
	var each sync.WaitGroup
	all = func() {
		for _, f := range do {
			each.Go(f)
		}
		each.Wait()
	}
	return all, func() {}
}

// Lanes that run in parallel give the same world as lanes that run in turn, and the number of lanes
// makes no difference to the hosts.
func TestLanesMakeOneWorld(t *testing.T) {
	t.Parallel()
	world := func(lanes int, beside func([]func()) (all, end func())) *World {
		return busyWorld(Config{Seed: 1, Lanes: lanes, Lookahead: 20 * time.Millisecond, Parallel: beside})
	}
	two, inTurn, aside := world(2, inParallel), world(3, nil), world(3, inParallel)
	if inTurn.Events() < 10_000 || inTurn.Events() != two.Events() {
		t.Errorf("%d events in two lanes, %d in three", two.Events(), inTurn.Events())
	}
	if aside.TraceHash() != inTurn.TraceHash() {
		t.Error("the trace hash differs when lanes run in parallel")
	}
	for i, h := range inTurn.Hosts() {
		if of := h.Stats(); of != two.Hosts()[i].Stats() || of != aside.Hosts()[i].Stats() {
			t.Errorf("host %d: %+v; in two lanes %+v; in parallel %+v", i, of, two.Hosts()[i].Stats(), aside.Hosts()[i].Stats())
		}
	}
}

// A frame between lanes takes at least the lookahead, and scripts see all hosts at the same time.
func TestFramesTakeTheLookahead(t *testing.T) {
	t.Parallel()
	const stride = 20 * time.Millisecond
	w, all := scriptedWorld(Config{Topology: Uniform(time.Millisecond), Lanes: 2, Lookahead: stride}, 2)
	from, to := w.Hosts()[0], w.Hosts()[1]
	if from.Lane() == to.Lane() {
		t.Fatal("both are in one lane")
	}
	sent := w.Now().Add(time.Second)
	w.At(sent, func() { from.Enqueue(func() { all[0].say(to, "hello") }) })
	w.At(sent.Add(3*stride-1), func() {
		if len(all[1].heard) > 0 {
			t.Error("a frame arrived before its link was open")
		}
	})
	w.At(sent.Add(5*stride), func() {
		if len(all[1].heard) != 1 || !all[0].Clock.Now().Equal(all[1].Clock.Now()) {
			t.Errorf("heard %q; clocks %v and %v", all[1].heard, all[0].Clock.Now(), all[1].Clock.Now())
		}
	})
	w.Run(time.Minute)
}

// A host cuts off a misbehaving peer of another lane.
func TestLanesCutLinks(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{Lanes: 2, Lookahead: time.Millisecond}, 2)
	all[1].receive = func(env.PeerID, []byte) error { return env.ErrFrame }
	from, to := w.Hosts()[0], w.Hosts()[1]
	for i := range 2 * maxBadFrames {
		w.After(time.Duration(i)*time.Second, func() { from.Do(func() { all[0].say(to, "nonsense") }) })
	}
	w.Run(time.Minute)
	if st := to.Stats(); st.LinksCut != 1 || st.BadFrames != maxBadFrames {
		t.Errorf("%+v", st)
	}
	if n := from.Stats().Undeliverable; n != maxBadFrames {
		t.Errorf("%d frames undeliverable at the host that was cut off", n)
	}
	panics(t, func() { New(Config{Lanes: 2}) })
}
