package main

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// A grammar is the command line: a field for each command and flag.
type grammar struct {
	Help   helpFlag `short:"h" help:"Show what a command does and takes."`
	Config string   `placeholder:"FILE" help:"Read settings from FILE, in TOML, instead of ${config}."`

	Run         runCommand         `cmd:"" help:"Run a node: peer, poller, and what feed readers read."`
	Subscribe   subscribeCommand   `cmd:"" help:"Subscribe to feeds; print the addresses to give to a feed reader."`
	Unsubscribe unsubscribeCommand `cmd:"" help:"End subscriptions."`
	Keygen      keygenCommand      `cmd:"" help:"Make the key of a publisher."`
	Publish     publishCommand     `cmd:"" help:"Sign items of a feed of yours, and push them to its readers."`
	Trust       trustCommand       `cmd:"" help:"Believe that the publisher of a feed has another key."`
	Watch       watchCommand       `cmd:"" help:"Subscribe to articles that match keywords, by a feed of their own."`
	Unwatch     unwatchCommand     `cmd:"" help:"End a keyword subscription: nobody can read its address any more."`
	Watches     watchesCommand     `cmd:"" help:"List the keyword subscriptions."`
	List        listCommand        `cmd:"" help:"List subscriptions and their health."`
	Status      statusCommand      `cmd:"" help:"Show the node in its network."`
	Open        openCommand        `cmd:"" help:"Print an address, good once, at which a browser shows the node's pages."`
	Doctor      doctorCommand      `cmd:"" help:"Say what is wrong with the node, and what to do about it."`
	OPML        opmlCommand        `cmd:"" name:"opml" help:"Move subscriptions in and out."`
	Provision   provisionCommand   `cmd:"" help:"Plan a hosting centre for keyword subscriptions: how many nodes of which kind."`
	Demo        demoCommand        `cmd:"" help:"Show what it is for: a network on this machine, beside readers who poll for themselves."`
	Version     versionCommand     `cmd:"" help:"Say which tidings this is."`
}

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command reads the command line, and does what it says.
func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	for _, a := range args {
		if !utf8.ValidString(a) { // kong would read something else
			return usagef("%q is not in UTF-8", a)
		}
	}
	if len(args) > 0 && args[0] == "help" { // as of many commands
		args = append(args[1:len(args):len(args)], "--help")
	}
	var g grammar
	c, err := parse(&g, args, stdout)
	switch {
	case errors.Is(err, errHelped):
		return nil
	case err != nil:
		return usageError{err}
	}
	c.BindTo(ctx, (*context.Context)(nil))
	return c.Run(streams{stdin, stdout, stderr})
}

// parse reads the command line into a grammar, and the settings it does not have
// from the environment and the file.
func parse(g *grammar, args []string, help io.Writer) (*kong.Context, error) {
	k, err := kong.New(g,
		kong.Name("tidings"),
		kong.Description("Feeds for the reader you like, polled once for all.\n\n"+
			"A setting comes from its flag, else from the environment (TIDINGS_HTTP for --http), "+
			"else from the file (http = \"…\"), else it has its default."),
		kong.Vars{"config": configFile(), "data": dataDir(), "http": defaultHTTP},
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(help, io.Discard),
		kong.DefaultEnvars("TIDINGS"),
	)
	if err != nil {
		panic("tidings: the command line's grammar: " + err.Error())
	}
	return k.Parse(args)
}

// A helpFlag ends the command line: what comes behind it is not looked at.
type helpFlag bool

var errHelped = errors.New("help was all that was asked for")

// BeforeReset is called by kong when it meets the flag.
func (helpFlag) BeforeReset(c *kong.Context) error {
	if err := c.PrintUsage(false); err != nil {
		return err
	}
	return errHelped
}
