package main

import (
	"io"
	"os"
	"runtime"
)

// A terminal describes the output. The zero value is a pipe or a file, with unlimited width and no colours.
type terminal struct {
	width   int
	escapes bool // it supports escape sequences, so that output can be drawn over
	colours bool
}

// minTerminalWidth is the narrowest terminal for which tables are cut. In a narrower one they wrap.
const minTerminalWidth = 40

// terminalOf returns the properties of an output.
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
	// The behaviour of Windows consoles is not known.
	escapes := runtime.GOOS != "windows" && os.Getenv("TERM") != "dumb"
	return terminal{width: max(width, minTerminalWidth), escapes: escapes, colours: escapes && !unwanted}
}

// A colour is the escape sequence that begins it.
type colour string

const (
	plainText colour = ""
	bold      colour = "\x1b[1m"
	faint     colour = "\x1b[2m"
	red       colour = "\x1b[31m"
	green     colour = "\x1b[32m"
	yellow    colour = "\x1b[33m"
)

// paint colours a text if the terminal has colours.
func (t terminal) paint(c colour, text string) string {
	if !t.colours || c == plainText || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}
