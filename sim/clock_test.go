package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A host's clock jumps forward during a life, and may go back between two lives.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 1)
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
		t.Errorf("clock ahead by %v, want 1h; ran %d times, want 2", ahead, runs)
	}
	panics(t, func() { h.SetClock(time.Minute) })
	h.Crash(false)
	h.SetClock(-time.Hour)
	h.Restart()
	if ahead := p.Clock.Now().Sub(w.Now()); ahead != -time.Hour {
		t.Errorf("the next life is ahead by %v, want -1h", ahead)
	}
}

// Members whose clocks are wrong by minutes or by a year cost readers nothing.
func TestWrongClocksCostReadersNothing(t *testing.T) {
	for name, off := range map[string]time.Duration{"minutes": 10 * time.Minute, "year": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 1, 2, func(t *testing.T, seed uint64) { report(t, wrongClocks(seed, off)) })
		})
	}
}

// wrongClocks is a world in which clocks are slow by off, right, or fast by off. Sequencers crash
// and come back with another of these clocks; clocks of other members jump.
func wrongClocks(seed uint64, off time.Duration) *Swarm {
	s := feedSwarm(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.02}})
	rng := rand.New(rand.NewPCG(seed, 8))
	wrong := func() time.Duration { return time.Duration(rng.IntN(3)-1) * off }
	s.Grow(8, 100*time.Millisecond)
	for _, p := range s.Peers() {
		p.SetClock(wrong())
	}
	s.World.Run(30 * time.Second)
	urls := s.serveFeeds(6, time.Minute, 40)
	for i, p := range s.Peers() {
		for j := range 3 {
			p.SubscribeFeed(urls[(i+j)%len(urls)])
		}
	}
	s.World.Run(2 * time.Minute)
	for i := range 8 {
		if p := s.leader(urls[i%len(urls)]); p != nil {
			p.Kill(i%2 == 0)
			p.SetClock(wrong())
			s.After(time.Duration(20+rng.IntN(60))*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
		if p := s.members[rng.IntN(len(s.members))]; p.Up() && p.ClockOffset() <= 0 {
			p.SetClock(p.ClockOffset() + off)
		}
		s.World.Run(time.Minute)
	}
	s.recover()
	return s
}
