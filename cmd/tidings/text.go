package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// oneLine makes a text of a stranger safe to print: it becomes a single line without control characters for
// terminals.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // Cf includes characters that reverse the direction of text
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))), " ")
}

// ago says how long ago a time was, or "-" if it is not known.
func ago(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return "-"
	case now.Sub(*t) < time.Second:
		return "now"
	}
	return span(now.Sub(*t)) + " ago"
}

// until says how long it is until a time, or "-" if it is not known.
func until(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return "-"
	case t.Sub(now) < time.Second:
		return "now"
	}
	d := t.Sub(now)
	if d > time.Hour {
		d = d.Round(time.Minute) // so that 90 days are not 89 at once
	}
	return "in " + span(d)
}

// since says for how long a state has lasted.
func since(t *time.Time, now time.Time) string {
	if t == nil || now.Sub(*t) < time.Second {
		return ""
	}
	return "for " + span(now.Sub(*t))
}

// span formats a duration in its largest unit.
func span(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := int64(d / u.unit); n > 0 {
			if u.name == "day" && n > 1 {
				u.name = "days"
			}
			return fmt.Sprintf("%d %s", n, u.name)
		}
	}
	return "0 s"
}
