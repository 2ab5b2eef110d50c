package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"text/tabwriter"
	"time"

	"tidings/honeycomb"
	"tidings/internal/lab/figure"
	"tidings/internal/lab/table2"
)

// A table2Command is "tidings-lab sim table2".
type table2Command struct {
	Objective     []string  `placeholder:"NAME" help:"Rows to make: lite, fast, fair, fair-sqrt, fair-log. All, if not told."`
	Scheme        []string  `placeholder:"NAME" help:"Columns to make: legacy, paper-formula, paper-measured, base2-coordinated, rank-cut-random, rank-cut-coordinated. All, if not told."`
	Quick         bool      `help:"A small world: 64 members, 400 channels, 20,000 subscriptions, 3 hours."`
	Nodes         int       `aliases:"members" help:"Members, instead of 1024."`
	Channels      int       `help:"Channels, instead of 100,000."`
	Subscriptions int       `help:"Subscriptions, instead of 50 a channel."`
	Hours         int       `help:"Virtual time after all have subscribed, instead of 6 hours; the second half makes the figures."`
	Dead          []float64 `placeholder:"PART" help:"After that, have so many members die at once, silently, and measure an hour more: 0.1,0.3."`
	Domains       string    `placeholder:"FILE" help:"Spread the channels over domains as the feeds of this file are (CSV: domain,feeds), and measure each row twice: without politeness, and with it."`
	Formulas      int       `default:"5" help:"Seeds, from 1, on which the paper's formula is computed."`
	Seed          int64     `default:"1" help:"Of the world."`
	JSON          bool      `name:"json" help:"Print one JSON object."`
	Out           string    `placeholder:"DIR" help:"Draw figures into DIR."`
}

// A table2Result is all that was found. Its fields are its JSON.
type table2Result struct {
	Rows     []*table2.Row    `json:"rows"`
	Formulas []table2.Formula `json:"formulas"`
	Wall     float64          `json:"wall_s"`
	Resident uint64           `json:"max_rss_bytes"` // 0 where the system does not tell
	Seed     int64            `json:"seed"`
}

// sized fills in what was not told.
func (c table2Command) sized() table2Command {
	members, channels, hours := 1024, 100_000, 6
	if c.Quick {
		members, channels, hours = 64, 400, 3
	}
	c.Nodes, c.Channels, c.Hours = cmp.Or(c.Nodes, members), cmp.Or(c.Channels, channels), cmp.Or(c.Hours, hours)
	c.Subscriptions = cmp.Or(c.Subscriptions, 50*c.Channels)
	return c
}

// settings are what is to be measured.
func (c *table2Command) settings() (of []table2.Setting, err error) {
	objectives, schemes := table2.Objectives, table2.Schemes
	if len(c.Objective) > 0 {
		objectives = nil
		for _, name := range c.Objective {
			o, err := honeycomb.ParseObjective(name)
			if err != nil {
				return nil, err
			}
			objectives = append(objectives, o)
		}
	}
	if len(c.Scheme) > 0 {
		schemes = nil
		for _, name := range c.Scheme {
			s, err := table2.SchemeOf(name)
			if err != nil {
				return nil, err
			}
			schemes = append(schemes, s)
		}
	}
	for _, o := range objectives {
		for _, s := range schemes {
			of = append(of, table2.Setting{Objective: o, Scheme: s, Hours: c.Hours, Dead: c.Dead})
			if c.Domains != "" && s.Choices.Wedge != "" {
				of = append(of, table2.Setting{Objective: o, Scheme: s, Hours: c.Hours, Dead: c.Dead, Polite: true})
			}
		}
	}
	return of, nil
}

// Validate is called by kong when it has read the flags.
func (c *table2Command) Validate() error {
	s := c.sized()
	switch {
	case s.Nodes < 16 || s.Nodes > 16_384:
		return fmt.Errorf("--nodes %d: from 16 to 16,384", s.Nodes)
	case s.Channels < 1 || s.Subscriptions < 1:
		return fmt.Errorf("--channels %d --subscriptions %d: at least one", s.Channels, s.Subscriptions)
	case s.Hours < 2:
		return fmt.Errorf("--hours %d: at least two", s.Hours)
	case slices.ContainsFunc(s.Dead, func(part float64) bool { return !(part > 0 && part < 1) }) || !slices.IsSorted(s.Dead):
		return fmt.Errorf("--dead %v: parts of all members between 0 and 1, the smallest first", s.Dead)
	case s.Formulas < 0:
		return fmt.Errorf("--formulas %d: not less than none", s.Formulas)
	}
	_, err := s.settings()
	return err
}

// Run measures one world after the other, and prints what it found, also if it is
// interrupted: the rows that were finished.
func (c *table2Command) Run(ctx context.Context, s streams) error {
	sized := c.sized()
	c = &sized
	// Worlds are large and live long: as long as there is room, little is gained by collecting.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(room)
	began := time.Now()
	settings, err := c.settings()
	if err != nil {
		return err
	}
	if err := folder(c.Out); err != nil {
		return err
	}
	load := table2.NewWorkload(c.Seed, c.Nodes, c.Channels, c.Subscriptions)
	if c.Domains != "" {
		feeds, err := domainsOf(c.Domains)
		if err != nil {
			return err
		}
		load.Spread(feeds)
	}
	result := table2Result{Seed: c.Seed}
	if result.Formulas, err = table2.Formulas(load, c.Formulas); err != nil {
		return err
	}
	p := newProgress(s.err, fmt.Sprintf("%d worlds", len(settings)))
	var stopped error
	for i := range settings {
		settings[i].Load = load
		row, err := settings[i].Run(ctx, func(part float64) { p.at((float64(i) + part) / float64(len(settings))) })
		if err != nil {
			stopped = fmt.Errorf("after %d of %d worlds: %w", i, len(settings), err)
			break
		}
		result.Rows = append(result.Rows, row)
	}
	p.end()
	result.Wall, result.Resident = time.Since(began).Seconds(), table2.Resident()
	if len(result.Rows) == 0 && stopped != nil {
		return stopped
	}
	return both(stopped, c.show(s, &result))
}

// domainsOf reads how many feeds domains have.
func domainsOf(path string) ([]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	feeds, err := table2.ReadDomains(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return feeds, nil
}

// room is for how many bytes the collector leaves alone what is dead: the paper's whole world,
// and some more, or it would do nothing else.
const room = 14 << 30

// show prints and draws what was found.
func (c *table2Command) show(s streams, r *table2Result) error {
	var err error
	if c.JSON {
		err = printJSON(s.out, r)
	} else {
		err = printTable2(s.out, r)
	}
	if err != nil || c.Out == "" {
		return err
	}
	return drawTable2(c.Out, r.Rows)
}

// printTable2 prints the rows, below them the paper's formula, and what was asked for.
func printTable2(w io.Writer, r *table2Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	line("objective\tscheme\tmembers\tchannels\tload\tallowed\tdetection s\tof updates s\ta notification s\tbound s\tpaper s @ load\tevenness\tfirst hours s @ load")
	for _, row := range r.Rows {
		before := ""
		for _, b := range row.Before {
			before += fmt.Sprintf("%.4g @ %.4g  ", b.Detection, b.Load)
		}
		scheme := row.Scheme
		if row.Polite {
			scheme += ", polite"
		}
		line("%s\t%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%g @ %g\t%.3f\t%s", row.Objective, scheme, row.Nodes, row.Channels,
			row.Load, row.BoundLoad, row.Detection, row.Event, row.Notification, row.Bound, row.Paper, row.PaperLoad, row.Evenness, before)
	}
	for i, row := range r.Rows {
		if row.OnCrowded > 0 && row.Polite && i > 0 {
			line("\n%s, %s\tchannels\twithout s\tpolite s\tcost %%", row.Objective, row.Scheme)
			cost := func(what string, n int, without, polite float64) {
				line("%s\t%d\t%.2f\t%.2f\t%.2f", what, n, without, polite, 100*(polite/without-1))
			}
			cost("all", row.Channels, r.Rows[i-1].Detection, row.Detection)
			cost("on crowded domains", row.OnCrowded, r.Rows[i-1].Crowded, row.Crowded)
		}
	}
	for _, row := range r.Rows {
		for i, d := range row.After {
			if i == 0 {
				line("\n%s, %s\tdead %%\tload\tdetection s\tevenness", row.Objective, row.Scheme)
			}
			line("an hour\t%g\t%.2f\t%.2f\t%.3f", 100*d.Part, d.Load, d.Detection, d.Evenness)
		}
	}
	if len(r.Formulas) > 0 {
		line("\npaper's formula\tseed\torphans %%\tload\tdetection s")
	}
	for _, f := range r.Formulas {
		line("%s\t%d\t%.2f\t%.2f\t%.1f", f.Objective, f.Seed, 100*f.Orphans, f.Load, f.Detection)
	}
	marks := table2.FormulaMarks(r.Formulas)
	for i, row := range r.Rows {
		if row.Polite && i > 0 {
			m := table2.CostMark(row, r.Rows[i-1])
			m.What = row.Objective + ", " + row.Scheme + ": " + m.What
			marks = append(marks, m)
		}
		for _, m := range row.Marks() {
			m.What = row.Objective + ": " + m.What
			marks = append(marks, m)
		}
	}
	if len(marks) > 0 {
		line("\nfigure\tgot\tasked\t")
	}
	for _, m := range marks {
		asked, verdict := "≤ "+number(m.Most), "met"
		if !math.IsInf(m.Least, -1) {
			asked = fmt.Sprintf("%.4g … %.4g", m.Least, m.Most)
		}
		if !m.Met() {
			verdict = "MISSED"
		}
		line("%s\t%.4f\t%s\t%s", m.What, m.Got, asked, verdict)
	}
	return t.Flush()
}

// drawTable2 draws how the detection of each scheme comes down from a cold start.
func drawTable2(dir string, rows []*table2.Row) error {
	for _, o := range table2.Objectives {
		f := figure.Figure{Title: "Detection from a cold start: " + o.String(), X: "hours", Y: "seconds"}
		for _, row := range rows {
			if row.Objective != o.String() {
				continue
			}
			l, at := figure.Line{Name: row.Scheme}, 0.
			for _, s := range append(row.Before, row.Span) {
				l.X, l.Y = append(l.X, at+s.Hours/2), append(l.Y, s.Detection)
				at += s.Hours
			}
			f.Lines = append(f.Lines, l)
			if row.Scheme == "rank-cut-coordinated" {
				f.Lines = append(f.Lines, figure.Line{Name: "bound", X: []float64{0, at}, Y: []float64{row.Bound, row.Bound}, Dashed: true})
			}
		}
		if len(f.Lines) == 0 {
			continue
		}
		if err := f.Save(dir, "table2-"+o.String()); err != nil {
			return err
		}
	}
	return nil
}
