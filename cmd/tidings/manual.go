package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A manualCommand is "tidings manual". It prints Markdown that go-md2man converts to the manual page tidings(1).
type manualCommand struct {
	Date string `help:"The date of the page, such as 2026-11-26."`
}

// Run prints the page.
func (c *manualCommand) Run(s streams) error {
	app := documentedGrammar()
	var b strings.Builder
	fmt.Fprintf(&b, "%% \"TIDINGS\" \"1\" %q %q \"User Commands\"\n\n", c.Date, "tidings "+release().Version)
	b.WriteString("# NAME\n\ntidings - a peer-to-peer daemon for feeds and web pages\n\n" +
		"# SYNOPSIS\n\n**tidings** *COMMAND* [*FLAG*]... [*ARGUMENT*]...\n\n" +
		"# DESCRIPTION\n\n" + markdown(app.Help) + "\n\n")
	commands := commandsOf(app.Node)
	for i, c := range commands {
		if i == 0 { // the program itself; its flags come last
			continue
		}
		node := child(app.Node, strings.Fields(c.path))
		if group := node.Group; group != nil && (i == 1 || node.Parent == app.Node && group.Title != groupBefore(commands[:i], app.Node)) {
			fmt.Fprintf(&b, "# %s\n\n", strings.ToUpper(strings.TrimSuffix(group.Title, ":")))
		}
		manualOf(&b, node)
	}
	b.WriteString("# FLAGS OF ALL COMMANDS\n\n")
	flagsOf(&b, app.Flags)
	b.WriteString(manualEnd)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// groupBefore returns the title of the group of the last of some commands.
func groupBefore(commands []completedCommand, root *kong.Node) string {
	last := child(root, strings.Fields(commands[len(commands)-1].path)[:1])
	if last.Group == nil {
		return ""
	}
	return last.Group.Title
}

// child returns the command below n with a path.
func child(n *kong.Node, path []string) *kong.Node {
	for _, name := range path {
		n = n.Children[slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == name })]
	}
	return n
}

// manualOf writes the section about one command.
func manualOf(b *strings.Builder, n *kong.Node) {
	synopsis := "**tidings " + n.Path() + "**"
	if len(n.Children) > 0 {
		synopsis += " *COMMAND*"
	}
	if len(n.Flags) > 0 {
		synopsis += " [*FLAG*]..."
	}
	for _, a := range n.Positional {
		synopsis += " *" + strings.ToUpper(a.Name) + "*"
		if a.IsCumulative() {
			synopsis += "..."
		}
	}
	fmt.Fprintf(b, "## tidings %s\n\n%s\n\n%s\n\n", n.Path(), synopsis, markdown(n.Help))
	text, exampleText, found := strings.Cut(n.Detail, "Examples:\n")
	if text = strings.TrimSpace(text); text != "" {
		b.WriteString(markdown(text) + "\n\n")
	}
	for _, a := range n.Positional {
		definition(b, "*"+strings.ToUpper(a.Name)+"*", a.Help)
	}
	flagsOf(b, n.Flags)
	if found {
		fmt.Fprintf(b, "Examples:\n\n%s\n\n", strings.Trim(exampleText, "\n"))
	}
}

// flagsOf writes a list of flags, those without a group first.
func flagsOf(b *strings.Builder, flags []*kong.Flag) {
	flags = slices.Clone(flags)
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return min(len(groupOf(a)), 1) - min(len(groupOf(b)), 1) })
	group := ""
	for _, f := range flags {
		if g := groupOf(f); g != group {
			group = g
			b.WriteString(markdown(g) + "\n\n")
		}
		name := "**--" + f.Name + "**"
		if f.Short != 0 {
			name = fmt.Sprintf("**-%c**, %s", f.Short, name)
		}
		if valueKind(f.Value, f.PlaceHolder) != kindNone {
			name += "=*" + markdown(strings.Trim(f.FormatPlaceHolder(), `"`)) + "*"
		}
		definition(b, name, f.Help)
	}
}

func groupOf(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Title
}

func definition(b *strings.Builder, what, text string) {
	fmt.Fprintf(b, "%s\n: %s\n\n", what, markdown(text))
}

// markdown escapes all characters with a meaning in Markdown.
func markdown(text string) string { return markdownQuotes.Replace(text) }

var markdownQuotes = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, ">", `\>`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`)

// manualEnd is the part of the page that is not generated from the grammar.
//
//nolint:misspell // NO_COLOR is what no-color.org calls it
const manualEnd = `# ENVIRONMENT

Every flag of **tidings run** is also an environment variable: **TIDINGS\_POLL\_INTERVAL** stands for
**--poll-interval**. Of the flags of other commands, **--http**, **--data**, **--config** and
**--passphrase-file** are.

**TIDINGS\_PASSPHRASE**
: The passphrase of a publisher's key. **TIDINGS\_PASSPHRASE\_FILE** names a file that has it, and takes precedence.

**NO\_COLOR**
: Print without colours.

**NOTIFY\_SOCKET**, **WATCHDOG\_USEC**
: Set by systemd, which is told when the node is ready, as long as it answers, and when it stops.

# FILES

*~/.config/tidings/config.toml*
: Settings, one a line, by the names of flags: poll-interval = "10s". On macOS it is in
*~/Library/Application Support*, on Windows in *%LOCALAPPDATA%*. The system service reads
*/etc/tidings/config.toml*.

*~/.local/share/tidings*
: The node's data directory: its identity, subscriptions and articles. That of the system service is
*/var/lib/tidings*.

*~/.local/state/tidings*
: For each running node of the user a copy of its token, such as *127.0.0.1\_8190.token*, for commands. A node removes its
copy when it stops.

# SIGNALS

**SIGINT**, **SIGTERM**
: The node leaves its network in good order and ends. A second signal ends it at once.

**SIGHUP**
: At a terminal the node ends as above. A service ignores the signal and says so in its log: to apply changed
settings, restart it.

# EXIT STATUS

**0**
: The command has done its work.

**1**
: It failed. One line on standard error says why.

**2**
: It was called wrongly. One line on standard error says how.
`
