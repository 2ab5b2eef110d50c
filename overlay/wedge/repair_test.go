package wedge_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
	"tidings/overlay/wedge"
	"tidings/sim"
)

const round = 10*time.Minute*5/4 + time.Minute // longest time between two rounds, and a minute

// A wedges value is the set of wedges of a test.
type wedges struct {
	*world
	first   int // number of the first key
	keys    int
	n       []int
	leaders []*member
	rng     *rand.Rand
}

// plant makes random members enlist.
func plant(w *world, keys int) *wedges {
	f := &wedges{world: w, keys: keys, rng: rand.New(rand.NewPCG(w.Seed(), 7))}
	members := len(w.members)
	for i := range keys {
		f.n = append(f.n, 1+f.rng.IntN(members/2))
		f.leaders = append(f.leaders, w.members[f.rng.IntN(members)])
		w.enlist(f.leaders[i], w.key(i), wedge.Order{Term: wedge.Term{Seq: 1}, N: f.n[i], Payload: []byte("words")})
	}
	return f
}

func (f *wedges) key(i int) overlay.ID { return f.world.key(f.first + i) }

// right counts the ranks that nobody serves, and those that several members serve.
func (f *wedges) wrongRanks() (none, twice int) {
	for i := range f.keys {
		a, b := f.gaps(f.key(i), f.n[i])
		none += a
		twice += b
	}
	return none, twice
}

func (f *wedges) total() (sum int) {
	for _, n := range f.n {
		sum += n
	}
	return sum
}

// become waits until every rank is served once, and logs how long that took.
func (f *wedges) waitUntilServed(what string, limit time.Duration) {
	f.t.Helper()
	start := f.Now()
	ok := f.RunUntil(func() bool { none, twice := f.wrongRanks(); return none+twice == 0 }, 15*time.Second, limit)
	none, twice := f.wrongRanks()
	f.t.Logf("%s: %v until all %d ranks are served once (%d not, %d twice)", what, f.Now().Sub(start), f.total(), none, twice)
	if !ok {
		f.t.Errorf("%s: after %v %d ranks are served by nobody, %d by several", what, limit, none, twice)
	}
	f.checkDigests()
}

// kill ends a share of the members, but no leaders.
func (f *wedges) kill(share float64) (dead int) {
	live := f.live()
	f.rng.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	for _, m := range live {
		if float64(dead) < share*float64(len(live)) && !slices.Contains(f.leaders, m) {
			m.Crash(false)
			dead++
		}
	}
	return dead
}

func (f *wedges) join(n int) {
	for i := range n {
		m := f.member()
		f.After(time.Duration(i)*time.Second, m.start)
	}
}

func TestTreesAreRepaired(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		loss float64
		seed uint64
	}{{"calm", 0, 1}, {"1 % loss", 0.01, 2}, {"5 % loss", 0.05, 3}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, sim.Config{Seed: c.seed}, wedge.Config{})
			w.grow(longtest.Pick(48, 96))
			w.SetNetworkFaults(sim.NetworkFaults{Loss: c.loss, Duplicate: c.loss, Reorder: c.loss})
			f := plant(w, longtest.Pick(30, 60))
			f.waitUntilServed("enlisted", 2*time.Minute)
			before := w.stats()
			dead := f.kill(0.15)
			w.Run(time.Second)
			f.waitUntilServed("a seventh is dead", round)
			f.join(dead)
			w.Run(time.Duration(dead) * time.Second)
			f.waitUntilServed("as many have joined", 2*round)
			w.Run(time.Hour)
			f.waitUntilServed("an hour later", time.Second)
			st := w.stats()
			w.Run(time.Hour)
			if last := w.stats(); c.loss == 0 && last.Entries > st.Entries {
				t.Errorf("hours later %d entries are still sent", last.Entries-st.Entries)
			}
			t.Logf("%d dead; %d entries, %d lists, %d replaced, %d adopted, %d refused, %d expired, %d resent",
				dead, st.Entries-before.Entries, st.Lists, st.Replaced, st.Adopted, st.Refused, st.Expired, st.Resent)
		})
	}
}

// Members that crash and return before anybody has noticed have forgotten their assignments. The
// next digest reveals it, and their parents list them.
func TestRestartedMembersGetTheirAssignmentsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{Seed: 14}, wedge.Config{})
	w.grow(64)
	f := plant(w, 40)
	f.waitUntilServed("enlisted", 2*time.Minute)
	restarted := 0
	for _, m := range w.members {
		if restarted < 8 && m.Index() > 0 && m.wedge.Stats().Led == 0 {
			restarted++
			m.Crash(false)
			m.start()
		}
	}
	w.Run(time.Minute)
	if none, _ := f.wrongRanks(); none == 0 {
		t.Error("nothing was forgotten")
	}
	f.waitUntilServed("eight have restarted", round)
	st := w.stats()
	t.Logf("%d lists", st.Lists)
	if st.Lists == 0 {
		t.Error("nothing was listed")
	}
	for i := range f.keys {
		f.leaders[i].Do(func() {
			if served, _ := f.leaders[i].wedge.Served(w.key(i)); served != f.n[i] {
				t.Errorf("key %d: the leader knows of %d ranks served of %d", i, served, f.n[i])
			}
		})
	}
	w.Run(time.Hour)
	f.waitUntilServed("an hour later", time.Second)
}
