package page

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// lookAt checks a page.
func (w *checker) lookAt(want Kind, doc string) Result {
	w.t.Helper()
	w.at = w.at.Add(2 * time.Hour)
	f := w.m.Check(HTML([]byte(doc)), w.at)
	if f.Kind != want {
		w.t.Fatalf("%s: %v %s, want %v: %+v", doc, f.Kind, f.Reason, want, f.Patch.Hunks)
	}
	return f
}

// Lines that are broken elsewhere are no change, and the words among them that change are.
func TestLineBreaks(t *testing.T) {
	w := newChecker(t)
	const head, foot = "<h1>Baths</h1><p>" + two, "<p>The water has 24 degrees.<p>" + one
	w.lookAt(Changed, head+"<p>Please shower first. Children swim <a href=/with>with a grown-up</a>."+foot)
	w.lookAt(Same, head+"<p>Please shower first.<br>Children swim <a href=/with>with a grown-up</a>."+foot)
	w.lookAt(Same, head+"<p>Please<p>shower first. Children<p>swim <a href=/with>with a</a> <a href=/with>grown-up</a>."+foot)
	w.lookAt(Same, head+"<p>Please shower first. Children swim <a href=/with>with a grown-up</a>. The water has 24 degrees.<p>"+one)
	f := w.lookAt(Changed, head+"<p>Please<br>shower first.<p>Children swim <a href=/with>with a friend</a>."+foot)
	if len(f.Patch.Hunks) != 1 || !strings.Contains(strings.Join(f.Patch.Hunks[0].Add, " "), "friend") {
		t.Errorf("%+v", f.Patch.Hunks)
	}
	w = newChecker(t)
	w.lookAt(Changed, head+"<p>Read <a href=/a>the rules</a>"+foot)
	w.lookAt(Changed, head+"<p>Read<br><a href=/b>the rules</a>"+foot) // another target
}

// The order of an unordered list is not news. That of an ordered one, of a table and of numbered items is.
func TestOrderOfAList(t *testing.T) {
	courses := []string{"Pottery on Monday evenings", "Drawing in the old mill", "Swedish for beginners", "Bread from sourdough", "The bees of the town"}
	list := func(open, item string, of ...string) string {
		var b strings.Builder
		for i, c := range of {
			b.WriteString(strings.NewReplacer("N", string(rune('1'+i)), "X", c).Replace(item))
		}
		return "<h1>Courses</h1><" + open + ">" + b.String() + "</" + open + "><p>" + one
	}
	turned := slices.Clone(courses)
	slices.Reverse(turned)
	for what, c := range map[string]struct {
		open, item string
		want       Kind
	}{
		"unordered":               {"ul", "<li><a href=/N>X</a>", Changed}, // the links move to others
		"unordered, without link": {"ul", "<li>X", Same},
		"items of several lines":  {"ul", "<li><h3>X</h3><p>Taught by a master.<p>Free", Same},
		"numbered in a line":      {"ul", "<li><b>N</b> X", Changed},
		"numbered by lines":       {"ul", "<li><p>N<p>X", Changed},
		"ordered":                 {"ol", "<li>X", Changed},
		"a table":                 {"table", "<tr><td>N<td>X", Changed},
		"paragraphs":              {"div", "<p>X", Changed},
	} {
		t.Run(what, func(t *testing.T) {
			w := newChecker(t)
			w.lookAt(Changed, list(c.open, c.item, courses...))
			w.lookAt(c.want, list(c.open, c.item, turned...))
		})
	}
	w, r := newChecker(t), rand.New(rand.NewPCG(1, 2))
	w.lookAt(Changed, list("ul", "<li><h3>X</h3><p>Taught by a master.", courses...))
	for i := range 12 {
		of := slices.Clone(courses)
		r.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		w.lookAt(Same, list("ul", "<li><h3>X</h3><p>Taught by a master.", of...))
		if i == 6 {
			of = slices.Insert(of, 2, "Welding at the harbour")
			f := w.lookAt(Changed, list("ul", "<li><h3>X</h3><p>Taught by a master.", of...))
			if h := f.Patch.Hunks; len(h) != 1 || h[0].Omit > 0 || len(h[0].Add) != 2 {
				t.Errorf("%+v", h)
			}
			courses = append(courses, "Welding at the harbour")
		}
	}
}

// Lists within lists are ordered at each level.
func TestOrderOfNestedLists(t *testing.T) {
	w := newChecker(t)
	of := func(a, b string) string { return "<h1>Menu of the day</h1><ul>" + a + b + "</ul><p>" + one }
	w.lookAt(Changed, of("<li>Soups of the house<ul><li>Leek<li>Tomato<li>Lentil</ul>", "<li>Sweets of the house<ul><li>Cake<li>Ice</ul>"))
	w.lookAt(Same, of("<li>Sweets of the house<ul><li>Ice<li>Cake</ul>", "<li>Soups of the house<ul><li>Tomato<li>Leek<li>Lentil</ul>"))
	f := w.lookAt(Changed, of("<li>Sweets of the house<ul><li>Ice<li>Leek</ul>", "<li>Soups of the house<ul><li>Tomato<li>Cake<li>Lentil</ul>"))
	if len(f.Patch.Hunks) == 0 {
		t.Error(f.Patch)
	}
}

// Laying out a text changes neither its words nor, between checks, whether anything changed.
func FuzzAlign(f *testing.F) {
	f.Add("<ul><li>a b<li>c</ul>d e", "<ul><li>c<li>a<br>b</ul>d<p>e")
	f.Add("<ul><li>a<ul><li>b<li>c</ul><li>d</ul>", "<ul><li>d<li>a<ul><li>c<li>b</ul></ul>x")
	f.Fuzz(func(t *testing.T, a, b string) {
		was, is := HTML([]byte(a)), HTML([]byte(b))
		words := func(c *Core) []string {
			of := strings.Fields(withoutTargets(strings.Join(c.Lines, " ")))
			slices.Sort(of)
			return of
		}
		want := words(&is)
		is.align(was.Lines)
		if got := words(&is); !slices.Equal(got, want) {
			t.Fatalf("%q became %q", want, got)
		}
		same := HTML([]byte(a))
		same.align(was.Lines)
		if !slices.Equal(same.Lines, was.Lines) {
			t.Fatalf("%q became %q", was.Lines, same.Lines)
		}
	})
}
