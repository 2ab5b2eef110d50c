package wedge_test

import (
	"slices"
	"testing"
	"time"

	"tidings/overlay"
	"tidings/overlay/wedge"
	"tidings/sim"
)

// "A channel with polling level l is polled by all nodes with at least l matching prefix digits in
// their identifiers." (Corona, §3.2.) Each change of the level by one takes a round; phases are
// random; and each member has one parent.
func TestLevelsReachTheirMembers(t *testing.T) {
	t.Parallel()
	const maintenance = 2 * time.Minute
	for _, digit := range []int{4, 1} {
		w := newWorld(t, sim.Config{Seed: 20, NetworkFaults: sim.NetworkFaults{Loss: 0.01}}, wedge.Config{Maintenance: maintenance})
		w.grow(80)
		const keys = 12
		leaders := map[overlay.ID]*member{}
		for i := range keys {
			key := w.key(i)
			leaders[key] = w.nearest(key)[0]
			w.enlist(leaders[key], key, wedge.Order{Term: wedge.Term{Seq: 1}, N: 1, DigitBits: digit, Payload: []byte("words")})
		}
		want := func(level int) {
			for _, m := range w.members {
				m.level = map[overlay.ID]int{}
				for key := range leaders {
					m.level[key] = level
				}
			}
		}
		// wrong counts the members that serve and should not, or should serve and do not.
		wrong := func(level int) (wrong, serving int) {
			for key, leader := range leaders {
				for _, m := range w.live() {
					_, serves := m.wedge.Assignment(key)
					if serves {
						serving++
					}
					if serves != (m == leader || m.overlay.ID().Common(key) >= level*digit && leader.overlay.ID().Common(key) >= level*digit) {
						wrong++
					}
				}
			}
			return wrong, serving
		}
		w.Run(time.Minute)
		if n, serving := wrong(64); n > 0 || serving != keys {
			t.Errorf("%d bits: %d serve before anybody lowers a level", digit, serving)
		}
		before := 64 / digit
		for _, level := range []int{2, 1, 0, 1, 3, 0} {
			want(level)
			start := w.Now()
			rounds := time.Duration(min(max(before, level), 8) - min(before, level) + 2)
			ok := w.RunUntil(func() bool { n, _ := wrong(level); return n == 0 }, 10*time.Second, rounds*(maintenance*5/4+20*time.Second))
			n, serving := wrong(level)
			t.Logf("digits of %d bits, level %d: %.1f members a key after %v", digit, level, float64(serving)/keys, w.Now().Sub(start))
			if !ok {
				t.Errorf("digits of %d bits, level %d: %d members are wrong", digit, level, n)
			}
			w.checkDigests()
			before = level
		}

		// In a stable network phases are random, broadcasts reach all, and little is sent.
		w.SetNetworkFaults(sim.NetworkFaults{})
		even := 0.
		for key, leader := range leaders {
			even += w.evenness(key, 80) / keys
			for _, m := range w.members {
				m.got = nil
			}
			leader.Do(func() {
				if err := leader.wedge.Broadcast(key, []byte("news")); err != nil {
					t.Error(err)
				}
			})
			w.Run(5 * time.Second)
			if got := len(slices.DeleteFunc(slices.Clone(w.members), func(m *member) bool { return len(m.got) != 1 })); got != 79 {
				t.Errorf("digits of %d bits: a message reached %d of 79", digit, got)
			}
		}
		t.Logf("digits of %d bits: mean wait %.2f of the even one", digit, even)
		if even < 1.7 || even > 2.3 {
			t.Errorf("phases are not random: mean wait %.2f of the even one", even)
		}
		st := w.stats()
		w.Run(20 * time.Minute)
		after := w.stats()
		t.Logf("ten rounds of quiet: %d entries for %d assignments", after.Entries-st.Entries, after.Keys)

		// A new term changes only the payload of assignments, and a death is repaired.
		for key, leader := range leaders {
			w.enlist(leader, key, wedge.Order{Term: wedge.Term{Seq: 2}, N: 1, DigitBits: digit, Payload: []byte("others")})
		}
		w.Run(time.Minute)
		if n, _ := wrong(0); n > 0 {
			t.Errorf("digits of %d bits: after a new order %d members are wrong", digit, n)
		}
		for _, m := range w.members[40:50] {
			if m.wedge.Stats().Led == 0 {
				m.Crash(false)
			}
		}
		if !w.RunUntil(func() bool { n, _ := wrong(0); return n == 0 }, 10*time.Second, 12*maintenance) {
			n, _ := wrong(0)
			t.Errorf("digits of %d bits: after deaths %d members are wrong", digit, n)
		}
		w.checkDigests()
	}
}
