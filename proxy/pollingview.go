package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidings/internal/plot"

	"tidings/internal/locale"
)

const pollPath = "/poll"

const (
	// pollNowGap is the time after a poll, or after a wish for one, in which a person cannot wish for another.
	pollNowGap = 5 * time.Minute
	// maxPollWishes bounds the wishes that are remembered, a few for each channel that a person looks at. Beyond it the oldest
	// one is forgotten; the node that leads the channel keeps to the gap anyway.
	maxPollWishes = 256
	// plotDays is the number of days that the plots of a channel show, today included. The journal of news is a little
	// longer.
	plotDays = 7
	// maxRingNumbers bounds the pollers whose numbers stand on the ring beside them; more would cover each other.
	maxRingNumbers = 20
	// maxDelayDots bounds the dots in the plot of delays, so that the page stays small.
	maxDelayDots = 200
)

// A pollNow says whether a person can have a channel polled.
type pollNow struct {
	Possible bool
	From     *time.Time  // when it is possible again
	Next     *time.Time  // the next poll, if that comes before From
	Why      locale.Text // why it is not possible at all
}

// pollNow returns whether a channel can be polled now.
func (s *Server) pollNow(c *Channel, now time.Time) pollNow {
	switch {
	case c.Quiet:
		return pollNow{Why: locale.Say("This feed is followed quietly. A request to poll it would tell other nodes who follows it.")}
	case c.State == StateNew:
		return pollNow{Why: locale.Say("The first poll is on its way.")}
	case c.Failing():
		return pollNow{Why: locale.Say("A feed in trouble is polled when its pause is over.")}
	}
	var from time.Time
	if c.LastPoll != nil {
		from = c.LastPoll.Add(pollNowGap)
	}
	if wished, ok := s.pollWishes.get(c.URL); ok && wished.Add(pollNowGap).After(from) {
		from = wished.Add(pollNowGap)
	}
	if from.After(now) && c.NextPoll != nil && c.NextPoll.Before(from) {
		return pollNow{Next: c.NextPoll}
	}
	return pollNow{Possible: !from.After(now), From: OptionalTime(from)}
}

// pollForm asks for a poll.
func (s *Server) pollForm(w http.ResponseWriter, r *http.Request) error {
	address, err := s.formAddress(w, r)
	if err != nil {
		return err
	}
	channel, err := s.findChannel(r.Context(), address)
	if err != nil {
		return err
	}
	to, now := "/show?url="+url.QueryEscape(address), s.config.Now()
	if p := s.pollNow(&channel, now); !p.Possible {
		text := p.Why
		switch {
		case p.Next != nil:
			text = locale.Say("The next poll is planned %s, before you could ask for one", relative(now, p.Next))
		case p.From != nil:
			text = locale.Say("A poll is possible again %s", relative(now, p.From))
		}
		s.redirectWith(w, r, to, message{Text: text, Problem: true})
		return nil
	}
	if err := s.subs.PollSoon(r.Context(), address); err != nil {
		return err
	}
	s.pollWishes.put(address, now, 1)
	s.redirectWith(w, r, to, message{Text: locale.Say("A poll was asked for. What is new is here in a few seconds, unless the web server must be spared for a while")})
	return nil
}

// pollSelected asks for polls of subscriptions, of those for which that is possible now.
func (s *Server) pollSelected(w http.ResponseWriter, r *http.Request, addresses []string, back string) error {
	channels, err := s.list(r)
	if err != nil {
		return err
	}
	asked, now := 0, s.config.Now()
	for i := range channels {
		c := &channels[i]
		if !slices.Contains(addresses, c.URL) || !s.pollNow(c, now).Possible {
			continue
		}
		if err := s.subs.PollSoon(r.Context(), c.URL); err != nil {
			return err
		}
		s.pollWishes.put(c.URL, now, 1)
		asked++
	}
	text := locale.Say("No poll was asked for")
	if asked > 0 {
		text = locale.Say("A poll of %s was asked for", locale.Say("%d feeds", asked))
	}
	if asked < len(addresses) {
		text = locale.Say("%s. A feed that was polled less than five minutes ago, is polled soon anyway, or is in trouble keeps its times", text)
	}
	s.redirectWith(w, r, back, message{Text: text, Problem: asked == 0})
	return nil
}

// pollingView shows how a channel is polled, and how soon news was found.
type pollingView struct {
	Delays, Days *plot.Chart // nil: there is nothing to draw
	DelayWords   string
	DayWords     string
	Pollers      []pollerView
	Ring         bool   // the times of several pollers are known
	Numbered     bool   // the ring has room for numbers
	Interval     string // of one poller
	Unknown      string // why the pollers are not known
}

// A pollerView is a poller on the ring and in the table.
type pollerView struct {
	Poller
	Number int     // on the ring
	X, Y   float64 // of the dot
	LX, LY float64 // of its number
}

func (s *Server) polling(r *http.Request, c *Channel, now time.Time) (v pollingView, err error) {
	v.plot(s.config.News, c.URL, now)
	p, err := s.subs.Pollers(r.Context(), c.URL)
	if err != nil {
		return v, err
	}
	if len(p.Pollers) == 0 && !c.Private && c.Pollers > 0 {
		v.Unknown = "Other nodes poll this feed, and this node does not. Only nodes that poll a feed know the times of the others."
	}
	known := 0
	slices.SortStableFunc(p.Pollers, func(a, b Poller) int { return cmp.Compare(soonestFirst(a.Next), soonestFirst(b.Next)) })
	for i, m := range p.Pollers {
		view := pollerView{Poller: m, Number: i + 1}
		if m.Next != nil && p.Interval > 0 {
			turn := m.Next.Sub(now).Seconds() / p.Interval.Seconds()
			view.X, view.Y = ringPoint(turn, ringRadius)
			view.LX, view.LY = ringPoint(turn, ringRadius+22)
			known++
		}
		v.Pollers = append(v.Pollers, view)
	}
	if v.Ring, v.Numbered = known > 1, known <= maxRingNumbers; p.Interval > 0 {
		v.Interval = formatSeconds(p.Interval.Seconds())
	}
	return v, nil
}

// plot draws what the journal of news knows of the last days.
func (v *pollingView) plot(news News, url string, now time.Time) {
	year, month, day := now.Date()
	var days [plotDays + 1]time.Time // where each begins, and the end of today
	for i := range days {
		days[i] = time.Date(year, month, day+1-plotDays+i, 0, 0, 0, 0, now.Location())
	}
	var delays plot.Line
	counts := make([]float64, plotDays)
	total := 0
	news.EachNewItem(url, days[0], func(item NewItem) {
		for i := range counts {
			if !item.At.Before(days[i]) && item.At.Before(days[i+1]) {
				counts[i]++
				total++
			}
		}
		if item.Delay != nil && len(delays.Y) < maxDelayDots {
			seconds := max(item.Delay.Seconds(), 0.1)
			delays.X, delays.Y = append(delays.X, float64(item.At.Unix())), append(delays.Y, seconds)
			delays.Labels = append(delays.Labels, item.At.In(now.Location()).Format("2 Jan 15:04")+": "+formatSeconds(seconds))
		}
	})
	if total == 0 {
		v.DayWords = fmt.Sprintf("No new item has come in the last %d days, or since you subscribed.", plotDays)
		return
	}
	v.DayWords = fmt.Sprintf("%s in the last %d days.", Plural(total, "new item", "new items"), plotDays)
	v.Days = dayChart(days[:], counts, v.DayWords)
	if len(delays.Y) == 0 {
		v.DelayWords = "The items have no dates, so nobody knows how late they were found."
		return
	}
	v.DelayWords = fmt.Sprintf("Half of %s with a date were here within %s after that date, and the latest after %s.",
		Plural(len(delays.Y), "item", "items"), middle(slices.Clone(delays.Y)), formatSeconds(slices.Max(delays.Y)))
	delays.Dots = true
	v.Delays = &plot.Chart{
		Title: "Time from the date of an item to its arrival here", Text: v.DelayWords, Lines: []plot.Line{delays}, Height: chartHeight, Width: chartWidth,
		X: plot.Axis{Min: float64(days[0].Unix()), Max: float64(days[plotDays].Unix()), Ticks: plot.Times(days[0], days[plotDays])},
		Y: plot.Axis{Label: "time to arrival", Log: true, Ticks: plot.Seconds},
	}
}

// chartWidth and chartHeight are the size of a chart that has half a row of a wide page.
const chartWidth, chartHeight = 380, 190

// dayChart draws how many items each day had.
func dayChart(days []time.Time, counts []float64, words string) *plot.Chart {
	c := plot.Chart{Title: "New items on each day", Text: words, Width: chartWidth, Height: chartHeight, Y: plot.Axis{Label: "new items"}, BarWidth: 1}
	bars := plot.Bars{Y: counts}
	for i, n := range counts {
		c.X.Ticks = append(c.X.Ticks, plot.Tick{At: float64(i) + 0.5, Label: days[i].Format("Mon")})
		bars.Labels = append(bars.Labels, fmt.Sprintf("%s: %.0f", days[i].Format("2 Jan"), n))
	}
	c.Bars = []plot.Bars{bars}
	c.Text += " " + strings.Join(bars.Labels, ", ") + "."
	return &c
}
