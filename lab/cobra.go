package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/cobra/provision"
	"tidings/internal/plot"
	"tidings/lab/figure"
	"tidings/lab/hosting"
	"tidings/lab/mark"
)

// A cobraCommand is "tidings-lab sim cobra".
type cobraCommand struct {
	reporter
	Figure   []string      `default:"crawl,bytes,load,searches,pressure" enum:"crawl,bytes,load,searches,pressure" placeholder:"NAME" help:"Which worlds (${default}): crawl is Figures 4 and 9, bytes Figure 12, load Figure 13, searches Figure 14, pressure a full queue."`
	Crawlers int           `default:"11" quick:"5" help:"Crawlers of Figure 9 (${default}, as in the paper)."`
	Hosts    int           `default:"481" quick:"60" help:"Web servers of Figure 9 (${default}, as in the paper)."`
	Feeds    int           `default:"34092" quick:"900" help:"Feeds of Figure 9 (${default}, as in the paper)."`
	Interval time.Duration `default:"15m" quick:"5m" help:"Polling interval of Figure 9 (${default}, as in the paper)."`
	Hours    float64       `default:"2.5" quick:"1" help:"Virtual hours of Figure 9 (${default}); measuring all web servers takes five seconds for each."`
	Minutes  int           `default:"10" quick:"3" help:"Virtual minutes of the other worlds (${default})."`
	Rate     int           `default:"485" quick:"40" help:"Feeds of the other worlds, each with an article every ten seconds (${default}: 48.5 articles a second, as of a million feeds in the paper)."`
	Seed     uint64        `default:"1" help:"Seed of the simulation (${default})."`
	Out      string        `placeholder:"DIR" help:"Draw the figures into DIR."`
}

// Help is appended to the command's help.
func (c *cobraCommand) Help() string {
	return "Cobra's figures (NSDI 2007) of our hosting centres, in virtual time. Latencies are those of King; web servers take 5 to " +
		"25 ms for an answer. Which crawler polls which feed is what the crawlers come to themselves, beginning with the hash of its " +
		"address; other assignments are computed beside it. Processor time is simulated only at reflectors. Figures 5, 6 and 8 are those of " +
		"bench crawl, 7 is that of bench reflector, 10 that of bench match and 11 that of tidings provision."
}

// Validate is called by kong after parsing the flags.
func (c *cobraCommand) Validate() error {
	switch {
	case c.Crawlers < 2 || c.Crawlers > 100 || c.Hosts < 5 || c.Feeds < c.Hosts || c.Feeds > 200_000:
		return fmt.Errorf("--crawlers %d --hosts %d --feeds %d: from 2 to 100 crawlers, at least 5 web servers, and from one to 200,000 feeds of each", c.Crawlers, c.Hosts, c.Feeds)
	case c.Interval < time.Minute || c.Interval > time.Hour || c.Hours*float64(time.Hour) < 2*float64(c.Interval) || c.Hours > 100:
		return fmt.Errorf("--interval %v --hours %v: from a minute to an hour, and at least two intervals", c.Interval, c.Hours)
	case c.Minutes < 3 || c.Minutes > 600 || c.Rate < 10 || c.Rate > 5000:
		return fmt.Errorf("--minutes %d --rate %d: from 3 to 600, and from 10 to 5,000", c.Minutes, c.Rate)
	}
	return nil
}

// A loadRun is a world of the figures about articles on their way.
type loadRun struct {
	World    string  `json:"world"`
	Name     string  `json:"name"`
	Filters  int     `json:"filters"`
	Searches float64 `json:"searches,omitempty"` // at a reflector
	hosting.LoadResult
}

// Run simulates the worlds one after the other, and draws the figures.
func (c *cobraCommand) Run(ctx context.Context, s stdio) error {
	if err := makeFolder(c.Out); err != nil {
		return err
	}
	f := &cobraFigures{cobraCommand: c}
	var failed error
	if slices.Contains(c.Figure, "crawl") {
		p := newProgress(s.err, "crawlers")
		var r hosting.CrawlResult
		r, failed = hosting.CrawlConfig{
			Seed: c.Seed, Crawlers: c.Crawlers, Hosts: c.Hosts, Feeds: c.Feeds, Interval: c.Interval, Length: time.Duration(c.Hours * float64(time.Hour)),
		}.Run(ctx, p.at)
		p.end()
		if failed == nil {
			f.crawl = &r
		}
	}
	for _, w := range c.worlds() {
		if failed != nil {
			break
		}
		p := newProgress(s.err, w.run.World+", "+w.run.Name)
		w.run.LoadResult, failed = w.config.Run(ctx, p.at)
		p.end()
		if failed == nil {
			f.runs = append(f.runs, w.run)
		}
	}
	if f.crawl == nil && len(f.runs) == 0 {
		return failed
	}
	files, err := saveFigures(c.Out, f.all())
	if err != nil {
		return joinErrors(failed, err)
	}
	return joinErrors(failed, c.report(s.out, map[string]any{"crawl": f.crawl, "runs": f.runs, "files": files, "seed": c.Seed}, f.print, f.marks()))
}

type loadWorld struct {
	run    loadRun
	config hosting.LoadConfig
}

// The queues of a link, one on each side, hold what a round of polls brings, and less than what comes in a minute.
const stallFeeds, stallBuffer = 200, 128 << 10

// worlds returns the worlds of articles on their way.
func (c *cobraCommand) worlds() (all []loadWorld) {
	usual := hosting.LoadConfig{
		Seed: c.Seed, Filters: 1, Feeds: c.Rate, Every: 10 * time.Second, Interval: time.Minute, Length: time.Duration(c.Minutes) * time.Minute,
	}
	add := func(world, name string, change func(l *hosting.LoadConfig, r *loadRun)) {
		w := loadWorld{loadRun{World: world, Name: name}, usual}
		change(&w.config, &w.run)
		if w.run.Filters = w.config.Filters; slices.Contains(c.Figure, world) {
			all = append(all, w)
		}
	}
	for _, filters := range []int{1, 2, 4, 8} {
		add("bytes", fmt.Sprintf("filters: %d", filters), func(l *hosting.LoadConfig, _ *loadRun) { l.Filters, l.Feeds = filters, max(10, c.Rate/5) })
	}
	for _, busy := range []float64{0, 0.5, 0.9} {
		add("load", fmt.Sprintf("%.0f %% busy", 100*busy), func(l *hosting.LoadConfig, _ *loadRun) {
			l.Pace = time.Duration(busy * float64(l.Every) / float64(l.Feeds))
		})
	}
	costs := provision.Measured()
	for _, searches := range []float64{360e3, 1e6, 10e6, 40e6} {
		add("searches", fmt.Sprintf("%.2g million searches", searches/1e6), func(l *hosting.LoadConfig, r *loadRun) {
			r.Searches = searches
			l.Pace = time.Duration((costs.MatchFixed + costs.MatchPerMillion*searches/1e6) * float64(time.Millisecond))
		})
	}
	for _, drop := range []bool{false, true} {
		name := map[bool]string{false: "wait", true: "drop"}[drop]
		add("pressure", name, func(l *hosting.LoadConfig, _ *loadRun) {
			l.Filters, l.Feeds, l.Interval, l.Stall, l.Drop, l.Buffer = 3, stallFeeds, l.Every, time.Minute, drop, stallBuffer
		})
	}
	return all
}

// cobraFigures are the results.
type cobraFigures struct {
	*cobraCommand
	crawl *hosting.CrawlResult // nil: not measured
	runs  []loadRun
}

// of returns the runs of a world.
func (f *cobraFigures) of(world string) (runs []loadRun) {
	for _, r := range f.runs {
		if r.World == world {
			runs = append(runs, r)
		}
	}
	return runs
}

// assignments are those of Figure 9.
func (f *cobraFigures) assignments() (names []string, of []hosting.Assignment) {
	r := f.crawl
	return []string{"random", "by hash, balanced", "the paper's first fit", "by measured latency", "nearest, unbounded"},
		[]hosting.Assignment{r.Random, r.Balanced, r.FirstFit, r.Aware, r.Nearest}
}

func (f *cobraFigures) marks() (of []mark.Mark) {
	if r := f.crawl; r != nil {
		gain := mark.AtLeast("median crawl latency at random divided by that of the crawlers' assignment", "", r.Random.Median/r.Aware.Median, 1.5).
			WithStretch(3).WithNote("the paper: 1.23, of whole crawls")
		if f.Quick {
			gain = gain.WithoutTarget("the target is for the paper's number of crawlers")
		}
		fair := float64(f.Feeds) / float64(f.Crawlers)
		of = append(of, mark.ForRun("crawl",
			gain,
			mark.AtMost("feeds of the crawler with the most, relative to its fair share", "", r.Aware.Most, 1.2+float64(f.Crawlers)/fair),
			mark.Zero("feeds without a crawler, or with two", max(f.Feeds-r.Feeds, r.Feeds-f.Feeds)),
		)...)
	}
	for _, r := range f.runs {
		missing := mark.Zero("articles missing", r.Missing)
		if r.Name == "drop" {
			missing = mark.AtMost("articles missing, divided by those that senders count as dropped", "", float64(r.Missing)/float64(r.Dropped), 1)
		}
		of = append(of, mark.ForRun(r.World+", "+r.Name, missing)...)
	}
	return of
}

func (f *cobraFigures) print(line printer) {
	if r := f.crawl; r != nil {
		line("%d crawlers, %d web servers, %d feeds; %d polls, %d probes, %d feeds handed over", f.Crawlers, f.Hosts, f.Feeds, r.Polls, r.Probes, r.Handed)
		line("feeds assigned\tlatency, median\tp90\tmost feeds of a crawler, of the fair share")
		names, all := f.assignments()
		for i, a := range all {
			line("%s\t%.0f ms\t%.0f ms\t%.2f", names[i], a.Median, a.P90, a.Most)
		}
		line("")
	}
	if len(f.runs) > 0 {
		line("world\tarticles/s\tcrawler to reflector, median\tp99\tto the stalled one, p99\tweb server to reflector, median\tp99\tmissing\tdropped\tdownloaded\tcrawlers send\tfilters\treflectors")
	}
	for _, r := range f.runs {
		stalled := "–"
		if len(r.Stalled.All) > 0 {
			stalled = fmt.Sprintf("%.2f s", r.Stalled.P99)
		}
		line("%s, %s\t%.1f\t%.2f s\t%.2f s\t%s\t%.1f s\t%.1f s\t%d\t%d\t%.1f KB/s\t%.1f KB/s\t%.1f KB/s\t%.1f KB/s", r.World, r.Name, r.Rate, r.Internal.Median, r.Internal.P99, stalled,
			r.Update.Median, r.Update.P99, r.Missing, r.Dropped, r.Tiers.Downloaded/1e3, r.Tiers.Crawlers/1e3, r.Tiers.Filters/1e3, r.Tiers.Reflectors/1e3)
	}
}

// all returns the figures of what was measured.
func (f *cobraFigures) all() (all []namedFigure) {
	if f.crawl != nil {
		all = append(all, namedFigure{"cobra-figure-4", f.places()}, namedFigure{"cobra-figure-9", f.crawlTimes()})
	}
	if runs := f.of("bytes"); len(runs) > 0 {
		all = append(all, namedFigure{"cobra-figure-12", f.bytes(runs)})
	}
	if runs := f.of("load"); len(runs) > 0 {
		all = append(all,
			namedFigure{"cobra-figure-13", figure.Figure{
				Title: "Figure 13 of Cobra: from the crawler to the reflector", X: "seconds", Y: "part of the articles", LogX: true, Lines: distributions(runs, func(r loadRun) []float64 { return r.Internal.All }),
				Caption: "One crawler, one filter and one reflector that takes a part of its time for matching. The crawler polls each feed once a minute, " +
					"which then has several articles. The paper's medians are 5 to 34 seconds, with its own costs of matching. " + f.world(),
			}},
			namedFigure{"cobra-update-latency", figure.Figure{
				Title: "From the web server to the reflector, with and without load", X: "seconds", Y: "part of the articles",
				Lines:   distributions(runs, func(r loadRun) []float64 { return r.Update.All }),
				Caption: "The same articles from their publication on: most of it is the wait for the next poll, a minute here and fifteen in the paper. " + f.world(),
			}})
	}
	if runs := f.of("searches"); len(runs) > 0 {
		all = append(all, namedFigure{"cobra-figure-14", f.searches(runs)})
	}
	if runs := f.of("pressure"); len(runs) > 0 {
		all = append(all, namedFigure{"cobra-back-pressure", figure.Figure{
			Title: "Waiting and dropping: one of three reflectors does nothing for a minute", X: "seconds from the web server to the other two", Y: "part of the articles",
			Lines: distributions(runs, func(r loadRun) []float64 { return r.Update.All }),
			Caption: fmt.Sprintf("Queues hold less than a quarter of a minute's articles. With waiting the crawler stops in the end, so that the others wait, too, and nothing is missing; "+
				"with dropping they do not notice, and %d articles are missing at the stalled one, all of which were counted. ", runs[len(runs)-1].Missing) + f.world(),
		}})
	}
	return all
}

func (f *cobraFigures) world() string {
	return fmt.Sprintf("Simulated, latencies of King, seed %d.", f.Seed)
}

// distributions draws the cumulative distribution of each run.
func distributions(runs []loadRun, of func(loadRun) []float64) (lines []plot.Line) {
	for _, r := range runs {
		lines = append(lines, cumulative(r.Name, of(r)))
	}
	return lines
}

// cumulative draws sorted values as a cumulative distribution, of few enough points to draw.
func cumulative(name string, sorted []float64) plot.Line {
	const points = 200
	l := plot.Line{Name: name}
	for i := range points + 1 {
		if n := len(sorted); n > 0 {
			l.X, l.Y = append(l.X, sorted[i*(n-1)/points]), append(l.Y, float64(i)/points)
		}
	}
	return l
}

func (f *cobraFigures) crawlTimes() figure.Figure {
	d := figure.Figure{
		Title: "Figure 9 of Cobra: latency of polls", X: "milliseconds to the first byte", Y: "part of the feeds",
		Caption: fmt.Sprintf("%d crawlers, %d feeds at %d web servers by Zipf's law. By hash is where crawlers begin, and by measured latency what they come to, polling at most "+
			"1.2 times their fair share; these two are their own polls, the others are computed. In the paper locality brings the median of a whole crawl from 197 to 160 ms. ",
			f.Crawlers, f.Feeds, f.Hosts) + f.world(),
	}
	names, all := f.assignments()
	for i, a := range all {
		l := cumulative(names[i], a.Millis)
		l.Dashed = i != 1 && i != 3
		d.Lines = append(d.Lines, l)
	}
	return d
}

func (f *cobraFigures) places() figure.Figure {
	d := figure.Figure{
		Title: "Figure 4 of Cobra: crawlers and their nearest web servers", X: "milliseconds", Y: "milliseconds",
		Caption: "Crawlers, in faint colour, and the five nearest of the web servers whose feeds they poll, in the plane of King, without the delays of access. " + f.world(),
	}
	for i, p := range f.crawl.Places[:min(5, len(f.crawl.Places))] {
		hue := plot.Blue + plot.Hue(i)
		d.Lines = append(d.Lines,
			plot.Line{Name: fmt.Sprintf("crawler %d", i+1), X: []float64{p.X}, Y: []float64{p.Y}, Dots: true, Faint: true, Hue: hue},
			plot.Line{Name: "its web servers", X: p.HostsX, Y: p.HostsY, Dots: true, Hue: hue})
	}
	return d
}

func (f *cobraFigures) bytes(runs []loadRun) figure.Figure {
	d := figure.Figure{
		Title: "Figure 12 of Cobra: bytes that each tier sends", X: "filters, and as many reflectors", Y: "KB a second", LogX: true, LogY: true,
		Caption: fmt.Sprintf("%.1f articles a second of 61 words, each of which goes to every filter and reflector: a crawler sends in proportion to its filters. "+
			"What the nodes send for the overlay is included. Downloads are of feeds that change with every poll. ", runs[0].Rate) + f.world(),
	}
	for _, tier := range []struct {
		name string
		of   func(hosting.TierBytes) float64
	}{
		{"the crawler downloads", func(b hosting.TierBytes) float64 { return b.Downloaded }},
		{"the crawler sends", func(b hosting.TierBytes) float64 { return b.Crawlers }},
		{"filters send", func(b hosting.TierBytes) float64 { return b.Filters }},
		{"reflectors send", func(b hosting.TierBytes) float64 { return b.Reflectors }},
	} {
		l := plot.Line{Name: tier.name}
		for _, r := range runs {
			l.X, l.Y = append(l.X, float64(r.Filters)), append(l.Y, tier.of(r.Tiers)/1e3)
		}
		d.Lines = append(d.Lines, l)
	}
	return d
}

func (f *cobraFigures) searches(runs []loadRun) figure.Figure {
	l := plot.Line{Name: "tidings"}
	for _, r := range runs {
		l.X, l.Y = append(l.X, r.Searches/1e6), append(l.Y, r.Internal.Median)
	}
	return figure.Figure{
		Title: "Figure 14 of Cobra: from the crawler to the reflector, by searches", X: "million searches at a reflector", Y: "median, seconds", LogX: true, LogY: true,
		Lines: []plot.Line{l, {Name: "as published", X: []float64{10. / 28, 1, 40. / 28}, Y: []float64{5.06, 30.81, 34.22}, Dots: true, Dashed: true, Hue: plot.Black}},
		Caption: fmt.Sprintf("%.1f articles a second; a reflector takes as long for each as was measured on a real processor (cobra/provision). "+
			"The paper's points are its topologies with 28, 1 and 28 filters, whose rates differ. ", runs[0].Rate) + f.world(),
	}
}
