package sums_test

import (
	"testing"
	"time"

	"tidings/overlay/sums"
	"tidings/sim"
)

// If only one member has a value, only the members that answer its requests are active, and
// only for their parts. When the value is gone, all members become idle again.
func TestIdleNodesSendNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{}, sums.Config{})
	first := true
	w.value = func(*member) total {
		if first {
			first = false
			return total{1, 1, 7}
		}
		return total{}
	}
	w.grow(64, 100*time.Millisecond)
	w.Run(5 * time.Minute)
	wants := w.members[0]
	awake := 0
	for _, m := range w.members[1:] {
		if m.sums.Stats().Parts > 0 {
			awake++
		}
		if m.sums.Stats().Parts >= wants.sums.Stats().Parts {
			t.Errorf("member %d, which wants nothing, asks for %d parts", m.Index(), m.sums.Stats().Parts)
		}
	}
	if awake == 0 || awake == 63 {
		t.Errorf("%d of 63 others ask", awake)
	}
	if _, complete := wants.sums.Remote(); !complete {
		t.Error("the member that wants the sum does not have it")
	}
	wants.Do(func() { wants.set(total{}) })
	w.Run(2 * time.Hour)
	before := w.stats()
	w.Run(20 * time.Minute)
	if after := w.stats(); after.Parts > 0 || after.Asked > before.Asked {
		t.Errorf("two hours after nobody wants anything: %+v", after)
	}
	for _, m := range w.members {
		m.Do(func() { m.set(total{1, 2, 3}) })
	}
	if after := w.settle(5*time.Second, 5*time.Minute); after > time.Minute {
		t.Errorf("active after %v", after)
	}
}
