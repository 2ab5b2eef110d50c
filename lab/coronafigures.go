package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"tidings/honeycomb"
	"tidings/internal/plot"
	"tidings/lab/figure"
	"tidings/lab/table2"
)

// coronaFigures draws Figures 3 to 8 of Corona from the rows of each objective and scheme.
type coronaFigures struct {
	load  *table2.Workload
	hours int
	seed  int64
	rows  []*table2.Row
}

// A namedFigure is a figure with its file name.
type namedFigure struct {
	name string
	figure.Figure
}

// saveFigures writes figures into a folder, unless it is "", and returns their files.
func saveFigures(dir string, all []namedFigure) (files []string, err error) {
	for _, f := range all {
		if dir == "" {
			break
		}
		if err := f.Save(dir, f.name); err != nil {
			return files, err
		}
		files = append(files, filepath.Join(dir, f.name+".svg"))
	}
	return files, nil
}

// drawnAs is the name and colour of an objective in all figures: full for our scheme, faint for the
// paper's; published values are dashed. Readers alone are black, and bounds are sky blue.
var drawnAs = map[honeycomb.Objective]struct {
	name string
	hue  plot.Hue
}{
	honeycomb.Lite: {"Lite", plot.Blue}, honeycomb.Fast: {"Fast", plot.Vermilion}, honeycomb.Fair: {"Fair", plot.Green},
	honeycomb.FairSqrt: {"Fair-Sqrt", plot.Purple}, honeycomb.FairLog: {"Fair-Log", plot.Orange},
}

// Beginnings of captions.
const (
	named = "Lite minimises the wait with as many polls as readers alone make; Fast keeps it at 30 seconds with few polls. "
	fair  = "Channels that change often have more weight: in proportion with Fair, by the root with Fair-Sqrt, by the logarithm with Fair-Log. " +
		"The dots at the right edge are channels that were never seen to change. "
	means = "Dashed: the means that the paper states. "
)

// of returns the row of an objective and a scheme.
func (f *coronaFigures) of(o honeycomb.Objective, scheme string) *table2.Row {
	i := slices.IndexFunc(f.rows, func(r *table2.Row) bool { return r.Objective == o.String() && r.Scheme == scheme })
	return f.rows[i]
}

// world describes the simulated network.
func (f *coronaFigures) world() string {
	return fmt.Sprintf("The published values are for 1,024 nodes and 100,000 channels; this is %d nodes, %d channels, %d subscriptions, seed %d.",
		f.load.Members, len(f.load.Channels), f.load.Subscriptions(), f.seed)
}

// both returns the lines of an objective: for our scheme and the paper's.
func (f *coronaFigures) both(o honeycomb.Objective, line func(*table2.Row) plot.Line) []plot.Line {
	mine, paper := line(f.of(o, ours)), line(f.of(o, papers))
	mine.Name, mine.Hue = drawnAs[o].name, drawnAs[o].hue
	paper.Name, paper.Hue, paper.Faint = drawnAs[o].name+", the paper's scheme", drawnAs[o].hue, true
	return []plot.Line{paper, mine}
}

// published returns a horizontal line at a value that the paper states.
func (f *coronaFigures) published(o honeycomb.Objective, at, from, to float64) plot.Line {
	return plot.Line{Name: drawnAs[o].name + ", as published", X: []float64{from, to}, Y: []float64{at, at}, Dashed: true, Hue: drawnAs[o].hue}
}

// over returns a line over time.
func (f *coronaFigures) over(value func(table2.Span) float64) func(*table2.Row) plot.Line {
	return func(row *table2.Row) (l plot.Line) {
		for i, s := range row.Series {
			if v := value(s); v > 0 {
				l.X, l.Y = append(l.X, (float64(i)+0.5)*seriesInterval.Hours()), append(l.Y, v)
			}
		}
		return l
	}
}

// level returns a dashed black line at one value.
func (f *coronaFigures) level(name string, at, from, to float64) plot.Line {
	return plot.Line{Name: name, X: []float64{from, to}, Y: []float64{at, at}, Dashed: true, Hue: plot.Black}
}

// byRank returns channels as dots, evenly spaced in the logarithm of their rank.
func (f *coronaFigures) byRank(value func(*table2.Row, int) float64) func(*table2.Row) plot.Line {
	return func(row *table2.Row) plot.Line {
		l := plot.Line{Dots: true}
		last := -1
		for k := range mostChannels {
			i := int(math.Pow(float64(len(f.load.Channels)), float64(k+1)/mostChannels)) - 1
			if v := value(row, i); i != last && v > 0 {
				l.X, l.Y = append(l.X, float64(i+1)), append(l.Y, v)
			}
			last = i
		}
		return l
	}
}

// mostChannels is the largest number of channels that are drawn as dots, so that they can be
// distinguished.
const mostChannels = 600

// byUpdate returns channels as dots, by their update interval.
func (f *coronaFigures) byUpdate(row *table2.Row) plot.Line {
	l := plot.Line{Dots: true}
	step := max(len(f.load.Channels)/(2*mostChannels), 1)
	for i := 0; i < len(f.load.Channels); i += step {
		if d := row.Channel[i].Detection; d > 0 {
			l.X, l.Y = append(l.X, float64(f.load.Channels[i].Update)/float64(time.Hour)), append(l.Y, d)
		}
	}
	return l
}

// all returns the figures.
func (f *coronaFigures) all() []namedFigure {
	return []namedFigure{
		{"figure-3", f.polls()}, {"figure-4", f.waits()}, {"figure-5", f.pollsByRank()}, {"figure-6", f.waitsByRank()},
		{"figure-7", f.waitsByUpdate("Figure 7", "Lite does not ask how often a channel changes; with Fair those that change seldom are polled seldom. ", honeycomb.Lite, honeycomb.Fair)},
		{"figure-8", f.waitsByUpdate("Figure 8", "So what changes seldom is not forgotten, as it is by Fair (Figure 7). ", honeycomb.FairSqrt, honeycomb.FairLog)},
	}
}

func (f *coronaFigures) polls() figure.Figure {
	end := float64(f.hours)
	value := f.over(func(s table2.Span) float64 { return s.Load })
	lite, fast := f.of(honeycomb.Lite, ours), f.of(honeycomb.Fast, ours)
	return figure.Figure{
		Title: "Figure 3: polls at the origins", X: "hours", Y: "polls per channel in 30 min",
		Caption: named + "From a cold start, in which nobody knows who reads what, Lite comes to the load of readers who poll alone, and over each polling " +
			"interval stays below it; the ripple of half an hour is of the places that polls have in it. " + f.world(),
		Lines: slices.Concat(
			[]plot.Line{f.level("readers alone", float64(f.load.Subscriptions())/float64(len(f.load.Channels)), 0, end)},
			f.both(honeycomb.Lite, value), []plot.Line{f.published(honeycomb.Lite, lite.PaperLoad, 0, end)},
			f.both(honeycomb.Fast, value), []plot.Line{f.published(honeycomb.Fast, fast.PaperLoad, 0, end)},
		),
	}
}

func (f *coronaFigures) waits() figure.Figure {
	end := float64(f.hours)
	value := f.over(func(s table2.Span) float64 { return s.Detection })
	lite, fast := f.of(honeycomb.Lite, ours), f.of(honeycomb.Fast, ours)
	bound := f.level("bound of Lite", lite.Bound, 0, end)
	bound.Hue = plot.Sky
	return figure.Figure{
		Title: "Figure 4: the wait for the next poll", X: "hours", Y: "seconds", LogY: true,
		Caption: named + "The mean time from a change to the next poll, of all who read, as an integral over time; the bound, which Lite lies on, is the least there can be. " +
			"Readers alone wait for 900 seconds; the published 53 seconds are at even phases, which the paper's scheme with phases of chance does not reach. " + f.world(),
		Lines: slices.Concat(
			[]plot.Line{f.level("readers alone", table2.PollInterval.Seconds()/2, 0, end)},
			f.both(honeycomb.Lite, value), []plot.Line{f.published(honeycomb.Lite, lite.Paper, 0, end), bound},
			f.both(honeycomb.Fast, value), []plot.Line{f.published(honeycomb.Fast, fast.Paper, 0, end)},
		),
	}
}

// Numbers of pollers of the levels in the paper's Figure 5, as its text states them; orphans have
// only an owner.
const (
	paperFirst  = 100
	paperSecond = 10
)

func (f *coronaFigures) pollsByRank() figure.Figure {
	last := float64(len(f.load.Channels))
	alone := f.byRank(func(_ *table2.Row, i int) float64 { return float64(f.load.Channels[i].Subscribers) })(nil)
	alone.Name, alone.Hue = "readers alone", plot.Black
	first, second := f.published(honeycomb.Lite, paperFirst, 1, last), f.published(honeycomb.Lite, paperSecond, 1, last)
	first.Name, second.Name, second.Faint = "level 1, as published", "level 2, as published: fewer", true
	return figure.Figure{
		Title: "Figure 5: polls by channel", X: "channels, the most popular first", Y: "polls in 30 min", LogX: true, LogY: true,
		Caption: "Readers alone poll a channel as often as there are of them. With Lite popular channels are polled less often than that and all others " +
			"oftener, in proportion to the square root of their readers; the paper's scheme has steps of sixteen, and polls those least read less often. " +
			"The paper states some 100 pollers at level 1 and fewer than 10 at level 2. " + f.world(),
		Lines: slices.Concat([]plot.Line{alone}, f.both(honeycomb.Lite, f.byRank(func(r *table2.Row, i int) float64 { return r.Channel[i].Polls })), []plot.Line{first, second}),
	}
}

func (f *coronaFigures) waitsByRank() figure.Figure {
	last := float64(len(f.load.Channels))
	lite := f.both(honeycomb.Lite, f.byRank(func(r *table2.Row, i int) float64 { return r.Channel[i].Detection }))
	return figure.Figure{
		Title: "Figure 6: the wait by channel", X: "channels, the most popular first", Y: "seconds", LogX: true, LogY: true,
		Caption: "Readers of popular channels wait least: in steps with the paper's scheme, which leaves few polls to unpopular channels, and evenly with tidings. " +
			means + f.world(),
		Lines: slices.Concat(
			[]plot.Line{f.level("readers alone", table2.PollInterval.Seconds()/2, 1, last)}, lite,
			[]plot.Line{f.published(honeycomb.Lite, f.of(honeycomb.Lite, ours).Paper, 1, last)},
		),
	}
}

func (f *coronaFigures) waitsByUpdate(number, says string, objectives ...honeycomb.Objective) figure.Figure {
	d := figure.Figure{
		Title: number + ": the wait by update interval: " + drawnAs[objectives[0]].name + ", " + drawnAs[objectives[1]].name,
		X:     "hours between two updates", Y: "seconds", LogX: true, LogY: true,
		Caption: fair + says + means + f.world(),
	}
	var marks []plot.Line
	for _, o := range objectives {
		lines := f.both(o, f.byUpdate)
		marks = append(marks, f.published(o, f.of(o, ours).Paper, slices.Min(lines[1].X), slices.Max(lines[1].X)))
		d.Lines = append(d.Lines, lines...)
	}
	d.Lines = append(d.Lines, marks...)
	return d
}
