package wedge_test

import (
	"testing"
	"time"

	"tidings/overlay"
	"tidings/overlay/wedge"
	"tidings/sim"
)

// As a wedge grows, all members that begin to serve receive the leader's last broadcast, including
// those behind a relay, and relays that serve later.
func TestNewServersReceiveTheLastBroadcast(t *testing.T) {
	t.Parallel()
	const members, keys = 100, 100
	w := newWorld(t, sim.Config{Seed: 3}, wedge.Config{})
	w.grow(members)
	for _, m := range w.members {
		m.catchUp = map[overlay.ID][]byte{}
	}
	relays := 0
	for _, n := range []int{2, 5, 12, 40} {
		for i := range keys {
			leader := w.members[i%members]
			leader.catchUp[w.key(i)] = []byte("word")
			w.enlist(leader, w.key(i), wedge.Order{Term: wedge.Term{Seq: uint32(n)}, N: n, Payload: []byte("words")})
		}
		w.Run(time.Minute)
		for i := range keys {
			for rank, m := range w.nearest(w.key(i)) {
				if v, ok := m.wedge.View(w.key(i)); ok && v.Assignment.Ranks.Len() == 0 && !v.Leads {
					relays++
				}
				if rank < n && string(m.catchUp[w.key(i)]) != "word" {
					t.Errorf("key %d: the member of rank %d of %d has been told %q", i, rank, n, m.catchUp[w.key(i)])
				}
			}
		}
	}
	if relays < keys {
		t.Errorf("only %d relays", relays)
	}
}
