//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth returns the width of a terminal. ok is false if f is not a terminal.
func terminalWidth(f *os.File) (columns int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	if size.Col == 0 { // unknown, as on a serial line
		return 80, true
	}
	return int(size.Col), true
}
