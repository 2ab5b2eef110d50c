package wedge_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
	"tidings/overlay/wedge"
	"tidings/sim"
)

// The ENLIST walk of Corona, §3.4, with ranks: exactly the n nearest members serve, each its own
// rank, whoever leads, and there is one entry for each member other than the leader.
func TestNearestHaveTheirRanks(t *testing.T) {
	t.Parallel()
	members, keys := longtest.Pick(96, 220), longtest.Pick(100, 300)
	w := newWorld(t, sim.Config{Seed: 1}, wedge.Config{})
	w.grow(members)
	dice := rand.New(rand.NewPCG(1, 2))
	n := make([]int, keys)
	var leaders []*member
	ref := w.Now().Add(-7 * time.Minute)
	for i := range n {
		n[i] = 1 + dice.IntN(members)
		leaders = append(leaders, w.members[dice.IntN(members)])
		w.enlist(leaders[i], w.key(i), wedge.Order{
			Term: wedge.Term{Seq: 1}, N: n[i], IntervalStart: ref, Payload: []byte("words"),
		})
	}
	w.Run(time.Minute)
	var late, latest time.Duration
	var depth, most, relays, edges, serving int
	for i := range n {
		key := w.key(i)
		for rank, m := range w.nearest(key) {
			d, ok := m.wedge.Assignment(key)
			if ok != (rank < n[i]) || ok && (d.Ranks.Len() != 1 || d.Ranks.At(0) != rank || d.N != n[i]) {
				t.Errorf("key %d: the member of rank %d of %d serves %v of %d (%v)", i, rank, n[i], d.Ranks, d.N, ok)
			}
			if told, ok2 := m.serves[key]; ok2 != ok || ok && (told.Ranks != d.Ranks || string(told.Payload) != "words") {
				t.Errorf("key %d: the member of rank %d was told %v", i, rank, told)
			}
			if ok {
				late, latest = late+d.IntervalStart.Sub(ref).Abs(), max(latest, d.IntervalStart.Sub(ref).Abs())
			}
			v, ok := m.wedge.View(key)
			if !ok {
				continue
			}
			if v.Assignment.Ranks.Len() == 0 && !v.Leads {
				relays++
			}
			edges += len(v.Children)
			if v.Assignment.Ranks.Len() > 0 {
				steps := w.steps(m, key)
				serving++
				depth += steps
				most = max(most, steps)
			}
		}
	}
	var total int
	for i := range n {
		total += n[i]
	}
	st := w.stats()
	t.Logf("%d ranks: %d edges, %d entries sent in %d batches, %.2f relays a key, depth %.1f, at most %d; resent %d, refused %d, lists %d",
		total, edges, st.Entries, st.Batches, float64(relays)/float64(keys), float64(depth)/float64(serving), most, st.Resent, st.Refused, st.Lists)
	if int(st.Entries) > total+3*keys || st.Refused > 0 {
		t.Errorf("%d entries for %d ranks of %d keys, %d refused", st.Entries, total, keys, st.Refused)
	}
	w.checkDigests()

	// The phase is more precise when the links have been used.
	first := late / time.Duration(total)
	late, latest = 0, 0
	for i := range n {
		w.enlist(leaders[i], w.key(i), wedge.Order{Term: wedge.Term{Seq: 2}, N: n[i], IntervalStart: ref, Payload: []byte("words")})
	}
	w.Run(time.Minute)
	for i := range n {
		for _, m := range w.nearest(w.key(i))[:n[i]] {
			d, _ := m.wedge.Assignment(w.key(i))
			late, latest = late+d.IntervalStart.Sub(ref).Abs(), max(latest, d.IntervalStart.Sub(ref).Abs())
		}
	}
	late /= time.Duration(total)
	t.Logf("the reference phase is known to within %v at first, then to %v, at most %v", first, late, latest)
	if first > 150*time.Millisecond || late > 60*time.Millisecond || latest > 300*time.Millisecond {
		t.Errorf("the reference phase is off by %v at first, then by %v, at most %v", first, late, latest)
	}
	w.checkDigests()
}

// steps counts the edges from a member up to the leader.
func (w *world) steps(m *member, key overlay.ID) (steps int) {
	for {
		v, ok := m.wedge.View(key)
		if !ok || v.Leads || v.Parent == (overlay.ID{}) || steps > 256 {
			return steps
		}
		steps++
		for _, o := range w.members {
			if o.overlay.ID() == v.Parent {
				m = o
			}
		}
	}
}

// A seed determines the run.
func TestRunsAreTheSame(t *testing.T) {
	t.Parallel()
	run := func() uint64 {
		w := newWorld(t, sim.Config{Seed: 15, NetworkFaults: sim.NetworkFaults{Loss: 0.02}}, wedge.Config{Maintenance: 2 * time.Minute})
		w.grow(40)
		f := plant(w, 20)
		w.Run(time.Minute)
		f.kill(0.2)
		f.join(5)
		w.Run(15 * time.Minute)
		return w.TraceHash()
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs of one seed: %x and %x", a, b)
	}
}
