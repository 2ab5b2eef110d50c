// Package figure saves charts of what the laboratory has measured as SVG files.
package figure

import (
	"fmt"
	"os"
	"path/filepath"

	"tidings/internal/plot"
)

// A Figure is a chart of some lines or bars.
type Figure struct {
	Title, X, Y string
	Caption     string // text below the chart
	LogX, LogY  bool
	Lines       []plot.Line
	Bars        []plot.Bars // the first at 0, each 1 wide
	XTicks      []plot.Tick // nil: round numbers
}

// Size of a figure, in units of which a text is 11 high.
const width, height = 640, 360

// Save writes a figure as name.svg into a folder, which is created if it is missing.
func (f Figure) Save(dir, name string) error {
	for _, l := range f.Lines {
		if len(l.X) != len(l.Y) {
			return fmt.Errorf("draw %s: line %q has %d places and %d values", name, l.Name, len(l.X), len(l.Y))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save figure: %w", err)
	}
	c := plot.Chart{
		Title: f.Title, X: plot.Axis{Label: f.X, Log: f.LogX, Ticks: f.XTicks}, Y: plot.Axis{Label: f.Y, Log: f.LogY},
		Lines: f.Lines, Bars: f.Bars, Width: width, Height: height,
	}
	if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(c.File(f.Caption)), 0o644); err != nil {
		return fmt.Errorf("save figure: %w", err)
	}
	return nil
}
