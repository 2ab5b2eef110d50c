package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// A grammar is the grammar of the command line, with a field for each command and flag.
type grammar struct {
	Help        helpFlag    `short:"h" help:"Show the help of a command."`
	ShowVersion versionFlag `name:"version" help:"Show the version."`
	Config      string      `placeholder:"FILE" help:"Read settings from FILE, in TOML, instead of ${config}."`

	Run     runCommand     `cmd:"" group:"The node:" help:"Run a node."`
	Open    openCommand    `cmd:"" group:"The node:" help:"Print an address that opens the node's pages in your browser."`
	Status  statusCommand  `cmd:"" group:"The node:" help:"Show the node and its network."`
	Doctor  doctorCommand  `cmd:"" group:"The node:" help:"List problems and what to do about them."`
	Network networkCommand `cmd:"" group:"The node:" help:"Create a network whose members need certificates, and admit members."`
	Version versionCommand `cmd:"" group:"The node:" help:"Show the version."`

	Healthcheck healthcheckCommand `cmd:"" group:"The node:" help:"Check whether the node answers."`

	Subscribe   subscribeCommand   `cmd:"" group:"Feeds and pages:" help:"Subscribe, and print the addresses for your feed reader."`
	Unsubscribe unsubscribeCommand `cmd:"" group:"Feeds and pages:" help:"Unsubscribe."`
	List        listCommand        `cmd:"" group:"Feeds and pages:" help:"List subscriptions and their state."`
	OPML        opmlCommand        `cmd:"" name:"opml" group:"Feeds and pages:" help:"Import and export subscriptions."`

	Watch   watchCommand   `cmd:"" group:"Keywords:" help:"Turn a search into a feed of new articles."`
	Unwatch unwatchCommand `cmd:"" group:"Keywords:" help:"End a search and its feed."`
	Watches watchesCommand `cmd:"" group:"Keywords:" help:"List searches."`
	Token   tokenCommand   `cmd:"" group:"Keywords:" help:"Let others make searches at this node, with tokens."`

	Notify notifyCommand `cmd:"" group:"Notifications:" help:"Tell webhooks, services such as ntfy, or e-mail what is new in feeds and searches."`

	Keygen  keygenCommand  `cmd:"" group:"Publishing:" help:"Make a publisher's key."`
	Publish publishCommand `cmd:"" group:"Publishing:" help:"Sign items of your feed and push them to its readers."`
	Trust   trustCommand   `cmd:"" group:"Publishing:" help:"Accept the new key of a feed."`

	Completion completionCommand `cmd:"" group:"The shell:" help:"Print a script that completes commands in bash, zsh or fish."`
	Manual     manualCommand     `cmd:"" hidden:"" help:"Print the manual page in Markdown, for packagers."`

	Demo       demoCommand       `cmd:"" group:"Trying and planning:" help:"Show the effect of a network, with 24 nodes and a web server on this machine."`
	Candidates candidatesCommand `cmd:"" group:"Trying and planning:" help:"List feeds that a crawler of a hosting centre has found and its list lacks."`

	Provision provisionCommand `cmd:"" group:"Trying and planning:" help:"Plan the nodes for a given number of keyword subscriptions."`
}

// streams holds the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// notes returns the stream for messages to people that are not the result of a command: standard output if that is
// a terminal, otherwise standard error.
func (s streams) notes() io.Writer {
	if terminalOf(s.out).width > 0 {
		return s.out
	}
	return s.err
}

// command parses a command line and executes it.
func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	for _, a := range args {
		if !utf8.ValidString(a) { // kong would replace the invalid bytes
			return usagef("%q is not in UTF-8", a)
		}
	}
	for _, a := range args {
		if a == "--" {
			break
		}
		if strings.HasPrefix(a, "-h") && a != "-h" { // kong would show the help
			return usagef("unknown flag %s; if it belongs to a query, put the query behind --", a)
		}
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == "help" { // as with many other programs
		args = append(args[1:len(args):len(args)], "--help")
	}
	var g grammar
	c, err := parse(&g, args, stdout)
	switch {
	case errors.Is(err, errFlagHandled):
		return nil
	case err != nil:
		return usageError{explainUsage(err), commandOf(err)}
	}
	c.BindTo(ctx, (*context.Context)(nil))
	err = c.Run(streams{stdin, stdout, stderr})
	if _, ok := errors.AsType[usageError](err); ok {
		err = usageError{err, c.Selected().Path()}
	}
	return err
}

// parse parses a command line, and takes missing settings from the environment and the configuration file.
func parse(g *grammar, args []string, help io.Writer) (*kong.Context, error) {
	return grammarOf(g, help, kong.Vars{"config": cmp.Or(configFile(), noHome), "data": cmp.Or(dataDir(), noHome), "http": defaultHTTP}).Parse(args)
}

// noHome replaces paths in the help that are not known.
const noHome = "none, because HOME is not set"

// grammarOf returns the parser of a command line. vars holds the user's paths and defaults for the help.
func grammarOf(g *grammar, help io.Writer, vars kong.Vars) *kong.Kong {
	k, err := kong.New(g, append(numberMappers(),
		kong.Name("tidings"),
		kong.Description("tidings polls feeds and pages together with other nodes, and serves them to your feed reader.\n\n"+
			"A setting comes from its flag, otherwise from the environment (TIDINGS_HTTP for --http), "+
			"otherwise from the configuration file (http = \"…\"), otherwise it has its default."),
		vars,
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(help, io.Discard),
		kong.Bind(stdout{help}),
		kong.DefaultEnvars("TIDINGS"),
		kong.PostBuild(func(k *kong.Kong) error {
			keepSettingEnvs(k.Model.Node)
			return nil
		}),
	)...)
	if err != nil {
		panic("tidings: the command line's grammar: " + err.Error())
	}
	return k
}

// keepSettingEnvs removes the environment variables of flags that are no settings, because they describe one action
// of a command. All flags of run are settings, and so is --passphrase-file: like TIDINGS_PASSPHRASE, all commands
// that open a key use it.
func keepSettingEnvs(n *kong.Node) {
	if n.Name == "run" {
		return
	}
	for _, f := range n.Flags {
		address := f.Name == "http" && n.Name != "demo" // demo serves at an address of its own
		if f.Name != "config" && f.Name != "data" && f.Name != "passphrase-file" && !address {
			f.Envs, f.Tag.Envs = nil, nil
		}
	}
	for _, child := range n.Children {
		keepSettingEnvs(child)
	}
}

// stdout is the output of flags that answer by themselves.
type stdout struct{ io.Writer }

// errFlagHandled says that a flag such as --help has answered, and that nothing else is to be done.
var errFlagHandled = errors.New("a flag has answered")

// A helpFlag prints the help of a command. Arguments that follow it are ignored.
type helpFlag bool

// BeforeReset is called by kong when it meets the flag.
func (helpFlag) BeforeReset(c *kong.Context) error {
	if err := c.PrintUsage(false); err != nil {
		return err
	}
	return errFlagHandled
}

// A versionFlag does the same as the command version.
type versionFlag bool

// BeforeReset is called by kong when it meets the flag.
func (versionFlag) BeforeReset(out stdout) error {
	if err := printVersion(out); err != nil {
		return err
	}
	return errFlagHandled
}

// commandOf returns the command in which a mistake was made, or "" if none was given.
func commandOf(err error) string {
	if p, ok := errors.AsType[*kong.ParseError](err); ok {
		if selected := p.Context.Selected(); selected != nil {
			return selected.Path()
		}
	}
	return ""
}
