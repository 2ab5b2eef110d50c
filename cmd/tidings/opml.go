package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"tidings/proxy"
)

// stdio is the file name that stands for standard input or output.
const stdio = "-"

// An opmlCommand is "tidings opml".
type opmlCommand struct {
	Import importCommand `cmd:"" help:"Subscribe to all feeds of a list from another reader."`
	Export exportCommand `cmd:"" help:"Write the subscriptions to an OPML file that a reader can import."`
}

// An importCommand is "tidings opml import".
type importCommand struct {
	client `embed:""`
	File   string `arg:"" help:"OPML file, newsboat's file urls, or a text with an address in each line; - for standard input."`
}

// Run subscribes to all feeds of a list. Feeds that fail do not stop it.
func (c *importCommand) Run(ctx context.Context, s streams) error {
	doc, err := c.read(s.in)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	shown := terminalOf(s.err)
	c.onData = func(line []byte) { showProgress(s.err, shown, line) }
	raw, err := c.post(ctx, "opml?progress=1", "text/x-opml; charset=utf-8", doc)
	if shown.escapes && shown.width > 0 {
		_, _ = io.WriteString(s.err, clearLine) // progress is not worth an error
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", c.File, err)
	}
	raw = bytes.TrimSpace(raw)
	raw = raw[bytes.LastIndexByte(raw, '\n')+1:]
	if fault, err := decode[proxy.ErrorResponse](c.client, raw); err == nil && fault.Error != "" {
		return fmt.Errorf("import %s: %w", c.File, errorOf(fault, http.StatusServiceUnavailable))
	}
	answer, err := decode[proxy.ImportResult](c.client, raw)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.out, "%d new, %d already there, %d failed\n", answer.New(), answer.Already, len(answer.Failed)); err != nil {
		return err
	}
	if answer.Found > 0 {
		if _, err := fmt.Fprintf(s.notes(), "%s of the list named a web page: its feed is subscribed to.\n", proxy.Plural(answer.Found, "entry", "entries")); err != nil {
			return err
		}
	}
	return importError(c.File, answer.Failed)
}

// clearLine empties the line of a terminal that the cursor is in.
const clearLine = "\r\x1b[K"

// showProgress shows on a terminal how far an import has come. A part of an answer that is not a line of progress is ignored.
func showProgress(w io.Writer, t terminal, line []byte) {
	var p proxy.ImportProgress
	if t.width == 0 || !t.escapes || json.Unmarshal(line, &p) != nil || p.All == 0 {
		return
	}
	_, _ = fmt.Fprintf(w, "%s%s: %d of %d", clearLine, p.State, p.Done, p.All) // progress is not worth an error
}

func (c *importCommand) read(stdin io.Reader) ([]byte, error) {
	if c.File == stdio {
		return io.ReadAll(stdin)
	}
	b, err := os.ReadFile(c.File)
	return b, unreadableError(c.File, err)
}

// importError returns an error that lists the feeds that failed.
func importError(file string, failed []proxy.ImportFailure) error {
	if len(failed) == 0 {
		return nil
	}
	var lines []string
	for _, f := range failed {
		line := f.Error
		switch {
		case f.Line > 0:
			line = fmt.Sprintf("line %d: %s", f.Line, line)
		case !strings.Contains(line, f.URL):
			line = proxy.WithoutPassword(f.URL) + ": " + line
		}
		lines = append(append(lines, line), choiceLines(f.Choices)...)
	}
	return errorWithLines{fmt.Errorf("import %s: %s failed", file, proxy.Plural(len(failed), "feed", "feeds")), lines}
}

// An exportCommand is "tidings opml export".
type exportCommand struct {
	client   `embed:""`
	Original bool   `help:"Write the original addresses of the feeds, to read them without this node. Pages are left out, because a reader cannot follow them by itself."`
	Private  bool   `help:"Write private feeds, too: whoever has the file can then read them through this node. Their original addresses are never written."`
	Force    bool   `help:"Overwrite the file if it exists."`
	File     string `arg:"" help:"OPML file to write, or - for standard output."`
}

// Validate refuses flags that contradict each other.
func (c *exportCommand) Validate() error {
	if c.Original && c.Private {
		return errors.New("--original and --private contradict each other: original addresses of private feeds are secret, and lists are passed on")
	}
	return nil
}

// Run writes the list. The addresses contain tokens of this node, so only the owner of the file can read it.
func (c *exportCommand) Run(ctx context.Context, s streams) error {
	rewrite := "1"
	if c.Original {
		rewrite = "0"
	}
	query := "opml?rewrite=" + rewrite
	if c.Private {
		query += "&private=1"
	}
	doc, err := c.get(ctx, query)
	if err == nil && !bytes.Contains(doc, []byte("<opml")) {
		err = c.notANode()
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if c.File == stdio {
		_, err = s.out.Write(doc)
	} else {
		err = c.write(doc)
	}
	if err == nil {
		err = c.reportSkipped(ctx, s.err)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// reportSkipped lists the pages that are missing in a list of original addresses, and the private feeds that are
// missing.
func (c *exportCommand) reportSkipped(ctx context.Context, stderr io.Writer) error {
	type channel struct {
		URL     string `json:"url"`
		Kind    string `json:"kind"`
		Private bool   `json:"private"`
	}
	var pages, private []string
	err := eachListPart(ctx, c.client, "", func(part []channel) {
		for _, channel := range part {
			switch {
			case channel.Private && !c.Private:
				private = append(private, channel.URL)
			case c.Original && channel.Kind == proxy.KindPage:
				pages = append(pages, channel.URL)
			}
		}
	})
	if err != nil {
		return err
	}
	if private != nil {
		how := "--private adds the addresses at which this node serves them"
		if c.Original {
			how = "their original addresses are secret; a list without --original can have those at which this node serves them, by --private"
		}
		printError(stderr, errorWithLines{errors.New("the list lacks your private feeds; " + how), private})
	}
	if pages != nil {
		printError(stderr, errorWithLines{errors.New("the list lacks the pages that you follow, because a reader cannot follow them without a node"), pages})
	}
	return nil
}

// write writes the file. It overwrites an existing regular file only with --force.
func (c *exportCommand) write(doc []byte) error {
	if info, err := os.Stat(c.File); err == nil && info.Mode().IsRegular() && !c.Force {
		return fmt.Errorf("%s exists already: give another name, or --force to overwrite it", c.File)
	}
	return os.WriteFile(c.File, doc, 0o600)
}
