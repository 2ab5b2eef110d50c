package table2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"tidings/honeycomb"
	"tidings/internal/wire"
	"tidings/lab/mark"
)

// PollInterval is that of all worlds, as in the paper.
const PollInterval = 30 * time.Minute

const (
	legacy       = "legacy"
	paperFormula = "paper-formula"
	feedTree     = "feedtree"
	rankCut      = "rank-cut-coordinated"
)

// A Scheme is a way to poll, as a column of the table.
type Scheme struct {
	Name    string
	Choices wire.Choices
}

// Schemes are the columns of the table: readers who poll for themselves and the paper's scheme by
// its formula, which are computed; FeedTree's volunteers, whose choices are simulated; and those that
// are measured, of whole nodes.
var Schemes = []Scheme{
	{Name: legacy},
	{Name: paperFormula},
	{Name: feedTree},
	{"paper-measured", wire.Paper},
	{"base2-coordinated", wire.Choices{Wedge: "base2", Clusters: "bins", Phases: "even", Decide: "sequencer"}},
	{"rank-cut-random", wire.Choices{Wedge: "rank", Clusters: "bins", Phases: "random", Decide: "sequencer"}},
	{rankCut, wire.Bound},
}

// Measured says whether whole nodes are simulated.
func (s Scheme) Measured() bool { return s.Choices != (wire.Choices{}) }

// SchemeOf returns the scheme of a name.
func SchemeOf(name string) (Scheme, error) {
	i := slices.IndexFunc(Schemes, func(s Scheme) bool { return s.Name == name })
	if i < 0 {
		var known []string
		for _, s := range Schemes {
			known = append(known, s.Name)
		}
		return Scheme{}, fmt.Errorf("no scheme %q: there are %s", name, strings.Join(known, ", "))
	}
	return Schemes[i], nil
}

// Objectives are the rows of the table.
var Objectives = []honeycomb.Objective{honeycomb.Lite, honeycomb.Fast, honeycomb.Fair, honeycomb.FairSqrt, honeycomb.FairLog}

// published is what the paper's Table 2 has: detection in seconds, at polls in half an hour
// for each channel of fifty subscribers.
var published = map[honeycomb.Objective]struct{ detection, load float64 }{
	honeycomb.Lite: {53, 48.97}, honeycomb.Fast: {32, 58.75}, honeycomb.Fair: {142, 50.14},
	honeycomb.FairSqrt: {55, 49.46}, honeycomb.FairLog: {53, 49.43},
}

// publishedSubscribers is how many a channel has in the paper's simulation.
const publishedSubscribers = 50

// Setting says what is measured.
type Config struct {
	Load      *Workload
	Objective honeycomb.Objective
	Scheme    Scheme
	Hours     int // of virtual time after all have subscribed; the second half is the figure
	// Dead are parts of all members, rising: after those hours so many die at one moment,
	// silently, and the polls of the next hour are another figure.
	DeadShares []float64
	// Polite has domains have budgets.
	Polite bool
	// Part is what is allowed of the polls that readers alone would make. Zero: all.
	LoadShare float64
	// Every has a series of spans measured besides, of so many whole minutes. Zero: none.
	SeriesInterval time.Duration
	// Maintenance is the interval of leases and decisions. Zero: an hour, as in the paper.
	Maintenance time.Duration
	// Grow is the time in which the subscriptions come. Zero: they come at once.
	Grow time.Duration
	// Churn begins after the hours, unless it is zero, and goes on for half as many.
	Churn Churn
}

// A Row is what was measured of one objective and scheme. Its fields are its JSON.
type Row struct {
	Objective     string `json:"objective"`
	Scheme        string `json:"scheme"`
	Nodes         int    `json:"nodes"`
	Channels      int    `json:"channels"`
	Subscriptions int    `json:"subscriptions"`
	Polite        bool   `json:"polite"`
	OnCrowded     int    `json:"channels_crowded"` // channels on domains that want more than their budget
	Span
	Bound       float64 `json:"bound_s"` // of the detection, at the load that is allowed
	BoundNote   float64 `json:"bound_notification_s"`
	BoundLoad   float64 `json:"bound_load"`         // what is allowed; for Fast what is needed
	Overload    float64 `json:"overload,omitempty"` // FeedTree's N; others have none
	Paper       float64 `json:"paper_s"`
	PaperLoad   float64 `json:"paper_load"`
	Before      []Span  `json:"before"` // the hours before
	Series      []Span  `json:"series,omitempty"`
	After       []Death `json:"after"` // the hours after deaths
	DuringChurn *Span   `json:"churn"` // the hours of churn

	Channel []ChannelSpan `json:"-"` // of the figure's time
}

// A Death is what the polls of the hour were worth that began when a part of all members, with
// those of earlier deaths, had died.
type Death struct {
	Part float64 `json:"part"`
	Span
}

// joinLimit is how long members may take to know each other.
const joinLimit = 40 * time.Minute

// ErrJoin says that a world did not come about.
var ErrJoin = errors.New("the members do not know each other")

// network is that of the paper's simulation.
func (s *Config) network() wire.Network {
	n := wire.DefaultNetwork("table2")
	n.PollInterval = PollInterval
	n.MaintenanceInterval = cmp.Or(s.Maintenance, time.Hour)
	n.Objective, n.Load = s.Objective.String(), cmp.Or(s.LoadShare, n.Load)
	c := s.Scheme.Choices
	n.Wedge, n.Clusters, n.Phases, n.Decide = c.Wedge, c.Clusters, c.Phases, c.Decide
	return n
}

// row returns that of a setting, with all but what is measured.
func (s *Config) row() *Row {
	network := s.network()
	p, channels := s.Load.Problem(s.Objective, network.PollInterval, network.Load, network.TargetDetection)
	bound := Bound(p, channels)
	return &Row{
		Objective: s.Objective.String(), Scheme: s.Scheme.Name, Nodes: s.Load.Members, Channels: len(channels),
		Subscriptions: s.Load.Subscriptions(), Polite: s.Polite, Bound: bound.Detection, BoundNote: bound.Notification, BoundLoad: bound.Load,
		Paper: published[s.Objective].detection, PaperLoad: published[s.Objective].load,
	}
}

// Run measures, or computes.
func (s *Config) Run(ctx context.Context, progress func(float64)) (*Row, error) {
	row, network := s.row(), s.network()
	switch s.Scheme.Name {
	case legacy:
		row.Load = float64(row.Subscriptions) / float64(row.Channels)
		row.Detection = network.PollInterval.Seconds() / 2
		row.Notification = row.Detection
		return row, nil
	case paperFormula:
		f, err := FormulaOf(s.Load, s.Objective, network.PollInterval, network.Load*row.PaperLoad/publishedSubscribers)
		row.Load, row.Detection, row.Notification = f.Load, f.Detection, f.Notification
		return row, err
	case feedTree:
		return row, s.volunteer(ctx, row, progress)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the world's collector alone
	w := NewWorld(s.Load, network)
	if w.seriesInterval = s.SeriesInterval; s.SeriesInterval > 0 {
		w.Polls.series = newPolls(s.Load, network.PollInterval)
	}
	w.WatchDeaths, w.Polite = len(s.DeadShares) > 0 || s.Churn != Churn{}, s.Polite
	p, channels := s.Load.Problem(s.Objective, network.PollInterval, network.Load, network.TargetDetection)
	var polite honeycomb.Measurement
	if polite, w.Polls.crowded = s.Load.PoliteBound(p, channels); s.Polite {
		row.Bound, row.BoundNote = polite.Detection, polite.Notification
	}
	for _, on := range w.Polls.crowded {
		if on {
			row.OnCrowded++
		}
	}
	if !w.RunUntil(w.Joined, 10*time.Second, joinLimit) {
		return nil, fmt.Errorf("%s by %s: %w", s.Objective, s.Scheme.Name, ErrJoin)
	}
	if s.Grow > 0 {
		w.Grow(s.Grow)
	} else {
		w.Subscribe(subscribeTime)
	}
	all := s.Hours + len(s.DeadShares)
	if s.Churn != (Churn{}) {
		all += s.Hours / 2
	}
	next := func() error {
		hours := float64(w.minutes / 60)
		return w.hour(ctx, func(part float64) { progress((hours + part) / float64(all)) })
	}
	for hour := range s.Hours {
		if err := next(); err != nil {
			return nil, err
		}
		if hour < s.Hours/2 {
			row.Before = append(row.Before, w.Polls.Close(w.Now().UnixNano()))
		}
	}
	row.Channel = w.Polls.Channels(w.Now().UnixNano())
	row.Span, row.Series = w.Polls.Close(w.Now().UnixNano()), w.series
	if s.Churn != (Churn{}) {
		s.Churn.Begin(w)
		for range s.Hours / 2 {
			if err := next(); err != nil {
				return nil, err
			}
		}
		span := w.Polls.Close(w.Now().UnixNano())
		row.DuringChurn = &span
	}
	for _, part := range s.DeadShares {
		w.Kill(part)
		if err := next(); err != nil {
			return nil, err
		}
		row.After = append(row.After, Death{part, w.Polls.Close(w.Now().UnixNano())})
	}
	return row, nil
}

// hour runs a world for an hour, unless it is interrupted.
func (w *World) hour(ctx context.Context, progress func(float64)) error {
	const steps = 60
	for step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.Run(time.Hour / steps)
		if w.minutes++; w.seriesInterval > 0 && time.Duration(w.minutes)*time.Minute%w.seriesInterval == 0 {
			w.series = append(w.series, w.Polls.series.Close(w.Now().UnixNano()))
		}
		progress(float64(step+1) / steps)
	}
	return nil
}

// subscribing is the time in which all members subscribe to all that they read.
const subscribeTime = 2 * time.Second

// most is what is asked of the detection (for Fast, of the load), in parts of the bound: the
// targets at the paper's size, divided by the bounds there.
var targetFactors = map[honeycomb.Objective]float64{
	honeycomb.Lite: 17.0 / 16.03, honeycomb.Fast: 28.5 / 26.72, honeycomb.Fair: 49 / 46.2,
	honeycomb.FairSqrt: 22.5 / 21.4, honeycomb.FairLog: 17.3 / 16.4,
}

// Marks are the figures of the rank cut with even phases beside what was asked for; of other
// schemes nothing was asked.
func (r *Row) Marks() (of []mark.Mark) {
	if r.Scheme != rankCut || r.Polite { // of what politeness costs, see CostMark
		return nil
	}
	o, err := honeycomb.ParseObjective(r.Objective)
	if err != nil {
		return nil
	}
	if o == honeycomb.Fast {
		of = append(of,
			mark.AtMost("load, of the bound", "", r.Load/r.BoundLoad, targetFactors[o]),
			mark.AtMost("detection, of the target", "", r.Detection/r.Bound, 1.005))
	} else {
		of = append(of,
			mark.AtMost("detection, of the bound", "", r.Detection/r.Bound, targetFactors[o]),
			mark.Between("load, of what is allowed", "", r.Load/r.BoundLoad, 0.995, 1))
	}
	if o == honeycomb.Fair {
		of = append(of, mark.AtMost("notification, of the bound", "", r.Notification/r.BoundNote, 6/5.45))
	}
	of = append(of, mark.AtMost("evenness", "", r.Evenness, 1.03), mark.AtMost("polls of a member, most by mean", "", r.MemberMax, 1.4))
	for _, d := range r.After {
		if most, asked := targetEvenness[d.Part]; asked {
			of = append(of, mark.AtMost(fmt.Sprintf("evenness, %g %% dead", 100*d.Part), "", d.Evenness, most))
		}
	}
	if c := r.DuringChurn; c != nil {
		of = append(of,
			mark.AtMost("detection with sessions and loss, of that before", "", c.Detection/r.Detection, 1.25),
			mark.AtMost("load with sessions and loss, of what is allowed", "", c.Load/r.BoundLoad, 1.01))
	}
	return mark.ForRun(r.Objective, of...)
}

// CostMark is what politeness costs, in parts of what budgets cost in any case: that of crowded
// domains, which are not asked oftener, by any schedule.
func CostMark(polite, without *Row) mark.Mark {
	cost := polite.Detection / without.Detection / (polite.Bound / without.Bound)
	return mark.ForRun(polite.Objective, mark.AtMost("detection with polite polls of that without, of what budgets allow", "", cost, 1.05))[0]
}

// uneven is what is asked of the evenness when so many have died.
var targetEvenness = map[float64]float64{0.1: 1.15, 0.3: 1.35}

// within is how near the paper's figures its formula is asked to be.
const formulaTolerance = 0.05

// FormulaMarks compare the detection by the paper's formula with the figure of its Table 2. The
// paper does not state how many channels of its simulation are orphans, which the formula depends
// on. That it is between FewOrphans and ManyOrphans of them is our inference, so the mean over the
// seeds with as many is asked to be near the figure, and the mean over all seeds stands beside it.
// Fair is left out: the update intervals that the paper used are not published.
func FormulaMarks(formulas []Formula) (of []mark.Mark) {
	for _, o := range Objectives {
		var every, alike []float64
		for _, f := range formulas {
			if f.Objective != o.String() || o == honeycomb.Fair {
				continue
			}
			if every = append(every, f.OfPaper()); f.Orphans >= FewOrphans && f.Orphans <= ManyOrphans {
				alike = append(alike, f.OfPaper())
			}
		}
		if len(every) == 0 {
			continue
		}
		asked := mark.Between(fmt.Sprintf("the paper's formula, of its figure, seeds with %g to %g %% orphans", 100*FewOrphans, 100*ManyOrphans), "", mean(alike), 1-formulaTolerance, 1+formulaTolerance).
			WithNote(fmt.Sprintf("%d of %d seeds; that part of orphans is our inference", len(alike), len(every)))
		if len(alike) == 0 {
			asked = asked.Skipped("no seed has as many; that part of orphans is our inference")
		}
		of = append(of, mark.ForRun(o.String(), asked, mark.Info("the paper's formula, of its figure, all seeds", "", mean(every)))...)
	}
	return of
}

// mean is NaN if there is nothing to take it of.
func mean(of []float64) (sum float64) {
	for _, v := range of {
		sum += v
	}
	return sum / float64(len(of))
}

// Formulas are the paper's figures by its formula, on seeds 1 to n, at the loads that the
// paper states.
func Formulas(load *Workload, seeds int) (of []Formula, err error) {
	for seed := range seeds {
		w := NewWorkload(int64(seed+1), load.Members, len(load.Channels), load.Subscriptions())
		for _, o := range Objectives {
			f, err := FormulaOf(w, o, PollInterval, published[o].load/publishedSubscribers)
			if err != nil {
				return nil, err
			}
			of = append(of, f)
		}
	}
	return of, nil
}
