package page

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// pool returns different lines with words and without numbers.
func pool(n int) (of []string) {
	for i := range n {
		word := string([]rune{rune('a' + i%26), rune('a' + i/26%26)})
		of = append(of, strings.ToUpper(word[:1])+word+" sells what every "+word+"er needs")
	}
	return of
}

// drawn returns random lines of a pool.
func drawn(r *rand.Rand, of []string, n int) []string {
	of = slices.Clone(of)
	r.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return of[:n]
}

// pageAround returns a page with lines in its middle.
func pageAround(edit string, middle ...string) []string {
	return slices.Concat([]string{"Terms", edit, "What follows is paid for"}, middle, []string{"You owe us nothing.", "Nor do we."})
}

// learns checks a page for half a day.
func (w *checker) learns(page func() []string) {
	for range 24 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Check(lines(page()...), w.at)
	}
}

func TestManyRotatingLinesInARow(t *testing.T) {
	for name, draw := range map[string]func(r *rand.Rand) []string{
		"three to seven":       func(r *rand.Rand) []string { return drawn(r, pool(80), 3+r.IntN(5)) },
		"five to ten of links": func(r *rand.Rand) []string { return drawn(r, pool(40), 5+r.IntN(6)) },
		"twenty of sixty":      func(r *rand.Rand) []string { return drawn(r, pool(60), 20) },
		"with a clock": func(r *rand.Rand) []string {
			return append(drawn(r, pool(80), 4+r.IntN(2)), fmt.Sprintf("It is %d:%02d", r.IntN(24), r.IntN(60)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			w := newChecker(t)
			w.learns(func() []string { return pageAround("Pay", draw(r)...) })
			for range 20 {
				w.check(Same, pageAround("Pay", draw(r)...)...)
			}
			f := w.check(Changed, pageAround("Do not pay", draw(r)...)...)
			if len(f.Patch.Hunks) != 1 || f.Patch.Hunks[0].Omit != 1 {
				t.Errorf("%+v", f.Patch)
			}
			w.check(Same, pageAround("Do not pay", draw(r)...)...)
		})
	}
}

// A list that continues is news, however many lines arrive at once.
func TestAContinuedListDoesNotRotate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := newChecker(t)
	of, n := pool(300), 200
	for range 40 {
		n -= 1 + r.IntN(2)
		w.check(Changed, pageAround("Pay", of[n:n+7+r.IntN(3)]...)...)
	}
}

func TestAnEditBetweenRotatingPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	page := func(between string) []string {
		of := drawn(r, pool(80), 2)
		return pageAround("Pay", of[0], between, of[1])
	}
	w := newChecker(t)
	w.learns(func() []string { return page("We are closed on Sundays.") })
	w.check(Same, page("We are closed on Sundays.")...)
	f := w.check(Changed, page("We are closed on Mondays.")...)
	if h := f.Patch.Hunks; len(h) != 1 || h[0].Omit != 1 || !slices.Equal(h[0].Add, []string{"We are closed on Mondays."}) {
		t.Errorf("%+v", h)
	}
	for range 12 {
		w.check(Same, page("We are closed on Mondays.")...)
	}
}

// A text that stays in a rotating place is reported after some checks.
func TestALineThatStaysInARotatingPlaceIsReported(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := newChecker(t)
	w.learns(func() []string { return pageAround("Pay", drawn(r, pool(80), 3+r.IntN(5))...) })
	page := func() []string {
		return pageAround("Pay", slices.Insert(drawn(r, pool(80), 2+r.IntN(5)), 0, "We are closed for good.")...)
	}
	for range stableChecks {
		w.check(Same, page()...)
	}
	if f := w.check(Changed, page()...); !strings.Contains(f.Core.Text(), "We are closed for good.\n") {
		t.Errorf("%q", f.Core.Lines)
	}
	w.check(Same, page()...)
}

// An advertisement keeps its place in a list that moves on below it.
func TestMarksFollowAMovingList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	stories := pool(300)[100:]
	page := func(newest int) []string {
		of := slices.Clone(stories[100-newest : 110-newest])
		of = slices.Insert(of, 7, drawn(r, pool(80), 1)...)
		return slices.Concat([]string{"News"}, slices.Insert(of, 3, drawn(r, pool(80), 1)...), []string{"The end"})
	}
	w := newChecker(t)
	w.learns(func() []string { return page(0) })
	for n := range 12 {
		if f := w.check(Changed, page(n+1)...); !strings.Contains(f.Core.Text(), stories[99-n]) {
			t.Errorf("%q", f.Core.Lines)
		}
		for range 3 {
			w.check(Same, page(n+1)...)
		}
	}
}

// An edit beside an advertisement, or beside a number, does not make them news.
func TestMarksSurviveEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	page := func(before, state, behind string) []string {
		return []string{"Terms", before, drawn(r, pool(80), 1)[0], behind, fmt.Sprintf("The gate is %s, and %d have passed it", state, r.IntN(1000)), "The end"}
	}
	w := newChecker(t)
	w.learns(func() []string { return page("Pay", "open", "Or leave") })
	for i, edit := range [][3]string{{"Do pay", "open", "Or leave"}, {"Do pay", "open", "Or go"}, {"Do pay", "shut", "Or go"}, {"Pay", "open", "Or leave us"}} {
		w.check(Same, page(w.m.visible.Lines[1], strings.Fields(w.m.visible.Lines[4])[3][:4], w.m.visible.Lines[3])...)
		w.check(Changed, page(edit[0], edit[1], edit[2])...)
		for range 3 {
			if w.check(Same, page(edit[0], edit[1], edit[2])...); t.Failed() {
				t.Fatal(i)
			}
		}
	}
	w.check(Changed, "Terms", "Pay", "News beside it", drawn(r, pool(80), 1)[0], "Or leave us", "The gate is open, and 1 have passed it", "The end")
	w.check(Same, "Terms", "Pay", "News beside it", drawn(r, pool(80), 1)[0], "Or leave us", "The gate is open, and 2 have passed it", "The end")
}

// Lines of a rotating place at either end of a page may go while others rotate.
func TestARotatingPlaceAtTheEndOfAShrinkingPage(t *testing.T) {
	of, rest := pool(200), []string{"Terms", "You owe us nothing.", "Nor do we."}
	for name, page := range map[string]func(place ...string) []string{
		"first": func(place ...string) []string { return slices.Concat(place, rest) },
		"last":  func(place ...string) []string { return slices.Concat(rest, place) },
	} {
		t.Run(name, func(t *testing.T) {
			w, n := newChecker(t), 0
			w.learns(func() []string { n += 5; return page(of[n : n+5]...) })
			told := w.m.visible.Lines
			if name == "first" {
				w.check(Changed, page(told[2], of[150], of[151])...)
			} else {
				w.check(Changed, page(of[150], of[151], told[5])...)
			}
		})
	}
}

// A page that rotates as a whole is not slow to check.
func TestHostileRotationIsCheap(t *testing.T) {
	for _, size := range []int{1, 8} {
		r := rand.New(rand.NewPCG(1, 2))
		fixed, of := pool(600), pool(26*26)
		w := newChecker(t)
		for i := range 10 {
			var c Core
			for _, l := range fixed {
				c.Lines = append(append(c.Lines, "Here: "+l), drawn(r, of, size-i%2*(size/3))...)
			}
			w.at = w.at.Add(time.Hour)
			longtest.Bounded(t, func() { w.m.Check(c, w.at) })
		}
	}
}

// The patch of each version leads to the next, whatever a page does.
func FuzzCheck(f *testing.F) {
	f.Add([]byte("\x01\x02\x03\x00\x01\x04\x03\x00\x01\x05\x03\x00\x01\x06\x07\x03"))
	of := append(pool(24), "1", "2", "3", "It is 1:00", "It is 2:00", "It is 3:00", "…")
	f.Fuzz(func(t *testing.T, looks []byte) {
		var m, replayed Tracker
		var seen *Seen
		at := time.Unix(1e9, 0)
		for look := range bytes.SplitSeq(looks[:min(len(looks), 1<<10)], []byte{0}) {
			var c Core
			for _, b := range look {
				c.Lines = append(c.Lines, of[int(b)%len(of)])
			}
			old := m.Core()
			at = at.Add(2 * time.Hour)
			if f := m.Check(c, at); f.Kind == Changed && f.Number > 1 {
				if got, err := f.Patch.Apply(&old); err != nil || !slices.Equal(got.Lines, m.Core().Lines) {
					t.Fatalf("%v: %q, want %q", err, got.Lines, m.Core().Lines)
				}
			}
			if now := m.Core(); m.Number() != replayed.Number() { // an owner with the same text sees each change
				u, err := m.Update()
				if err != nil {
					t.Fatal(err)
				}
				seen = seen.Next(&now)
				if f, err := replayed.Replay(u, true); err != nil || m.Number() > 1 && !f.ShownBy(seen) {
					t.Fatalf("%v: %q from %q is not shown", err, now.Lines, old.Lines)
				}
			}
		}
	})
}
