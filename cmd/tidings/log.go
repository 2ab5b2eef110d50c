package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
)

// newLog returns a log that suits who reads it: a person at a terminal, the
// journal of systemd, or a file.
func newLog(w io.Writer, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		panic("tidings: log level: " + err.Error()) // the grammar has refused it
	}
	t := terminalOf(w)
	switch {
	case t.width > 0:
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: least, TimeFormat: time.TimeOnly, NoColor: !t.colours}))
	case os.Getenv("JOURNAL_STREAM") != "":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: least}))
}
