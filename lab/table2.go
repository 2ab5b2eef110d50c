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
	Objective     []string      `quick:"lite,fast" placeholder:"NAME" help:"Rows to measure (default: all): lite, fast, fair, fair-sqrt, fair-log."`
	Scheme        []string      `quick:"legacy,paper-formula,rank-cut-coordinated" placeholder:"NAME" help:"Columns to measure (default: all): legacy, paper-formula, feedtree, paper-measured, base2-coordinated, rank-cut-random, rank-cut-coordinated."`
	Nodes         int           `aliases:"members" default:"1024" quick:"64" help:"Number of members (${default})."`
	Channels      int           `default:"100000" quick:"400" help:"Number of channels (${default})."`
	Subscriptions int           `help:"Number of subscriptions (default: 50 per channel)."`
	Hours         int           `help:"Virtual hours after all have subscribed (default 6, with --quick 3); measured in the second half."`
	Part          float64       `help:"Allowed polls relative to those of readers alone (default 1): from 0.001, in steps of 0.001. The targets are for 1."`
	Dead          []float64     `placeholder:"PART" help:"After the hours, let these shares of the members die silently, and measure an hour after each: 0.1,0.3."`
	Grow          time.Duration `help:"Time over which subscriptions are made (default: all at once)."`
	Maintenance   time.Duration `default:"1h" help:"Interval of leases and decisions (default an hour, as in the paper; real networks have ten minutes)."`
	Session       time.Duration `help:"After the hours, let members die silently after sessions with this median, and others take their places, for half as many hours."`
	Loss          float64       `placeholder:"PART" help:"Share of messages that are lost in that time."`
	Domains       string        `placeholder:"FILE" help:"Assign the channels to domains like the feeds in this file (CSV: domain,feeds), and measure each row without politeness and with it."`
	Formulas      int           `default:"5" help:"Number of seeds, from 1 on, for which the paper's formula is computed."`
	Seed          int64         `default:"1" help:"Seed of the simulation."`
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
			return fmt.Errorf("--%s 0: must be more than zero", name)
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
		return fmt.Errorf("--dead %v: shares of all members between 0 and 1, in increasing order", s.Dead)
	case c.Part == 0 && flagGiven(k, "part"), s.Part < 0 || s.Part > 1 || s.Part != math.Round(s.Part*1000)/1000:
		return fmt.Errorf("--part %v: from 0.001 to 1, in steps of 0.001", c.Part)
	case s.Grow < 0 || s.Session < 0 || s.Session > 0 && s.Session < time.Minute:
		return fmt.Errorf("--grow %v --session %v: --grow must not be negative, --session at least a minute", s.Grow, s.Session)
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
		return fmt.Errorf("--dead cannot be used with --session or --loss")
	case s.Formulas < 0:
		return fmt.Errorf("--formulas %d: must not be negative", s.Formulas)
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
