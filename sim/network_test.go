package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
)

// numbers sends n numbered frames from one host to another, ten a second.
func numbers(w *World, from *scriptedNode, to *Host, n int) {
	h := w.byID[fromID(w, from)]
	for i := range n {
		w.After(time.Duration(i)*100*time.Millisecond, func() {
			h.Do(func() { from.say(to, "%06d", i) })
		})
	}
	w.Run(time.Duration(n)*100*time.Millisecond + time.Minute)
}

func fromID(w *World, p *scriptedNode) env.PeerID {
	for _, h := range w.Hosts() {
		if h.Node() == env.Node(p) {
			return h.ID()
		}
	}
	return ""
}

func TestFramesKeepTheirOrderAndTakeTheirTime(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{Topology: Uniform(400 * time.Millisecond)}, 2)
	var arrived time.Time
	all[1].receive = func(env.PeerID, []byte) error { arrived = w.Now(); return nil }
	numbers(w, all[0], w.Hosts()[1], 500)
	if len(all[1].heard) != 500 || !slices.IsSorted(all[1].heard) {
		t.Errorf("%d frames of 500, in order: %v", len(all[1].heard), slices.IsSorted(all[1].heard))
	}
	sent := w.Hosts()[0]
	w.Run(time.Second)
	start := w.Now()
	sent.Do(func() { all[0].say(w.Hosts()[1], "x") })
	w.Run(time.Minute)
	if took := arrived.Sub(start); took < 400*time.Millisecond || took > 600*time.Millisecond {
		t.Errorf("one way of 400 ms took %v", took)
	}
}

func TestFirstFrameWaitsForTheHandshake(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{Topology: Uniform(100 * time.Millisecond)}, 2)
	w.Hosts()[0].Do(func() { all[0].say(w.Hosts()[1], "x") })
	w.Run(300*time.Millisecond - 1)
	if all[1].heard != nil {
		t.Error("a frame arrived before the handshake and its own delay were over")
	}
	w.Run(50*time.Millisecond + 1)
	if len(all[1].heard) != 1 {
		t.Error("the frame did not arrive")
	}
}

func TestFaultsComeAsOftenAsAsked(t *testing.T) {
	t.Parallel()
	const n = 20_000
	share := func(count uint64) float64 { return float64(count) / n }
	w, all := scriptedWorld(Config{Seed: 3, NetworkFaults: NetworkFaults{Loss: 0.1, Duplicate: 0.05, Reorder: 0.02, Late: 3 * time.Second}}, 2)
	numbers(w, all[0], w.Hosts()[1], n)
	s, heard := w.Hosts()[0].Stats(), all[1].heard
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"lost", share(s.Lost), 0.1},
		{"repeated", share(s.Duplicated), 0.05 * 0.9},
		{"reordered", share(s.Reordered), 0.02 * 0.9},
	} {
		if c.got < c.want*0.85 || c.got > c.want*1.15 {
			t.Errorf("%s: %.4f of all, want %.4f", c.what, c.got, c.want)
		}
	}
	if uint64(len(heard)) != n-s.Lost+s.Duplicated {
		t.Errorf("%d heard, %d lost, %d repeated", len(heard), s.Lost, s.Duplicated)
	}
	if slices.IsSorted(heard) {
		t.Error("no frame overtook another")
	}
	if got := w.Hosts()[1].Stats().Received[env.Control]; got.Frames != uint64(len(heard)) || got.Bytes != 6*got.Frames {
		t.Errorf("received %+v", got)
	}
	w.SetNetworkFaults(NetworkFaults{})
	all[1].clear()
	numbers(w, all[0], w.Hosts()[1], 100)
	if len(all[1].heard) != 100 {
		t.Errorf("%d frames of 100 without faults", len(all[1].heard))
	}
}

func TestFaultsAreChecked(t *testing.T) {
	t.Parallel()
	panics(t, func() { New(Config{NetworkFaults: NetworkFaults{Loss: 1.1}}) })
	panics(t, func() { New(Config{}).SetNetworkFaults(NetworkFaults{Reorder: -1}) })
	panics(t, func() { New(Config{}).SetNetworkFaults(NetworkFaults{Late: -1}) })
}

func TestTotalLossLosesAll(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{NetworkFaults: NetworkFaults{Loss: 1}}, 2)
	numbers(w, all[0], w.Hosts()[1], 1000)
	if len(all[1].heard) != 0 {
		t.Errorf("%d frames survived", len(all[1].heard))
	}
}

func TestPartitionSplitsAndHeals(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 4)
	hosts := w.Hosts()
	everyone := func(words string) {
		for i, from := range hosts {
			for j, to := range hosts {
				if i != j {
					from.Do(func() { all[i].say(to, "%s%d", words, i) })
				}
			}
		}
		w.Run(time.Second)
	}
	everyone("before")
	w.Partition(hosts[:1], hosts[1:3]) // the fourth is on a side of its own
	everyone("parted")
	w.Heal()
	everyone("after")
	for i, want := range []int{3 + 0 + 3, 3 + 1 + 3, 3 + 1 + 3, 3 + 0 + 3} {
		if len(all[i].heard) != want || all[i].downs != nil {
			t.Errorf("host %d heard %q, %d hints", i, all[i].heard, len(all[i].downs))
		}
	}
}

// In a one-way partition all pairs but those between the two sides hear each other, and no link is
// opened that would need frames both ways.
func TestPartitionOfOneWay(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 4)
	hosts := w.Hosts()
	say := func(from, to int, words string) { hosts[from].Do(func() { all[from].say(hosts[to], "%s", words) }) }
	say(0, 1, "link")
	say(0, 3, "link")
	w.Run(time.Second)
	w.PartitionOneWay(hosts[:1], hosts[1:3])
	for _, way := range [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {0, 3}, {3, 0}, {1, 2}, {2, 3}} {
		say(way[0], way[1], "x")
	}
	w.Run(time.Second)
	for i, want := range []int{2, 1, 1, 3} { // from 1 and 3; link; from 1; link, from 0 and 2
		if len(all[i].heard) != want {
			t.Errorf("host %d heard %q, want %d", i, all[i].heard, want)
		}
	}
	if w.Now().Sub(hosts[3].LastImpaired()) != 0 {
		t.Error("a partition does not count as an impairment")
	}
	w.Heal()
	w.Run(time.Second)
	say(0, 2, "healed")
	w.Run(time.Second)
	if len(all[2].heard) != 2 || w.Now().Sub(hosts[3].LastImpaired()) != 2*time.Second {
		t.Errorf("after healing host 2 heard %q, and the impairment ended %v ago", all[2].heard, w.Now().Sub(hosts[3].LastImpaired()))
	}
}

func TestPartitionedHostsOpenNoLink(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	w.Partition(w.Hosts()[:1])
	w.Hosts()[0].Do(func() { all[0].say(w.Hosts()[1], "x") })
	w.Run(time.Second)
	if s := w.Hosts()[0].Stats(); s.Undeliverable != 1 || s.Lost != 0 || all[1].heard != nil {
		t.Errorf("%+v, heard %q", s, all[1].heard)
	}
}

func TestClosedHostHearsOnlyWhomItCalled(t *testing.T) {
	t.Parallel()
	w := New(Config{Topology: Uniform(50 * time.Millisecond)})
	inside, open, other := w.Host(HostConfig{}), w.Host(HostConfig{Open: true}), w.Host(HostConfig{})
	a, b, c := new(scriptedNode).boot(inside), new(scriptedNode).boot(open), new(scriptedNode).boot(other)
	reaches := func(from *Host, p *scriptedNode, to *Host, q *scriptedNode) bool {
		before := len(q.heard)
		from.Do(func() { p.say(to, "x") })
		w.Run(time.Second)
		return len(q.heard) > before
	}
	if reaches(open, b, inside, a) {
		t.Error("a closed host was dialled")
	}
	if !reaches(inside, a, open, b) || !reaches(open, b, inside, a) {
		t.Error("a closed host got no answer on its own link")
	}
	if reaches(inside, a, other, c) || reaches(other, c, inside, a) {
		t.Error("two closed hosts reached each other")
	}
	for range 10 {
		w.Run(linkIdle - time.Minute)
		if !reaches(open, b, inside, a) {
			t.Fatal("a link in use closed")
		}
	}
	w.Run(linkIdle)
	if reaches(open, b, inside, a) {
		t.Error("an idle link stayed open")
	}
}

func TestLinkNeedsNoAddressAndDiallingDoes(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	hosts := w.Hosts()
	name := env.Peer{ID: hosts[1].ID()}
	hosts[0].Do(func() { all[0].sayTo(name, "into the blue") })
	wrong := env.Peer{ID: hosts[1].ID(), Addrs: hosts[0].Peer().Addrs}
	hosts[0].Do(func() { all[0].sayTo(wrong, "astray") })
	hosts[0].Do(func() { all[0].sayTo(env.Peer{ID: "nobody", Addrs: []string{"nowhere"}}, "void") })
	hosts[0].Do(func() { all[0].sayTo(hosts[0].Peer(), "to myself") })
	w.Run(time.Second)
	if s := hosts[0].Stats(); s.Undeliverable != 4 || all[0].heard != nil || all[1].heard != nil {
		t.Errorf("%+v, heard %q and %q", s, all[0].heard, all[1].heard)
	}
	hosts[1].Do(func() { all[1].say(hosts[0], "hello") })
	w.Run(time.Second)
	hosts[0].Do(func() { all[0].sayTo(name, "answer") })
	w.Run(time.Second)
	if !slices.Equal(all[1].heard, []string{"answer"}) {
		t.Errorf("heard %q", all[1].heard)
	}
}

func TestDeadHostCannotBeDialled(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	w.Hosts()[1].Crash(false)
	w.Hosts()[0].Do(func() { all[0].say(w.Hosts()[1], "x") })
	if got := w.Hosts()[0].Stats().Undeliverable; got != 1 {
		t.Errorf("%d undeliverable frames", got)
	}
}

func TestMisbehavingPeerIsCutOff(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 3)
	hosts := w.Hosts()
	all[1].receive = func(_ env.PeerID, msg []byte) error {
		if bytes.HasPrefix(msg, []byte("bad")) {
			return errors.New("bad")
		}
		return nil
	}
	say := func(from int, words string) {
		hosts[from].Do(func() { all[from].say(hosts[1], "%s", words) })
		w.Run(time.Second)
	}
	// The same number of bad frames, but too slowly: the link is not cut.
	for range 3 * maxBadFrames {
		say(0, "bad")
		w.Run(badFrameWindow / (maxBadFrames - 2))
	}
	if s := hosts[1].Stats(); s.BadFrames != 3*maxBadFrames || s.LinksCut != 0 {
		t.Fatalf("%+v", s)
	}
	for i := range 2 * maxBadFrames {
		say(0, fmt.Sprintf("bad %d", i))
		say(2, "good")
	}
	s := hosts[1].Stats()
	if s.LinksCut != 1 || s.BadFrames >= 5*maxBadFrames {
		t.Errorf("%+v", s)
	}
	if !slices.Contains(all[1].downs, hosts[0].ID()) || !slices.Contains(all[0].downs, hosts[1].ID()) {
		t.Error("the ends of the cut link were not told")
	}
	all[1].clear()
	say(0, "sorry")
	hosts[1].Do(func() { all[1].say(hosts[0], "who is there?") })
	say(2, "good")
	if !slices.Equal(all[1].heard, []string{"good"}) || all[0].heard != nil {
		t.Errorf("heard %q and %q while the peer was blocked", all[1].heard, all[0].heard)
	}
	w.Run(blockTime)
	say(0, "sorry")
	if !slices.Contains(all[1].heard, "sorry") {
		t.Error("a peer is blocked for more than an hour")
	}
}

func TestOversizeFramePanics(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	panics(t, func() {
		all[0].Network.Send(w.Hosts()[1].Peer(), env.Bulk, make([]byte, env.MaxFrame+1))
	})
}

// The median distance is 40 ms, the maximum 150 ms.
func TestPlaneHasTheDistancesItSays(t *testing.T) {
	t.Parallel()
	plane := Plane(1)
	var d []time.Duration
	for a := range 300 {
		for b := range a {
			d = append(d, plane(b, a))
		}
	}
	slices.Sort(d)
	median := d[len(d)/2]
	if median < 36*time.Millisecond || median > 44*time.Millisecond || d[0] < 5*time.Millisecond || d[len(d)-1] > 150*time.Millisecond {
		t.Errorf("minimum %v, median %v, maximum %v", d[0], median, d[len(d)-1])
	}
	if plane(1, 2) != Plane(1)(1, 2) || plane(1, 2) == Plane(2)(1, 2) {
		t.Error("the distances do not follow from the seed")
	}
}

func TestStatsAddUp(t *testing.T) {
	t.Parallel()
	a := Stats{Runs: 1, Lost: 2, Sent: [2]Traffic{{1, 10}, {2, 20}}}
	a.Add(Stats{Runs: 3, Lost: 4, Sent: [2]Traffic{{5, 50}, {6, 60}}})
	if want := (Stats{Runs: 4, Lost: 6, Sent: [2]Traffic{{6, 60}, {8, 80}}}); a != want {
		t.Errorf("%+v, want %+v", a, want)
	}
}
