package figure

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	f := Figure{Title: "Growth", X: "members", Y: "hops", LogX: true, Lines: []Line{
		{Name: "measured", X: []float64{64, 1024}, Y: []float64{1.2, 2.1}},
		{Name: "asked", X: []float64{64, 1024}, Y: []float64{2.6, 3.7}, Dashed: true},
	}}
	if err := f.Save(dir, "growth"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "growth.png"))
	if err != nil {
		t.Fatal(err)
	}
	if i, err := png.Decode(bytes.NewReader(b)); err != nil || i.Bounds().Dx() < 500 {
		t.Errorf("%v", err)
	}
	if b, err = os.ReadFile(filepath.Join(dir, "growth.svg")); err != nil || !bytes.Contains(b, []byte("measured")) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestSaveSaysWhatIsWrong(t *testing.T) {
	if err := (Figure{Lines: []Line{{Name: "x", X: []float64{1}}}}).Save(t.TempDir(), "x"); err == nil {
		t.Error("a line with places and no values was drawn")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Figure{}).Save(file, "x"); err == nil {
		t.Error("a figure was saved into a file")
	}
}

// A line with steps has only horizontal and vertical segments, and no line reaches into the legend.
func TestStepsAndLegend(t *testing.T) {
	dir := t.TempDir()
	f := Figure{Lines: []Line{Distribution("those that came", []float64{4, 1, 9}, 4)}}
	if err := f.Save(dir, "steps"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "steps.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var lines [][][]string // of the colour: the line, and its sample in the legend
	for _, m := range regexp.MustCompile(`<path d="([^"]*)" style="fill:none;stroke:#0072B2`).FindAllStringSubmatch(string(b), -1) {
		lines = append(lines, regexp.MustCompile(`([\d.]+),([\d.]+)`).FindAllStringSubmatch(m[1], -1))
	}
	if len(lines) != 2 || len(lines[0]) != 7 {
		t.Fatalf("%s", b)
	}
	line := lines[0]
	for i, at := range line[1:] {
		if (at[1] == line[i][1]) == (at[2] == line[i][2]) {
			t.Errorf("from %s to %s is no step", line[i][0], at[0])
		}
	}
	end, _ := strconv.ParseFloat(line[6][1], 64)
	if key, err := strconv.ParseFloat(lines[1][0][1], 64); err != nil || end == 0 || key < end+margin {
		t.Errorf("the legend begins at %v, the line ends at %v", key, end)
	}
}

// A line has its hue in every figure, and a faint line a lighter one; lines without a hue get one
// in turn.
func TestHues(t *testing.T) {
	for i := range 7 {
		l := Line{Hue: Green}
		if got := l.colour(i); got != colours[Green] {
			t.Errorf("line %d in green is %v", i, got)
		}
	}
	deep, pale := (&Line{Hue: Black}).colour(0), (&Line{Hue: Black, Faint: true}).colour(0)
	if deep == pale || pale.R < 100 || pale.A != 255 {
		t.Errorf("%v, faint %v", deep, pale)
	}
	seen := map[any]bool{}
	for i := range 6 {
		seen[(&Line{}).colour(i)] = true
	}
	if len(seen) != 6 || (&Line{}).colour(6) != (&Line{}).colour(0) || seen[colours[Black]] {
		t.Errorf("in turn: %v", seen)
	}
}

// Events that did not happen are not in the distribution.
func TestDistribution(t *testing.T) {
	l := Distribution("", []float64{4, 1}, 4)
	if !slices.Equal(l.X, []float64{0, 1, 4}) || !slices.Equal(l.Y, []float64{0, 25, 50}) {
		t.Errorf("%v", l)
	}
}

func TestSorted(t *testing.T) {
	l := Line{X: []float64{3, 1, 2}, Y: []float64{30, 10, 20}}.Sorted()
	if !slices.Equal(l.X, []float64{1, 2, 3}) || !slices.Equal(l.Y, []float64{10, 20, 30}) {
		t.Errorf("%v", l)
	}
}

// An axis of less than a decade has labels, and a long caption fits below the figure.
func TestLogarithmicAxesHaveLabels(t *testing.T) {
	if least, most := tickRange(56, 57); least != 50 || most != 100 {
		t.Errorf("an axis from %v to %v", least, most)
	}
	if least, most := tickRange(0.3, 2000); least != 0.2 || most != 2000 {
		t.Errorf("an axis from %v to %v", least, most)
	}
	var labels []string
	for _, tick := range (logTicks{}).Ticks(50, 1000) {
		if tick.Label != "" {
			labels = append(labels, tick.Label)
		}
	}
	if !slices.Equal(labels, []string{"50", "100", "200", "500", "1000"}) {
		t.Errorf("labels %q", labels)
	}
	dir := t.TempDir()
	f := Figure{Title: "T", LogY: true, Caption: "what there is to see " + string(bytes.Repeat([]byte("and more "), 40)), Lines: []Line{
		{Name: "dots", X: []float64{1, 2}, Y: []float64{56, 57}, Dots: true},
	}}
	if err := f.Save(dir, "caption"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "caption.svg"))
	if n := bytes.Count(b, []byte("and more and more")); err != nil || n < 3 {
		t.Errorf("%v, %d lines of a caption", err, n)
	}
}
