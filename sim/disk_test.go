package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/env"
)

// What a disk refuses is not there, and its node is told; what was durable stays.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	body := []env.Op{{Key: []byte("body"), Value: []byte("b"), Body: true}}
	small := []env.Op{{Key: []byte("small"), Value: []byte("s")}}
	for _, f := range []struct {
		name        string
		fault       DiskFault
		body, small bool // is written
	}{
		{"sound", Sound, true, true},
		{"crowded", Crowded, false, true},
		{"full", Full, false, false},
		{"broken", Broken, false, false},
	} {
		t.Run(f.name, func(t *testing.T) {
			w, all := puppets(Config{}, 1)
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
				t.Errorf("told %v, want %v", got, want)
			}
			if !has("before") || has("body") != f.body || has("small") != f.small {
				t.Errorf("has before %v, body %v, small %v", has("before"), has("body"), has("small"))
			}
			h.SetDisk(Sound)
			commit(body)
			if !has("body") {
				t.Error("the disk has room again and writes nothing")
			}
		})
	}
}

// Of what a broken disk refused, the first may be there in the next life, and
// nothing else.
func TestBrokenDiskMayHaveWritten(t *testing.T) {
	t.Parallel()
	found := 0
	const lives = 40
	for seed := range uint64(lives) {
		w, all := puppets(Config{Seed: seed}, 1)
		h, p := w.Hosts()[0], all[0]
		h.SetDisk(Broken)
		for _, key := range []string{"first", "second"} {
			h.Do(func() {
				p.Store.Commit([]env.Op{{Key: []byte(key), Value: []byte("x")}}, func(err error) {
					if err == nil {
						t.Error("a broken disk wrote")
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
		t.Errorf("found what was refused in %d of %d lives", found, lives)
	}
}

// Members whose disks refuse what they are to remember promise nothing: readers get
// all items once, and nothing that anybody was shown is forgotten.
func TestFailingDisksCostReadersNothing(t *testing.T) {
	for name, world := range map[string]func(seed uint64) *Swarm{"failing": failing, "torn": torn} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 1, 2, func(t *testing.T, seed uint64) { report(t, world(seed)) })
		})
	}
}

// diskWorld is a small world with feeds, all of whose members read some of them.
func diskWorld(seed uint64) (*Swarm, []string) {
	s := feedSwarm(seed, Config{Faults: Faults{Loss: 0.02}})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	urls := s.lively(6, time.Minute, 40)
	for i, p := range s.Peers() {
		for j := range 3 {
			p.Read(urls[(i+j)%len(urls)])
		}
	}
	s.World.Run(2 * time.Minute)
	return s, urls
}

// recover lets a world come to rest.
func (s *Swarm) recover() {
	for _, p := range s.members {
		p.SetDisk(Sound)
		if !p.Up() {
			p.Start()
		}
	}
	s.SetFaults(Faults{})
	s.World.Run(25 * time.Minute)
	s.CheckKept()
	s.CheckReaders()
}

// failing is a world in which disks have no room for some minutes, of one member or
// of all the owners of a feed but two, and members crash meanwhile.
func failing(seed uint64) *Swarm {
	s, urls := diskWorld(seed)
	dice := rand.New(rand.NewPCG(seed, 6))
	for i := range 8 {
		fault := Crowded
		if i%2 == 1 {
			fault = Full
		}
		var full []*Peer
		for _, j := range dice.Perm(len(s.members))[:1+dice.IntN(6)] {
			full = append(full, s.members[j])
			s.members[j].SetDisk(fault)
		}
		s.World.Run(time.Minute)
		if i%4 < 2 {
			p := s.leader(urls[dice.IntN(len(urls))])
			if p == nil {
				p = full[0]
			}
			p.Kill(i%2 == 0)
			s.After(20*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
		for _, p := range full {
			p.SetDisk(Sound)
		}
		s.World.Run(30 * time.Second)
		s.CheckKept()
	}
	s.recover()
	return s
}

// torn is a world in which a disk breaks in the middle of what it writes, and the
// node finds a part of that when it is started again.
func torn(seed uint64) *Swarm {
	s, urls := diskWorld(seed)
	dice := rand.New(rand.NewPCG(seed, 7))
	for i := range 12 {
		p := s.leader(urls[i%len(urls)])
		if p == nil {
			p = s.members[dice.IntN(len(s.members))]
		}
		if p.Up() {
			p.SetDisk(Broken)
			s.World.Run(time.Duration(dice.IntN(90)) * time.Second)
			p.Kill(i%2 == 0)
			s.After(time.Duration(1+dice.IntN(40))*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
	}
	s.recover()
	return s
}
