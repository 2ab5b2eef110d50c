package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth returns the width of a console. ok is false if f is not a console.
func terminalWidth(f *os.File) (columns int, ok bool) {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info); err != nil {
		return 0, false
	}
	return int(info.Window.Right-info.Window.Left) + 1, true
}
