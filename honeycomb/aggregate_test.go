package honeycomb

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawChannels draws arbitrary channels.
func drawChannels(t *rapid.T, label string) []Channel {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Channel {
		return Channel{
			Subscribers: rapid.Float64Range(0, 1e5).Draw(t, "q"),
			Size:        rapid.Float64Range(0, 100).Draw(t, "s"),
			Update:      time.Duration(rapid.IntRange(0, 1e6).Draw(t, "u")) * time.Second,
			MaxPollers:  rapid.IntRange(0, 100).Draw(t, "max"),
			Wedges:      [][]float32{nil, {1, 64}, {1, 4, 64}, {1, 2, 3, 64}}[rapid.IntRange(0, 3).Draw(t, "wedges")],
			Key:         rapid.Uint64().Draw(t, "key"),
		}
	}), 0, 60).Draw(t, label)
}

func drawProblem(t *rapid.T) *Problem {
	return &Problem{
		Objective:   Objective(rapid.IntRange(0, 4).Draw(t, "objective")),
		Granularity: Granularity(rapid.IntRange(0, 1).Draw(t, "granularity")),
		Base:        16, Nodes: 64, Interval: 30 * time.Minute, Load: 1, Detection: time.Minute,
	}
}

// equal reports whether sums differ in their last bits only.
func equal(a, b float64) bool { return math.Abs(a-b) <= 0x1p-40*math.Abs(a+b) }

func TestBinsCountEachChannelOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		var parts []*Bins
		var all []Channel
		for _, label := range []string{"a", "b", "c"} {
			own := drawChannels(t, label)
			all = append(all, own...)
			b := NewBins(p, own)
			b.Nodes, b.DecidedSubscribers, b.TargetTerm = 7, b.Subscribers, 0.1*b.Subscribers
			b.Load, b.Polls, b.Delay = ActualCost(p, own, func(int) float64 { return 3 })
			parts = append(parts, b)
		}
		sum := func(order ...int) *Bins {
			s := parts[order[0]].Clone()
			for _, i := range order[1:] {
				s.Merge(parts[i])
			}
			return s
		}
		one := sum(0, 1, 2)
		if !reflect.DeepEqual(sum(0, 1), sum(1, 0)) {
			t.Fatal("a+b is not b+a")
		}
		right := sum(1, 2)
		other := parts[0].Clone()
		other.Merge(right)
		whole := NewBins(p, all)
		whole.Nodes, whole.DecidedSubscribers, whole.TargetTerm = 21, whole.Subscribers, 0.1*whole.Subscribers
		whole.Load, whole.Polls, whole.Delay = ActualCost(p, all, func(int) float64 { return 3 })
		for _, b := range []*Bins{other, whole} {
			if b.Nodes != one.Nodes || b.Channels != one.Channels || !equal(b.Subscribers, one.Subscribers) ||
				!equal(b.Load, one.Load) || !equal(b.Delay, one.Delay) || !equal(b.TargetTerm, one.TargetTerm) || !equal(b.BaseCost, one.BaseCost) || b.FirstBin != one.FirstBin || len(b.StepCosts) != len(one.StepCosts) {
				t.Fatalf("%v\n%v", one, b)
			}
			for i := range b.StepCosts {
				if !equal(b.StepCosts[i], one.StepCosts[i]) {
					t.Fatalf("bin %d: %v and %v", b.FirstBin+i, one.StepCosts[i], b.StepCosts[i])
				}
			}
		}
		if err := one.Check(p, Totals{Nodes: 21, Channels: 180, Subscribers: 2e7, Load: 180 * 3 * MaxSize}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestClustersCountEachChannelOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		var parts []*Clusters
		channels := 0
		for _, label := range []string{"a", "b", "c"} {
			own := drawChannels(t, label)
			channels += len(own)
			levels := rapid.SliceOfN(rapid.IntRange(-1, 3), len(own), len(own)).Draw(t, "levels")
			c := NewClusters(p, own, func(i int) int { return levels[i] })
			c.Nodes, c.Load = 7, float64(len(own))
			parts = append(parts, c)
		}
		sum := func(order ...int) *Clusters {
			s := parts[order[0]].Clone()
			for _, i := range order[1:] {
				s.Merge(parts[i])
			}
			return s
		}
		if !reflect.DeepEqual(sum(0, 1), sum(1, 0)) {
			t.Fatal("a+b is not b+a")
		}
		one, other := sum(0, 1, 2), parts[0].Clone()
		other.Merge(sum(1, 2))
		total := func(c *Clusters) (all Cluster) {
			all = c.Slack
			for l, list := range c.Levels {
				if len(list) > MaxClusters {
					t.Fatalf("%d clusters at level %d", len(list), l)
				}
				for _, c := range list {
					all = all.plus(c)
				}
			}
			return all
		}
		a, b := total(one), total(other)
		if a.Channels != channels || b.Channels != channels || !equal(a.Delay, b.Delay) || !equal(a.Load, b.Load) {
			t.Fatalf("%v and %v, of %d channels", a, b, channels)
		}
		if one.Nodes != 21 || one.Channels != channels || !equal(one.Subscribers, other.Subscribers) {
			t.Fatalf("%v and %v", one.Totals, other.Totals)
		}
		if err := one.Check(p, Totals{Nodes: 21, Channels: 180, Subscribers: 2e7, Load: 180}); err != nil {
			t.Fatal(err)
		}
	})
}

// "The tradeoff factors of orphan channels are aggregated into a slack cluster, which is
// used to adjust the performance target prior to optimization" (§4).
func TestOrphansGoToSlack(t *testing.T) {
	p := &Problem{Base: 16, Nodes: 1024, Interval: 30 * time.Minute, Load: 1}
	wedges := p.EstimatedWedges()
	orphans := []Channel{{Subscribers: 10, Size: 2}, {Subscribers: 20, Size: 3}}
	s := NewClusters(p, orphans, func(int) int { return 3 })
	if want := (Cluster{2, 30 * 900, 5}); s.Slack != want || len(s.Levels) != 0 {
		t.Fatalf("slack %v at %v, want %v", s.Slack, s.Levels, want)
	}
	// Of 68 polls the orphans use 5, so a wedge of 64 nodes does not fit. It would fit without
	// the slack cluster.
	own := []Channel{{Subscribers: 38, Wedges: wedges}}
	for _, c := range []struct {
		remote RemoteAggregate
		want   int32
	}{{s, 1}, {&Clusters{Totals: s.Totals}, 2}} {
		sol, err := Solve(p, own, c.remote)
		if err != nil {
			t.Fatal(err)
		}
		if sol.Budget != 68 || sol.Pick[0] != c.want {
			t.Errorf("with %v: choice %d, want %d; budget %v", c.remote, sol.Pick[0], c.want, sol.Budget)
		}
	}
}

// Aggregates of channels at their bounds pass Check.
func TestSumsOfExtremesPassCheck(t *testing.T) {
	extremes := []Channel{
		{},
		{Subscribers: MaxSubscribers, Size: MaxSize, Update: MinUpdate, Interval: MaxInterval},
		{Size: MinSize, Update: MaxUpdate, Interval: MaxInterval, MaxPollers: 1},
		{Subscribers: MaxSubscribers, Size: MinSize, Update: MinUpdate},
	}
	for i := range extremes {
		extremes[i].Wedges = []float32{1, 4, 64}
	}
	for objective := range Objective(len(objectives)) {
		for _, granularity := range []Granularity{Levels, Ranks} {
			p := &Problem{Objective: objective, Granularity: granularity, Base: 16, Nodes: 64, Interval: 30 * time.Minute, Load: 1}
			for i := range extremes {
				own := []Channel{extremes[i], extremes[i], extremes[i]}
				most := Totals{Channels: 3, Subscribers: 3 * MaxSubscribers}
				checkRefusal(t, NewBins(p, own).Check(p, most), "")
				checkRefusal(t, NewClusters(p, own, func(int) int { return 1 }).Check(p, most), "")
			}
		}
	}
}

func TestBinsCheckRefuses(t *testing.T) {
	p := &Problem{Base: 16, Nodes: 64, Interval: 30 * time.Minute, Load: 1, Detection: time.Minute}
	most := Totals{Nodes: 10, Channels: 100, Subscribers: 1000, Load: 500}
	for _, c := range []struct {
		lie  func(b *Bins)
		want string
	}{
		{func(*Bins) {}, ""},
		{func(b *Bins) { b.Nodes = 11 }, "11 nodes"},
		{func(b *Bins) { b.Nodes = -1 }, "-1 nodes"},
		{func(b *Bins) { b.Channels = 1e9 }, "1000000000 channels"},
		{func(b *Bins) { b.Channels = -1 }, "-1 channels"},
		{func(b *Bins) { b.Subscribers = 1e9 }, "1e+09 subscribers"},
		{func(b *Bins) { b.Subscribers = math.NaN() }, "NaN subscribers"},
		{func(b *Bins) { b.Subscribers = -1 }, "-1 subscribers"},
		{func(b *Bins) { b.Load = math.Inf(1) }, "load of +Inf"},
		{func(b *Bins) { b.Delay = math.NaN() }, "delay of NaN s"},
		{func(b *Bins) { b.Delay = -1 }, "delay of -1 s"},
		{func(b *Bins) { b.Delay = 1e9 }, "delay of 1e+09 s"},
		{func(b *Bins) { b.PollBytes = 1e9 }, "1e+09 bytes"},
		{func(b *Bins) { b.PollBytes = math.NaN() }, "NaN bytes"},
		{func(b *Bins) { b.DecidedSubscribers = 1e9 }, "1e+09 decided subscribers"},
		{func(b *Bins) { b.DecidedSubscribers = math.NaN() }, "NaN decided subscribers"},
		{func(b *Bins) { b.TargetTerm = math.NaN() }, "target term of NaN"},
		{func(b *Bins) { b.TargetTerm = 30 * 0.3 }, "target term of 9"},
		{func(b *Bins) { b.TargetTerm = -30 * 0.3 }, "target term of -9"},
		{func(b *Bins) { b.TargetTerm = -30 * 0.2 }, ""},
		{func(b *Bins) { b.BaseCost = math.NaN() }, "cost NaN"},
		{func(b *Bins) { b.BaseCost = -1 }, "cost -1"},
		{func(b *Bins) { b.BaseCost = 1e9 }, "cost 1e+09"},
		{func(b *Bins) { b.StepCosts[0] = math.NaN() }, "costs NaN"},
		{func(b *Bins) { b.StepCosts[0] = math.Inf(1) }, "steps cost"},
		{func(b *Bins) { b.StepCosts[0] = -1 }, "costs -1"},
		{func(b *Bins) { b.StepCosts[0] = 1e9 }, "steps cost"},
		{func(b *Bins) { b.FirstBin = MinBin - 1 }, "bins from"},
		{func(b *Bins) { b.FirstBin = MaxBin }, "bins from"},
		{func(b *Bins) { b.FirstBin = math.MaxInt }, "bins from"},
		{func(b *Bins) { b.StepCosts = make([]float64, 1<<20) }, "bins from"},
	} {
		b := NewBins(p, []Channel{{Subscribers: 10, Wedges: []float32{1, 4, 64}}, {Subscribers: 20, Wedges: []float32{1, 64}}})
		b.Nodes, b.DecidedSubscribers, b.Load = 1, 30, 2
		c.lie(b)
		checkRefusal(t, b.Check(p, most), c.want)
	}
}

func TestClustersCheckRefuses(t *testing.T) {
	p := &Problem{Base: 16, Nodes: 64, Interval: 30 * time.Minute, Load: 1, Detection: time.Minute}
	most := Totals{Nodes: 10, Channels: 100, Subscribers: 1000, Load: 500}
	for _, c := range []struct {
		lie  func(s *Clusters)
		want string
	}{
		{func(*Clusters) {}, ""},
		{func(s *Clusters) { s.Subscribers = 1e9 }, "1e+09 subscribers"},
		{func(s *Clusters) { s.Channels++ }, "clusters of 3 channels"},
		{func(s *Clusters) { s.Levels = make([][]Cluster, MaxLevels+1) }, "33 levels"},
		{func(s *Clusters) { s.Levels[1] = make([]Cluster, MaxClusters+1) }, "17 clusters"},
		{func(s *Clusters) { s.Levels[2][0].Delay = math.NaN() }, "delay NaN"},
		{func(s *Clusters) { s.Levels[2][0].Delay = 1e99 }, "delay 1e+99"},
		{func(s *Clusters) { s.Levels[2][0].Load = 0 }, "load 0"},
		{func(s *Clusters) { s.Levels[2][0].Load = 1e9 }, "load 1e+09"},
		{func(s *Clusters) { s.Levels[2][0].Channels = -1 }, "-1 channels"},
		{func(s *Clusters) { s.Slack.Load = math.Inf(1) }, "load +Inf"},
	} {
		s := NewClusters(p, []Channel{{Subscribers: 10, Wedges: []float32{1, 4, 64}}, {Subscribers: 90, Wedges: []float32{1, 64}}, {}}, func(int) int { return 2 })
		c.lie(s)
		checkRefusal(t, s.Check(p, most), c.want)
	}
}

func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("an honest sum: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one about %q", err, want)
	}
}
