package page

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// lines returns a core with lines.
func lines(of ...string) Core { return Core{Lines: of} }

// A checker checks a page every half hour.
type checker struct {
	t  *testing.T
	m  Tracker
	at time.Time
}

func newChecker(t *testing.T) *checker {
	return &checker{t: t, at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// check checks the page, and expects a kind of result.
func (w *checker) check(want Kind, of ...string) Result {
	w.t.Helper()
	w.at = w.at.Add(30 * time.Minute)
	old := w.m.Core()
	f := w.m.Check(lines(of...), w.at)
	if f.Kind != want {
		w.t.Fatalf("at %v %q: %v %s, want %v: %+v", w.at.Format("15:04"), of, f.Kind, f.Reason, want, f.Patch.Hunks)
	}
	if f.Kind == Changed {
		if got, err := f.Patch.Apply(&old); err != nil || got.Text() != f.Core.Text() {
			w.t.Fatalf("the patch leads to %q, not to %q: %v", got.Lines, f.Core.Lines, err)
		}
	}
	return f
}

func TestFirstCheckIsAChange(t *testing.T) {
	w := newChecker(t)
	if f := w.check(Changed, "a", "b"); len(f.Patch.Hunks) != 1 {
		t.Error(f.Patch)
	}
	w.check(Same, "a", "b")
	w.check(Changed, "a", "c")
}

// A replica that lags causes no change while the other one shows the same, however long. The visible
// version itself is never stale.
func TestReplicasThatLagForLong(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, "Head", "First")
	w.check(Changed, "Head", "Second")
	for range 12 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Unchanged(w.at)
	}
	w.check(Stale, "Head", "First")
	w.check(Same, "Head", "Second")
	w.check(Same, "Head", "Second")
	w.check(Stale, "Head", "First")
	for range 2 { // which stays, now
		w.at = w.at.Add(30 * time.Minute)
		w.m.Unchanged(w.at)
	}
	w.check(Changed, "Head", "First")
	w.check(Same, "Head", "First")
}

// Replicas that show A, B and A again cause one change. A revert is reported when the version after it
// was not seen for an hour.
func TestReplicasThatFlap(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, "a", "old")
	w.check(Changed, "a", "new")
	for range 5 {
		w.check(Stale, "a", "old")
		w.check(Same, "a", "new")
	}
	w.check(Stale, "a", "old")
	w.check(Changed, "a", "old")
}

// The limits hold, whatever a page does.
func TestTrackerIsBounded(t *testing.T) {
	w := newChecker(t)
	for i := range longtest.Pick(80, 200) {
		var of []string
		for j := range 400 {
			of = append(of, fmt.Sprintf("line %c%c has %d", 'a'+j%26, 'a'+j/26, i*j+i))
		}
		w.at = w.at.Add(2 * time.Hour)
		w.m.Check(HTML([]byte("<p>"+strings.Join(of, "<p>")+strings.Repeat("<nav>Menu "+strconv.Itoa(i)+"</nav>", 2*maxOmitted))), w.at)
		if m := &w.m; len(m.marks.list) > maxMarks || len(m.previous) > maxVersions || len(m.omitted) > maxOmitted || len(m.replacement.lines) > maxLines || len(m.returns.list) > maxReturns || m.last.rows != nil || m.last.all != nil || m.visible.all != nil {
			t.Fatal(len(m.marks.list), len(m.previous), len(m.omitted), len(m.replacement.lines))
		}
	}
}

// Truncated data is not the page, unless it stays truncated.
func TestDataThatIsCutOff(t *testing.T) {
	for name, c := range map[string][2]string{
		"JSON": {`{"a": "` + one + `", "b": "` + two + `"}`, `{"a": "` + one + `", "b": "The sec`},
		"XML":  {"<a><b>" + one + "</b><b>" + two + "</b></a>", "<a><b>" + one + "</b><b>The sec"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newChecker(t)
			check := func(doc string) Kind {
				core, err := Read([]byte(doc), map[string]string{"JSON": "application/json", "XML": "text/xml"}[name], Location{})
				if err != nil {
					t.Fatal(err)
				}
				w.at = w.at.Add(30 * time.Minute)
				return w.m.Check(core, w.at).Kind
			}
			for i, want := range []struct {
				doc  int
				kind Kind
			}{{0, Changed}, {1, Failed}, {0, Same}, {1, Failed}, {1, Failed}, {1, Changed}, {1, Same}} {
				if kind := check(c[want.doc]); kind != want.kind {
					t.Errorf("check %d: %v, want %v", i, kind, want.kind)
				}
			}
		})
	}
}

// Links by HTTP and by HTTPS are equal.
func TestLinksByHTTPS(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, "See [it](http://h.example/)", one)
	w.check(Same, "See [it](https://h.example/)", one)
	w.check(Changed, "See [it](https://h.example/a)", one)
}

// A region near the bound between noise and content keeps its side, and so do links that become a menu.
func TestSidesAreKept(t *testing.T) {
	w := newChecker(t)
	look := func(want Kind, doc string) Result {
		t.Helper()
		core := HTML([]byte(doc))
		w.at = w.at.Add(30 * time.Minute)
		f := w.m.Check(core, w.at)
		if f.Kind != want {
			t.Fatalf("%s: %v, want %v: %+v", doc, f.Kind, want, f.Patch)
		}
		return f
	}
	aside := "<aside>" + two + "</aside>"
	look(Changed, "<p>"+one+one+"<p>"+two+aside)
	for _, more := range []string{strings.Repeat("<p>"+one, 10), "<p>x", strings.Repeat("<p>"+one, 12)} {
		for _, h := range look(Changed, more+"<p>"+one+one+"<p>"+two+aside).Patch.Hunks {
			if h.At != 0 {
				t.Errorf("at line %d: %q", h.At, h.Add)
			}
		}
	}
	w = newChecker(t)
	side := func(more string) string {
		return strings.Repeat("<p>"+one, 4) + "<p>" + more + "<aside>What stands beside it is of no great length.</aside>"
	}
	if f := look(Changed, side("")); len(f.Core.Lines) != 4 {
		t.Fatal(f.Core.Lines)
	}
	short := "<p>" + one + "<aside>What stands beside it is of no great length.</aside>" // it is half of the page now
	if f := look(Changed, short); len(f.Core.Lines) != 1 {
		t.Error(f.Core.Lines)
	}
	w = newChecker(t)
	page := strings.Repeat("<p>"+one+two, 4)
	links := []string{"<p><a href=/1>One</a>", "<p><a href=/2>Two</a>", "<p><a href=/3>Three</a>", "<p><a href=/4>Four</a>"}
	look(Changed, page+links[0]+links[1])
	if f := look(Changed, page+strings.Join(links, "")); len(f.Patch.Hunks) != 1 || len(f.Patch.Hunks[0].Add) != 2 || f.Patch.Hunks[0].Omit > 0 {
		t.Errorf("%+v", f.Patch)
	}
	w = newChecker(t)
	look(Changed, page+strings.Join(links, ""))
	look(Same, page+links[0])
}
