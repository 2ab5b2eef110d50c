package corona

import (
	"math"
	"testing"
	"time"

	"tidings/honeycomb"
)

// Where nobody has decided yet all tell first what they lead: what each decided by its own channels would be told
// to all pollers, and another number to most of them half a minute later. Who joins a network that
// decides is not kept waiting.
func TestANetworkThatStartsTellsBeforeItDecides(t *testing.T) {
	for what, c := range map[string]struct {
		others honeycomb.Totals
		atOnce bool
	}{
		"a network that starts":  {honeycomb.Totals{Nodes: 3, Channels: 30, Subscribers: 600}, false},
		"a network that decides": {honeycomb.Totals{Nodes: 3, Channels: 30, Subscribers: 600, Decided: 600, Polled: 600}, true},
	} {
		w := newTownOf(t, 4, Config{})
		w.others = c.others
		h := w.open("http://a.example/feed", 20, 1).leader
		h.decided = false
		w.run(decideFirst + time.Second)
		if _, decided := h.Decision(); decided != c.atOnce {
			t.Errorf("%s: decided is %v at first", what, decided)
		}
		w.run(decideQuick * 5 / 4)
		if _, decided := h.Decision(); !decided {
			t.Errorf("%s: nothing is decided", what)
		}
	}
}

// While readers come or go in crowds, those who decide hear of it soon; of a few more they hear when they would
// anyway. What is only not heard of for the moment is no crowd that has gone. What has been found out of the load is
// not forgotten in haste.
func TestAnotherCrowdOfReadersHurriesDecisions(t *testing.T) {
	for _, c := range []struct {
		readers float64
		whole   bool
		quick   bool
	}{{60_500, true, false}, {65_000, true, false}, {70_000, true, true}, {50_000, true, true}, {50_000, false, false}} {
		w := newTownOf(t, 4, Config{})
		told := func(q float64) honeycomb.Totals {
			return honeycomb.Totals{Nodes: 3, Channels: 30, Subscribers: q, Decided: q, Polled: aimBelow * q, Aim: Aim(q, 0.9)}
		}
		w.others, w.whole = told(60_000), true
		h := w.open("http://a.example/feed", 20, 1).leader
		w.run(3 * time.Hour)
		aimed := h.correction
		if h.quick > 0 || h.pause != h.cfg.MaintenanceInterval {
			t.Fatalf("decisions are made each %v", h.pause)
		}
		w.others, w.whole = told(c.readers), c.whole
		w.run(h.decideAt.Sub(w.now) + time.Second)
		if quick := h.quick > 0; quick != c.quick {
			t.Errorf("60,000 readers, then %v (of all: %v): decisions are hurried: %v", c.readers, c.whole, quick)
		}
		if w.run(h.decideAt.Sub(w.now) + time.Second); c.quick && (math.Abs(aimed-0.9) > 0.02 || math.Abs(h.correction-aimed) > 0.02) {
			t.Errorf("%v times T is decided for, and %v in haste", aimed, h.correction)
		}
	}
}
