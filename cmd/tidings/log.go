package main

import (
	"io"
	"log/slog"
	"os"
	"strings"
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
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: least, TimeFormat: time.TimeOnly, NoColor: !t.colours, ReplaceAttr: onOneLine}))
	case os.Getenv("JOURNAL_STREAM") != "":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: onOneLine}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: onOneLine}))
}

// onOneLine joins the lines of a text or an error. Several errors at a time have a line each.
func onOneLine(_ []string, a slog.Attr) slog.Attr {
	var text string
	switch v := a.Value.Any().(type) {
	case string:
		text = v
	case error:
		text = v.Error()
	}
	if strings.Contains(text, "\n") {
		a.Value = slog.StringValue(strings.ReplaceAll(text, "\n", "; "))
	}
	return a
}
