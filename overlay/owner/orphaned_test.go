package owner_test

import (
	"testing"
	"time"

	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/sim"
)

// Entries that readers were shown, and that a follower loses by a switch of branch, can be read until the application has
// read them, and are dropped then.
func TestOrphanedEntriesStayReadable(t *testing.T) {
	t.Parallel()
	seeds(t, 1, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed, NetworkFaults: sim.NetworkFaults{Loss: 0.01}}, time.Minute)
		w.grow(24)
		w.Run(30 * time.Second)
		w.want(10)
		w.Run(10 * time.Second)
		var readers []*follower
		for i, url := range w.urls {
			for j := range 4 {
				readers = append(readers, follow(w.members[(5*i+7*j)%24], url))
			}
		}
		w.write(20*time.Second, 5*time.Second, 100)
		w.part()
		w.write(3*time.Minute, 5*time.Second, 100)
		w.Heal()
		w.write(time.Minute, 5*time.Second, 100)
		w.Run(2 * time.Minute)
		gone := 0
		for _, r := range readers {
			gone += r.gone
		}
		t.Logf("seed %d: %d entries were shown and left", seed, gone)
		if gone == 0 {
			t.Error("no follower has orphaned entries")
		}
	})
}

// A follower follows one key and compares every second what it is shown.
type follower struct {
	*member
	key   overlay.ID
	shown []*owner.Entry
	gone  int
}

func follow(m *member, url string) *follower {
	f := &follower{member: m, key: m.w.key(url)}
	m.Do(func() { m.owners.Follow(f.key, url) })
	f.look()
	return f
}

func (f *follower) look() {
	f.w.After(time.Second, f.look)
	f.Do(func() {
		if owners := f.w.nearest(f.key); len(owners) > 0 {
			f.owners.Pull(owners[f.w.Now().Second()%3].Peer(), f.key, func(bool) {})
		}
		was := f.shown
		f.shown = f.owners.Visible(f.key)
		if len(was) == 0 {
			return
		}
		last := was[len(was)-1].Hash
		left := map[owner.Hash]bool{}
		of := f.owners.Orphaned(f.key, last)
		for _, e := range of {
			left[e.Hash] = true
			f.gone++
		}
		for _, e := range was {
			if !left[e.Hash] && !f.owners.Has(f.key, e.Hash) {
				f.w.t.Errorf("member %d was shown %v, which is not at hand", f.Index(), e.At)
			}
		}
		f.owners.Bodies(of, func(bodies [][]byte) {
			for i, b := range bodies {
				if b == nil {
					f.w.t.Errorf("member %d cannot read %v any more", f.Index(), of[i].At)
				}
			}
			if len(f.shown) == 0 {
				return
			}
			f.owners.Release(f.key, f.shown[len(f.shown)-1].Hash)
			if rest := f.owners.Orphaned(f.key, last); len(of) > 0 && len(rest) > 0 {
				f.w.t.Errorf("member %d still keeps %d entries", f.Index(), len(rest))
			}
		})
	})
}
