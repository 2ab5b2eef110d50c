package wedge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay/wedge"
	"tidings/sim"
)

// Members that decline get stand-ins; the leader knows how many serve; broadcasts reach all members
// that take part; n can rise and fall, and 0 ends the wedge.
func TestLifeOfAWedge(t *testing.T) {
	t.Parallel()
	// With most of the first seeds, reports of children were once discarded when stand-ins changed,
	// so that the leader assigned and withdrew the stand-ins forever.
	for _, seed := range longtest.Pick([]uint64{4}, []uint64{0, 4, 6, 9, 1}) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { life(t, seed) })
	}
}

func life(t *testing.T, seed uint64) {
	w := newWorld(t, sim.Config{Seed: seed}, wedge.Config{})
	w.grow(100)
	key := w.key(0)
	near := w.nearest(key)
	leader := near[97] // far from the key
	term := uint32(0)
	enlist := func(n int, payload string) {
		term++
		w.enlist(leader, key, wedge.Order{Term: wedge.Term{Seq: term}, N: n, Payload: []byte(payload)})
		w.Run(40 * time.Second)
		w.checkDigests()
	}
	serving := func(want, wantDeclined int) {
		t.Helper()
		leader.Do(func() {
			if served, declined := leader.wedge.Served(key); served != want || declined != wantDeclined {
				t.Errorf("the leader knows of %d ranks served and %d declined, not %d and %d", served, declined, want, wantDeclined)
			}
		})
	}
	whole := func(what string, n int) {
		t.Helper()
		if none, twice := w.gaps(key, n); none+twice > 0 || len(w.servers(key)) != n {
			t.Errorf("%s: of %d ranks %d are served by nobody, %d by several; %d are served", what, n, none, twice, len(w.servers(key)))
		}
		if even := w.evenness(key, n); even > 1.001 {
			t.Errorf("%s: the mean wait is %.4f of the even one", what, even)
		}
	}
	exactly := func(what string, n int) {
		t.Helper()
		whole(what, n)
		for rank, m := range near {
			if d, ok := m.wedge.Assignment(key); ok != (rank < n) || ok && d.Ranks.At(0) != rank {
				t.Errorf("%s: the member of rank %d serves %v", what, rank, d.Ranks)
			}
		}
		serving(n, 0)
	}
	enlist(20, "a")
	exactly("enlisted", 20)
	for _, n := range []int{31, 30, 64, 100, 63, 1, 20} {
		enlist(n, "a")
		exactly(fmt.Sprint(n, " ranks"), n)
	}

	// Two decline when they are asked, one declines later, and one stand-in declines.
	near[3].refuses[key], near[20].refuses[key], near[8].refuses[key] = true, true, true
	enlist(20, "b")
	near[11].Do(func() { near[11].wedge.Decline(key) })
	w.Run(time.Minute)
	for range 60 { // the state is stable
		w.Run(time.Second)
		whole("three decline, and a stand-in", 20)
		serving(20, 4)
	}
	for _, rank := range []int{3, 8, 11, 20} {
		if _, ok := near[rank].wedge.Assignment(key); ok {
			t.Errorf("the member of rank %d serves, and has declined", rank)
		}
	}
	for rank := 21; rank < 24; rank++ {
		if d, ok := near[rank].wedge.Assignment(key); !ok || !slices.Contains([]int{3, 8, 11}, d.Ranks.At(0)) {
			t.Errorf("the member of rank %d serves %v (%v)", rank, d.Ranks, ok)
		}
	}
	near[3].refuses[key] = false
	enlist(20, "c")
	w.Run(time.Minute)
	whole("one is willing again", 20)

	// A broadcast reaches every member once.
	for _, m := range w.members {
		m.got = nil
	}
	leader.Do(func() {
		for i := range 40 {
			if err := leader.wedge.Broadcast(key, []byte(fmt.Sprint(i, string(make([]byte, 3000))))); err != nil {
				t.Error(err)
			}
		}
	})
	w.Run(5 * time.Second)
	for rank, m := range near {
		if _, part := m.wedge.View(key); m != leader && part != (len(m.got) == 40) {
			t.Errorf("the member of rank %d got %d messages (has a part: %v)", rank, len(m.got), part)
		}
	}

	// A member that finds an order invalid neither serves nor forwards it.
	near[5].invalid[key] = true
	enlist(20, "d")
	if _, ok := near[5].wedge.Assignment(key); ok {
		t.Error("serves by an order that is not valid")
	}
	w.Run(20 * time.Minute)
	if none, twice := w.gaps(key, 20); none+twice > 0 {
		t.Errorf("one finds the order invalid: %d ranks are served by nobody, %d by several", none, twice)
	}
	near[5].invalid[key] = false
	enlist(50, "e")
	near[2].Do(func() {
		if err := near[2].wedge.Enlist(key, wedge.Order{}); err != nil {
			t.Error(err)
		}
	})
	w.Run(time.Minute)
	if served := len(w.servers(key)); served != 50 {
		t.Errorf("after a member that does not lead dismissed the wedge, %d ranks of 50 are served", served)
	}
	enlist(0, "")
	for rank, m := range near {
		if v, ok := m.wedge.View(key); ok {
			t.Errorf("the member of rank %d still has a part: %+v", rank, v)
		}
		if len(m.serves) > 0 {
			t.Errorf("the member of rank %d was not released", rank)
		}
	}
	if err := leader.wedge.Broadcast(key, nil); err == nil {
		t.Error("broadcasts for a key that it does not lead")
	}
}

// If many decline, the first sixteen have stand-ins, and the others are known to be missing.
func TestTooManyDecline(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 10}, wedge.Config{})
	w.grow(64)
	key := w.key(0)
	near := w.nearest(key)
	for rank := range 20 {
		near[rank].refuses[key] = true
	}
	w.enlist(near[0], key, wedge.Order{Term: wedge.Term{Seq: 1}, N: 30, Payload: []byte("words")})
	w.Run(2 * time.Minute)
	if served := len(w.servers(key)); served != 26 {
		t.Errorf("%d ranks are served, of 30 that 20 declined", served)
	}
	near[0].Do(func() {
		if served, declined := near[0].wedge.Served(key); served != 26 || declined != 20 {
			t.Errorf("the leader knows of %d ranks served and %d declined", served, declined)
		}
		if st := near[0].wedge.Stats(); st.LeftOut < 4 {
			t.Errorf("%d ranks were left out", st.LeftOut)
		}
	})
	w.checkDigests()
}

// A member that declined no longer counts after nearer members have taken its rank, and has no
// stand-in.
func TestADeclinedRankIsForgottenWhenAnotherMemberHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{Seed: 11}, wedge.Config{})
	w.grow(24)
	key := w.key(0)
	near := w.nearest(key)
	for _, m := range near[1:] {
		m.refuses[key] = true
	}
	w.enlist(near[0], key, wedge.Order{Term: wedge.Term{Seq: 1}, N: 10, Payload: []byte("words")})
	w.Run(2 * time.Minute)
	near[0].Do(func() {
		if _, declined := near[0].wedge.Served(key); declined < 9 {
			t.Fatalf("%d declined", declined)
		}
	})
	for _, n := range longtest.Pick([]int{24, 48}, []int{24, 48, 96}) {
		w.grow(n)
		w.Run(20 * time.Minute)
		w.checkDigests()
	}
	refuse := 0
	for _, m := range w.nearest(key)[:10] {
		if m.refuses[key] {
			refuse++
		}
	}
	near[0].Do(func() {
		if served, declined := near[0].wedge.Served(key); declined > refuse {
			t.Errorf("the leader knows of %d ranks served and %d declined, where %d of the nearest decline", served, declined, refuse)
		}
	})
}
