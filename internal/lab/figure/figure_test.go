package figure

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"slices"
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

func TestSorted(t *testing.T) {
	l := Line{X: []float64{3, 1, 2}, Y: []float64{30, 10, 20}}.Sorted()
	if !slices.Equal(l.X, []float64{1, 2, 3}) || !slices.Equal(l.Y, []float64{10, 20, 30}) {
		t.Errorf("%v", l)
	}
}
