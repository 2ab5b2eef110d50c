// Command tidings-lab is the laboratory: it measures tidings in virtual time and on this machine, and
// compares the figures with their targets and with the papers.
//
//	tidings-lab sim churn         the overlay under churn, deaths, partitions and liars
//	tidings-lab sim faults        random faults of all kinds, and the recovery after them
//	tidings-lab sim table2        the simulation of Corona's Table 2: detection time and polls
//	tidings-lab sim deployment    Corona's deployment, with its sizes, in virtual time
//	tidings-lab sim figures       Corona's figures
//	tidings-lab sim cobra         Cobra's figures of hosting centres: which crawler polls what, articles through the tiers
//	tidings-lab sim publishing    delivery of published items: without faults, under churn, loss and partitions, with droppers
//	tidings-lab sim firehose      delivery of every new entry to every filter under churn
//	tidings-lab sim quiet         what subscriptions through two members cost
//	tidings-lab sim trust         forged items that colluding members get past witnesses, and what witnesses cost
//	tidings-lab sim aim           the owners of one chosen feed that an attacker gets, with each kind of ids
//	tidings-lab bench nodes       whole nodes over real sockets
//	tidings-lab bench deployment  cooperative polling over real sockets, compared with readers alone
//	tidings-lab bench crawl       bytes that a crawler fetches and passes on from real feeds
//	tidings-lab bench firehose    delivery of articles to the keyword feeds of filters, over real sockets
//	tidings-lab bench log         items published in one feed, by one program and by several, beside NATS JetStream in the same run
//	tidings-lab bench feeds       items published in a thousand feeds at once: items a second of one core, until all readers have them
//	tidings-lab bench liars       real nodes, some of which lie: what readers behind the others lack, and what they are told
//	tidings-lab bench websub      hubs that push: delay to readers of real nodes, polls saved, an hour without the hub
//	tidings-lab bench tree        trees and GossipSub, over real sockets
//	tidings-lab bench match       matching of articles with up to forty million keyword subscriptions
//	tidings-lab bench capacity    one node with up to a hundred thousand feeds, and with up to a million keyword subscriptions
//	tidings-lab bench reflector   a million keyword feeds on a disk
//	tidings-lab eval difference   the difference engine on real pages and feeds
//	tidings-lab eval structure    the structure of the code: lines, the largest types, and arrows between files
//
// Every command compares its figures with their targets; such a figure is a mark. Results go to standard
// output, as a table with the marks below it or, with --json, as one object that has them under the key
// "marks"; charts go into --out. With --quick a command measures something small that takes seconds. On a
// terminal the progress is shown on standard error. An interrupt ends the runs in progress; the results of
// finished ones are printed and drawn.
//
// Exit codes: 0 all marks are met; 1 a mark is missed, or the command failed or was interrupted, with one
// line on standard error; 2 wrong usage. A figure that is unknown because its measurement failed counts as
// missed; one that was skipped on purpose does not.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"tidings/lab/mark"
)

// A grammar is the command line.
type grammar struct {
	Help  helpFlag     `short:"h" help:"Show help for a command."`
	Sim   simCommand   `cmd:"" help:"Measure in virtual time."`
	Bench benchCommand `cmd:"" help:"Measure on this machine."`
	Eval  evalCommand  `cmd:"" help:"Measure real documents, and the code."`
}

type simCommand struct {
	Cobra      cobraCommand         `cmd:"" help:"Cobra's figures of hosting centres: latency of polls, ways through the tiers, full queues."`
	Churn      churnCommand         `cmd:"" help:"Overlay under churn: failed lookups, wrong roots, control traffic."`
	Faults     faultsCommand        `cmd:"" help:"Random faults of all kinds: violated invariants, and time to recover."`
	Deployment simDeploymentCommand `cmd:"" help:"Corona's deployment: 60 nodes, with growing subscriptions, at two loads."`
	Figures    simFiguresCommand    `cmd:"" help:"Figures 3 to 8 of Corona."`
	Firehose   firehoseCommand      `cmd:"" help:"Delivery of every new entry to every filter: missing, repeated and late ones."`
	Publishing publishingCommand    `cmd:"" help:"Delivery of published items to all readers, with and without faults: delay, lost and repeated items."`
	Quiet      quietCommand         `cmd:"" help:"Quiet subscriptions beside ordinary ones: delay, lost items, traffic."`
	Table2     table2Command        `cmd:"" name:"table2" help:"Corona's Table 2: detection time and polls, by the paper's scheme and ours."`
	Aim        aimCommand           `cmd:"" help:"An attacker who wants one feed: the owners that it gets, with each kind of ids."`
	Trust      trustCommand         `cmd:"" help:"Witnesses against colluding liars: forged items shown as witnessed, delay of the marks, polls."`
}

// stdio is the outputs of a command.
type stdio struct{ out, err io.Writer }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], stdio{os.Stdout, os.Stderr}))
}

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// run executes the command and returns the exit code.
func run(ctx context.Context, args []string, s stdio) int {
	c, err := parser(ctx, s).Parse(args)
	switch {
	case errors.Is(err, errHelped):
		return exitDone
	case err != nil:
		_, _ = fmt.Fprintf(s.err, "tidings-lab: %v; see tidings-lab --help\n", err) // there is no other place to report an error
		return exitUsage
	}
	if err := c.Run(s); err != nil {
		_, _ = fmt.Fprintln(s.err, "tidings-lab:", err)
		return exitFailed
	}
	return exitDone
}

// parser returns the parser of the command line.
func parser(ctx context.Context, s stdio) *kong.Kong {
	k, err := kong.New(&grammar{},
		kong.Name("tidings-lab"),
		kong.Description("The laboratory of tidings. Exit codes: 0 all marks are met; 1 a mark is missed, or the command failed; 2 wrong usage."),
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(s.out, io.Discard),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Resolvers(kong.ResolverFunc(quickValue)),
		kong.PostBuild(func(k *kong.Kong) error { return kong.Visit(k.Model, explainQuick) }),
	)
	if err != nil {
		panic("tidings-lab: the command line's grammar: " + err.Error())
	}
	return k
}

// A helpFlag ends the command line: the rest is ignored.
type helpFlag bool

var errHelped = errors.New("help was requested")

// BeforeReset is called by kong when it parses the flag.
func (helpFlag) BeforeReset(c *kong.Context) error {
	if err := c.PrintUsage(false); err != nil {
		return err
	}
	return errHelped
}

// refuseTogether refuses flags that have no meaning together with another one.
func refuseTogether(k *kong.Context, flag, because string, others ...string) error {
	for _, other := range others {
		if flagGiven(k, flag) && flagGiven(k, other) {
			return fmt.Errorf("--%s cannot be used with --%s: %s", other, flag, because)
		}
	}
	return nil
}

// flagGiven reports whether a flag is on the command line. A value that --quick sets does not
// count.
func flagGiven(k *kong.Context, flag string) bool {
	return slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == flag && !p.Resolved })
}

// quickTag is the tag of a command's field with the value that --quick gives to its flag.
const quickTag = "quick"

// quickValue returns the value that --quick gives to a flag that is not on the command line.
func quickValue(k *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !flag.Tag.Has(quickTag) || !flagGiven(k, "quick") {
		return nil, nil //nolint:nilnil // kong's way to say that there is no value
	}
	return flag.Tag.Get(quickTag), nil
}

// explainQuick adds the values that --quick sets to its help.
func explainQuick(node kong.Visitable, next kong.Next) error {
	if n, ok := node.(*kong.Node); ok {
		var sets []string
		for _, f := range n.Flags {
			if f.Tag.Has(quickTag) {
				sets = append(sets, fmt.Sprintf("--%s %s", f.Name, f.Tag.Get(quickTag)))
			}
		}
		for _, f := range n.Flags {
			if f.Name == "quick" && len(sets) > 0 {
				f.Help += " Defaults: " + strings.Join(sets, " ") + "."
			}
		}
	}
	return next(nil)
}

// joinErrors joins two errors into one line; either may be nil.
func joinErrors(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	return fmt.Errorf("%w; %w", first, second)
}

// makeFolder creates the folder for figures, if one is given, before the work begins, so that an
// error is reported at once.
func makeFolder(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder for figures: %w", err)
	}
	return nil
}

// A reporter has the flags that every command has, and prints the results.
type reporter struct {
	Quick bool `help:"Measure something small, in seconds."`
	JSON  bool `name:"json" help:"Print one JSON object."`
}

// A printer prints a line of a table, with tabs between the columns.
type printer func(format string, args ...any)

// report prints the results of a command: with --json the object of found, which must have at least
// one key, and the marks beside its keys; otherwise the table and the marks below it. It returns an
// error if a mark is missed.
func (r reporter) report(w io.Writer, found any, table func(printer), marks []mark.Mark) error {
	var err error
	if r.JSON {
		err = printJSON(w, found, marks)
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		lines := 0
		line := func(format string, args ...any) {
			lines++
			_, _ = fmt.Fprintf(t, format+"\n", args...) // Flush reports errors
		}
		if table(line); lines > 0 && len(marks) > 0 {
			line("")
		}
		mark.Print(line, marks)
		err = t.Flush()
	}
	return cmp.Or(err, mark.Err(marks))
}

// printJSON writes one object: that of found, with the marks beside its keys.
func printJSON(w io.Writer, found any, marks []mark.Mark) error {
	object, err := json.Marshal(found)
	if err != nil {
		return err
	}
	list, err := json.Marshal(append([]mark.Mark{}, marks...))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, slices.Concat(bytes.TrimSuffix(object, []byte("}")), []byte(`,"marks":`), list, []byte("}\n")), "", "  "); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}
