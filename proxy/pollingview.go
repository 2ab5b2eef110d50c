package proxy

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidings/internal/locale"
	"tidings/internal/plot"
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

// rules holds the rules for the time of the next poll that nodes report most often; see corona/interval.go. Pages translate
// these.
var rules = []string{
	locale.Key("the network's polling interval"), locale.Key("the shortest interval for public web servers"), locale.Key("the feed's ttl"),
	locale.Key("the feed's sy:updatePeriod"), locale.Key("max-age of the web server"), locale.Key("the interval before another node took over"),
	locale.Key("the longest interval"), locale.Key("the polling interval"), locale.Key("not reachable at the last poll"),
	locale.Key("gone for good (410): polled ever more rarely"),
}

// Rule returns the rule that set the time of the next poll. It is empty if pages show the rule as it was reported, in English.
func (c channelView) Rule() locale.Text {
	if !slices.Contains(rules, c.Why) {
		return nil
	}
	return locale.Say(c.Why)
}

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
	Ring         bool        // the times of several pollers are known
	Numbered     bool        // the ring has room for numbers
	Interval     locale.Text // of one poller
	Unknown      string      // why the pollers are not known
}

// A pollerView is a poller on the ring and in the table.
type pollerView struct {
	Poller
	Number int     // on the ring
	X, Y   float64 // of the dot
	LX, LY float64 // of its number
}

func (s *Server) polling(r *http.Request, c *Channel, now time.Time) (v pollingView, err error) {
	l := s.language(r)
	v.plot(l, s.config.News, c.URL, now)
	p, err := s.subs.Pollers(r.Context(), c.URL)
	if err != nil {
		return v, err
	}
	if len(p.Pollers) == 0 && !c.Private && c.Pollers > 0 {
		v.Unknown = l.Say("Other nodes poll this feed, and this node does not. Only nodes that poll a feed know the times of the others.")
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
		v.Interval = spanOf(p.Interval.Seconds())
	}
	return v, nil
}

// plot draws what the journal of news knows of the last days.
func (v *pollingView) plot(l *locale.Language, news News, url string, now time.Time) {
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
			delays.Labels = append(delays.Labels, item.At.In(now.Location()).Format("2006-01-02 15:04")+": "+l.Text(spanOf(seconds)))
		}
	})
	if total == 0 {
		v.DayWords = l.Say("No new item has come in the last %d days, or since you subscribed.", plotDays)
		return
	}
	v.DayWords = l.Say("%d new items in the last %d days.", total, plotDays)
	v.Days = dayChart(l, days[:], counts, v.DayWords)
	if len(delays.Y) == 0 {
		v.DelayWords = l.Say("The items have no dates, so nobody knows how late they were found.")
		return
	}
	v.DelayWords = l.Say("Half of %d items with a date were here within %s after that date, and the latest after %s.",
		len(delays.Y), middle(slices.Clone(delays.Y)), spanOf(slices.Max(delays.Y)))
	delays.Dots = true
	v.Delays = &plot.Chart{
		Title: l.Say("Time from the date of an item to its arrival here"), Text: v.DelayWords, Lines: []plot.Line{delays}, Height: chartHeight, Width: chartWidth,
		X: plot.Axis{Min: float64(days[0].Unix()), Max: float64(days[plotDays].Unix()), Ticks: plot.Times(days[0], days[plotDays])},
		Y: plot.Axis{Label: l.Say("time to arrival"), Log: true, Ticks: spanTicks(l)},
	}
}

// spanTicks returns the ticks of a logarithmic axis of spans in seconds, from a tenth of a second to a year.
func spanTicks(l *locale.Language) []plot.Tick {
	const day = 86400
	return []plot.Tick{
		{At: .1, Label: l.Say("%v s", .1)}, {At: 1, Label: l.Say("%d s", 1)}, {At: 10, Label: l.Say("%d s", 10)},
		{At: 60, Label: l.Say("%d min", 1)}, {At: 600, Label: l.Say("%d min", 10)}, {At: 3600, Label: l.Say("%d h", 1)}, {At: 6 * 3600, Label: l.Say("%d h", 6)},
		{At: day, Label: l.Say("%d days", 1)}, {At: 7 * day, Label: l.Say("1 week")}, {At: 30 * day, Label: l.Say("1 month")}, {At: 365 * day, Label: l.Say("1 year")},
	}
}

// weekdays holds the short names of the days of a week.
var weekdays = [...]string{locale.Key("Sun"), locale.Key("Mon"), locale.Key("Tue"), locale.Key("Wed"), locale.Key("Thu"), locale.Key("Fri"), locale.Key("Sat")}

// chartWidth and chartHeight are the size of a chart that has half a row of a wide page.
const chartWidth, chartHeight = 380, 190

// dayChart draws how many items each day had.
func dayChart(l *locale.Language, days []time.Time, counts []float64, words string) *plot.Chart {
	c := plot.Chart{Title: l.Say("New items on each day"), Text: words, Width: chartWidth, Height: chartHeight, Y: plot.Axis{Label: l.Say("new items")}, BarWidth: 1}
	bars := plot.Bars{Y: counts}
	for i, n := range counts {
		c.X.Ticks = append(c.X.Ticks, plot.Tick{At: float64(i) + 0.5, Label: l.Say(weekdays[days[i].Weekday()])})
		bars.Labels = append(bars.Labels, days[i].Format(time.DateOnly)+": "+l.Say("%d", int(n)))
	}
	c.Bars = []plot.Bars{bars}
	c.Text += " " + strings.Join(bars.Labels, ", ") + "."
	return &c
}
