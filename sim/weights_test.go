package sim

import (
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/node"
)

// If a tenth of the members claim four billion clients each, a tree counts a few times its clients, because parents compare
// their children. Bounded by all nodes of the network alone, each liar would count as much as twice the network. Without liars the comparison changes nothing: CheckQuiet compares weights with the truth.
func TestLiarsRaiseWeightsLittle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ share, most float64 }{{0, 1}, {0.1, 4}} { // most: times the truth
		n := longtest.Pick(128, 512)
		s := NewSwarm(SwarmConfig{World: Config{Seed: 1}, Tune: func(k *node.Config) { k.Scribe.MaxWeight = 2 }})
		l := s.GrowWithLiars(n, 100*time.Millisecond, c.share, Lies{Weights: true})
		s.World.Run(time.Duration(n)*100*time.Millisecond + 2*time.Minute)
		group := s.Key("http://popular.example/")
		for i, p := range s.Peers() {
			s.After(time.Duration(i)*100*time.Millisecond, func() { p.JoinGroup(group, 1) })
		}
		s.World.Run(8 * time.Minute)
		if len(l.members) == 0 {
			s.CheckQuiet()
			report(t, s)
		}
		weight, _ := s.Root(group).node.Scribe.Weight(group)
		t.Logf("%d of %d members lie about their clients: the root counts %.2f times too many", len(l.members), n, float64(weight)/float64(n))
		if weight < n || float64(weight) > c.most*float64(n) {
			t.Errorf("%d of %d members lie: weight %d", len(l.members), n, weight)
		}
	}
}
