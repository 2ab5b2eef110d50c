package corona

import (
	"math"
	"testing"
	"time"

	"tidings/honeycomb"
)

// In a network where nobody has decided yet, all nodes first publish their channels. Otherwise each
// would decide by its own channels alone, and most pollers would get another order half a minute
// later. A node that joins a network with decisions does not wait.
func TestANewNetworkPublishesBeforeItDecides(t *testing.T) {
	for what, c := range map[string]struct {
		others honeycomb.Totals
		atOnce bool
	}{
		"a network that starts":  {honeycomb.Totals{Nodes: 3, Channels: 30, Subscribers: 600}, false},
		"a network that decides": {honeycomb.Totals{Nodes: 3, Channels: 30, Subscribers: 600, DecidedSubscribers: 600, Load: 600}, true},
	} {
		w := newTestNetworkOf(t, 4, Config{})
		w.others = c.others
		h := w.open("http://a.example/feed", 20, 1).leader
		h.allocator.decided = false
		w.run(firstDecision + time.Second)
		if _, decided := h.Decision(); decided != c.atOnce {
			t.Errorf("%s: decided is %v at first", what, decided)
		}
		w.run(quickPause * 5 / 4)
		if _, decided := h.Decision(); !decided {
			t.Errorf("%s: nothing is decided", what)
		}
	}
}

// When many readers join or leave at once, decisions follow quickly; a few more readers change
// nothing. Missing information does not count as readers that left. Quick decisions keep the
// correction.
func TestManyNewReadersMakeDecisionsQuick(t *testing.T) {
	for _, c := range []struct {
		readers float64
		whole   bool
		quick   bool
	}{{60_500, true, false}, {65_000, true, false}, {70_000, true, true}, {50_000, true, true}, {50_000, false, false}} {
		w := newTestNetworkOf(t, 4, Config{})
		told := func(q float64) honeycomb.Totals {
			return honeycomb.Totals{Nodes: 3, Channels: 30, Subscribers: q, DecidedSubscribers: q, Load: targetPart * q, TargetTerm: TargetTerm(q, 0.9)}
		}
		w.others, w.whole = told(60_000), true
		h := w.open("http://a.example/feed", 20, 1).leader
		w.run(3 * time.Hour)
		aimed := h.allocator.correction
		if h.allocator.quickDecisions > 0 || h.allocator.decisionPause != h.cfg.MaintenanceInterval {
			t.Fatalf("decisions are made each %v", h.allocator.decisionPause)
		}
		w.others, w.whole = told(c.readers), c.whole
		w.run(h.allocator.decideAt.Sub(w.now) + time.Second)
		if quick := h.allocator.quickDecisions > 0; quick != c.quick {
			t.Errorf("60,000 readers, then %v (of all: %v): decisions are hurried: %v", c.readers, c.whole, quick)
		}
		if w.run(h.allocator.decideAt.Sub(w.now) + time.Second); c.quick && (math.Abs(aimed-0.9) > 0.02 || math.Abs(h.allocator.correction-aimed) > 0.02) {
			t.Errorf("%v times T is decided for, and %v in haste", aimed, h.allocator.correction)
		}
	}
}
