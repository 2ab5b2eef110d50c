package page

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// library is a page on which a block comes and goes.
func library(block ...string) []string {
	return slices.Concat([]string{"The library", "Books can be borrowed for four weeks.", "Films can be borrowed for one week."}, block,
		[]string{"There is a reading room on the second floor, with newspapers from ten countries.", "The card costs nothing for children."})
}

var (
	offer = []string{"Our catalogue on your phone", "Search wherever you are", "[Get it](https://get.example/catalogue)", "4.5"}
	plea  = []string{"Friends of the library wanted", "They meet on Tuesdays."}
)

// A block that is shown by chance is told when it comes and when it goes for the first time. Another edit is
// told while it comes and goes.
func TestABlockThatComesAndGoes(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, library()...)
	w.check(Changed, library(offer...)...)
	w.at = w.at.Add(flapWindow)
	w.check(Changed, library()...)
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		w.at = w.at.Add(flapWindow)
		if r.IntN(2) == 0 {
			w.check(Same, library()...)
		} else {
			w.check(Same, library(offer...)...)
		}
	}
	w.at = w.at.Add(flapWindow)
	if f := w.check(Changed, append(library(offer...), "The library is closed on Monday.")...); len(f.Patch.Hunks) != 1 || !slices.Equal(f.Patch.Hunks[0].Add, []string{"The library is closed on Monday."}) {
		t.Errorf("%+v", f.Patch.Hunks)
	}
}

// Two blocks that come and go side by side are learned, too, and so are two texts in one place.
func TestBlocksSideBySide(t *testing.T) {
	for name, states := range map[string][][]string{
		"two blocks": {library(), library(offer...), library(plea...), library(slices.Concat(offer, plea)...)},
		"two texts":  {library(offer...), library(plea...)},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := newChecker(t), rand.New(rand.NewPCG(3, 4))
			told := 0
			for i := range 120 {
				w.at = w.at.Add(12 * time.Hour)
				if w.m.Check(lines(states[r.IntN(len(states))]...), w.at).Kind == Changed && i > 0 {
					told++
				}
			}
			if told > 16 {
				t.Errorf("told %d times", told)
			}
		})
	}
}

// A state that stays is told in the end, also if the document is not fetched again meanwhile. Then a block that
// returns is news.
func TestABlockThatStays(t *testing.T) {
	w := newChecker(t)
	turn := func(want Kind, block ...string) {
		t.Helper()
		w.at = w.at.Add(2 * flapWindow)
		w.check(want, library(block...)...)
	}
	turn(Changed)
	turn(Changed, offer...)
	turn(Changed)
	turn(Same, offer...)
	for range calmChecks - 1 {
		w.at = w.at.Add(time.Hour)
		if w.m.NeedsRecheck() {
			t.Fatalf("too early, at %v", w.at)
		}
		w.m.Unchanged(w.at)
	}
	w.m.Unchanged(w.at.Add(time.Hour))
	if !w.m.NeedsRecheck() {
		t.Error("the block that stays is not fetched again")
	}
	turn(Changed, offer...)
	for range calmChecks {
		turn(Same, offer...)
	}
	turn(Changed)
}

// An alert that returns after a calm is told each time: after many checks, and after a week.
func TestAnAlertThatReturns(t *testing.T) {
	for name, calm := range map[string]struct {
		checks int
		every  time.Duration
	}{"many checks": {calmChecks + 1, 30 * time.Minute}, "weeks": {7, 44 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			w := newChecker(t)
			for range 5 {
				for i := range calm.checks {
					w.at = w.at.Add(calm.every)
					if kind := w.m.Check(lines(library()...), w.at).Kind; (kind == Changed) != (i == 0) {
						t.Fatalf("check %d: %v", i, kind)
					}
				}
				w.at = w.at.Add(2 * time.Hour)
				w.check(Changed, library("Flood warning: the cellar is closed.")...)
				w.at = w.at.Add(2 * time.Hour)
			}
		})
	}
}

// A text of which most changes is another version, which is told as often as it returns.
func TestVersionsThatAlternateAreTold(t *testing.T) {
	member := []string{"Terms", "They hold for members, who pay by the month.", "Members may leave at the end of each month.", "Members may bring a guest."}
	guest := []string{"Terms", "They hold for guests, who pay at the door.", "Guests leave when we close."}
	w := newChecker(t)
	for i := range 5 {
		w.at = w.at.Add(12 * time.Hour)
		w.check(Changed, [][]string{member, guest}[i%2]...)
	}
}

// Copies learn independently of each other, and remembered lines are bounded.
func TestReturnsOfCopies(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, library()...)
	w.check(Changed, library(offer...)...)
	c := w.m.Clone()
	known := len(w.m.returns.list)
	c.Check(lines(library(plea...)...), w.at.Add(2*time.Hour))
	if known == 0 || len(w.m.returns.list) != known {
		t.Errorf("%d lines, was %d", len(w.m.returns.list), known)
	}
	var r returns
	for i := range 3 * maxReturns {
		was, is := library(), library(fmt.Sprintf("Notice %c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676))
		all := changes(was, is)
		r.learn(was, is, all, all, time.Time{})
		r.check = 0 // nothing is forgotten
	}
	if len(r.list) > maxReturns {
		t.Errorf("%d lines", len(r.list))
	}
}

// Whatever comes and goes, a patch leads to the new version, and a version that stays is told in the end.
func FuzzReturns(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 1, 2, 3, 1, 0})
	f.Add([]byte{7, 1, 4, 1, 2, 7, 0})
	f.Fuzz(func(t *testing.T, shown []byte) {
		blocks := [][]string{offer, plea, {"One more line."}, {"129 €"}, {"Sold out"}, {"A", "B"}}
		w := newChecker(t)
		var last []string
		for _, bits := range shown[:min(len(shown), 64)] {
			var of []string
			for i, b := range blocks {
				if bits>>i&1 > 0 {
					of = append(of, b...)
				}
			}
			w.at = w.at.Add(2 * time.Hour)
			last = library(of...)
			old := w.m.Core()
			if r := w.m.Check(lines(last...), w.at); r.Kind == Changed {
				if got, err := r.Patch.Apply(&old); err != nil || got.Text() != r.Core.Text() || len(r.Patch.Hunks) == 0 {
					t.Fatalf("%v %q", err, got.Lines)
				}
			}
		}
		for range maxPoints + calmChecks {
			w.at = w.at.Add(2 * time.Hour)
			w.m.Check(lines(last...), w.at)
		}
		if core := w.m.Core(); last != nil && core.Text() != (&Core{Lines: last}).Text() {
			t.Errorf("%q is visible, not %q", core.Lines, last)
		}
	})
}
