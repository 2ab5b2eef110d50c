package overlay

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestDeadAreNotBelievedToLive(t *testing.T) {
	var g graveyard
	died := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := someone(1)
	c.Issued = 5
	newer := *c
	newer.Issued = 6
	g.bury(c, died, true)
	for _, w := range []struct {
		what  string
		c     *Contact
		after time.Duration
		holds bool
	}{
		{"at once", c, 0, true},
		{"after a while", c, hearsay, false},
		{"in another life", &newer, 0, false},
		{"somebody else", someone(2), 0, false},
	} {
		if got := g.holds(w.c, died.Add(w.after)); got != w.holds {
			t.Errorf("%s: %v", w.what, got)
		}
	}
}

func TestOnlyTheMissedWereNeverDead(t *testing.T) {
	for _, c := range []struct {
		what          string
		missed, newer bool
		undead        bool
	}{
		{"missed, back in the same life", true, false, true},
		{"missed, back in another life", true, true, false},
		{"never had a place", false, false, false},
	} {
		var g graveyard
		dead, back := someone(1), someone(1)
		if c.newer {
			back.Issued++
		}
		g.bury(dead, time.Time{}, c.missed)
		if got := g.exhume(back); got != c.undead {
			t.Errorf("%s: %v", c.what, got)
		}
		if len(g.graves) != 0 || g.exhume(back) {
			t.Errorf("%s: not forgotten", c.what)
		}
	}
}

// Whoever makes nodes die by the hundred does not make a node forget those it
// lost to a partition.
func TestThoseWithoutAPlaceAreForgottenFirst(t *testing.T) {
	var g graveyard
	lost := someone(1)
	g.bury(lost, time.Time{}, true)
	for i := range 3 * maxDead {
		g.bury(someone(2, byte(i), byte(i>>8)), time.Time{}, false)
	}
	if len(g.graves) != maxDead || g.pick(rand.New(rand.NewPCG(1, 1))) != lost {
		t.Errorf("%d graves, %d of the missed", len(g.graves), len(g.missed()))
	}
	for i := range maxDead {
		g.bury(someone(3, byte(i)), time.Time{}, true)
	}
	if len(g.graves) != maxDead || g.holds(lost, time.Time{}) {
		t.Error("of the missed, the oldest is not forgotten first")
	}
}
