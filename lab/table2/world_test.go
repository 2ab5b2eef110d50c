package table2

import (
	"runtime"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/wire"
)

// paperNetwork returns the network of the paper's simulation, with a maintenance interval of an
// hour.
func paperNetwork() wire.Network {
	n := wire.DefaultNetwork("table2")
	n.MaintenanceInterval = time.Hour
	return n
}

// When all have subscribed, each channel has one sequencer, and a root that counts all its
// subscribers. The same arguments give the same world on any number of processors.
func TestWorldOfSubscribers(t *testing.T) {
	build := func() *World {
		w := NewWorld(NewWorkload(1, 40, 200, 4000), paperNetwork())
		if !w.RunUntil(w.Joined, 10*time.Second, 40*time.Minute) {
			t.Fatal("not joined")
		}
		w.Subscribe(2 * time.Second)
		w.Run(10 * time.Minute)
		return w
	}
	w := build()
	check(t, w)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if again := build(); again.TraceHash() != w.TraceHash() {
		t.Error("another world")
	}
	batches := w.Tally()[Kind{wire.Scribe, 13}]
	if memberships := uint64(2500); batches.Frames > memberships || batches.Bytes < 2*40*memberships {
		t.Errorf("%+v batches", batches)
	}
}

// With twenty readers of each channel, all channels are polled about as often, and as often as the readers allow.
func TestPollsAreSharedEvenly(t *testing.T) {
	w := NewWorld(NewWorkload(1, 24, 200, 4000), paperNetwork())
	if !w.RunUntil(w.Joined, 10*time.Second, 40*time.Minute) {
		t.Fatal("not joined")
	}
	w.Subscribe(2 * time.Second)
	var last Span
	for range 3 {
		w.Run(40 * time.Minute)
		last = w.Polls.Close(w.Now().UnixNano())
	}
	if last.Updates == 0 || last.Load < 15 || last.Load > 21 || last.Evenness > 1.2 {
		t.Errorf("of twenty readers a channel: %+v", last)
	}
}

// Grants arrive long after they were requested, and limit what is decided meanwhile. Still the
// number of pollers converges to that without politeness, and stays there. When each node claimed
// all that the others left, the number swung by a third, forty minutes up and down.
func TestPolitePollersStaySteady(t *testing.T) {
	network := wire.DefaultNetwork("steady")
	network.MaintenanceInterval = 10 * time.Minute
	subscriptions := longtest.Pick(1000, 4000)
	w := NewWorld(NewWorkload(1, 40, subscriptions/20, subscriptions), network)
	w.Polite = true
	if !w.RunUntil(w.Joined, 10*time.Second, 40*time.Minute) {
		t.Fatal("not joined")
	}
	w.Subscribe(2 * time.Second)
	w.Run(80 * time.Minute)
	due := network.Load * float64(subscriptions)
	for range 9 {
		w.Run(10 * time.Minute)
		duties := 0
		for _, m := range w.Members {
			duties += m.Corona.Stats().PolledFeeds
		}
		if n := float64(duties); n < 0.98*due || n > 1.005*due {
			t.Errorf("%s: %d pollers, want about %.0f", w.Now().Format("15:04"), duties, due)
		}
	}
}

// check checks that each channel has a sequencer, and a root that counts all its subscribers.
func check(t *testing.T, w *World) {
	led, right := 0, 0
	for i, c := range w.Workload.Channels {
		leaders, weight := 0, 0
		for _, m := range w.Members {
			if v, ok := m.Owners.View(w.Key(i)); ok && v.Leads {
				leaders++
			}
			if n, ok := m.Scribe.Weight(w.Key(i)); ok {
				weight += n
			}
		}
		if leaders == 1 {
			led++
		}
		if weight == c.Subscribers {
			right++
		}
	}
	if all := len(w.Workload.Channels); led != all || right != all {
		t.Errorf("of %d channels %d have one sequencer, %d a root that counts right", all, led, right)
	}
}
