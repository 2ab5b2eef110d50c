package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/env"
)

// A batch that the disk refuses is not stored, and its node is told; durable records stay.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	body := []env.Op{{Key: []byte("body"), Value: []byte("b"), Body: true}}
	small := []env.Op{{Key: []byte("small"), Value: []byte("s")}}
	for _, f := range []struct {
		name        string
		fault       DiskFault
		body, small bool // whether it is written
	}{
		{"sound", DiskOK, true, true},
		{"crowded", AlmostFull, false, true},
		{"full", DiskFull, false, false},
		{"broken", DiskBroken, false, false},
	} {
		t.Run(f.name, func(t *testing.T) {
			w, all := scriptedWorld(Config{}, 1)
			h, p := w.Hosts()[0], all[0]
			var said []bool
			commit := func(ops []env.Op) {
				h.Do(func() { p.Store.Commit(ops, func(err error) { said = append(said, err == nil) }) })
				w.Run(time.Second)
			}
			commit([]env.Op{{Key: []byte("before"), Value: []byte("x")}})
			h.SetDisk(f.fault)
			commit(body)
			commit(small)
			has := func(key string) bool { v, _ := p.Store.Get([]byte(key)); return v != nil }
			if got, want := fmt.Sprint(said), fmt.Sprint([]bool{true, f.body, f.small}); got != want {
				t.Errorf("results %v, want %v", got, want)
			}
			if !has("before") || has("body") != f.body || has("small") != f.small {
				t.Errorf("stored: before %v, body %v, small %v", has("before"), has("body"), has("small"))
			}
			h.SetDisk(DiskOK)
			commit(body)
			if !has("body") {
				t.Error("the disk has room again but refuses writes")
			}
		})
	}
}

// The first batch that a broken disk refused may exist in the next life; later ones do not.
func TestBrokenDiskMayHaveWritten(t *testing.T) {
	t.Parallel()
	found := 0
	const lives = 40
	for seed := range uint64(lives) {
		w, all := scriptedWorld(Config{Seed: seed}, 1)
		h, p := w.Hosts()[0], all[0]
		h.SetDisk(DiskBroken)
		for _, key := range []string{"first", "second"} {
			h.Do(func() {
				p.Store.Commit([]env.Op{{Key: []byte(key), Value: []byte("x")}}, func(err error) {
					if err == nil {
						t.Error("a broken disk acknowledged a write")
					}
				})
			})
			w.Run(time.Second)
		}
		h.Crash(false)
		h.Restart()
		if v, _ := p.Store.Get([]byte("first")); v != nil {
			found++
		}
		if v, _ := p.Store.Get([]byte("second")); v != nil {
			t.Error("the second batch was written")
		}
		written := false
		h.Do(func() {
			p.Store.Commit([]env.Op{{Key: []byte("third"), Value: []byte("x")}}, func(err error) { written = err == nil })
		})
		if w.Run(time.Second); !written {
			t.Error("the disk is broken in the next life too")
		}
	}
	if found < lives/4 || found > lives*3/4 {
		t.Errorf("the refused batch exists in %d of %d lives", found, lives)
	}
}

// When disks refuse writes, members do not acknowledge them: readers get all items once, and no
// item that was shown is lost.
func TestFailingDisksCostReadersNothing(t *testing.T) {
	for name, world := range map[string]func(seed uint64) *Swarm{"failing": fullDisks, "torn": tornWrites} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 1, 2, func(t *testing.T, seed uint64) { report(t, world(seed)) })
		})
	}
}

// diskWorld is a small world in which every member reads some of the feeds.
func diskWorld(seed uint64) (*Swarm, []string) {
	s := feedSwarm(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.02}})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	urls := s.serveFeeds(6, time.Minute, 40)
	for i, p := range s.Peers() {
		for j := range 3 {
			p.SubscribeFeed(urls[(i+j)%len(urls)])
		}
	}
	s.World.Run(2 * time.Minute)
	return s, urls
}

// recover ends all faults and lets the world settle.
func (s *Swarm) recover() {
	for _, p := range s.members {
		p.SetDisk(DiskOK)
		if !p.Up() {
			p.Start()
		}
	}
	s.SetNetworkFaults(NetworkFaults{})
	s.World.Run(25 * time.Minute)
	s.CheckRetained()
	s.CheckReaders()
}

// fullDisks is a world in which the disks of up to six members are full for some minutes, while
// members crash.
func fullDisks(seed uint64) *Swarm {
	s, urls := diskWorld(seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	for i := range 8 {
		fault := AlmostFull
		if i%2 == 1 {
			fault = DiskFull
		}
		var full []*Peer
		for _, j := range rng.Perm(len(s.members))[:1+rng.IntN(6)] {
			full = append(full, s.members[j])
			s.members[j].SetDisk(fault)
		}
		s.World.Run(time.Minute)
		if i%4 < 2 {
			p := s.leader(urls[rng.IntN(len(urls))])
			if p == nil {
				p = full[0]
			}
			p.Kill(i%2 == 0)
			s.After(20*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
		for _, p := range full {
			p.SetDisk(DiskOK)
		}
		s.World.Run(30 * time.Second)
		s.CheckRetained()
	}
	s.recover()
	return s
}

// tornWrites is a world in which disks break during a write, and nodes find a part of it after the
// restart.
func tornWrites(seed uint64) *Swarm {
	s, urls := diskWorld(seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	for i := range 12 {
		p := s.leader(urls[i%len(urls)])
		if p == nil {
			p = s.members[rng.IntN(len(s.members))]
		}
		if p.Up() {
			p.SetDisk(DiskBroken)
			s.World.Run(time.Duration(rng.IntN(90)) * time.Second)
			p.Kill(i%2 == 0)
			s.After(time.Duration(1+rng.IntN(40))*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
	}
	s.recover()
	return s
}
