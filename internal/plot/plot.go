// Package plot draws charts and diagrams as SVG: lines, dots and stacked bars between two axes. The pages of a node put
// them into their HTML, and the laboratory writes them as files. Colours and sizes of text are in [CSS], by classes, so
// that a page can be dark and needs no inline style. What a chart shows is the business of those who fill it in.
package plot

import (
	_ "embed" // plot.css
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// CSS is the style of all charts. A page has it in its style sheet.
//
//go:embed plot.css
var CSS string

// A Chart is lines and bars between two axes.
type Chart struct {
	Title string // the name of the chart
	Text  string // what it shows, in sentences, for people who cannot see it
	X, Y  Axis
	Lines []Line
	Bars  []Bars // stacked, in this order from below
	// BarStart and BarWidth are where the first bar begins and how wide every bar is, in units of X.
	BarStart, BarWidth float64
	// Width and Height are the size of the drawing in its own units; text is 11 units high. Zero means 480 and 200. A
	// page scales the drawing to the room that it has.
	Width, Height float64
}

// An Axis is one of the axes of a chart.
type Axis struct {
	Label    string
	Log      bool    // logarithmic; values below 1e-12 are left out
	Min, Max float64 // range that is shown in any case; both 0: the range of the values
	Ticks    []Tick  // nil: round numbers; those outside the range are left out
}

// A Tick is a mark on an axis. The label may be empty.
type Tick struct {
	At    float64
	Label string
}

// A Line connects points in their order. Dashed lines are targets, or values that a paper states. A line with Steps keeps
// each value until the next point. A line with Dots shows only its points.
type Line struct {
	Name   string
	X, Y   []float64
	Labels []string // of the points, shown below the pointer; may be shorter than X
	Hue    Hue
	Faint  bool // half the intensity, for a line beside another of the same hue
	Dashed bool
	Steps  bool
	Dots   bool
}

// Bars is one part of stacked bars, all of the same width.
type Bars struct {
	Name   string
	Y      []float64 // height of the part in each bar, at least 0
	Labels []string  // of the parts, shown below the pointer; may be shorter than Y
	Hue    Hue
}

// A Hue identifies a line or a part of bars in all charts of a set.
type Hue uint8

// The hues, by Okabe and Ito: they can be distinguished with colour blindness, too. Lines and bars with NoHue get the
// first six in turn.
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

// hueClasses are the classes of the hues in the style sheet.
var hueClasses = [...]string{
	Blue: "blue", Vermilion: "vermilion", Green: "green", Purple: "purple", Orange: "orange", Sky: "sky", Black: "black",
}

// class returns the class of the i-th line or part of a chart.
func (h Hue) class(i int) string {
	if h == NoHue {
		h = Hue(i%int(Sky)) + Blue
	}
	return hueClasses[h]
}

const (
	textHeight  = 11.0 // of labels, in units of the drawing; the style sheet has the same
	titleHeight = 14.0
	// textWidth estimates the width of a character relative to its height. The width is known only where the text is shown.
	textWidth = 0.62
	gap       = 6.0 // between the parts of a drawing
	// maxDots is the largest number of points that are drawn as dots on a line; more would hide the line.
	maxDots = 50
	// maxValue and leastLog bound the values that are shown, and those on a logarithmic axis from below. They leave room for
	// computing with them, and for times in seconds.
	maxValue, leastLog = 1e15, 1e-12
)

// SVG returns the chart as an element for an HTML page. It has neither a style nor an address of anything.
func (c Chart) SVG() string {
	d := c.layout()
	return d.element(c, "", "")
}

// File returns the chart as an SVG file of its own, with its title above and a caption below.
func (c Chart) File(caption string) string {
	d := c.layout()
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + d.element(c, ` xmlns="http://www.w3.org/2000/svg"`, caption)
}

// A drawing is a chart in progress.
type drawing struct {
	b                        strings.Builder
	width, height            float64
	left, right, top, bottom float64 // of the area between the axes
	x, y                     scale
}

func (c Chart) layout() *drawing {
	d := &drawing{width: c.Width, height: c.Height}
	if d.width <= 0 {
		d.width = 480
	}
	if d.height <= 0 {
		d.height = 200
	}
	rangeX, rangeY := extent{log: c.X.Log}, extent{log: c.Y.Log}
	for _, l := range c.Lines {
		for _, i := range l.points(c) {
			rangeX.add(l.X[i])
			rangeY.add(l.Y[i])
		}
	}
	if n := c.bars(); n > 0 {
		rangeX.add(c.BarStart)
		rangeX.add(c.BarStart + c.barWidth()*float64(n))
		for i := range n {
			rangeY.add(c.stack(len(c.Bars), i))
		}
	}
	d.x, d.y = newScale(c.X, rangeX, false), newScale(c.Y, rangeY, true)
	widest := 0.0
	for _, t := range d.y.ticks {
		widest = max(widest, widthOf(t.Label))
	}
	d.left, d.right, d.top = gap+widest, d.width-2*gap, 2*gap
	if c.Y.Label != "" {
		d.top += textHeight + gap
	}
	d.bottom = d.height - textHeight - gap
	if c.X.Label != "" {
		d.bottom -= textHeight + gap
	}
	return d
}

// widthOf estimates how wide a text will be.
func widthOf(text string) float64 { return float64(len([]rune(text))) * textHeight * textWidth }

// points returns the indexes of the points of a line that the chart can show.
func (l Line) points(c Chart) (of []int) {
	for i := range min(len(l.X), len(l.Y)) {
		if c.X.shows(l.X[i]) && c.Y.shows(l.Y[i]) {
			of = append(of, i)
		}
	}
	return of
}

// shows reports whether a value has a place on the axis.
func (a Axis) shows(v float64) bool {
	return math.Abs(v) <= maxValue && (!a.Log || v >= leastLog)
}

// bars returns the number of bars, each a stack of parts.
func (c Chart) bars() (n int) {
	for _, b := range c.Bars {
		n = max(n, len(b.Y))
	}
	return n
}

func (c Chart) barWidth() float64 {
	if c.BarWidth > 0 {
		return c.BarWidth
	}
	return 1
}

// stack returns how high the first parts of a bar are together.
func (c Chart) stack(parts, bar int) (height float64) {
	for _, b := range c.Bars[:parts] {
		if bar < len(b.Y) && c.Y.shows(b.Y[bar]) {
			height += max(0, b.Y[bar])
		}
	}
	return height
}

// px and py return where a value is in the drawing.
func (d *drawing) px(v float64) float64 { return d.left + d.x.share(v)*(d.right-d.left) }
func (d *drawing) py(v float64) float64 { return d.bottom - d.y.share(v)*(d.bottom-d.top) }

// coordinate formats a place in the drawing with a tenth of a unit. Adding 0 makes a negative zero positive.
func coordinate(v float64) string { return strconv.FormatFloat(math.Round(10*v)/10+0, 'f', -1, 64) }

func (d *drawing) add(format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case float64:
			args[i] = coordinate(a)
		case string:
			args[i] = html.EscapeString(a)
		}
	}
	fmt.Fprintf(&d.b, format, args...)
}

// text draws a text that begins, ends or is centred at a place, by the class.
func (d *drawing) text(class string, x, y float64, text string) {
	if text != "" {
		d.add(`<text class="%v" x="%v" y="%v">%v</text>`, class, x, y, text)
	}
}

// element returns the drawing as an element. A chart with its own file has a caption, a style and a ground.
func (d *drawing) element(c Chart, namespace, caption string) string {
	d.axes(c)
	d.bars(c)
	for i, l := range c.Lines {
		d.line(c, i, l)
	}
	below := d.legend(c)
	above, aside := 0.0, 0.0 // room above and beside the chart
	body := d.b.String()
	d.b.Reset()
	if namespace != "" {
		title := lines(c.Title, d.width*textHeight/titleHeight)
		for i, line := range title {
			d.text("title", d.width/2, float64(i+1-len(title))*(titleHeight+gap/2)-gap, line)
		}
		above = float64(len(title))*(titleHeight+gap/2) + gap
		for _, line := range lines(caption, d.width) {
			below += textHeight + gap/2
			d.text("start", 0, below, line)
		}
		below, aside = below+gap, gap
	}
	frame := d.b.String()
	d.b.Reset()
	d.add(`<svg%v class="plot" viewBox="%v %v %v %v" role="img"><title>%v</title>`, safe(namespace), -aside, -above, d.width+2*aside, below+above, c.Title)
	if c.Text != "" {
		d.add(`<desc>%v</desc>`, c.Text)
	}
	if namespace != "" {
		d.add(`<style>%v</style><rect class="ground" x="%v" y="%v" width="%v" height="%v"/>`, safe(CSS), -aside, -above, d.width+2*aside, below+above)
	}
	return d.b.String() + frame + body + "</svg>"
}

// safe is a text that is markup already.
type safe string

// lines breaks a text into lines of a width.
func lines(text string, width float64) (of []string) {
	for word := range strings.FieldsSeq(text) {
		if n := len(of); n > 0 && widthOf(of[n-1]+" "+word) <= width {
			of[n-1] += " " + word
		} else {
			of = append(of, word)
		}
	}
	return of
}
