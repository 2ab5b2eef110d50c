package honeycomb

import (
	"fmt"
	"testing"
)

// BenchmarkMember measures the work of one of 1,024 members, with a thousandth of the channels.
func BenchmarkMember(b *testing.B) {
	s := newScenario(1024, 100_000, 5e6, 1)
	s.trueWedges(2)
	for _, granularity := range []Granularity{Levels, Ranks} {
		s.Granularity = granularity
		remote, own := NewBins(&s.Problem, s.channels), s.channels[5000:5100]
		name := map[Granularity]string{Levels: "levels", Ranks: "ranks"}[granularity]
		b.Run("sum/"+name, func(b *testing.B) {
			for b.Loop() {
				NewBins(&s.Problem, own)
			}
		})
		b.Run("merge/"+name, func(b *testing.B) {
			sum := remote.Clone()
			for b.Loop() {
				sum.Merge(remote)
			}
		})
		b.Run("solve/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Solve(&s.Problem, own, remote); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSolve decides for a whole network at once: the target is 15 ms for 100,000
// channels and 150 ms for a million, on one core.
func BenchmarkSolve(b *testing.B) {
	for _, channels := range []int{100_000, 1_000_000} {
		for _, size := range []struct{ nodes, base, levels int }{{1024, 16, 4}, {1024, 2, 11}, {1 << 16, 2, 17}, {1024, 0, 0}} {
			name := fmt.Sprintf("channels=%d/levels=%d", channels, size.levels)
			if size.base == 0 {
				name = fmt.Sprintf("channels=%d/ranks", channels)
			}
			b.Run(name, func(b *testing.B) {
				s := newScenario(size.nodes, channels, 50*float64(channels), 1)
				if size.base == 0 {
					s.Granularity = Ranks
				} else {
					s.trueWedges(size.base)
				}
				for b.Loop() {
					if _, err := Solve(&s.Problem, s.channels, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
