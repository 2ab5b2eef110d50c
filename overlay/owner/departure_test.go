package owner_test

import (
	"slices"
	"testing"
	"time"

	"tidings/overlay"
	"tidings/sim"
)

// A sequencer that leaves in good order is replaced by another owner before it is gone, and no appended body is lost.
func TestALeavingSequencerHandsOver(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(24)
	w.Run(30 * time.Second)
	w.want(20)
	w.Run(10 * time.Second)
	w.write(10*time.Second, time.Second, 100)
	var m *member
	for _, of := range w.members {
		if m == nil || len(of.led()) > len(m.led()) {
			m = of
		}
	}
	keys := m.led()
	if len(keys) < 2 {
		t.Fatalf("nobody leads more than %d keys", len(keys))
	}
	asked, handed := w.Now(), time.Time{}
	m.Do(func() { m.owners.HandOver(func() { handed = w.Now() }) })
	w.write(2*time.Second, 100*time.Millisecond, 100)
	if handed.IsZero() || handed.Sub(asked) > 1500*time.Millisecond {
		t.Fatalf("handed over %v after it was asked to", handed.Sub(asked))
	}
	for _, key := range keys {
		if w.leader(key) == nil || w.leader(key) == m {
			t.Errorf("key %s is led by nobody else", key.Short())
		}
	}
	m.Do(m.overlay.Leave)
	m.Crash(true)
	w.write(10*time.Second, time.Second, 100)
	w.Run(2 * time.Minute)
	w.settled()
}

// A node that is alone, or leads nothing, need not wait.
func TestNobodyToHandOverTo(t *testing.T) {
	for _, keys := range []int{0, 3} {
		w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
		w.grow(1)
		w.Run(5 * time.Second)
		w.want(keys)
		w.Run(time.Second)
		m, done := w.members[0], 0
		if len(m.led()) != keys {
			t.Fatalf("leads %d of its %d keys", len(m.led()), keys)
		}
		m.Do(func() { m.owners.HandOver(func() { done++ }) })
		if done != 1 {
			t.Errorf("%d keys: told %d times at once that it may leave", keys, done)
		}
	}
}

// If the owners do not answer, the node leaves all the same two seconds later.
func TestAHandOverIsBounded(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(5)
	w.Run(10 * time.Second)
	w.want(10)
	w.Run(5 * time.Second)
	i := slices.IndexFunc(w.members, func(m *member) bool { return len(m.led()) > 0 })
	m, done := w.members[i], 0
	w.Partition([]*sim.Host{m.Host})
	m.Do(func() { m.owners.HandOver(func() { done++ }) })
	w.Run(1900 * time.Millisecond)
	if done != 0 {
		t.Error("handed over to nobody")
	}
	w.Run(10 * time.Second)
	if done != 1 {
		t.Errorf("told %d times that it may leave", done)
	}
}

// led returns the keys that a member leads.
func (m *member) led() (keys []overlay.ID) {
	for _, url := range m.w.urls {
		if key := m.w.key(url); m.leads[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// leader returns the sequencer of a key; nil if there is none.
func (w *world) leader(key overlay.ID) *member {
	for _, m := range w.members {
		if m.Up() && m.leads[key] {
			return m
		}
	}
	return nil
}
