package figure

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"tidings/internal/plot"
)

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	f := Figure{Title: "Growth", X: "members", Y: "hops", LogX: true, Caption: "As measured", Lines: []plot.Line{
		{Name: "measured", X: []float64{64, 1024}, Y: []float64{1.2, 2.1}},
		{Name: "asked", X: []float64{64, 1024}, Y: []float64{2.6, 3.7}, Dashed: true},
	}}
	if err := f.Save(dir, "growth"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "growth.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{">Growth<", ">members<", ">hops<", ">measured<", ">asked<", ">As measured<"} {
		if !bytes.Contains(b, []byte(text)) {
			t.Errorf("%s is missing in %s", text, b)
		}
	}
}

func TestBarsHaveTheirTicks(t *testing.T) {
	dir := t.TempDir()
	f := Figure{Title: "Modes", Y: "%", Bars: []plot.Bars{{Name: "passed on", Y: []float64{100, 18}}}, XTicks: []plot.Tick{{At: 0.5, Label: "full"}, {At: 1.5, Label: "validators"}}}
	if err := f.Save(dir, "modes"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "modes.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{">full<", ">validators<", "<rect"} {
		if !bytes.Contains(b, []byte(text)) {
			t.Errorf("%s is missing in %s", text, b)
		}
	}
}

func TestSaveSaysWhatIsWrong(t *testing.T) {
	if err := (Figure{Lines: []plot.Line{{Name: "x", X: []float64{1}}}}).Save(t.TempDir(), "x"); err == nil {
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
