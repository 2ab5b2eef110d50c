package sim

import (
	"fmt"
	"testing"
	"time"

	"tidings/internal/env"
)

// A paused host gets nothing during the pause, and then everything in order; its clock goes on, and
// its alarms are late.
func TestPausedHostHearsAllLater(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	h, p := w.Hosts()[0], all[0]
	due := w.Now().Add(5 * time.Second)
	p.run = func(now time.Time) time.Time {
		if now.Before(due) {
			return due
		}
		return time.Time{}
	}
	h.Do(func() {})
	durable := time.Time{}
	h.Do(func() { p.Store.Commit(nil, func(error) { durable = p.Clock.Now() }) })
	began := w.Now()
	h.Pause(40 * time.Second)
	runs, asked := len(p.ran), false
	if !h.Do(func() { asked = true }) {
		t.Error("Do returned false for a paused host")
	}
	for i := range 10 {
		w.After(time.Duration(i)*time.Second, func() { w.Hosts()[1].Do(func() { all[1].say(h, "%d", i) }) })
	}
	w.Run(39 * time.Second)
	if len(p.heard) > 0 || len(p.ran) > runs || asked || !durable.IsZero() || !h.Stalled() {
		t.Errorf("during the pause it heard %q, ran %d times, called: %v", p.heard, len(p.ran)-runs, asked)
	}
	w.Run(2 * time.Second)
	if got := fmt.Sprint(p.heard); got != "[0 1 2 3 4 5 6 7 8 9]" || !asked || h.Stalled() {
		t.Errorf("heard %s, called: %v", got, asked)
	}
	if durable.Sub(began) != 40*time.Second || p.ran[len(p.ran)-1].Sub(began) != 40*time.Second {
		t.Errorf("resumed after %v, its commit was done after %v; want 40s", p.ran[len(p.ran)-1].Sub(began), durable.Sub(began))
	}
	if late := w.Now().Sub(h.LastImpaired()); late != time.Second {
		t.Errorf("the impairment ended %v ago, want 1s", late)
	}
}

// A slow host handles one event after the other, and becomes fast again when its service time is
// reset.
func TestSlowHostTakesItsTime(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	h, p := w.Hosts()[0], all[0]
	w.Run(time.Second)
	var at []time.Duration
	began := w.Now()
	p.receive = func(env.PeerID, []byte) error {
		at = append(at, w.Now().Sub(began).Round(10*time.Millisecond))
		return nil
	}
	h.SetServiceTime(300 * time.Millisecond)
	for range 4 {
		w.Hosts()[1].Do(func() { all[1].say(h, "x") })
	}
	w.Run(10 * time.Second)
	for i := 1; i < len(at); i++ {
		if d := at[i] - at[i-1]; d != 300*time.Millisecond {
			t.Errorf("frames were handled at %v", at)
		}
	}
	if len(at) != 4 || !h.Stalled() {
		t.Errorf("%d of 4 frames, stalled: %v", len(at), h.Stalled())
	}
	h.SetServiceTime(0)
	w.Run(time.Second)
	at, began = nil, w.Now()
	for range 4 {
		w.Hosts()[1].Do(func() { all[1].say(h, "x") })
	}
	w.Run(time.Second)
	if len(at) != 4 || at[3]-at[0] > 30*time.Millisecond || h.Stalled() {
		t.Errorf("after the reset it handled frames at %v", at)
	}
}

// Events that wait at a host are dropped when it crashes.
func TestWaitingEventsAreDroppedByACrash(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	h, p := w.Hosts()[0], all[0]
	h.Pause(time.Minute)
	asked := false
	h.Do(func() { asked = true })
	w.Hosts()[1].Do(func() { all[1].say(h, "x") })
	w.Run(time.Second)
	h.Crash(false)
	next := new(scriptedNode).boot(h)
	w.Run(2 * time.Minute)
	if asked || len(p.heard)+len(next.heard) > 0 || h.Stalled() {
		t.Errorf("called: %v; heard %q and %q", asked, p.heard, next.heard)
	}
	if w.scriptLane.frames.Len()+w.scriptLane.scripts.Len() > 0 {
		t.Error("payloads of waiting events were not freed")
	}
	h.Crash(false)
	h.Pause(time.Minute)
	h.SetServiceTime(time.Second)
	if h.Stalled() {
		t.Error("a host that is down is stalled")
	}
}
