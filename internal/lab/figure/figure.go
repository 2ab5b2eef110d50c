// Package figure draws what the laboratory has measured, as SVG and PNG.
package figure

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
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
	LogX        bool
	Lines       []Line
}

// A Line goes through points, in their order. A dashed one is what is asked for, or
// what a paper states. One of steps has each value until the next place.
type Line struct {
	Name   string
	X, Y   []float64
	Dashed bool
	Steps  bool
}

// Distribution is the line that says how much of a number of things had come by when, in
// per cent, given when each of those came that did. It ends below 100 if some did not.
func Distribution(name string, came []float64, of int) Line {
	l := Line{Name: name, X: []float64{0}, Y: []float64{0}, Steps: true}
	for i, x := range slices.Sorted(slices.Values(came)) {
		l.X, l.Y = append(l.X, x), append(l.Y, 100*float64(i+1)/float64(of))
	}
	return l
}

// colours are told apart also by those who see fewer: Okabe and Ito's.
var colours = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255},
}

// Size of a figure, and the space around it and between its parts.
const (
	width  = 20 * vg.Centimeter
	height = 11 * vg.Centimeter
	margin = 8
)

// mostDots is how many points of a line are dots: more would hide it.
const mostDots = 50

// Save writes a figure into a folder, which is made if it is missing, as name.svg and
// name.png.
func (f Figure) Save(dir, name string) error {
	p, legend, err := f.plot()
	if err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save figure: %w", err)
	}
	for _, format := range []string{"svg", "png"} {
		var b bytes.Buffer
		if err := paint(&b, format, p, legend); err != nil {
			return fmt.Errorf("draw %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"."+format), b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("save figure: %w", err)
		}
	}
	return nil
}

// paint paints a plot and its legend beside it: on the plot it would hide what is there,
// or look like a part of it.
func paint(w io.Writer, format string, p *plot.Plot, legend plot.Legend) error {
	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return err
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Path())
	all = draw.Crop(all, margin, -margin, margin, -margin)
	key := legend.Rectangle(all).Size().X
	p.Draw(draw.Crop(all, 0, -key-2*margin, 0, 0))
	legend.Draw(draw.Crop(all, all.Size().X-key, 0, 0, -3*margin)) // below the title
	_, err = canvas.WriteTo(w)
	return err
}

// Sorted returns a line with its points in the order of their places.
func (l Line) Sorted() Line {
	order := make([]int, len(l.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.X[a], l.X[b]) })
	out := Line{Name: l.Name, Dashed: l.Dashed, Steps: l.Steps}
	for _, i := range order {
		out.X, out.Y = append(out.X, l.X[i]), append(out.Y, l.Y[i])
	}
	return out
}

func (f Figure) plot() (*plot.Plot, plot.Legend, error) {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Title.Padding, p.Y.Min = 8, 0
	legend.Top, legend.Left, legend.Padding = true, true, 4
	p.Add(plotter.NewGrid())
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, l := range f.Lines {
		if len(l.X) != len(l.Y) {
			return nil, legend, fmt.Errorf("line %q has %d places and %d values", l.Name, len(l.X), len(l.Y))
		}
		points := make(plotter.XYs, len(l.X))
		for j := range l.X {
			points[j].X, points[j].Y = l.X[j], l.Y[j]
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, legend, fmt.Errorf("line %q: %w", l.Name, err)
		}
		c := colours[i%len(colours)]
		line.Color, line.Width = c, vg.Points(1.5)
		if l.Steps {
			line.StepStyle = plotter.PostStep
		}
		if l.Dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
		}
		p.Add(line)
		if l.Dashed || len(points) > mostDots {
			legend.Add(l.Name, line)
			continue
		}
		dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(dots)
		legend.Add(l.Name, line, dots)
	}
	return p, legend, nil
}
