package sums_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/longtest"
	"tidings/internal/wire"
	"tidings/overlay/sums"
	"tidings/overlay/sums/sumspb"
	"tidings/sim"
)

// tamperValues returns a function that forges the values in a liar's responses.
func tamperValues(of func(total) total) func(frame []byte) []byte {
	return func(frame []byte) []byte {
		layer, body, err := wire.ParseFrame(frame)
		m := &sumspb.Message{}
		if err != nil || layer != wire.Sums || proto.Unmarshal(body, m) != nil || len(m.GetResponse().GetValue()) == 0 {
			return frame
		}
		if t, err := decode(m.GetResponse().Value); err == nil {
			lie := of(t)
			m.GetResponse().Value = lie.encode()
			m.GetResponse().Version = sums.VersionOf(m.GetResponse().Value)
		}
		return wire.AppendFrame(nil, wire.Sums, m)
	}
}

// A tenth of the members lie about every value. If there are enough items to compare, the sums
// of honest members are off by some percent, not a thousandfold.
func TestLiars(t *testing.T) {
	t.Parallel()
	lies := map[string]func(total) total{
		"1000-fold": func(t total) total { return total{t.members, 1000 * t.things, 1000 * t.amount} },
		"zero":      func(t total) total { return total{t.members, 0, 0} },
		"12-fold":   func(t total) total { return total{t.members, t.things, 12 * t.amount} },
	}
	cases := []struct {
		lie        string
		things     uint64
		mean, most float64
	}{
		{"12-fold", 100, 5, 8},
		{"1000-fold", 100, 0.05, 0.15},
		{"zero", 100, 0.12, 0.25},
		{"1000-fold", 1, math.Inf(1), math.Inf(1)}, // too few to compare
	}
	for _, c := range cases[:longtest.Pick(2, len(cases))] {
		w := newWorld(t, sim.Config{}, sums.Config{})
		rng := rand.New(rand.NewPCG(w.Seed(), 9))
		w.value = func(m *member) total {
			things := max(1, c.things*3/4+rng.Uint64N(c.things/2+1))
			return total{1, things, things * (25 + rng.Uint64N(50))}
		}
		n := longtest.Pick(64, 128)
		for i := range n {
			m := &member{Host: w.Host(sim.HostConfig{Open: true}), w: w}
			if i%10 == 9 {
				m.tamper = tamperValues(lies[c.lie])
			}
			w.members = append(w.members, m)
			w.After(time.Duration(i+1)*100*time.Millisecond, m.start)
		}
		w.Run(time.Minute)
		w.Run(12 * time.Minute)
		var honest []*member
		for _, m := range w.live() {
			if m.tamper == nil {
				honest = append(honest, m)
			}
		}
		mean, most := w.off(honest)
		st := w.stats()
		t.Logf("10 %% claim %s of %d items each: sums of honest members off by %.1f %% in the mean, %.1f %% at most; %.1f of %.1f values doubted",
			c.lie, c.things, 100*mean, 100*most, float64(st.Doubted)/float64(n), float64(st.Valued)/float64(n))
		if mean > c.mean || most > c.most || len(honest) < n*9/10 {
			t.Errorf("%s: off by %.3f, at most %.3f", c.lie, mean, most)
		}
	}
}
