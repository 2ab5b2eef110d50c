package owner_test

import (
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/sim"
)

// ownedWorld returns a world of eight members in which a key has owners.
func ownedWorld(t *testing.T) (w *world, key overlay.ID, owners []*member) {
	w = newWorld(t, sim.Config{Seed: 1}, time.Hour)
	w.grow(8)
	w.Run(20 * time.Second)
	w.want(1)
	w.Run(20 * time.Second)
	key = w.key(w.urls[0])
	return w, key, w.nearest(key)
}

// Owners that have barred a sequencer make an epoch without it, and sign none with it until the time is over. They bar at
// most a minority.
func TestABarredSequencerDoesNotLead(t *testing.T) {
	w, key, owners := ownedWorld(t)
	leader := func() env.PeerID {
		v, _ := owners[4].owners.View(key)
		return v.Epoch.Sequencer
	}
	bar := func(by []*member, peer env.PeerID, d time.Duration) (n int) {
		for _, m := range by {
			m.Do(func() {
				if m.owners.Bar(key, peer, w.Now().Add(d)) {
					n++
				}
			})
		}
		return n
	}
	barred := map[env.PeerID]bool{}
	for round := range 3 {
		peer := leader()
		honest := slices.DeleteFunc(slices.Clone(owners), func(m *member) bool { return barred[m.ID()] || m.ID() == peer })
		for _, again := range []bool{false, true} {
			want := len(honest)
			if again || round == 2 { // barred already, and a minority
				want = 0
			}
			if n := bar(honest, peer, time.Hour); n != want {
				t.Errorf("round %d: %d owners bar the sequencer, want %d", round, n, want)
			}
		}
		w.Run(time.Minute)
		if barred[peer] = true; round < 2 && barred[leader()] {
			t.Errorf("round %d: a barred owner leads", round)
		}
		w.append(w.urls[0], 10)
		w.Run(10 * time.Second)
		w.settled()
	}
	if outsider := w.sorted(key)[7].ID(); bar(owners[:1], outsider, time.Hour) > 0 {
		t.Error("a node that is no owner is barred")
	}
	w.Run(time.Hour) // then they may lead again
	if bar(owners, leader(), time.Hour) != 4 {
		t.Error("the earlier bars have not ended")
	}
}

// Owners that restart do not forget whom they have barred: when the next sequencer dies, another one leads.
func TestBarsSurviveRestarts(t *testing.T) {
	w, key, owners := ownedWorld(t)
	witness := owners[4] // does not lead
	leader := func() *member {
		v, _ := witness.owners.View(key)
		return owners[slices.IndexFunc(owners, func(m *member) bool { return m.ID() == v.Epoch.Sequencer })]
	}
	bar := func(peer *member) (n int) {
		for _, m := range owners {
			m.Do(func() {
				if m != peer && m.owners.Bar(key, peer.ID(), w.Now().Add(time.Hour)) {
					n++
				}
			})
		}
		return n
	}
	liar := leader()
	if bar(liar) != 4 {
		t.Fatal("the sequencer is not barred")
	}
	w.Run(time.Minute)
	next := leader()
	idle := owners[slices.IndexFunc(owners, func(m *member) bool { return m != liar && m != next && m != witness })]
	if bar(idle) != 4 { // which changes nothing but the bars
		t.Fatal("an owner that does not lead is not barred")
	}
	w.Run(time.Second)
	for _, m := range owners {
		if m != liar {
			m.Crash(false)
			m.start()
		}
	}
	w.Run(time.Minute)
	if n := bar(idle); n != 0 {
		t.Errorf("%d owners have forgotten a bar", n)
	}
	next.Crash(false)
	w.Run(2 * time.Minute)
	if got := leader(); got == liar || got == next || got == idle {
		t.Errorf("a barred owner leads, or a dead one: %v, %v", got != next, got == next)
	}
}
