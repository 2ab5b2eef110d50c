package differences

import (
	"math"
	"strings"
	"testing"
	"time"

	"tidings/internal/daemon/origin"
)

// trace returns a page with these paragraphs, one every half day.
func trace(paragraphs ...string) (of []origin.Snapshot) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, p := range paragraphs {
		of = append(of, origin.Snapshot{
			File: string(rune('a' + i)), Time: at.Add(time.Duration(i) * 12 * time.Hour),
			Body: []byte("<!doctype html><script>nonce=" + string(rune('a'+i)) + "</script><h1>Terms</h1><p>" + strings.Repeat("Much that stays. ", 20) + "<p>" + p),
		})
	}
	return of
}

func TestPairsAreCountedByTheirLabels(t *testing.T) {
	of := trace("One.", "One.", "Two.", "Three.", "Three.", "Four.")
	of[4].Body = []byte("<title>Just a moment...</title><p>Checking your browser")
	p, err := Pages("page", of, map[string]string{"c": Wording, "e": Wording, "f": Markup})
	if err != nil {
		t.Fatal(err)
	}
	if p.Snapshots != 6 || p.Wording != 2 || p.Noise != 2 || len(p.Missed) != 1 || p.Missed[0] != "e" || len(p.Failed) != 1 || !strings.HasPrefix(p.Failed[0], "e: an error or log-in page") {
		t.Errorf("%+v", p)
	}
	if a := p.Alarms(); len(a) != 1 || a[0].File != "d" || a[0].Lines != 2 || !strings.Contains(a[0].Hunk, "> Three.\n") {
		t.Errorf("%+v", a)
	}
	sum := Summarise([]Page{p, {Changes: []Change{{WireRatio: 0.9, Lines: 4}}}}, nil)
	if sum.Changes != 2 || sum.Found != 1 || sum.Noise != 2 || sum.Alarms != 1 || sum.Reported != 4 || math.Abs(sum.Lines-10.0/4) > 1e-9 || sum.WireMedian <= 0 || sum.ApplyFailures != 1 {
		t.Errorf("%+v", sum)
	}
}

// Without labels there is no truth to compare a page with.
func TestPagesWithoutLabels(t *testing.T) {
	p, err := Pages("page", trace("One.", "Two."), nil)
	if err != nil || p.Labelled || len(p.Changes) != 1 || len(p.Alarms()) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestLabelsAreRead(t *testing.T) {
	l, err := ReadLabels(strings.NewReader("trace,file,class,more\na,0001.html,text,1\na,0002.html,link_or_markup_only,2\n"))
	if err != nil || l["a"]["0001.html"] != Wording || l["a"]["0002.html"] != Markup {
		t.Error(l, err)
	}
	for _, bad := range []string{"trace,file,class\na,b,c\n", "trace,file\na,b\n", "a\n\"", "trace,file,class\na,b\n"} {
		if l, err := ReadLabels(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v", bad, l)
		}
	}
}
