package corona

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/longtest"
	"tidings/internal/wire"
	"tidings/overlay/sums"
)

var (
	_ sums.Adder = BinsAdder{}
	_ sums.Adder = ClustersAdder{}
)

func drawProblem(t *rapid.T) *honeycomb.Problem {
	return &honeycomb.Problem{
		Objective:   honeycomb.Objective(rapid.IntRange(0, 4).Draw(t, "objective")),
		Granularity: honeycomb.Granularity(rapid.IntRange(0, 1).Draw(t, "cut")),
		Base:        16, Nodes: 64, Interval: 30 * time.Minute, Load: 1, Detection: time.Minute,
	}
}

// drawOwn draws the channels of a member, including extreme values.
func drawOwn(t *rapid.T) []honeycomb.Channel {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) honeycomb.Channel {
		return honeycomb.Channel{
			Subscribers: rapid.SampledFrom([]float64{0, 1, 3, 50, 1e4, 64 * maxSubscribersPerMember}).Draw(t, "q"),
			Size:        rapid.SampledFrom([]float64{0, honeycomb.MinSize, 0.3, 7, honeycomb.MaxSize}).Draw(t, "s"),
			Update:      time.Duration(rapid.IntRange(0, 1e6).Draw(t, "u")) * time.Second,
			Interval:    rapid.SampledFrom([]time.Duration{0, time.Hour, honeycomb.MaxInterval}).Draw(t, "tau"),
			MaxPollers:  rapid.SampledFrom([]int{0, 1, 20}).Draw(t, "max"),
			Wedges:      [][]float32{nil, {1, 64}, {1, 4, 64}, {1, 2, 3, 64}}[rapid.IntRange(0, 3).Draw(t, "wedges")],
			Key:         rapid.Uint64().Draw(t, "key"),
		}
	}), 0, 60).Draw(t, "channels")
}

// rounded says whether a number survived as a float32.
func rounded(a, b float64) bool { return math.Abs(a-b) <= 0x1p-24*math.Abs(a) }

func sameTotals(a, b honeycomb.Totals) bool {
	return a.Nodes == b.Nodes && a.Channels == b.Channels && rounded(a.Subscribers, b.Subscribers) &&
		rounded(a.DecidedSubscribers, b.DecidedSubscribers) && rounded(a.Load, b.Load) && rounded(a.Delay, b.Delay) && rounded(a.TargetTerm, b.TargetTerm)
}

func TestBinsSurviveARoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, own := drawProblem(t), drawOwn(t)
		b := honeycomb.NewBins(p, own)
		b.Nodes, b.DecidedSubscribers, b.TargetTerm = 1, b.Subscribers, TargetTerm(b.Subscribers, rapid.Float64Range(0.8, 1.25).Draw(t, "c"))
		b.Load, b.Polls, b.Delay = honeycomb.ActualCost(p, own, func(i int) float64 { return float64(1 + i%64) })
		value := EncodeBins(b)
		got, err := decodeBins(value, p, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !sameTotals(b.Totals, got.Totals) || !rounded(b.BaseCost, got.BaseCost) {
			t.Fatalf("%+v, %v\n%+v, %v", b.Totals, b.BaseCost, got.Totals, got.BaseCost)
		}
		if n := min(len(b.StepCosts), 1); n > 0 && got.FirstBin < b.FirstBin || len(got.StepCosts) > len(b.StepCosts) {
			t.Fatalf("%d bins from %d, not %d from %d", len(got.StepCosts), got.FirstBin, len(b.StepCosts), b.FirstBin)
		}
		for i, cost := range b.StepCosts {
			at, was := b.FirstBin+i-got.FirstBin, 0.
			if at >= 0 && at < len(got.StepCosts) {
				was = got.StepCosts[at]
			}
			if !rounded(cost, was) {
				t.Fatalf("bin %d costs %v, not %v", b.FirstBin+i, was, cost)
			}
		}
		if string(EncodeBins(got)) != string(value) {
			t.Fatal("read and written again it is another")
		}
	})
}

func TestClustersSurviveARoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, own := drawProblem(t), drawOwn(t)
		s := honeycomb.NewClusters(p, own, func(i int) int { return i % 3 })
		s.Nodes = 1
		s.DecidedSubscribers = s.Subscribers
		s.Load, s.Polls, s.Delay = honeycomb.ActualCost(p, own, func(int) float64 { return 1 })
		value := EncodeClusters(s)
		got, err := DecodeClusters(value, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		same := sameTotals(s.Totals, got.Totals) && len(s.Levels) == len(got.Levels)
		alike := func(a, b honeycomb.Cluster) {
			same = same && a.Channels == b.Channels && rounded(a.Delay, b.Delay) && rounded(a.Load, b.Load)
		}
		alike(s.Slack, got.Slack)
		for l := range s.Levels {
			if same = same && len(s.Levels[l]) == len(got.Levels[l]); !same {
				break
			}
			for i, c := range s.Levels[l] {
				alike(c, got.Levels[l][i])
			}
		}
		if !same {
			t.Fatalf("%+v\n%+v", s, got)
		}
		if string(EncodeClusters(got)) != string(value) {
			t.Fatal("read and written again it is another")
		}
	})
}

// Sums that are passed from row to row, rounded to 24 bits each time, are still accepted and still
// accurate.
func TestSumsOfSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, own := drawProblem(t), drawOwn(t)
		one := honeycomb.NewBins(p, own)
		one.Nodes, one.DecidedSubscribers, one.TargetTerm = 1, one.Subscribers, TargetTerm(one.Subscribers, honeycomb.MaxCorrection)
		adder := BinsAdder{Problem: func() *honeycomb.Problem { return p }, costs: new([]float64)}
		value := EncodeBins(one)
		for nodes := 1; nodes < 1024; nodes *= 2 {
			sum := adder.Zero()
			for range 2 {
				if err := adder.Add(sum, value, sums.Scope{Nodes: nodes}); err != nil {
					t.Fatal(err)
				}
			}
			value = adder.Encode(sum)
		}
		sum := adder.Zero().(*honeycomb.Bins)
		if err := adder.Add(sum, value, sums.Scope{Nodes: 1024}); err != nil {
			t.Fatal(err)
		}
		if w := adder.Measure(sum); w.Items != 1024*float64(len(own)) || math.Abs(w.Amounts[0]-1024*one.Subscribers) > 1e-5*w.Amounts[0] {
			t.Fatalf("%+v of 1024 times %+v", w, one.Totals)
		}
	})
}

// The sum of a whole network fits into 1.5 KiB.
func TestSharesAreSmall(t *testing.T) {
	t.Parallel()
	s := newScenario(1024, longtest.Pick(20_000, 100_000), longtest.Pick(1e6, 5e6), 1)
	for _, base := range []int{16, 2, 0} {
		s.cut(base)
		for s.Objective = honeycomb.Lite; s.Objective <= honeycomb.FairLog; s.Objective++ {
			all, one := EncodeBins(honeycomb.NewBins(&s.Problem, s.channels)), EncodeBins(honeycomb.NewBins(&s.Problem, s.channels[5000:5100]))
			t.Logf("%-9v base %2d: %4d bytes of all channels, %4d of a hundred", s.Objective, base, len(all), len(one))
			if len(all) > 1536 || len(one) > 1536 {
				t.Errorf("%v, base %d: %d bytes of all channels, %d of a hundred", s.Objective, base, len(all), len(one))
			}
		}
	}
	s.cut(16)
	c := honeycomb.NewClusters(&s.Problem, s.channels, func(i int) int { return i % 3 })
	t.Logf("clusters: %d bytes", len(EncodeClusters(c)))
}

func TestInvalidSharesAreRefused(t *testing.T) {
	p := &honeycomb.Problem{Base: 16, Nodes: 64, Interval: 30 * time.Minute, Load: 1, Detection: time.Minute}
	own := []honeycomb.Channel{{Subscribers: 10, Wedges: []float32{1, 4, 64}}, {Subscribers: 20, Wedges: []float32{1, 64}}}
	nan := float32(math.NaN())
	for _, c := range []struct {
		lie  func(m *coronapb.Share)
		want string
	}{
		{func(*coronapb.Share) {}, ""},
		{func(m *coronapb.Share) { m.Nodes = 2 }, "2 nodes"},
		{func(m *coronapb.Share) { m.Nodes = math.MaxUint64 }, "nodes"},
		{func(m *coronapb.Share) { m.Channels = maxChannelsPerMember + 1 }, "channels"},
		{func(m *coronapb.Share) { m.Channels = math.MaxUint64 }, "channels"},
		{func(m *coronapb.Share) { m.Subscribers = 2*64*2*maxSubscribersPerMember + 1e6 }, "subscribers"},
		{func(m *coronapb.Share) { m.Subscribers = nan }, "subscribers"},
		{func(m *coronapb.Share) { m.Polled = 1e30 }, "load"},
		{func(m *coronapb.Share) { m.Polled = nan }, "load"},
		{func(m *coronapb.Share) { m.Waited = nan }, "delay"},
		{func(m *coronapb.Share) { m.Aim = nan }, "target term"},
		{func(m *coronapb.Share) { m.Bins = nil }, "bins are missing"},
		{func(m *coronapb.Share) { m.Clusters = &coronapb.Clusters{} }, "bins are missing"},
		{func(m *coronapb.Share) { m.Bins.Base = nan }, "cost"},
		{func(m *coronapb.Share) { m.Bins.Runs[0].Cost[0] = nan }, "bin costs"},
		{func(m *coronapb.Share) { m.Bins.Runs[0].Cost[0] = -1 }, "bin costs"},
		{func(m *coronapb.Share) { m.Bins.Runs[0].First = math.MaxInt32 }, "bins from"},
		{func(m *coronapb.Share) { m.Bins.Runs[0].First = math.MinInt32 }, "bins from"},
		{func(m *coronapb.Share) { m.Bins.Runs[0].Cost = nil }, "0 bins"},
		{func(m *coronapb.Share) { m.Bins.Runs[0].Cost = make([]float32, 4000) }, "4000 bins"},
		{func(m *coronapb.Share) { m.Bins.Runs = append(m.Bins.Runs, m.Bins.Runs[0]) }, "after bin"},
	} {
		b := honeycomb.NewBins(p, own)
		b.Nodes = 1
		m := &coronapb.Share{}
		if err := proto.Unmarshal(EncodeBins(b), m); err != nil {
			t.Fatal(err)
		}
		c.lie(m)
		_, err := decodeBins(wire.Encode(m), p, 1, nil)
		refusal(t, err, c.want)
	}
	for _, c := range []struct {
		lie  func(m *coronapb.Share)
		want string
	}{
		{func(*coronapb.Share) {}, ""},
		{func(m *coronapb.Share) { m.Clusters = nil }, "clusters are missing"},
		{func(m *coronapb.Share) { m.Clusters.Levels = make([]*coronapb.Level, 33) }, "33 levels"},
		{func(m *coronapb.Share) { m.Clusters.Levels[2].Delay = nil }, "0 and 1 clusters"},
		{func(m *coronapb.Share) { m.Clusters.Levels[2].Channels = make([]uint64, 17) }, "17, 1"},
		{func(m *coronapb.Share) { m.Clusters.Levels[2].Channels[0] = math.MaxUint64 }, "a cluster of"},
		{func(m *coronapb.Share) { m.Clusters.Levels[2].Channels[0]++ }, "channels"},
		{func(m *coronapb.Share) { m.Clusters.Levels[2].Load[0] = nan }, "load NaN"},
		{func(m *coronapb.Share) { m.Clusters.Slack = level(make([]honeycomb.Cluster, 2)...) }, "2 slack"},
	} {
		s := honeycomb.NewClusters(p, append(own[:1:1], honeycomb.Channel{}), func(int) int { return 2 })
		s.Nodes = 1
		m := &coronapb.Share{}
		if err := proto.Unmarshal(EncodeClusters(s), m); err != nil {
			t.Fatal(err)
		}
		c.lie(m)
		_, err := DecodeClusters(wire.Encode(m), p, 1)
		refusal(t, err, c.want)
	}
}

func refusal(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("an honest share: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one about %q", err, want)
	}
}

// FuzzShare parses any bytes as a share: an accepted share can be encoded, decoded again, and used
// in a decision.
func FuzzShare(f *testing.F) {
	p := &honeycomb.Problem{Base: 16, Nodes: 64, Interval: 30 * time.Minute, Load: 1, Detection: time.Minute}
	own := []honeycomb.Channel{{Subscribers: 10, Wedges: []float32{1, 4, 64}}, {}}
	f.Add(EncodeBins(honeycomb.NewBins(p, own)), uint16(4))
	f.Add(EncodeClusters(honeycomb.NewClusters(p, own, func(int) int { return 1 })), uint16(9))
	f.Fuzz(func(t *testing.T, value []byte, kind uint16) {
		p := *p
		p.Objective, p.Granularity = honeycomb.Objective(kind%5), honeycomb.Granularity(kind/5%2)
		nodes := int(kind / 10 % 100)
		var rest honeycomb.RemoteAggregate
		var again []byte
		var err error
		if b, wrong := decodeBins(value, &p, nodes, nil); wrong == nil {
			rest, again = b, EncodeBins(b)
			_, err = decodeBins(again, &p, nodes, nil)
		} else if c, wrong := DecodeClusters(value, &p, nodes); wrong == nil {
			rest, again = c, EncodeClusters(c)
			_, err = DecodeClusters(again, &p, nodes)
		} else {
			return
		}
		if err != nil || len(again) > sums.MaxValue {
			t.Fatalf("%d bytes: %v", len(again), err)
		}
		s, err := honeycomb.Solve(&p, own, rest)
		if err != nil || math.IsNaN(s.Budget) || math.IsInf(s.Budget, 0) {
			t.Fatalf("%+v: %v", s, err)
		}
	})
}

// BenchmarkShare measures the work per received value. A member receives about sixty in a round,
// twice.
func BenchmarkShare(b *testing.B) {
	s := newScenario(1024, 100_000, 5e6, 1)
	s.cut(0)
	adder := BinsAdder{Problem: func() *honeycomb.Problem { return &s.Problem }}
	value := EncodeBins(honeycomb.NewBins(&s.Problem, s.channels))
	sum := adder.Zero()
	for b.Loop() {
		if err := adder.Add(sum, value, sums.Scope{Nodes: 1024}); err != nil {
			b.Fatal(err)
		}
	}
}
