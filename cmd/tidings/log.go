package main

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
)

// newLog returns a logger whose format suits the output: a terminal, the systemd journal, or a file.
func newLog(w io.Writer, level string) *slog.Logger {
	var minLevel slog.Level
	if err := minLevel.UnmarshalText([]byte(level)); err != nil {
		panic("tidings: log level: " + err.Error()) // the grammar allows only valid levels
	}
	t := terminalOf(w)
	switch {
	case t.width > 0:
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: minLevel, TimeFormat: time.TimeOnly, NoColor: !t.colours, ReplaceAttr: onOneLine}))
	case os.Getenv("JOURNAL_STREAM") != "":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: minLevel, ReplaceAttr: onOneLine}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: minLevel, ReplaceAttr: onOneLine}))
}

// onOneLine joins the lines of a text or an error. Joined errors have a line each.
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
