package proxy

import (
	"time"

	"tidings/internal/locale"
	"tidings/internal/plot"
)

// maxPlotPoints bounds the points of a line, so that the page stays small. Beyond it, points are means of samples.
const maxPlotPoints = 170

// A series is one value over time.
type series struct {
	at    []time.Time
	value []float64
}

func (s *series) add(at time.Time, value float64) {
	s.at, s.value = append(s.at, at), append(s.value, value)
}

// thin returns the series with at most maxPlotPoints points.
func (s *series) thin() (t series) {
	each := max(1, (len(s.at)+maxPlotPoints-1)/maxPlotPoints)
	for i := 0; i < len(s.at); i += each {
		sum, n := 0.0, 0
		for ; n < each && i+n < len(s.at); n++ {
			sum += s.value[i+n]
		}
		t.add(s.at[i+n-1], sum/float64(n))
	}
	return t
}

// line returns the line of the series in a plot.
func (s *series) line(name string, hue plot.Hue) plot.Line {
	t := s.thin()
	line := plot.Line{Name: name, Hue: hue, Y: t.value}
	for _, at := range t.at {
		line.X = append(line.X, float64(at.Unix()))
	}
	return line
}

// about describes the series in a sentence, for people who cannot see the plot.
func (s *series) about(l *locale.Language, what string) string {
	least, most := s.value[0], s.value[0]
	for _, v := range s.value {
		least, most = min(least, v), max(most, v)
	}
	last := s.value[len(s.value)-1]
	return l.Say("%s: between %.0f and %.0f, and %.0f at last.", what, least, most, last)
}

// minPlotPoints is the number of values from which a plot says something.
const minPlotPoints = 2

// plot draws the series; nil: it has too few values yet. what begins the sentence about it.
func (s *series) plot(l *locale.Language, title, what, axis, name string, hue plot.Hue) *plot.Chart {
	if len(s.at) < minPlotPoints {
		return nil
	}
	return &plot.Chart{
		Title: title, Text: s.about(l, what), Y: plot.Axis{Label: axis}, X: timeAxis(s.at),
		Lines: []plot.Line{s.line(name, hue)}, Width: plotWidth, Height: plotHeight,
	}
}

// networkPlots shows how the network changed: its estimated members, how often all of them poll and may poll, and how often
// this node polled for it. Those of which there are too few values are nil.
func networkPlots(l *locale.Language, samples []NetworkSample) [3]*plot.Chart {
	var members, polls, target, own series
	for _, s := range samples {
		members.add(s.At, float64(s.Members))
		own.add(s.At, float64(s.OwnPolls))
		if s.Target > 0 {
			polls.add(s.At, s.Polls)
			target.add(s.At, s.Target)
		}
	}
	load := polls.plot(l, l.Say("Polls of all members"), l.Say("Polls in a polling interval"), l.Say("polls in a polling interval"), l.Say("polls"), plot.Blue)
	if load != nil {
		limit := target.line(l.Say("target"), plot.Black)
		limit.Dashed = true
		load.Lines = append(load.Lines, limit)
		load.Text += " " + target.about(l, l.Say("Target"))
	}
	return [...]*plot.Chart{
		members.plot(l, l.Say("Members of the network"), l.Say("Estimated members"), l.Say("members"), l.Say("estimate of this node"), plot.Blue), load,
		own.plot(l, l.Say("Polls of this node"), l.Say("Polls in ten minutes"), l.Say("polls in ten minutes"), l.Say("polls of this node"), plot.Green),
	}
}

// Size of a plot in the units of a drawing, so that three plots beside each other have legible texts.
const (
	plotWidth  = 360
	plotHeight = 160
)

// maxTimeLabels bounds the labels below a plot, so that they stand apart in the larger letters of a phone.
const maxTimeLabels = 5

func timeAxis(at []time.Time) plot.Axis {
	ticks := plot.Times(at[0], at[len(at)-1])
	for i := range ticks {
		if len(ticks) > maxTimeLabels && i%2 > 0 {
			ticks[i].Label = ""
		}
	}
	return plot.Axis{Ticks: ticks}
}
