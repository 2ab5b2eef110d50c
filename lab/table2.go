package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"tidings/honeycomb"
	"tidings/lab/table2"
)

// A table2Command is "tidings-lab sim table2".
type table2Command struct {
	reporter
	Objective     []string      `quick:"lite,fast" placeholder:"NAME" help:"Rows to make: lite, fast, fair, fair-sqrt, fair-log. All, if not told."`
	Scheme        []string      `quick:"legacy,paper-formula,rank-cut-coordinated" placeholder:"NAME" help:"Columns to make: legacy, paper-formula, feedtree, paper-measured, base2-coordinated, rank-cut-random, rank-cut-coordinated. All, if not told."`
	Nodes         int           `aliases:"members" default:"1024" quick:"64" help:"Members (${default})."`
	Channels      int           `default:"100000" quick:"400" help:"Channels (${default})."`
	Subscriptions int           `help:"Subscriptions, instead of 50 a channel."`
	Hours         int           `help:"Virtual time after all have subscribed, instead of 6 hours, or 3 with --quick; the second half makes the figures."`
	Part          float64       `help:"What is allowed of the polls that readers alone would make, instead of all: from 0.001, in steps of as much. What is asked is asked of all."`
	Dead          []float64     `placeholder:"PART" help:"After the hours, have so many members die at once, silently, and measure an hour more: 0.1,0.3."`
	Grow          time.Duration `help:"Have the subscriptions come in so long, instead of all at once."`
	Maintenance   time.Duration `default:"1h" help:"Of leases and decisions. Networks have ten minutes if not told, the paper's simulation an hour."`
	Session       time.Duration `help:"After the hours, have members die silently whose sessions have this median, and others take their places, for half as many hours."`
	Loss          float64       `placeholder:"PART" help:"Part of the messages that is lost in that time, too."`
	Domains       string        `placeholder:"FILE" help:"Spread the channels over domains as the feeds of this file are (CSV: domain,feeds), and measure each row twice: without politeness, and with it."`
	Formulas      int           `default:"5" help:"Seeds, from 1, on which the paper's formula is computed."`
	Seed          int64         `default:"1" help:"Of the world."`
	Out           string        `placeholder:"DIR" help:"Draw figures into DIR."`
}

// A table2Result is all results. Its fields are its JSON.
type table2Result struct {
	Rows     []*table2.Row    `json:"rows"`
	Formulas []table2.Formula `json:"formulas"`
	Wall     float64          `json:"wall_s"`
	Resident uint64           `json:"max_rss_bytes"` // 0 if unknown
	Seed     int64            `json:"seed"`
}

// sized sets the defaults that depend on other flags.
func (c table2Command) sized() table2Command {
	hours := 6
	if c.Quick {
		hours = 3
	}
	if c.Domains != "" {
		hours = max(hours, grantedHours(c.Maintenance))
	}
	c.Hours = cmp.Or(c.Hours, hours)
	c.Subscriptions = cmp.Or(c.Subscriptions, 50*c.Channels)
	return c
}

// grantedHours returns the number of hours of which the first half is enough for grants: a round to
// collect requests, one to grant, and one in which the grants are used.
func grantedHours(maintenance time.Duration) int {
	return 2 * int(math.Ceil((3 * maintenance).Hours()))
}

// settings returns the worlds to measure.
func (c *table2Command) settings() (of []table2.Config, err error) {
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
			setting := table2.Config{
				Objective: o, Scheme: s, Hours: c.Hours, DeadShares: c.Dead, Grow: c.Grow, Maintenance: c.Maintenance, LoadShare: c.Part,
				Churn: table2.Churn{Session: c.Session, Loss: c.Loss},
			}
			of = append(of, setting)
			if c.Domains != "" && s.Choices.Wedge != "" {
				setting.Polite = true
				of = append(of, setting)
			}
		}
	}
	return of, nil
}

// Validate is called by kong after parsing the flags.
func (c *table2Command) Validate(k *kong.Context) error {
	for name, n := range map[string]int{"subscriptions": c.Subscriptions, "hours": c.Hours} {
		if n == 0 && flagGiven(k, name) {
			return fmt.Errorf("--%s 0: there have to be some", name)
		}
	}
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
	case c.Part == 0 && flagGiven(k, "part"), s.Part < 0 || s.Part > 1 || s.Part != math.Round(s.Part*1000)/1000:
		return fmt.Errorf("--part %v: from 0.001 to 1, in steps of 0.001", c.Part)
	case s.Grow < 0 || s.Session < 0 || s.Session > 0 && s.Session < time.Minute:
		return fmt.Errorf("--grow %v --session %v: not less than no time, and a session of at least a minute", s.Grow, s.Session)
	case s.Grow > time.Duration(s.Hours/2)*time.Hour:
		return fmt.Errorf("--grow %v: no longer than the first half of the hours, of which there are %d", s.Grow, s.Hours)
	case s.Maintenance < time.Minute || s.Maintenance > 24*time.Hour:
		return fmt.Errorf("--maintenance %v: from a minute to a day", s.Maintenance)
	case s.Domains != "" && s.Hours < grantedHours(s.Maintenance):
		return fmt.Errorf("--domains --hours %d: politeness is measured when budgets are granted, three maintenance intervals after the start: at least %d hours at --maintenance %v",
			s.Hours, grantedHours(s.Maintenance), s.Maintenance)
	case !(s.Loss >= 0 && s.Loss < 1):
		return fmt.Errorf("--loss %v: from 0 up to 1", s.Loss)
	case len(s.Dead) > 0 && (s.Session > 0 || s.Loss > 0):
		return fmt.Errorf("--dead is of a network where nothing else goes wrong: without --session and --loss")
	case s.Formulas < 0:
		return fmt.Errorf("--formulas %d: not less than none", s.Formulas)
	}
	_, err := s.settings()
	return err
}

// Run measures one world after the other and prints the results; if it is interrupted, those of the
// finished rows.
func (c *table2Command) Run(ctx context.Context, s stdio) error {
	sized := c.sized()
	c = &sized
	debug.SetMemoryLimit(memoryLimit)
	began := time.Now()
	settings, err := c.settings()
	if err != nil {
		return err
	}
	if err := makeFolder(c.Out); err != nil {
		return err
	}
	load := table2.NewWorkload(c.Seed, c.Nodes, c.Channels, c.Subscriptions)
	if c.Domains != "" {
		feeds, err := domainsOf(c.Domains)
		if err != nil {
			return err
		}
		load.AssignDomains(feeds)
	}
	if slices.ContainsFunc(settings, func(s table2.Config) bool { return s.Scheme.Measured() }) {
		table2.LargePages(min(load.Heap(), memoryLimit)) // not every machine has large pages, and they are optional
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
	if len(result.Rows)+len(result.Formulas) == 0 && stopped != nil {
		return stopped
	}
	return joinErrors(stopped, c.show(s, &result))
}

// domainsOf reads the numbers of feeds of domains.
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

// memoryLimit is the heap up to which Go neither collects by itself nor returns memory; the latter
// begins at 95 % of it. The paper's whole world may take almost ten gigabytes, half of which are
// live.
const memoryLimit = 10_400_000_000

// show prints and draws the results.
func (c *table2Command) show(s stdio, r *table2Result) error {
	missed := c.report(s.out, r, func(line printer) { printTable2(line, r) }, marksOf(r))
	if c.Out == "" {
		return missed
	}
	return joinErrors(missed, drawTable2(c.Out, r.Rows))
}
