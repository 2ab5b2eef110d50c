package plot

import (
	"strings"

	"golang.org/x/net/html"
)

// axes draws the grid, and the axes with their labels.
func (d *drawing) axes(c Chart) {
	d.add(`<g class="grid">`)
	for _, t := range d.y.ticks {
		d.add(`<path d="M%v %vH%v"/>`, d.left, d.py(t.At), d.right)
	}
	d.add(`</g><g class="axis"><path d="M%v %vH%v"/>`, d.left, d.bottom, d.right)
	for _, t := range d.x.ticks {
		d.add(`<path d="M%v %vv4"/>`, d.px(t.At), d.bottom)
	}
	d.add(`</g>`)
	for _, t := range d.y.ticks {
		d.text("end", d.left-4, d.py(t.At)+textHeight/3, t.Label)
	}
	free := 0.0
	for _, t := range d.x.ticks { // a label that does not fit beside the one before is left out
		half := widthOf(t.Label) / 2
		at := min(max(d.px(t.At), half), d.width-half)
		if at-half >= free {
			d.text("middle", at, d.bottom+textHeight+4, t.Label)
			free = at + half + gap
		}
	}
	d.text("start label", 0, textHeight+1, c.Y.Label)
	d.text("end label", d.right, d.height-2, c.X.Label)
}

// bars draws the stacks.
func (d *drawing) bars(c Chart) {
	n, wide := c.bars(), c.barWidth()
	for part, b := range c.Bars {
		d.add(`<g class="bars %v">`, b.Hue.class(part))
		for i := range min(n, len(b.Y)) {
			below, above := c.stack(part, i), c.stack(part+1, i)
			if above <= below {
				continue
			}
			from, to := d.px(c.BarStart+wide*float64(i)), d.px(c.BarStart+wide*float64(i+1))
			inset := min(1, (to-from)/8)
			d.add(`<rect x="%v" y="%v" width="%v" height="%v">%v</rect>`, from+inset, d.py(above), to-from-2*inset, d.py(below)-d.py(above), hint(b.Labels, i))
		}
		d.add(`</g>`)
	}
}

// hint returns what is shown below the pointer.
func hint(labels []string, i int) safe {
	if i >= len(labels) {
		return ""
	}
	return safe("<title>" + html.EscapeString(labels[i]) + "</title>")
}

// class returns the classes of the i-th line of a chart.
func (l Line) class(c Chart, i int) string {
	class := l.Hue.class(len(c.Bars) + i)
	if l.Faint {
		class += " faint"
	}
	if l.Dashed {
		class += " dashed"
	}
	return class
}

// hasDots reports whether the points of a line are drawn.
func (l Line) hasDots() bool { return l.Dots || !l.Dashed && len(l.X) <= maxDots }

// line draws a line and its dots.
func (d *drawing) line(c Chart, index int, l Line) {
	points := l.points(c)
	d.add(`<g class="%v">`, l.class(c, index))
	if len(points) > 1 && !l.Dots {
		var path strings.Builder
		for n, i := range points {
			x, y := coordinate(d.px(l.X[i])), coordinate(d.py(l.Y[i]))
			switch {
			case n == 0:
				path.WriteString("M" + x + " " + y)
			case l.Steps:
				path.WriteString("H" + x + "V" + y)
			default:
				path.WriteString("L" + x + " " + y)
			}
		}
		d.add(`<path class="line" d="%v"/>`, path.String())
	}
	if l.hasDots() {
		radius := 2.5
		if len(points) > maxDots {
			radius = 1
		}
		for _, i := range points {
			d.add(`<circle cx="%v" cy="%v" r="%v">%v</circle>`, d.px(l.X[i]), d.py(l.Y[i]), radius, hint(l.Labels, i))
		}
	}
	d.add(`</g>`)
}

// legend draws the names of lines and bars below the axes, unless there is only one, and returns where the drawing ends.
func (d *drawing) legend(c Chart) (end float64) {
	const sample = 18
	x, y := 0.0, d.height+gap+textHeight
	if len(c.Bars)+len(c.Lines) < 2 {
		return d.height + 2
	}
	entry := func(class, name string, draw func(x, y float64)) {
		if wide := sample + gap + widthOf(name); x > 0 && x+wide > d.width {
			x, y = 0, y+textHeight+gap
		}
		d.add(`<g class="%v">`, class)
		draw(x, y-textHeight/2+1)
		d.add(`</g>`)
		d.text("start", x+sample+gap, y, name)
		x += sample + 3*gap + widthOf(name)
	}
	for i, b := range c.Bars {
		entry("bars "+b.Hue.class(i), b.Name, func(x, y float64) {
			d.add(`<rect x="%v" y="%v" width="%v" height="%v"/>`, x+4, y-5, 10., 10.)
		})
	}
	for i, l := range c.Lines {
		entry(l.class(c, i), l.Name, func(x, y float64) {
			if !l.Dots {
				d.add(`<path class="line" d="M%v %vh%v"/>`, x, y, float64(sample))
			}
			if l.hasDots() {
				d.add(`<circle cx="%v" cy="%v" r="%v"/>`, x+sample/2, y, 2.5)
			}
		})
	}
	return y + gap
}
