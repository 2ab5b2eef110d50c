package corona

import (
	"math"
	"slices"
	"testing"
	"time"

	"tidings/difference"
	"tidings/honeycomb"
	"tidings/overlay"
)

// The wedge of a level has the members that share as many digits with the key. The root of a key
// knows all of them, and a choice among sizes maps to the level with as many members.
func TestLevelsHaveTheMembersThatThereAre(t *testing.T) {
	for _, base := range []int{2, 16} {
		w := newTestNetworkOf(t, 24, Config{Cut: honeycomb.Levels, Base: base})
		digit := 1
		if base == 16 {
			digit = 4
		}
		w.run(40 * time.Minute) // until counts are correct
		for i := range 40 {
			k := overlay.Key("town", string(rune('a'+i)))
			root := w.nearest(k)[0]
			var want []int
			for l := 0; ; l++ {
				n := 0
				for _, h := range w.houses {
					if h.id.Common(k) >= l*digit {
						n++
					}
				}
				if want = append(want, n); n <= 1 {
					break
				}
			}
			if got := root.allocator.scheme.(counting).counts(k); !slices.Equal(got, want) {
				t.Fatalf("base %d: members at each level of key %d: %v, want %v", base, i, got, want)
			}
			sizes := root.allocator.sizes(k)
			if !slices.Equal(sizes, honeycomb.Wedges(want)) {
				t.Errorf("base %d: sizes %v of %v", base, sizes, want)
			}
			for pick, size := range sizes {
				l := root.allocator.scheme.level(k, sizes, pick)
				if size > 1 && want[l] != int(size) || size == 1 && l != len(want)-1 || l+1 < len(want) && want[l+1] == want[l] && size > 1 {
					t.Errorf("base %d: a wedge of %v members is at level %d of %v", base, size, l, want)
				}
			}
			if l := root.allocator.scheme.level(k, nil, 0); l != len(want)-1 {
				t.Errorf("base %d: an orphan is at level %d of %v", base, l, want)
			}
		}
	}
}

// The paper's estimate: N/b^l members at level l. An owner that is alone above its own level has an
// orphan, which no other node polls.
func TestLevelsWithThePapersEstimate(t *testing.T) {
	w := newTestNetworkOf(t, 24, Config{Cut: honeycomb.Levels, Base: 16, Clusters: true})
	orphans := 0
	for i := range 40 {
		k := overlay.Key("town", string(rune('a'+i)))
		root := w.nearest(k)[0]
		root.allocator.problem.Nodes = 256
		sizes, above := root.allocator.sizes(k), 0
		for _, h := range w.houses {
			if h.id.Common(k) >= 4 {
				above++
			}
		}
		switch {
		case above <= 1:
			if orphans++; sizes != nil {
				t.Errorf("an orphan has the sizes %v", sizes)
			}
		case !slices.Equal(sizes, []float32{1, 16, 256}):
			t.Errorf("sizes %v", sizes)
		case root.allocator.scheme.level(k, sizes, 0) != 2 || root.allocator.scheme.level(k, sizes, 2) != 0:
			t.Errorf("the choices are levels %d to %d", root.allocator.scheme.level(k, sizes, 0), root.allocator.scheme.level(k, sizes, 2))
		}
	}
	if orphans == 0 || orphans == 40 {
		t.Errorf("%d orphans of 40", orphans)
	}
	if p := newTestNetworkOf(t, 2, Config{Cut: honeycomb.Ranks}).houses[0]; p.allocator.sizes(overlay.Key("town", "a")) != nil {
		t.Error("ranks have sizes")
	}
}

// A node that decides for others uses the parameters that it was told. Before its first decision,
// or without an assignment, it enlists nobody.
func TestANodeDecidesForOthersByTheParameters(t *testing.T) {
	w := newTestNetworkOf(t, 24, Config{Cut: honeycomb.Levels, Base: 2, DAG: true})
	f := w.open("http://a.example/feed", 100, 1)
	w.run(time.Minute)
	h := f.leader
	d := h.assignments.Get(f.key)
	if h.Level(overlay.Key("town", "x")) != math.MaxInt {
		t.Error("it decides for a channel that it does not poll")
	}
	h.allocator.problem.Nodes = 24
	choose := func(readers int) int {
		d.target = &pollTarget{key: f.key, params: channelParams{readers: readers, size: 1, update: time.Hour}}
		ch := honeycomb.Channel{Subscribers: float64(readers), Size: 1, Update: time.Hour, Interval: d.schedule.Interval, Wedges: h.allocator.sizes(f.key), Key: tieBreak(f.key)}
		s, err := honeycomb.Solve(&h.allocator.problem, []honeycomb.Channel{ch}, &honeycomb.Bins{})
		if err != nil {
			t.Fatal(err)
		}
		h.allocator.solution = s
		return h.Level(f.key)
	}
	few, many := choose(1), choose(1000)
	if counts := h.allocator.scheme.(counting).counts(f.key); few < len(counts)-2 || many != 0 {
		t.Errorf("levels %d for one reader, %d for a thousand; members %v", few, many, counts)
	}
	h.allocator.decided = false
	if l := h.Level(f.key); l != math.MaxInt {
		t.Errorf("before it has decided it chooses level %d", l)
	}
}

// With random phases a node knows its own phase, and of the others' next poll only an average.
func TestRandomPhasesAreReported(t *testing.T) {
	v := newChannelNetworkOf(t, 3, rss("A", "", "one", "two"), Config{Random: true})
	for _, h := range v.pollers {
		turn, ok := h.Slot(v.key)
		if sinceEpoch := time.Duration(turn.Next.UnixNano()); !ok || turn.Phase != sinceEpoch%turn.Interval {
			t.Errorf("%+v, %v", turn, ok)
		}
	}
	v.run(2 * time.Hour)
	view, _ := v.leader.View(v.key)
	if want := "on average, because phases are random: the network's polling interval"; view.State.Why != want {
		t.Errorf("the next poll is %v: %q, want %q", view.State.Next, view.State.Why, want)
	}
}

// Slot says when a member polls, View how polls go, and Decision how many nodes poll.
func TestSlotViewAndDecision(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one", "two"))
	if _, ok := v.pollers[0].View(v.key); ok {
		t.Error("who does not lead a channel says how its polls go")
	}
	if _, ok := v.leader.Slot(v.key); ok {
		t.Error("a node that does not poll has a slot")
	}
	if view, ok := v.leader.View(v.key); !ok || view.Known != 2 || view.State.Pollers != 3 || view.State.Readers != 9 {
		t.Errorf("%+v, %v", view, ok)
	}
	h := v.pollers[0]
	turn, ok := h.Slot(v.key)
	if !ok || turn.Of != 3 || turn.Interval != 30*time.Minute || !turn.Polled.IsZero() || !turn.Next.After(v.now) {
		t.Errorf("%+v, %v", turn, ok)
	}
	next := turn.Next
	v.run(next.Sub(v.now) + time.Second)
	if turn, _ = h.Slot(v.key); !turn.Polled.Equal(next) || turn.Next.Sub(next) != 30*time.Minute || turn.Why != "" {
		t.Errorf("after its poll %+v", turn)
	}
	v.run(2 * time.Hour)
	if view, _ := v.leader.View(v.key); !view.State.Next.After(v.now) || view.State.Next.Sub(v.now) > 30*time.Minute || view.State.Kind.String() != "OK" {
		t.Errorf("how polls go is projected to %+v", view.State)
	}
	l := newLab(t)
	p := l.poller(Config{})
	if _, ok := p.Decision(); ok {
		t.Error("a decision before there was one")
	}
	l.origins["http://a.example/"] = serves(rss("A", "", "one"))
	p.lead("http://a.example/", nil)
	p.allocator.problem.Nodes, p.cfg.Cut, p.allocator.decided = 16, honeycomb.Ranks, true
	p.allocator.remote = &honeycomb.Bins{}
	if d, ok := p.Decision(); !ok || !slices.Equal(d.Levels, []int{0, 1}) || d.Clusters != 0 {
		t.Errorf("one of 16 polls a channel: %+v, %v", d, ok)
	}
	p.leaders[key("http://a.example/")].pollers = 16
	if d, _ := p.Decision(); !slices.Equal(d.Levels, []int{1}) {
		t.Errorf("all of 16 poll it: %+v", d)
	}
	p.leaders[key("http://a.example/")].pollers = 0
	if d, _ := p.Decision(); len(d.Levels) != 0 {
		t.Errorf("nobody polls it: %+v", d)
	}
	p.Corona.leaders, p.cfg.Cut = map[overlay.ID]*leaderState{{}: {allocation: allocation{pollers: 1, level: 2}, known: new(difference.Known)}}, honeycomb.Levels
	if d, _ := p.Decision(); !slices.Equal(d.Levels, []int{0, 0, 1}) {
		t.Errorf("at level 2: %+v", d)
	}
}
