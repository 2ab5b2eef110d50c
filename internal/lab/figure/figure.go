// Package figure draws what the laboratory has measured, as SVG and PNG.
package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Figure is a chart of some lines.
type Figure struct {
	Title, X, Y string
	LogX, LogY  bool
	Lines       []Line
}

// A Line goes through points, in their order. A dashed one is what is asked for, or
// what a paper states.
type Line struct {
	Name   string
	X, Y   []float64
	Dashed bool
}

// colours are told apart also by those who see fewer: Okabe and Ito's.
var colours = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255},
}

// Size of a figure.
const (
	width  = 18 * vg.Centimeter
	height = 11 * vg.Centimeter
)

// Save writes a figure into a folder, which is made if it is missing, as name.svg and
// name.png.
func (f Figure) Save(dir, name string) error {
	p, err := f.plot()
	if err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save figure: %w", err)
	}
	for _, ext := range []string{".svg", ".png"} {
		if err := p.Save(width, height, filepath.Join(dir, name+ext)); err != nil {
			return fmt.Errorf("save figure: %w", err)
		}
	}
	return nil
}

// Sorted returns a line with its points in the order of their places.
func (l Line) Sorted() Line {
	order := make([]int, len(l.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.X[a], l.X[b]) })
	out := Line{Name: l.Name, Dashed: l.Dashed}
	for _, i := range order {
		out.X, out.Y = append(out.X, l.X[i]), append(out.Y, l.Y[i])
	}
	return out
}

func (f Figure) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Title.Padding, p.Legend.Top = 8, true
	p.Add(plotter.NewGrid())
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	for i, l := range f.Lines {
		if len(l.X) != len(l.Y) {
			return nil, fmt.Errorf("line %q has %d places and %d values", l.Name, len(l.X), len(l.Y))
		}
		points := make(plotter.XYs, len(l.X))
		for j := range l.X {
			points[j].X, points[j].Y = l.X[j], l.Y[j]
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", l.Name, err)
		}
		c := colours[i%len(colours)]
		line.Color, line.Width = c, vg.Points(1.5)
		dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(line)
		if l.Dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
			p.Legend.Add(l.Name, line)
			continue
		}
		p.Add(dots)
		p.Legend.Add(l.Name, line, dots)
	}
	return p, nil
}
