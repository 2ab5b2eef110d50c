package honeycomb

import (
	"math"
	"testing"
)

// apart has each member decide for the channels homed at it, beside the sum of all others.
// It returns what all of them spend together, and the sum of all.
func (s *scenario) apart(t *testing.T, homes [][]Channel) (Value, *Bins) {
	own, before := make([]*Bins, len(homes)), []*Bins{{}}
	for i := range homes {
		own[i] = NewBins(&s.Problem, homes[i])
		sum := before[i].Clone()
		sum.Merge(own[i])
		before = append(before, sum)
	}
	var all Value
	after := &Bins{}
	for i := len(homes) - 1; i >= 0; i-- {
		rest := before[i].Clone()
		rest.Merge(after)
		if err := rest.Check(&s.Problem, Totals{Channels: len(s.channels), Subscribers: 1e9}); err != nil {
			t.Fatal(err)
		}
		sol, err := Solve(&s.Problem, homes[i], rest)
		if err != nil {
			t.Fatal(err)
		}
		all.F += sol.Down.F
		all.G += sol.Down.G
		after.Merge(own[i])
	}
	return all, after
}

// Who knows the own channels and a sum of the others decides as if all were known: together
// the members spend the budget, to a tenth of a percent, and get for it what could be got.
func TestMembersDecideApart(t *testing.T) {
	t.Parallel()
	s := newScenario(256, 25_000, 1_250_000, 1)
	for _, objective := range []Objective{Lite, Fast, Fair} {
		s.Objective = objective
		for _, base := range []int{16, 2, 0} {
			s.Cut = Ranks
			if base > 0 {
				s.Cut = Levels
				s.trueWedges(base)
			}
			for i := range s.channels { // some may not have many
				s.channels[i].Max = map[bool]int{true: 20}[i%10 == 0]
			}
			central, _ := s.solved(t)
			all, sum := s.apart(t, s.homes())
			spent, worse := all.G/central.Budget-1, all.F/central.Down.F-1
			t.Logf("%v, base %d: %+.3f %% of the budget, objective %+.3f %%, %d bins", objective, base, 100*spent, 100*worse, len(sum.Cost))
			if most := 0.002; base == 16 && math.Abs(spent) > 0.01 || base != 16 && math.Abs(spent) > most || worse > 0.01 {
				t.Errorf("%v, base %d: %+.3f %% of the budget, objective %+.3f %%", objective, base, 100*spent, 100*worse)
			}
		}
	}
}

// Alone in the network, or with others who have no channels, a member's choice is the one
// that needs no sum.
func TestNoOthers(t *testing.T) {
	s := newScenario(64, 500, 10_000, 1)
	s.Cut = Ranks
	alone, _ := s.solved(t)
	for _, rest := range []Rest{&Bins{}, &Clusters{}} {
		got, err := Solve(&s.Problem, s.channels, rest)
		if err != nil {
			t.Fatal(err)
		}
		if got.Down != alone.Down || got.Lambda != alone.Lambda {
			t.Errorf("%T: %v at %v, want %v at %v", rest, got.Down, got.Lambda, alone.Down, alone.Lambda)
		}
	}
}

// With any number of pollers, a cluster is a channel like others.
func TestClustersOfRanks(t *testing.T) {
	s := newScenario(64, 5000, 100_000, 1)
	s.Cut = Ranks
	central, _ := s.solved(t)
	sum := NewClusters(&s.Problem, s.channels, func(int) int { return 1 })
	got, err := Solve(&s.Problem, nil, sum)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(sum.Levels[1]); n != MaxClusters {
		t.Errorf("%d clusters", n)
	}
	near(t, "lambda", got.Lambda, central.Lambda, 0.02)
}

// A member without channels sees how the network stands: lambda, from the sum alone.
func TestLambdaOfOthers(t *testing.T) {
	s := newScenario(64, 5000, 100_000, 1)
	for _, cut := range []Cut{Levels, Ranks} {
		s.Cut = cut
		s.trueWedges(2)
		central, _ := s.solved(t)
		got, err := Solve(&s.Problem, nil, NewBins(&s.Problem, s.channels))
		if err != nil {
			t.Fatal(err)
		}
		near(t, "lambda", got.Lambda, central.Lambda, 0.05)
	}
}

// "It combines channels with similar tradeoff factors into a tradeoff cluster" (§3.2): the
// paper's sums are coarse, and stay so. That they overspend or underspend is why there are
// bins.
func TestMembersDecideApartWithClusters(t *testing.T) {
	s := newScenario(256, 25_000, 1_250_000, 1)
	s.believedWedges(16)
	homes := s.homes()
	central, _ := s.solved(t)
	level := func(int) int { return 2 }
	sum := &Clusters{}
	for i := range homes {
		sum.Merge(NewClusters(&s.Problem, homes[i], level))
	}
	var all Value
	for i := range homes { // the own channels are in the sum, too: they are few
		sol, err := Solve(&s.Problem, homes[i], sum)
		if err != nil {
			t.Fatal(err)
		}
		all.F += sol.Down.F
		all.G += sol.Down.G
	}
	spent := all.G/central.Budget - 1
	t.Logf("%+.2f %% of the budget, objective %+.2f %%", 100*spent, 100*(all.F/central.Down.F-1))
	if math.Abs(spent) > 0.2 {
		t.Errorf("%+.2f %% of the budget", 100*spent)
	}
}
