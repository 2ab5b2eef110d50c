package page

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// lines is a core of these.
func lines(of ...string) Core { return Core{Lines: of} }

// A watch is a page that is looked at every half hour.
type checker struct {
	t  *testing.T
	m  Tracker
	at time.Time
}

func newWatch(t *testing.T) *checker {
	return &checker{t: t, at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// look says what the next look finds, which has to be this.
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

func TestFirstLookIsNews(t *testing.T) {
	w := newWatch(t)
	if f := w.check(Changed, "a", "b"); len(f.Patch.Hunks) != 1 {
		t.Error(f.Patch)
	}
	w.check(Same, "a", "b")
	w.check(Changed, "a", "c")
}

// A clock raises three alarms, and then none: what is news beside it is told alone.
// Numbers that have not changed for a while are content again: what they have come to is told.
// What stands between the same two lines, and is another at every look, is an advertisement; a
// page of news is not, because more changes of it, and less often.
// A clock, a counter, a server's token and boxes whose texts move from one to the other do not keep
// each other from being learned; what is news beside them is told alone.
// A list that grows by a line like the others, at its top or at its end, tells of it each time.
// A line of a page that is looked at often, and that changes at times, is news each time, though
// nothing else of the page ever changes.
// A number in a table that is another at each look says nothing about the other numbers.
// Links to other articles that are others each time are learned to be, too; a list that grows is not.
// A replica that lags tells nothing while the other one goes on saying the same, however long; and the
// version that readers have is none that returns.
func TestReplicasThatLagForLong(t *testing.T) {
	w := newWatch(t)
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

// What a page of few words says of itself is no wall.
// A contract whose numbers change tells so each time: seldom is not at every look.
// Replicas that flap A-B-A yield one update; an edit that is taken back for good is told
// when nobody has seen it for an hour.
func TestReplicasThatFlap(t *testing.T) {
	w := newWatch(t)
	w.check(Changed, "a", "old")
	w.check(Changed, "a", "new")
	for range 5 {
		w.check(Stale, "a", "old")
		w.check(Same, "a", "new")
	}
	w.check(Stale, "a", "old")
	w.check(Changed, "a", "old")
}

// What stands in a page's place is no version of it.
// A wall may stand under the title of the page, and be as long as it.
// Limits are kept, whatever a page does.
func TestMemoryIsBounded(t *testing.T) {
	w := newWatch(t)
	for i := range longtest.Pick(80, 200) {
		var of []string
		for j := range 400 {
			of = append(of, fmt.Sprintf("line %c%c has %d", 'a'+j%26, 'a'+j/26, i*j+i))
		}
		w.at = w.at.Add(2 * time.Hour)
		w.m.Check(HTML([]byte("<p>"+strings.Join(of, "<p>")+strings.Repeat("<nav>Menu "+strconv.Itoa(i)+"</nav>", 2*maxOmitted))), w.at)
		if m := &w.m; len(m.marks.list) > maxMarks || len(m.previous) > maxVersions || len(m.omitted) > maxOmitted || len(m.replacement.lines) > maxLines || m.last.all != nil || m.visible.all != nil {
			t.Fatal(len(m.marks.list), len(m.previous), len(m.omitted), len(m.replacement.lines))
		}
	}
}

// Who looks once a month sees another number each time, and is told each time.
// Data that ends in its middle is not the page, unless it goes on to.
func TestDataThatIsCutOff(t *testing.T) {
	for name, c := range map[string][2]string{
		"JSON": {`{"a": "` + one + `", "b": "` + two + `"}`, `{"a": "` + one + `", "b": "The sec`},
		"XML":  {"<a><b>" + one + "</b><b>" + two + "</b></a>", "<a><b>" + one + "</b><b>The sec"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(t)
			look := func(doc string) Kind {
				core, err := Read([]byte(doc), map[string]string{"JSON": "application/json", "XML": "text/xml"}[name], Location{})
				if err != nil {
					t.Fatal(err)
				}
				w.at = w.at.Add(30 * time.Minute)
				return w.m.Check(core, w.at).Kind
			}
			for i, want := range []struct {
				look int
				kind Kind
			}{{0, Changed}, {1, Failed}, {0, Same}, {1, Failed}, {1, Failed}, {1, Changed}, {1, Same}} {
				if kind := look(c[want.look]); kind != want.kind {
					t.Errorf("look %d: %v, want %v", i, kind, want.kind)
				}
			}
		})
	}
}

// Where a link leads is the same place by HTTP and by HTTPS.
func TestLinksByHTTPS(t *testing.T) {
	w := newWatch(t)
	w.check(Changed, "See [it](http://h.example/)", one)
	w.check(Same, "See [it](https://h.example/)", one)
	w.check(Changed, "See [it](https://h.example/a)", one)
}

// A region that is near the bound between noise and content stays where it was, and so do links
// that become a menu.
func TestSidesAreKept(t *testing.T) {
	w := newWatch(t)
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
	w = newWatch(t)
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
	w = newWatch(t)
	page := strings.Repeat("<p>"+one+two, 4)
	links := []string{"<p><a href=/1>One</a>", "<p><a href=/2>Two</a>", "<p><a href=/3>Three</a>", "<p><a href=/4>Four</a>"}
	look(Changed, page+links[0]+links[1])
	if f := look(Changed, page+strings.Join(links, "")); len(f.Patch.Hunks) != 1 || len(f.Patch.Hunks[0].Add) != 2 || f.Patch.Hunks[0].Omit > 0 {
		t.Errorf("%+v", f.Patch)
	}
	w = newWatch(t)
	look(Changed, page+strings.Join(links, ""))
	look(Same, page+links[0])
}
