package sums_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/sums"
	"tidings/sim"
)

// settle lets time pass until all hosts that are up are members and know the sum.
func (w *world) settle(step, limit time.Duration) (after time.Duration) {
	joining := func() bool {
		return slices.ContainsFunc(w.members, func(m *member) bool { return m.Up() && m.overlay.State() != overlay.Active })
	}
	for ; (joining() || w.wrong() > 0) && after < limit; after += step {
		w.Run(step)
	}
	return after
}

// After quiet every member knows the true sum, whatever the size of the network. The test also
// prints the cost in messages and bytes per member and hour, with values of a kilobyte.
func TestEveryMemberKnowsTheSum(t *testing.T) {
	t.Parallel()
	sizes := longtest.Pick([]int{1, 2, 17, 96}, []int{1, 2, 17, 64, 256})
	most := sizes[len(sizes)-1]
	if *largeFlag {
		sizes = append(sizes, 1024)
	}
	for _, n := range sizes {
		w := newWorld(t, sim.Config{}, sums.Config{})
		w.adder.padding = 1000
		w.grow(n, 100*time.Millisecond)
		after := w.settle(5*time.Second, 30*time.Minute)
		t.Logf("%4d members: all know the sum %v after the last has joined", n, after)
		if live, wrong := len(w.live()), w.wrong(); live != n || wrong > 0 {
			t.Errorf("%d of %d members; %d do not know the sum after %v", live, n, wrong, after)
		}
		for _, m := range w.live() {
			if _, complete := m.sums.Remote(); !complete {
				t.Errorf("of %d: member %d believes that its sum is not complete: %+v", n, m.Index(), m.sums.Stats())
			}
		}
		w.Run(15 * time.Minute) // until the interval between rounds has reached its maximum
		messages, bytes, same := w.cost("calm", 10*time.Minute, func() {})
		if parts := float64(w.stats().Parts) / float64(n); messages > 2*2*6*1.3*parts || bytes > 20*messages || n > 1 && same < 0.999 {
			t.Error("this costs too much")
		}
		if w.wrong() > 0 {
			t.Errorf("of %d, %d do not know the sum any longer", n, w.wrong())
		}
		if n == most {
			_, bytes, _ = w.cost("changing", 10*time.Minute, func() {
				for _, m := range w.live() {
					m.Do(func() { m.set(w.value(m)) })
				}
			})
			if bytes > 6*70*1100 {
				t.Error("this costs too much")
			}
		}
		if st := w.stats(); st.Garbage+st.Refused+st.Flooded > 0 || st.KeptBytes > st.Parts*1100 {
			t.Errorf("%+v", st)
		}
	}
}

// cost prints and returns what a member sends in an hour, and the fraction of responses without
// a value, measured over a period in which do is called four times.
func (w *world) cost(what string, for_ time.Duration, do func()) (messages, bytes, same float64) {
	before := w.stats()
	const times = 4
	for range times {
		do()
		w.Run(for_ / times)
	}
	st := w.stats()
	each := float64(time.Hour) / float64(for_) / float64(len(w.members))
	messages = float64(st.Asked+st.Given-before.Asked-before.Given) * each
	bytes = float64(st.Bytes-before.Bytes) * each
	same = float64(st.Same-before.Same) / float64(st.Given-before.Given)
	w.t.Logf("%4d members, %s: %.0f messages (%.2f/s), %.0f bytes (%.1f B/s) sent by each in an hour; %.0f %% the same; %.0f parts",
		len(w.members), what, messages, messages/3600, bytes, bytes/3600, 100*same, float64(st.Parts)/float64(len(w.members)))
	return messages, bytes, same
}

// Sums follow changed values within as many maintenance intervals as the table has rows, plus
// one.
func TestSumsFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{}, sums.Config{Maintenance: 2 * time.Minute}).grow(64, 100*time.Millisecond)
	w.settle(5*time.Second, 5*time.Minute)
	w.Run(5 * time.Minute) // quick rounds are over
	for range 3 {
		for _, m := range w.members {
			m.Do(func() { m.set(w.value(m)) })
		}
		w.Run(2 * time.Minute)
		if w.Run(4 * time.Minute); w.wrong() > 0 {
			t.Errorf("after three intervals %d do not know the sum", w.wrong())
		}
	}
}

// A member that joins knows the sum a minute later, and the other members know its value.
// Meanwhile no member's sum drops below the old one.
func TestMemberJoins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{}, sums.Config{})
	w.value = func(*member) total { return total{1, 1, 1000} }
	w.grow(64, 100*time.Millisecond)
	w.settle(5*time.Second, 15*time.Minute)
	w.Run(time.Minute)
	before := w.truth().amount
	old := w.live()
	w.grow(1, time.Second)
	for range 60 {
		w.Run(time.Second)
		for _, m := range old {
			if got := m.all().amount; got < before {
				t.Fatalf("member %d knows %d of %d", m.Index(), got, before)
			}
		}
	}
	joined := w.members[64]
	if joined.all() != w.truth() {
		t.Errorf("the new member knows %+v of %+v", joined.all(), w.truth())
	}
	if w.Run(25 * time.Minute); w.wrong() > 0 {
		t.Errorf("%d do not know the sum", w.wrong())
	}
}

// churn crashes members one after the other and restarts each two minutes later, so that
// sessions have the given mean length.
func (w *world) churn(session, for_ time.Duration) {
	rng := rand.New(rand.NewPCG(w.Seed(), 8))
	pause := session / time.Duration(len(w.members))
	for end := w.Now().Add(for_); w.Now().Before(end); {
		w.Run(pause)
		if m := w.members[1+rng.IntN(len(w.members)-1)]; m.Up() {
			m.Crash(rng.IntN(2) == 0)
			w.After(2*time.Minute, m.start)
		}
	}
}

// Under churn and loss sums are about right all the time, and exact soon after.
func TestChurnAndLoss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		loss       float64
		session    time.Duration
		mean, most float64
	}{
		{loss: 0.05, mean: 0.001, most: 0.01},
		{loss: 0.01, session: time.Hour, mean: 0.04, most: 0.2},
	} {
		w := newWorld(t, sim.Config{NetworkFaults: sim.NetworkFaults{Loss: c.loss}}, sums.Config{})
		w.value = func(*member) total { return total{1, 1, 1000} }
		w.grow(longtest.Pick(64, 128), 100*time.Millisecond)
		w.settle(5*time.Second, 15*time.Minute)
		var mean, most float64
		const checks = 10
		for range checks {
			if c.session > 0 {
				w.churn(c.session, 3*time.Minute)
			} else {
				w.Run(3 * time.Minute)
			}
			a, b := w.off(w.live())
			mean, most = mean+a/checks, max(most, b)
		}
		w.SetNetworkFaults(sim.NetworkFaults{})
		st := w.stats()
		t.Logf("loss %.0f %%, sessions of %v: sums off by %.2f %% in the mean, %.2f %% at most; %d of %d rounds quick, %.2f %% asked again",
			100*c.loss, c.session, 100*mean, 100*most, st.Quick, st.Rounds, 100*float64(st.Again)/float64(st.Asked))
		if mean > c.mean || most > c.most {
			t.Error("sums are too far off")
		}
		if after := w.settle(time.Minute, 90*time.Minute); w.wrong() > 0 {
			t.Errorf("%d do not know the sum %v later", w.wrong(), after)
		}
	}
}

// Two halves that are partitioned for longer than values are kept each have their own sum.
// After healing all members have the sum of both.
func TestPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{}, sums.Config{}).grow(64, 100*time.Millisecond)
	w.settle(5*time.Second, 15*time.Minute)
	whole := w.truth()
	w.partition()
	w.Run(time.Hour)
	var sides [2]total
	for i, m := range w.members {
		sides[i%2].members += m.own.members
		sides[i%2].things += m.own.things
		sides[i%2].amount += m.own.amount
	}
	for i, m := range w.members {
		if m.all() != sides[i%2] {
			t.Fatalf("member %d knows %+v, its side has %+v of %+v", i, m.all(), sides[i%2], whole)
		}
	}
	w.Heal()
	if after := w.settle(10*time.Second, time.Hour); after > 40*time.Minute || w.truth() != whole {
		t.Errorf("%d do not know the sum %v after healing", w.wrong(), after)
	} else {
		t.Logf("all know the sum %v after healing", after)
	}
}

// The value of a member that does not answer is kept for three maintenance intervals, and no longer.
func TestValueIsKept(t *testing.T) {
	w := newWorld(t, sim.Config{}, sums.Config{Maintenance: 2 * time.Minute})
	w.grow(16, 100*time.Millisecond)
	silent := &member{Host: w.Host(sim.HostConfig{Open: true}), w: w}
	mute := false
	silent.tamper = func(frame []byte) []byte {
		if layer, _, _ := wire.ParseFrame(frame); mute && layer == wire.Sums {
			return nil
		}
		return frame
	}
	w.members = append(w.members, silent)
	silent.start()
	if w.Run(5 * time.Minute); w.wrong() > 0 {
		t.Fatalf("%d do not know the sum", w.wrong())
	}
	mute = true
	others := w.members[:16]
	truth := w.truth()
	w.Run(3 * time.Minute)
	for _, m := range others {
		if m.all() != truth {
			t.Errorf("member %d has forgotten the silent one too early", m.Index())
		}
	}
	w.Run(6 * time.Minute)
	for _, m := range others {
		if m.all().amount != truth.amount-silent.own.amount {
			t.Errorf("member %d: %+v, the silent one has %+v of %+v", m.Index(), m.all(), silent.own, truth)
		}
	}
}

// The same seed gives the same run.
func TestOneSeedOneRun(t *testing.T) {
	t.Parallel()
	run := func() uint64 {
		w := newWorld(t, sim.Config{NetworkFaults: sim.NetworkFaults{Loss: 0.02}}, sums.Config{}).grow(48, 100*time.Millisecond)
		w.churn(10*time.Minute, 10*time.Minute)
		return w.TraceHash()
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs: %x, %x", a, b)
	}
}
