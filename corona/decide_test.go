package corona

import (
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
// anyway. What is only not heard of for the moment is no crowd that has gone.
func TestAnotherCrowdOfReadersHurriesDecisions(t *testing.T) {
	for _, c := range []struct {
		readers float64
		whole   bool
		quick   bool
	}{{605, true, false}, {650, true, false}, {700, true, true}, {500, true, true}, {500, false, false}} {
		w := newTownOf(t, 4, Config{})
		w.others, w.whole = honeycomb.Totals{Nodes: 3, Channels: 30, Subscribers: 600, Decided: 600, Polled: 600}, true
		h := w.open("http://a.example/feed", 20, 1).leader
		w.run(3 * time.Hour)
		if h.quick > 0 || h.pause != h.cfg.MaintenanceInterval {
			t.Fatalf("decisions are made each %v", h.pause)
		}
		w.others.Subscribers, w.others.Decided, w.whole = c.readers, c.readers, c.whole
		w.run(h.decideAt.Sub(w.now) + time.Second)
		if quick := h.quick > 0; quick != c.quick {
			t.Errorf("600 readers, then %v (of all: %v): decisions are hurried: %v", c.readers, c.whole, quick)
		}
	}
}
