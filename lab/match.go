package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"tidings/cobra"
	"tidings/lab/keywords"
	"tidings/lab/mark"
	"tidings/lab/nodes"
)

// A matchCommand is "tidings-lab bench match".
type matchCommand struct {
	reporter
	Subs      []int  `default:"1000000" quick:"20000" help:"Numbers of keyword subscriptions, measured one after the other (${default})."`
	Words     []int  `default:"61,637,2000,0" quick:"61,0" help:"Words per article; 0 for articles of all lengths (${default})."`
	Separate  bool   `help:"Do not share memory between equal subscriptions, as if all were different."`
	General   bool   `help:"Subscriptions of frequent words only, nearly all of them different: the costliest ones for an index by the rarest word."`
	Phrases   bool   `help:"With --general, half of the subscriptions are phrases."`
	Real      string `placeholder:"FILE" help:"Match the articles of this file (gzipped JSON lines), with subscriptions of their words."`
	Peer      bool   `help:"Also match the first articles with PostgreSQL, as psql finds it; ops/peer.sh installs and starts one."`
	Calibrate bool   `help:"Print the costs for tidings provision, from two numbers of subscriptions."`
}

// Help is appended to the command's help.
func (c *matchCommand) Help() string {
	return "Figure 10 of Cobra (NSDI 2007): how long it takes to match an article with keyword subscriptions, by the number " +
		"of subscriptions and of words, with random subscriptions and articles like the paper's. The rings with the last ten articles of " +
		"each subscription are written as well. Times are of one thread. Forty million subscriptions take 3 GB and three minutes."
}

// Validate is called by kong after parsing the flags.
func (c *matchCommand) Validate() error {
	for _, n := range c.Subs {
		if n < 1 || n > 200_000_000 {
			return fmt.Errorf("--subs %d: from 1 to 200,000,000", n)
		}
	}
	if c.Calibrate && (len(c.Subs) != 2 || c.Subs[0] == c.Subs[1] || c.Real != "" || c.Separate) {
		return fmt.Errorf("--calibrate needs two numbers of random subscriptions, as in --subs 1000000,10000000, without --separate")
	}
	if c.Phrases && !c.General {
		return fmt.Errorf("--phrases is for --general")
	}
	if c.General && (c.Real != "" || c.Peer || c.Calibrate) {
		return fmt.Errorf("--general is for random articles, without --peer and --calibrate")
	}
	if c.Peer && (c.Real != "" || c.Calibrate) {
		return fmt.Errorf("--peer is for random subscriptions and articles")
	}
	for _, n := range c.Words {
		if n < 0 || n > 100_000 {
			return fmt.Errorf("--words %d: from 1 to 100,000, or 0", n)
		}
	}
	return nil
}

// Run measures the numbers of subscriptions one after the other.
func (c *matchCommand) Run(ctx context.Context, s stdio) error {
	var articles []cobra.Article
	lengths := c.Words
	if c.Real != "" {
		var err error
		if articles, err = keywords.ReadArticles(c.Real); err != nil {
			return err
		}
		lengths = []int{keywords.Mix}
	}
	if c.Calibrate {
		lengths = []int{keywords.Mix}
	}
	// The heap consists of large arrays without pointers, so half as much garbage is enough.
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	var runs []keywords.MatchRun
	var changes []keywords.Change
	var failed error
	for _, n := range c.Subs {
		p := newProgress(s.err, fmt.Sprintf("%d subscriptions", n))
		config := keywords.MatchConfig{Subscriptions: n, Lengths: lengths, Distinct: c.Separate, General: c.General, Phrases: c.Phrases, Real: articles, Resident: residentNow, CPUTime: cpuTimeNow}
		var err error
		if c.Peer {
			config.Peer, err = keywords.OpenPostgres(ctx, keywords.PaperWords(), n, nodes.CPUTime, p.at)
		}
		var change keywords.Change
		if err == nil {
			change, err = keywords.Match(ctx, config, p.at, func(r keywords.MatchRun) { runs = append(runs, r) })
		}
		if config.Peer != nil {
			config.Peer.Close()
		}
		p.end()
		if err != nil {
			failed = fmt.Errorf("%d subscriptions: %w", n, err)
			break
		}
		changes = append(changes, change)
		debug.FreeOSMemory()
	}
	if len(runs) == 0 {
		return failed
	}
	return joinErrors(failed, c.report(s.out, struct {
		Runs    []keywords.MatchRun `json:"runs"`
		Changes []keywords.Change   `json:"changes"`
	}{runs, changes}, func(line printer) {
		if c.Calibrate && failed == nil {
			printCosts(line, runs)
		} else {
			c.print(line, runs, changes)
		}
	}, c.marks(runs, changes)))
}

// printCosts prints the lines through the costs of two numbers of subscriptions: the time of an
// article from HTML to the rings, and megabytes.
func printCosts(line printer, runs []keywords.MatchRun) {
	var at [2]keywords.MatchRun
	for _, r := range runs {
		if r.Path == "html" {
			at[0], at[1] = at[1], r
		}
	}
	cost := func(name, unit string, of func(keywords.MatchRun) float64) {
		x0, x1 := float64(at[0].Subscriptions)/1e6, float64(at[1].Subscriptions)/1e6
		each := (of(at[1]) - of(at[0])) / (x1 - x0)
		line("%s\t%.3g %s + %.3g %s per million subscriptions", name, of(at[0])-each*x0, unit, each, unit)
	}
	cost("an article, from HTML", "ms", func(r keywords.MatchRun) float64 { return r.Mean / 1e3 })
	cost("a filter's memory", "MB", func(r keywords.MatchRun) float64 { return r.FilterBytes * float64(r.Subscriptions) / 1e6 })
	cost("a reflector's memory", "MB", func(r keywords.MatchRun) float64 { return r.Bytes * float64(r.Subscriptions) / 1e6 })
	line("The process itself takes about 30 MB more, and articles are on a disk.")
}

// matchAsked are the targets of an article's matching time, p90 in microseconds, by subscriptions
// and words.
var matchAsked = map[[2]int]float64{
	{1_000_000, 61}: 50, {1_000_000, 637}: 600, {1_000_000, 2000}: 2000,
	{10_000_000, 61}: 250, {10_000_000, 2000}: 12_000,
	{40_000_000, 61}: 600, {40_000_000, 2000}: 30_000,
}

// Other targets.
const (
	separateAsked = 30_000 // for 40 million distinct subscriptions, 61 words
	mixAsked      = 350    // for a million, all lengths, without ring writes
	pathAsked     = 1000   // for a million, all lengths, mean of the whole path
	changeAsked   = 20     // to add or remove one, at ten million
	residentAsked = 4 << 30
)

func (c *matchCommand) print(line printer, runs []keywords.MatchRun, changes []keywords.Change) {
	line("subscriptions\trefused\tdistinct\twords\tfrom\tmatch p50\tp90\twith rings p50\tp90\tp99\tmean µs\tmatches\tdistinct\t")
	for _, r := range runs {
		words, match50, match90, matches := fmt.Sprint(r.Words), fmt.Sprintf("%.0f", r.MatchP50), fmt.Sprintf("%.0f", r.MatchP90), fmt.Sprintf("%.0f", r.Matches)
		from := "terms"
		if r.Words == keywords.Mix {
			words = "all"
		}
		if r.Path != "match" {
			from, match50, match90, matches = "HTML", "", "", ""
		}
		line("%d\t%d\t%d\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%.0f\t", r.Subscriptions, r.Refused, r.Nodes, words, from, match50, match90, r.P50, r.P90, r.P99, r.Mean, matches, r.Hits)
	}
	c.peers(line, runs)
	line("\nsubscriptions\tadd p50\tp90\tremove p50\tp90 µs\tbytes each\tMB resident\t\t\t\t\t\t")
	for i, ch := range changes {
		last := runs[slices.IndexFunc(runs, func(r keywords.MatchRun) bool { return r.Subscriptions == changes[i].Subscriptions })]
		line("%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.0f\t\t\t\t\t\t", ch.Subscriptions, ch.AddP50, ch.AddP90, ch.RemoveP50, ch.RemoveP90, last.Bytes, float64(last.RSS)/1e6)
	}
}

// peers prints the times of the database, and those of the filter.
func (c *matchCommand) peers(line printer, runs []keywords.MatchRun) {
	if !c.Peer {
		return
	}
	line("\nsubscriptions\twords\tPostgreSQL layout\tCPU ms\tours, with rings\tratio\tmatches\t\t\t\t\t\t")
	for _, r := range runs {
		for _, p := range r.Peers {
			line("%d\t%d\t%s\t%.2f\t%.4f\t%.0f\t%d, the same\t\t\t\t\t\t", r.Subscriptions, r.Words, p.Layout, p.CPU.Seconds()*1e3, r.CPU/1e3, p.CPU.Seconds()*1e6/r.CPU, p.Matches)
		}
	}
}

// marks returns the figures of all runs. Some numbers of subscriptions and words have a target for
// the time; real articles have none.
func (c *matchCommand) marks(runs []keywords.MatchRun, changes []keywords.Change) (of []mark.Mark) {
	seen := 0
	for _, r := range runs {
		words := fmt.Sprintf("%d words", r.Words)
		if r.Words == keywords.Mix {
			words = "all lengths"
		}
		asked, ok := matchAsked[[2]int{r.Subscriptions, r.Words}]
		drawn := c.Real == "" && !c.General
		m := mark.Info(words+", p90", "µs", r.P90)
		switch {
		case drawn && c.Separate && r.Subscriptions == 40_000_000 && r.Words == keywords.MedianWords:
			m.Max = separateAsked
		case drawn && !c.Separate && ok:
			m.Max = asked
		case r.Words == keywords.Mix && r.Path == "match":
			if m = mark.Info(words+", match only, p90", "µs", r.MatchP90); drawn && !c.Separate && r.Subscriptions == 1_000_000 {
				m.Max = mixAsked
			}
		case r.Words == keywords.Mix:
			if m = mark.Info(words+", from HTML, mean", "µs", r.Mean); drawn && !c.Separate && r.Subscriptions == 1_000_000 {
				m.Max = pathAsked
			}
		}
		marks := []mark.Mark{m}
		if len(r.Peers) > 0 && r.Words != keywords.Mix && r.Subscriptions == 1_000_000 {
			best := slices.MinFunc(r.Peers, func(a, b keywords.PeerRun) int { return cmp.Compare(a.CPU, b.CPU) })
			marks = append(marks, mark.AtMost(words+", relative to PostgreSQL's CPU time", "%", 100*r.CPU/(best.CPU.Seconds()*1e6), 1))
		}
		if r.Subscriptions != seen {
			seen = r.Subscriptions
			each := mark.Info("memory per subscription", "B", r.Bytes)
			switch {
			case !drawn || c.Separate || r.Subscriptions < 1_000_000:
			case r.Subscriptions < 10_000_000:
				each.Max = 80
			default:
				each.Max = 60
			}
			resident := mark.AtMost("resident memory", "MB", float64(r.RSS)/1e6, residentAsked/1e6)
			if r.RSS == 0 {
				each, resident = each.Skipped("not available on this system"), resident.Skipped("not available on this system")
			}
			marks = append(marks, each, resident, mark.Zero("subscriptions refused by the daemon's configuration", r.Refused))
		}
		of = append(of, mark.ForRun(millions(r.Subscriptions), marks...)...)
	}
	for _, ch := range changes {
		add, remove := mark.Info("add, p90", "µs", ch.AddP90), mark.Info("remove, p90", "µs", ch.RemoveP90)
		if ch.Subscriptions == 10_000_000 && !c.Separate && c.Real == "" {
			add.Max, remove.Max = changeAsked, changeAsked
		}
		of = append(of, mark.ForRun(millions(ch.Subscriptions), add, remove)...)
	}
	return of
}

// millions formats a number of subscriptions.
func millions(subscriptions int) string {
	return fmt.Sprintf("%g M subscriptions", float64(subscriptions)/1e6)
}

// mappedNow returns the resident pages of files of this process.
func mappedNow() int {
	n, err := nodes.Mapped(os.Getpid())
	if err != nil {
		return 0
	}
	return n
}

// cpuTimeNow returns the CPU time of this process; 0 if unknown.
func cpuTimeNow() time.Duration {
	t, err := nodes.CPUTime(os.Getpid())
	if err != nil {
		return 0
	}
	return t
}

// residentNow returns the resident memory of this process in bytes; 0 if unknown.
func residentNow() int {
	n, err := nodes.Resident(os.Getpid())
	if err != nil {
		return 0
	}
	return n
}
