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
