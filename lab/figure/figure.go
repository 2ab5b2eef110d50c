// Package figure draws charts of what the laboratory has measured, as SVG and PNG.
package figure

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Figure is a chart of some lines.
type Figure struct {
	Title, X, Y string
	Caption     string // text below the chart
	LogX, LogY  bool
	Lines       []Line
}

// A Line connects points in their order. Dashed lines are targets, or values that a paper states. A
// line with Steps keeps each value until the next point. A line with Dots shows only its points.
type Line struct {
	Name   string
	X, Y   []float64
	Hue    Hue
	Faint  bool // half the intensity, for a line beside another of the same hue
	Dashed bool
	Steps  bool
	Dots   bool
}

// Distribution returns the line of a cumulative distribution in per cent, given the times of those
// of total events that happened. It ends below 100 if some did not happen.
func Distribution(name string, arrivals []float64, total int) Line {
	l := Line{Name: name, X: []float64{0}, Y: []float64{0}, Steps: true}
	for i, x := range slices.Sorted(slices.Values(arrivals)) {
		l.X, l.Y = append(l.X, x), append(l.Y, 100*float64(i+1)/float64(total))
	}
	return l
}

// A Hue identifies a line in all figures of a set.
type Hue uint8

// The hues. Lines with NoHue get the first six in turn.
const (
	NoHue Hue = iota
	Blue
	Vermilion
	Green
	Purple
	Orange
	Sky
	Black
)

// colours are the colours of the hues, by Okabe and Ito: they can be distinguished with colour
// blindness, too.
var colours = [...]color.RGBA{
	Blue: {0, 114, 178, 255}, Vermilion: {213, 94, 0, 255}, Green: {0, 158, 115, 255}, Purple: {204, 121, 167, 255},
	Orange: {230, 159, 0, 255}, Sky: {86, 180, 233, 255}, Black: {0, 0, 0, 255},
}

// colour returns the colour of the i-th line of a figure.
func (l *Line) colour(i int) color.RGBA {
	hue := l.Hue
	if hue == NoHue {
		hue = Hue(i%int(Sky)) + Blue
	}
	c := colours[hue]
	if l.Faint {
		c.R, c.G, c.B = faint(c.R), faint(c.G), faint(c.B)
	}
	return c
}

func faint(part uint8) uint8 { return part/2 + 255/2 }

// Size of a figure, and the space around it and between its parts.
const (
	width  = 20 * vg.Centimeter
	height = 11 * vg.Centimeter
	margin = 8
)

// maxDots is the largest number of points that are drawn as dots on a line; more would hide the
// line.
const maxDots = 50

// Save writes a figure as name.svg and name.png into a folder, which is created if it is missing.
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
		if err := render(&b, format, p, legend, f.Caption); err != nil {
			return fmt.Errorf("draw %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"."+format), b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("save figure: %w", err)
		}
	}
	return nil
}

// render draws a plot and, beside it, its legend; inside the plot the legend could hide data.
func render(w io.Writer, format string, p *plot.Plot, legend plot.Legend, caption string) error {
	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return err
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Path())
	all = draw.Crop(all, margin, -margin, margin, -margin)
	all = drawCaption(all, p.Legend.TextStyle, caption)
	key := legend.Rectangle(all).Size().X
	p.Draw(draw.Crop(all, 0, -key-2*margin, 0, 0))
	legend.Draw(draw.Crop(all, all.Size().X-key, 0, 0, -3*margin)) // below the title
	_, err = canvas.WriteTo(w)
	return err
}

// drawCaption draws a caption at the bottom of a canvas and returns the rest of the canvas.
func drawCaption(c draw.Canvas, style text.Style, caption string) draw.Canvas {
	if caption == "" {
		return c
	}
	lines := []string{""}
	for word := range strings.FieldsSeq(caption) {
		last := &lines[len(lines)-1]
		if with := strings.TrimSpace(*last + " " + word); style.Width(with) <= c.Size().X {
			*last = with
		} else {
			lines = append(lines, word)
		}
	}
	height := style.FontExtents().Height * captionLineHeight
	for i, line := range lines {
		c.FillText(style, vg.Point{X: c.Min.X, Y: c.Min.Y + height*vg.Length(len(lines)-1-i)}, line)
	}
	return draw.Crop(c, 0, 0, height*vg.Length(len(lines))+margin, 0)
}

// captionLineHeight is the distance between two lines of a caption, relative to their height.
const captionLineHeight = 1.15

// logTicks are the ticks of a logarithmic axis: 1 to 9 times each power of ten. The first, second
// and fifth have a label, so that an axis of less than a decade has labels, too.
type logTicks struct{}

// Ticks implements plot.Ticker.
func (logTicks) Ticks(least, most float64) (of []plot.Tick) {
	for ten := math.Pow(10, math.Floor(math.Log10(least))); ten <= most; ten *= 10 {
		for k := 1.; k < 10; k++ {
			at := k * ten
			if at < least*(1-1e-9) || at > most*(1+1e-9) {
				continue
			}
			label := ""
			if k == 1 || k == 2 || k == 5 {
				label = strconv.FormatFloat(at, 'g', 6, 64)
			}
			of = append(of, plot.Tick{Value: at, Label: label})
		}
	}
	return of
}

// Sorted returns the line with its points sorted by X.
func (l Line) Sorted() Line {
	order := make([]int, len(l.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.X[a], l.X[b]) })
	out := l
	out.X, out.Y = nil, nil
	for _, i := range order {
		out.X, out.Y = append(out.X, l.X[i]), append(out.Y, l.Y[i])
	}
	return out
}

func (f Figure) plot() (*plot.Plot, plot.Legend, error) {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	if p.Title.Padding = 8; f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	} else {
		p.Y.Min = 0
	}
	legend.Top, legend.Left, legend.Padding = true, true, 4
	p.Add(plotter.NewGrid())
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
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
		c := l.colour(i)
		line.Color, line.Width = c, vg.Points(1.5)
		if l.Steps {
			line.StepStyle = plotter.PostStep
		}
		if l.Dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
		}
		if l.Dots {
			dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(1)
			p.Add(dots)
			legend.Add(l.Name, &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: c, Shape: dots.Shape, Radius: vg.Points(2.5)}})
			continue
		}
		p.Add(line)
		if l.Dashed || len(points) > maxDots {
			legend.Add(l.Name, line)
			continue
		}
		dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(dots)
		legend.Add(l.Name, line, dots)
	}
	if f.LogY {
		p.Y.Min, p.Y.Max = tickRange(p.Y.Min, p.Y.Max)
	}
	return p, legend, nil
}

// tickRange returns the labelled ticks just outside a range, so that the axis has at least two.
func tickRange(least, most float64) (float64, float64) {
	below, above := 0., math.Inf(1)
	for ten := math.Pow(10, math.Floor(math.Log10(least))-1); ten <= 10*most; ten *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if at := k * ten; at <= least {
				below = max(below, at)
			} else if at >= most {
				above = min(above, at)
			}
		}
	}
	return below, above
}
