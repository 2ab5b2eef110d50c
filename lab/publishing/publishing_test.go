package publishing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tidings/internal/feed"
	"tidings/sim"
)

func small(t *testing.T, name string, change func(*Scenario)) Result {
	t.Helper()
	of, err := Pick(Scenarios(Options{Seed: 1, Nodes: 48, Feeds: 4, Every: time.Minute, Length: 8 * time.Minute}), []string{name})
	if err != nil || len(of) == 0 {
		t.Fatal(of, err)
	}
	c := of[len(of)-1]
	if change != nil {
		change(&c)
	}
	r, err := c.Run(context.Background(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// In small networks all targets are met, and the counts add up.
func TestSmallWorlds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Scenario)
	}{
		{calm, nil},
		{"churn-5", nil},
		{partitioned, func(c *Scenario) { c.Partitioned = 15 * time.Minute }},
		{offline, func(c *Scenario) { c.Nodes, c.Absence = 32, 3*time.Hour }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := small(t, c.name, c.change)
			wanted := 0
			for _, p := range r.Groups {
				if wanted += p.Expected; p.Expected < p.Shown || p.Expected != p.Shown+p.Lost+p.Excused && p.Late == 0 {
					t.Errorf("%+v", p)
				}
			}
			if wanted < 50 || r.Items < 20 {
				t.Errorf("%d items, %d pairs", r.Items, wanted)
			}
			for _, m := range r.Marks(nil) {
				if m.Missed() {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

// Members that drop messages delay items for those below them by minutes, and for no other reader.
func TestDroppers(t *testing.T) {
	t.Parallel()
	r := small(t, droppers, func(c *Scenario) { c.Feeds, c.FanOut, c.Droppers, c.Nodes = 2, 2, 0.5, 96 })
	clean, unclean := r.Group(groupHonest), r.Group(groupDropped)
	if r.Droppers == 0 || clean.Expected < 20 || unclean.Expected < 10 {
		t.Fatalf("%d of %d drop messages, pairs with an honest path: %d, without: %d", r.Droppers, r.Interior, clean.Expected, unclean.Expected)
	}
	if clean.Shown < clean.Expected || clean.Max > clean.LimitS {
		t.Errorf("with a clean way: %+v", clean)
	}
	if unclean.Shown < unclean.Expected || unclean.Max > unclean.LimitS {
		t.Errorf("without one: %+v", unclean)
	}
	if unclean.P50 < 2*clean.P99 {
		t.Errorf("readers below droppers are shown all items as if there were none: %+v, %+v", unclean, clean)
	}
}

// The tracker counts lost, late and repeated items, and excuses readers that have stopped.
func TestTracker(t *testing.T) {
	now := time.Unix(0, 0)
	part, back := &Group{LimitS: 10}, &Group{LimitS: 10}
	l := &tracker{
		now: func() time.Time { return now }, readers: map[*sim.Peer][]*reader{}, returning: back,
		groupOf: func(*sim.Peer, *trackedFeed) *Group { return part },
	}
	f := &trackedFeed{url: "u", items: map[feed.ID]int{}}
	peers := make([]*sim.Peer, 5)
	for i := range peers {
		peers[i] = new(sim.Peer)
		l.addReader(peers[i], f)
	}
	id := feed.ID{1}
	l.itemPublished(f, id)
	now = now.Add(time.Second)
	l.itemShown(peers[0], "u", id)
	l.peerStopped(peers[1])
	now = now.Add(19 * time.Second)
	l.itemShown(peers[2], "u", id)
	l.itemShown(peers[2], "u", id)
	l.peerStopped(peers[3])
	now = now.Add(time.Minute)
	l.peerStarted(peers[1])
	now = now.Add(2 * time.Second)
	l.itemShown(peers[1], "u", id)
	l.finish()
	part.finish()
	back.finish()
	got := fmt.Sprint(part.Expected, part.Shown, part.Late, part.Lost, part.Excused, part.P50, part.Max, back.Expected, back.Shown, back.Max, l.repeated)
	if want := fmt.Sprint(5, 2, 2, 1, 1, 20., 20., 1, 1, 2., 1); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
