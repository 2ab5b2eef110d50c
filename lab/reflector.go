package main

import (
	"context"
	"fmt"

	"tidings/internal/plot"
	"tidings/lab/figure"
	"tidings/lab/keywords"
	"tidings/lab/mark"
)

// A reflectorCommand is "tidings-lab bench reflector".
type reflectorCommand struct {
	reporter
	Subs     []int  `default:"1000000" quick:"10000,20000" help:"Numbers of keyword subscriptions, measured one after the other (${default})."`
	Articles int    `default:"60000" quick:"1000" help:"Number of articles (${default})."`
	Words    int    `default:"0" help:"Words per article; 0 for articles of all lengths (${default})."`
	Dir      string `placeholder:"DIR" help:"Create the files in a directory within this one instead of the system's directory for temporary files."`
	Out      string `placeholder:"DIR" help:"Draw Figure 7 into DIR."`
}

// Help is appended to the command's help.
func (c *reflectorCommand) Help() string {
	return "Figure 7 of Cobra (NSDI 2007): memory and time of a reflector with many subscriptions and articles on a real disk. " +
		"Then it is restarted, and every feed is compared. The paper has 500,000 and 1,000,000 subscriptions."
}

// Validate is called by kong after parsing the flags.
func (c *reflectorCommand) Validate() error {
	for _, n := range c.Subs {
		if n < 1 || n > 50_000_000 || c.Articles < 1 || c.Articles > 100_000_000 || c.Words < 0 || c.Words > 100_000 {
			return fmt.Errorf("--subs %d --articles %d --words %d: from 1 to 50,000,000, 100,000,000 and 100,000", n, c.Articles, c.Words)
		}
	}
	return nil
}

// Run measures reflectors one after the other.
func (c *reflectorCommand) Run(ctx context.Context, s stdio) error {
	var runs []keywords.ReflectRun
	var marks []mark.Mark
	for _, n := range c.Subs {
		run, err := c.measure(ctx, s, n)
		if err != nil {
			return err
		}
		runs, marks = append(runs, run), append(marks, mark.ForRun(millions(n), reflectorMarks(run)...)...)
	}
	files, err := saveFigures(c.Out, []namedFigure{reflectorMemory(runs)})
	if err != nil {
		return err
	}
	return c.report(s.out, map[string]any{"runs": runs, "files": files}, func(line printer) { printReflectors(line, runs) }, marks)
}

// measure measures one reflector.
func (c *reflectorCommand) measure(ctx context.Context, s stdio, subscriptions int) (run keywords.ReflectRun, err error) {
	dir, remove, err := keywords.TempDir(c.Dir)
	if err != nil {
		return run, err
	}
	defer func() { err = joinErrors(err, remove()) }()
	p := newProgress(s.err, fmt.Sprintf("%d subscriptions", subscriptions))
	defer p.end()
	return keywords.Reflect(ctx, keywords.ReflectConfig{
		Subscriptions: subscriptions, Articles: c.Articles, Words: c.Words, Dir: dir, Resident: residentNow, Mapped: mappedNow, CPUTime: cpuTimeNow,
	}, p.at)
}

// reflectorMemory returns Figure 7. The paper's values are those that its text states.
func reflectorMemory(runs []keywords.ReflectRun) namedFigure {
	f := figure.Figure{
		Title: "Figure 7 of Cobra: memory of a reflector", X: "articles received", Y: "MB",
		Caption: "Resident memory without pages of files. The articles are on a disk, and not in memory as in the paper, whose reflectors took 310 MB with " +
			"half a million subscriptions after 60,000 articles, and nearly 500 MB with a million.",
	}
	for _, r := range runs {
		l := plot.Line{Name: millions(r.Subscriptions)}
		for _, m := range r.Growth {
			l.X, l.Y = append(l.X, float64(m.Articles)), append(l.Y, float64(m.RSS-m.Mapped)/1e6)
		}
		f.Lines = append(f.Lines, l)
	}
	return namedFigure{"cobra-figure-7", f}
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

func printReflectors(line printer, runs []keywords.ReflectRun) {
	line("subscriptions\tarticles\tin feeds\tMB resident\tof these, files\tMB of articles on disk\tper article: mean\tp50\tp90 µs\tsubscribe µs\trestart s\tCPU s\tfeeds unchanged")
	for _, r := range runs {
		same := "all"
		if !r.Same {
			same = "NOT ALL"
		}
		line("%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.2f\t%.2f\t%s", r.Subscriptions, r.Articles, r.Live, float64(r.RSS)/1e6, float64(r.Mapped)/1e6, float64(r.Disk)/1e6,
			r.Mean, r.P50, r.P90, r.Subscribe, r.Load, r.LoadCPU, same)
	}
}
