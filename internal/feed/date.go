package feed

import (
	"regexp"
	"strings"
	"time"
)

// dateLayouts are the forms of dates that feeds have, without the day of the week and with numeric time zones.
var dateLayouts = []string{
	time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05-0700", "2006-01-02T15:04:05 -0700", "2006-01-02T15:04:05",
	"2006-01-02T15:04",
	"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
	"2006-1-2", "2006-01", "20060102", "2006", "2006/01/02 15:04:05", "2006/01/02",
	"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04 -0700", "2 Jan 2006 15:04:05", "2 Jan 2006 15:04", "2 Jan 2006",
	"2 Jan 06 15:04:05 -0700", "2 Jan 06 15:04 -0700", "2 Jan 06",
	"2 January 2006 15:04:05 -0700", "2 January 2006 15:04:05", "2 January 2006",
	"Jan 2 15:04:05 2006", "Jan 2 15:04:05 -0700 2006", "Jan 2 2006 15:04:05 -0700", "Jan 2 2006 15:04:05", "Jan 2 2006",
	"January 2 2006 15:04:05", "January 2 2006", "1/2/2006 15:04:05", "1/2/2006 3:04:05 PM", "1/2/2006",
}

// zones are the names of time zones that RFC 822 allows.
var zones = map[string]string{
	"UT": "+0000", "UTC": "+0000", "GMT": "+0000", "Z": "+0000", "EST": "-0500", "EDT": "-0400", "CST": "-0600",
	"CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700", "ET": "-0500", "CT": "-0600",
	"MT": "-0700", "PT": "-0800", "BST": "+0100", "CET": "+0100", "CEST": "+0200",
}

// parseDate reads a date in one of the forms that feeds have. It returns the zero time if it knows none.
func parseDate(s string) time.Time {
	if len(s) > 128 { // no form is as long
		return time.Time{}
	}
	for _, layout := range exactLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return looseDate(s)
}

// exactLayouts are the forms of most dates, those of Atom and RSS. looseDate reads them, too, in ten times the time.
var exactLayouts = []string{time.RFC3339, time.RFC1123Z}

// looseDate is parseDate for a date that may have words in other places, comments and names of zones.
func looseDate(s string) time.Time {
	s = spacedTime.ReplaceAllString(withoutComments(s), "${1}T$2")
	words := strings.Fields(strings.ReplaceAll(s, ",", " "))
	if len(words) > 1 && isDay(words[0]) {
		words = words[1:]
	}
	for i, w := range words {
		w = strings.ToUpper(w)
		if zone, ok := zones[w]; ok && i > 0 {
			words[i] = zone
		} else if len(w) == 1 && w[0] >= 'A' { // RFC 822 has letters for zones; RFC 5322, 4.3, says that they tell nothing
			words[i] = "+0000"
		} else if rest, ok := strings.CutPrefix(w, "GMT"); ok && rest != "" {
			words[i] = strings.ReplaceAll(rest, ":", "")
		} else if len(w) == len("+00:00") && (w[0] == '+' || w[0] == '-') && w[3] == ':' {
			words[i] = w[:3] + w[4:]
		}
	}
	s = strings.Join(words, " ")
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// isDay reports whether a word begins with the English name of a day of the week.
func isDay(word string) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if len(word) >= 3 && strings.EqualFold(word[:3], day.String()[:3]) {
			return true
		}
	}
	return false
}

// spacedTime finds the T of a time with white space around it.
var spacedTime = regexp.MustCompile(`(\d)\s*T\s*(\d)`)

// withoutComments returns a date without the comments that mail allows (RFC 5322, 3.2.2), such as "(Pacific Daylight
// Time)".
func withoutComments(s string) string {
	depth := 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case depth == 0:
			return r
		}
		return ' '
	}, s)
}
