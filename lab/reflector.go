package main

import (
	"context"
	"fmt"

	"tidings/lab/keywords"
	"tidings/lab/mark"
)

// A reflectorCommand is "tidings-lab bench reflector".
type reflectorCommand struct {
	reporter
	Subs     int    `default:"1000000" quick:"20000" help:"Number of keyword subscriptions (${default})."`
	Articles int    `default:"60000" quick:"1000" help:"Number of articles (${default})."`
	Words    int    `default:"0" help:"Words per article; 0 for articles of all lengths (${default})."`
	Dir      string `placeholder:"DIR" help:"Create the files in a directory within this one instead of the system's directory for temporary files."`
}

// Help is appended to the command's help.
func (c *reflectorCommand) Help() string {
	return "Figure 7 of Cobra (NSDI 2007): memory and time of a reflector with many subscriptions and articles on a real disk. " +
		"Then it is restarted, and every feed is compared."
}

// Validate is called by kong after parsing the flags.
func (c *reflectorCommand) Validate() error {
	if c.Subs < 1 || c.Subs > 50_000_000 || c.Articles < 1 || c.Articles > 100_000_000 || c.Words < 0 || c.Words > 100_000 {
		return fmt.Errorf("--subs %d --articles %d --words %d: from 1 to 50,000,000, 100,000,000 and 100,000", c.Subs, c.Articles, c.Words)
	}
	return nil
}

// Run measures one reflector.
func (c *reflectorCommand) Run(ctx context.Context, s stdio) (err error) {
	dir, remove, err := keywords.TempDir(c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = joinErrors(err, remove()) }()
	p := newProgress(s.err, fmt.Sprintf("%d subscriptions", c.Subs))
	run, err := keywords.Reflect(ctx, keywords.ReflectConfig{
		Subscriptions: c.Subs, Articles: c.Articles, Words: c.Words, Dir: dir, Resident: residentNow, Mapped: mappedNow, CPUTime: cpuTimeNow,
	}, p.at)
	p.end()
	if err != nil {
		return err
	}
	return c.report(s.out, map[string]any{"runs": []keywords.ReflectRun{run}}, func(line printer) { printReflector(line, run) }, reflectorMarks(run))
}

// reflectorMarks returns the figures of a reflector. Memory and restart time have targets for the
// paper's number of subscriptions and articles.
func reflectorMarks(r keywords.ReflectRun) []mark.Mark {
	other := 0
	if !r.Same {
		other = 1
	}
	of := []mark.Mark{
		mark.Zero("restarts after which a feed differs", other),
		mark.AtMost("resident memory", "MB", float64(r.RSS)/1e6, 150).WithNote("the paper: about 500"),
		mark.AtMost("restart", "s", r.Load, 5),
	}
	if r.Subscriptions != 1_000_000 || r.Articles != 60_000 {
		for i, m := range of[1:] {
			of[i+1] = m.WithoutTarget("the target is for 1,000,000 subscriptions and 60,000 articles")
		}
	}
	return of
}

func printReflector(line printer, r keywords.ReflectRun) {
	line("subscriptions\tarticles\tin feeds\tMB resident\tof these, files\tMB of articles on disk\tper article: mean\tp50\tp90 µs\tsubscribe µs\trestart s\tCPU s\tfeeds unchanged")
	same := "all"
	if !r.Same {
		same = "NOT ALL"
	}
	line("%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.2f\t%.2f\t%s", r.Subscriptions, r.Articles, r.Live, float64(r.RSS)/1e6, float64(r.Mapped)/1e6, float64(r.Disk)/1e6,
		r.Mean, r.P50, r.P90, r.Subscribe, r.Load, r.LoadCPU, same)
}
