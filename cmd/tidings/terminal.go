package main

import (
	"io"
	"os"
	"runtime"
)

// A terminal is what a person looks at. The zero value is a pipe or a file: as
// wide as need be, and without colours.
type terminal struct {
	width   int
	escapes bool // it takes them: what stands there can be drawn over
	colours bool
}

// leastWidth is the narrowest terminal that tables are cut for; in a narrower one
// they wrap.
const leastWidth = 40

// terminalOf looks at where a command writes.
func terminalOf(w io.Writer) terminal {
	f, ok := w.(*os.File)
	if !ok {
		return terminal{}
	}
	width, ok := terminalWidth(f)
	if !ok {
		return terminal{}
	}
	unwanted := os.Getenv("NO_COLOR") != "" //nolint:misspell // is what no-color.org calls it
	// What a console of Windows makes of escapes is not known.
	escapes := runtime.GOOS != "windows" && os.Getenv("TERM") != "dumb"
	return terminal{width: max(width, leastWidth), escapes: escapes, colours: escapes && !unwanted}
}

// A colour is what a terminal is sent to begin it.
type colour string

const (
	plainText colour = ""
	bold      colour = "\x1b[1m"
	faint     colour = "\x1b[2m"
	red       colour = "\x1b[31m"
	green     colour = "\x1b[32m"
	yellow    colour = "\x1b[33m"
)

// paint colours text where that can be seen.
func (t terminal) paint(c colour, text string) string {
	if !t.colours || c == plainText || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}
