package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A host's clock is its own: it leaps forward in a life, and back between two.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	w, all := puppets(Config{}, 1)
	h, p := w.Hosts()[0], all[0]
	runs := 0
	due := w.Now().Add(time.Hour)
	p.run = func(now time.Time) time.Time {
		if runs++; now.Before(due) {
			return due
		}
		return time.Time{}
	}
	h.Do(func() {})
	h.SetClock(time.Hour)
	if ahead := p.Clock.Now().Sub(w.Now()); ahead != time.Hour || runs != 2 {
		t.Errorf("an hour ahead: %v; ran %d times, want 2: what has become due is done at once", ahead, runs)
	}
	panics(t, func() { h.SetClock(time.Minute) })
	h.Crash(false)
	h.SetClock(-time.Hour)
	h.Restart()
	if ahead := p.Clock.Now().Sub(w.Now()); ahead != -time.Hour {
		t.Errorf("the next life is ahead by %v, want -1h", ahead)
	}
}

// Members whose clocks are wrong by minutes, and one by a year, cost readers nothing.
func TestWrongClocksCostReadersNothing(t *testing.T) {
	for name, off := range map[string]time.Duration{"minutes": 10 * time.Minute, "year": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 1, 2, func(t *testing.T, seed uint64) { report(t, skewed(seed, off)) })
		})
	}
}

// skewed is a world in which clocks are behind by off, right, or ahead by as much;
// sequencers crash, and are back with another one of these clocks; other members'
// clocks leap.
func skewed(seed uint64, off time.Duration) *Swarm {
	s := feedSwarm(seed, Config{Faults: Faults{Loss: 0.02}})
	dice := rand.New(rand.NewPCG(seed, 8))
	wrong := func() time.Duration { return time.Duration(dice.IntN(3)-1) * off }
	s.Grow(8, 100*time.Millisecond)
	for _, p := range s.Peers() {
		p.SetClock(wrong())
	}
	s.World.Run(30 * time.Second)
	urls := s.lively(6, time.Minute, 40)
	for i, p := range s.Peers() {
		for j := range 3 {
			p.Read(urls[(i+j)%len(urls)])
		}
	}
	s.World.Run(2 * time.Minute)
	for i := range 8 {
		if p := s.leader(urls[i%len(urls)]); p != nil {
			p.Kill(i%2 == 0)
			p.SetClock(wrong())
			s.After(time.Duration(20+dice.IntN(60))*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
		if p := s.members[dice.IntN(len(s.members))]; p.Up() && p.Ahead() <= 0 {
			p.SetClock(p.Ahead() + off)
		}
		s.World.Run(time.Minute)
	}
	s.recover()
	return s
}
