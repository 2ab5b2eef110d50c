package honeycomb

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// noise reads numbers from bytes, and zeros after their end.
type noise []byte

func (n *noise) uint64() uint64 {
	var b [8]byte
	*n = (*n)[copy(b[:], *n):]
	return binary.LittleEndian.Uint64(b[:])
}

func (n *noise) float() float64 { return math.Float64frombits(n.uint64()) }

// FuzzSolve decides about channels with any factors, given any aggregate that passes Check.
// Every choice must be valid, and every sum finite.
func FuzzSolve(f *testing.F) {
	f.Add([]byte{}, []byte{}, byte(0), false)
	f.Add(make([]byte, 400), make([]byte, 200), byte(1), true)
	b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(100))
	f.Add(append(b, b...), append(b, b...), byte(2), true)
	f.Fuzz(func(t *testing.T, of, other []byte, objective byte, ranks bool) {
		p := &Problem{
			Objective: Objective(objective) % 5, Base: 16, Nodes: 100,
			Interval: 30 * time.Minute, Load: 1, Detection: time.Minute,
		}
		if ranks {
			p.Granularity = Ranks
		}
		var own []Channel
		for n := noise(of); len(n) > 0 && len(own) < 100; {
			own = append(own, Channel{
				Subscribers: n.float(), Size: n.float(), Update: time.Duration(n.uint64()),
				Interval: time.Duration(n.uint64()), MaxPollers: int(n.uint64()), Key: n.uint64(),
				Wedges: []float32{1, float32(n.float()), float32(n.float()), 100},
			})
		}
		n := noise(other)
		remote := &Bins{Totals: Totals{Channels: int(n.uint64()), Subscribers: n.float()}, BaseCost: n.float(), FirstBin: int(n.uint64())}
		for len(n) > 0 {
			remote.StepCosts = append(remote.StepCosts, n.float())
		}
		most := Totals{Channels: 1e6, Subscribers: 1e9}
		if remote.Check(p, most) != nil {
			remote = NewBins(p, own)
			if err := remote.Check(p, Totals{Channels: 100, Subscribers: math.Inf(1)}); err != nil {
				t.Fatalf("an honest sum is refused: %v", err)
			}
		}
		s, err := Solve(p, own, remote)
		if err != nil {
			t.Fatal(err)
		}
		for i := range own {
			if n := s.Pollers(p, own, i); !(n >= 1 && n <= 100) {
				t.Fatalf("%v pollers", n)
			}
		}
		for _, x := range []float64{s.Down.F, s.Down.G, s.Up.F, s.Up.G, s.Budget} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("%+v", s)
			}
		}
		if s.Feasible && s.Down.G > s.Budget*(1+1e-9) || !(s.Lambda >= 0) {
			t.Fatalf("%+v", s)
		}
	})
}
