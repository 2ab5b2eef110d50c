package proxy

import (
	"slices"
	"time"

	"tidings/internal/locale"
	"tidings/internal/plot"
)

// timelineHours is the number of hours that the start page draws.
const timelineHours = 24

// A timeline says how many new items each of the last hours had, who found them, and how late.
type timeline struct {
	Chart *plot.Chart // nil: there were none
	Words string
	Hours []timelineHour // with items, the latest first
}

// A timelineHour is one hour of a timeline.
type timelineHour struct {
	From         time.Time
	Here, Others int         // new items, by who found them
	Delay        locale.Text // of the middle one of those with a date; empty: none has
}

// newTimeline returns the timeline that ends now. Its hours are those of the clock.
func newTimeline(l *locale.Language, news News, now time.Time) (t timeline) {
	_, minute, second := now.Clock()
	first := now.Add(-time.Duration(minute)*time.Minute - time.Duration(second)*time.Second).Truncate(time.Second).Add(-(timelineHours - 1) * time.Hour)
	var here, others [timelineHours]float64
	var delays [timelineHours][]float64
	var all []float64
	total, found := 0, 0
	news.EachNewItem("", first, func(item NewItem) {
		hour := int(item.At.Sub(first) / time.Hour)
		if hour >= timelineHours { // the clock has gone back
			return
		}
		if total++; item.Here {
			here[hour]++
			found++
		} else {
			others[hour]++
		}
		if item.Delay != nil {
			delays[hour], all = append(delays[hour], item.Delay.Seconds()), append(all, item.Delay.Seconds())
		}
	})
	if total == 0 {
		t.Words = l.Say("No new item has come in the last 24 hours.")
		return t
	}
	t.Words = l.Say("%d new items in the last 24 hours.", total)
	if found < total {
		t.Words = l.Say("%d new items in the last 24 hours: this node found %d, and other nodes found %d.", total, found, total-found)
	}
	if len(all) > 0 {
		t.Words += " " + l.Say("Half of those with a date arrived within %s of that date.", middle(all))
	}
	var labels []string
	for i := range timelineHours {
		h := timelineHour{From: first.Add(time.Duration(i) * time.Hour), Here: int(here[i]), Others: int(others[i]), Delay: middle(delays[i])}
		text := l.Say("%s: %d found by this node, %d by other nodes", h.From.Format("15:04"), h.Here, h.Others)
		if len(h.Delay) > 0 {
			text = l.Say("%s: %d found by this node, %d by other nodes, half of them within %s", h.From.Format("15:04"), h.Here, h.Others, h.Delay)
		}
		labels = append(labels, text)
		if h.Here+h.Others > 0 {
			t.Hours = append(t.Hours, h)
		}
	}
	slices.Reverse(t.Hours)
	t.Chart = &plot.Chart{
		Title: l.Say("New items in each of the last 24 hours"), Text: t.Words, Height: 150,
		X:        plot.Axis{Ticks: plot.Times(first, first.Add(timelineHours*time.Hour))},
		Y:        plot.Axis{Label: l.Say("new items an hour")},
		BarStart: float64(first.Unix()), BarWidth: time.Hour.Seconds(),
		Bars: []plot.Bars{
			{Name: l.Say("found by this node"), Y: here[:], Labels: labels, Hue: plot.Blue},
			{Name: l.Say("found by other nodes"), Y: others[:], Labels: labels, Hue: plot.Orange},
		},
	}
	return t
}

// middle returns the median of delays for people; nothing for none. It sorts them.
func middle(seconds []float64) locale.Text {
	if len(seconds) == 0 {
		return nil
	}
	slices.Sort(seconds)
	return spanOf(seconds[len(seconds)/2])
}
