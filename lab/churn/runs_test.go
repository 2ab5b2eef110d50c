package churn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
	"tidings/sim"
)

// do makes a run and checks that its progress grows.
func do[R any](t *testing.T, run Run) R {
	t.Helper()
	last := 0.0
	r, err := run.Do(t.Context(), func(done float64) {
		if done < last || done > 1 {
			t.Fatalf("%s: progress goes from %v to %v", run.Name, last, done)
		}
		last = done
	})
	if err != nil {
		t.Fatal(err)
	}
	name, nodes := r.Describe()
	if name != run.Name || nodes == 0 || len(r.Marks(nil)) == 0 {
		t.Errorf("%s: the report is of %q, %d members", run.Name, name, nodes)
	}
	return any(r).(R)
}

// Before the deaths are detected some lookups fail; afterwards none does, and the dead owners are
// replaced.
func TestKilled(t *testing.T) {
	c := Killed{Name: "killed", Seed: 1, Nodes: 64, Share: 0.3, Keys: 12, Rate: 50}
	r := do[*KilledResult](t, run(c.Name, c.Run))
	if r.Killed != 19 || r.Lookups != 50*180 || r.Right[0] > 0.99 || r.AllRightS < 1 || r.AllRightS > 60 || r.MostRightS > r.AllRightS {
		t.Errorf("lookups: %+v", r)
	}
	if r.Damaged == 0 || r.NoQuorum == 0 || r.Incomplete != 0 || r.CompleteS <= 0 || r.CompleteS > 60 || r.NoQuorumS < 300 {
		t.Errorf("owners: %+v", r)
	}
}

// A sequencer that leaves hands over. The end of its connections is noticed at once, a silent death
// only later.
func TestSequencerExits(t *testing.T) {
	var most []float64
	for _, way := range ExitModes {
		c := SequencerExit{Name: string(way), Seed: 1, Nodes: longtest.Pick(32, 48), Mode: way, Keys: longtest.Pick(8, 12), Trials: longtest.Pick(4, 8)}
		r := do[*SequencerExitResult](t, run(c.Name, c.Run))
		if r.Trials < c.Trials || r.WithoutSequencer != 0 || len(r.Took) != r.Trials || !slices.IsSorted(r.Took) || r.MedianS > r.P99S || r.P99S > r.MaxS {
			t.Errorf("%+v", r)
		}
		most = append(most, r.MaxS)
	}
	if !slices.IsSorted(most) || most[0] > 1 || most[2] < 5 {
		t.Errorf("most times: %v", most)
	}
}

// Both halves go on, and become one network again.
func TestPartition(t *testing.T) {
	c := Partition{Name: "parted", Seed: 1, Nodes: 48, Duration: 15 * time.Minute, Keys: 10, Rate: 10}
	r := do[*PartitionResult](t, run(c.Name, c.Run))
	if r.Forked == 0 || r.NotHealed != 0 || r.HeadsS < 1 || r.HeadsS > 120 || r.RootsS > 60 || r.RightS > 60 || r.Lookups != 10*300 ||
		len(r.SeveralHeads) != 300 || len(r.SeveralRoots) != 300 || r.SeveralHeads[0] == 0 {
		t.Errorf("%+v", r)
	}
}

// A key with several roots and several heads counts as one key.
func TestKeysNotHealedCountOnce(t *testing.T) {
	var r PartitionResult
	r.record([]bool{true, true, true}, []bool{true, true, true})
	r.record([]bool{true, true, false}, []bool{true, false, false})
	r.record([]bool{false, false, false}, []bool{true, false, true})
	if r.NotHealed != 2 || r.RootsS != 2 || r.HeadsS != 3 || fmt.Sprint(r.SeveralRoots, r.SeveralHeads) != "[3 2 0] [3 1 2]" {
		t.Errorf("%+v", r)
	}
	r.record([]bool{true, false, false}, []bool{true, false, false})
	if r.NotHealed != 1 {
		t.Errorf("%d of one key", r.NotHealed)
	}
}

// Liars that swallow routed messages, or acknowledge them in the root's place, keep few messages from honest roots. A member believes
// a false receipt or two before it checks all of them.
func TestLiars(t *testing.T) {
	c := LiarRun{Name: "liars", Seed: 1, Nodes: 96, Share: 0.2, Lies: sim.Lies{Routes: true}, Lookups: 400, Length: 10 * time.Minute}
	r := do[*LiarResult](t, run(c.Name, c.Run))
	if 100*r.Delivered < 93*r.HonestRoots || r.RoutedWrong > r.Nodes/2 || r.LookupsPerRoute <= 0 {
		t.Errorf("%d of %d messages reached honest roots, %d receipts of others were believed", r.Delivered, r.HonestRoots, r.RoutedWrong)
	}
	if r.Liars != 19 || r.Checked != 200 || r.Routed != 200 || r.RoutedWrong+r.RoutedLost < 10 || r.CheckedWrong+r.CheckedImplausible > 10 ||
		r.MsgsPerNodeS <= 0 || r.LookupMaxS <= 0 || r.LeavesWrong != 0 {
		t.Errorf("%+v", r)
	}
}

// A node of such a small network knows fewer others than one of the networks in the docs.
func TestIdle(t *testing.T) {
	c := Idle{Name: "idle", Seed: 1, Nodes: 32}
	r := do[*IdleResult](t, run(c.Name, c.Run))
	t.Logf("%+v", r)
	if r.BytesPerNode < 1000 || r.BytesPerNode > 44<<10 { // with what the program keeps once for all nodes
		t.Errorf("%+v", r)
	}
}

// Over slow paths a lookup may take longer than its origin waits before it tries again. It still
// counts as right.
func TestSlowIsNotWrong(t *testing.T) {
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 1, Topology: sim.Uniform(400 * time.Millisecond)}})
	w := &world{Swarm: s, ctx: t.Context(), progress: func(float64) {}, began: s.Now(), total: time.Hour}
	rng := rand.New(rand.NewPCG(1, 1))
	w.Grow(64, time.Second)
	const d = 10 * time.Minute
	if err := w.advance(d); err != nil {
		t.Fatal(err)
	}
	lookups := w.startLookups(1, d, rng)
	slow := 0
	for range int(d / time.Second) {
		w.After(time.Duration(rng.Int64N(int64(d))), func() {
			w.route(w.RandomMember(rng), randomKey(rng), func(_ overlay.Receipt, took time.Duration) {
				if took > 3*time.Second {
					slow++
				}
			})
		})
	}
	if err := w.advance(d + ackTimeout); err != nil {
		t.Fatal(err)
	}
	if wrong := lookups.rightAfter(0); wrong > 0 || slow == 0 {
		t.Errorf("a lookup was wrong after %v s; %d took more than 3 s", wrong, slow)
	}
}

// A second counts as wrong if more than a share of its lookups was.
func TestRightAfter(t *testing.T) {
	l := lookupSeries{sent: []int{1000, 1000, 1000, 1000}, right: []int{900, 998, 999, 1000}}
	if got := fmt.Sprint(l.rightAfter(0.001), l.rightAfter(0), l.rightAfter(0.5), l.rightShares()); got != "2 3 0 [0.9 0.998 0.999 1]" {
		t.Error(got)
	}
}

func TestPick(t *testing.T) {
	all := Runs(Full())
	for _, c := range []struct{ names, want string }{
		{"calm", "calm"},
		{"parted,calm", "calm parted"},
		{"sessions", "calm sessions-60m sessions-15m sessions-5m"},
		{"loss-1,size-64", "calm loss-1 size-64"},
		{"liars", "calm liars-10 liars-20 liars-30"},
		{"size-64,idle-4096", "size-64 idle-4096"},
		{"sequencer", "sequencer-leaves sequencer-closes sequencer-dies"},
		{"calm,unrest", ""},
		{"sess", ""},
	} {
		of, err := Pick(all, strings.Split(c.names, ","))
		var got []string
		for _, r := range of {
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %v, %v", c.names, got, err)
		}
	}
	for _, r := range all {
		if compared := strings.HasPrefix(r.Name, "sessions") || strings.HasPrefix(r.Name, "loss") || strings.HasPrefix(r.Name, "liars"); r.RelativeToCalm != compared {
			t.Errorf("%s: compared with calm: %v", r.Name, r.RelativeToCalm)
		}
		if r.Exclusive != strings.HasPrefix(r.Name, "idle") {
			t.Errorf("%s: alone: %v", r.Name, r.Exclusive)
		}
	}
}
