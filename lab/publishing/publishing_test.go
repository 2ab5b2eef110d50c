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

// In small worlds all that is asked is met, and what is counted adds up.
func TestSmallWorlds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Scenario)
	}{
		{calm, nil},
		{"churn-5", nil},
		{parted, func(c *Scenario) { c.Parted = 15 * time.Minute }},
		{offline, func(c *Scenario) { c.Nodes, c.Absence = 32, 3*time.Hour }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := small(t, c.name, c.change)
			wanted := 0
			for _, p := range r.Parts {
				if wanted += p.Wanted; p.Wanted < p.Shown || p.Wanted != p.Shown+p.Lost+p.Went && p.Late == 0 {
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

// Who swallows keeps what there is from those below for minutes, and from nobody else.
func TestSwallowing(t *testing.T) {
	t.Parallel()
	r := small(t, swallow, func(c *Scenario) { c.Feeds, c.FanOut, c.Swallows, c.Nodes = 2, 2, 0.5, 96 })
	clean, unclean := r.Part(partClean), r.Part(partUnclean)
	if r.Swallow == 0 || clean.Wanted < 20 || unclean.Wanted < 10 {
		t.Fatalf("%d of %d swallow, pairs with a clean way: %d, without: %d", r.Swallow, r.Interior, clean.Wanted, unclean.Wanted)
	}
	if clean.Shown < clean.Wanted || clean.Most > clean.LimitS {
		t.Errorf("with a clean way: %+v", clean)
	}
	if unclean.Shown < unclean.Wanted || unclean.Most > unclean.LimitS {
		t.Errorf("without one: %+v", unclean)
	}
	if unclean.P50 < 2*clean.P99 {
		t.Errorf("those below are shown all as if nobody swallowed: %+v, %+v", unclean, clean)
	}
}

// The count sees what is lost, late, twice, and excuses who has gone.
func TestLedger(t *testing.T) {
	now := time.Unix(0, 0)
	part, back := &Part{LimitS: 10}, &Part{LimitS: 10}
	l := &ledger{
		now: func() time.Time { return now }, readers: map[*sim.Peer][]*reader{}, back: back,
		part: func(*sim.Peer, *followed) *Part { return part },
	}
	f := &followed{url: "u", items: map[feed.ID]int{}}
	peers := make([]*sim.Peer, 5)
	for i := range peers {
		peers[i] = new(sim.Peer)
		l.follows(peers[i], f)
	}
	id := feed.ID{1}
	l.published(f, id)
	now = now.Add(time.Second)
	l.shows(peers[0], "u", id)
	l.went(peers[1])
	now = now.Add(19 * time.Second)
	l.shows(peers[2], "u", id)
	l.shows(peers[2], "u", id)
	l.went(peers[3])
	now = now.Add(time.Minute)
	l.came(peers[1])
	now = now.Add(2 * time.Second)
	l.shows(peers[1], "u", id)
	l.close()
	part.sum()
	back.sum()
	got := fmt.Sprint(part.Wanted, part.Shown, part.Late, part.Lost, part.Went, part.P50, part.Most, back.Wanted, back.Shown, back.Most, l.again)
	if want := fmt.Sprint(5, 2, 2, 1, 1, 20., 20., 1, 1, 2., 1); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
