package overlay

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestReportsThatTheDeadAreAliveAreIgnored(t *testing.T) {
	var g tombstones
	died := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := someone(1)
	c.Issued = 5
	newer := *c
	newer.Issued = 6
	g.add(c, died, true)
	for _, w := range []struct {
		what  string
		c     *Contact
		after time.Duration
		holds bool
	}{
		{"at once", c, 0, true},
		{"after a while", c, reviveDelay, false},
		{"after a restart", &newer, 0, false},
		{"another peer", someone(2), 0, false},
	} {
		if got := g.diedRecently(w.c, died.Add(w.after)); got != w.holds {
			t.Errorf("%s: %v", w.what, got)
		}
	}
}

func TestOnlyPeersWithAPlaceReturnAsNeverDead(t *testing.T) {
	for _, c := range []struct {
		what          string
		missed, newer bool
		undead        bool
	}{
		{"had a place, back without a restart", true, false, true},
		{"had a place, back after a restart", true, true, false},
		{"never had a place", false, false, false},
	} {
		var g tombstones
		dead, back := someone(1), someone(1)
		if c.newer {
			back.Issued++
		}
		g.add(dead, time.Time{}, c.missed)
		if got := g.remove(back); got != c.undead {
			t.Errorf("%s: %v", c.what, got)
		}
		if len(g.list) != 0 || g.remove(back) {
			t.Errorf("%s: not forgotten", c.what)
		}
	}
}

// An attacker that makes hundreds of nodes die does not make a node forget the peers that it
// lost in a partition.
func TestTombstonesOfPeersWithoutAPlaceAreForgottenFirst(t *testing.T) {
	var g tombstones
	lost := someone(1)
	g.add(lost, time.Time{}, true)
	for i := range 3 * maxTombstones {
		g.add(someone(2, byte(i), byte(i>>8)), time.Time{}, false)
	}
	if len(g.list) != maxTombstones || g.pick(rand.New(rand.NewPCG(1, 1))) != lost {
		t.Errorf("%d tombstones, %d with a place", len(g.list), len(g.withPlace()))
	}
	for i := range maxTombstones {
		g.add(someone(3, byte(i)), time.Time{}, true)
	}
	if len(g.list) != maxTombstones || g.diedRecently(lost, time.Time{}) {
		t.Error("the oldest tombstone with a place is not forgotten first")
	}
}
