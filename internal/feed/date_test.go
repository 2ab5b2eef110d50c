package feed

import (
	"testing"
	"time"
)

func TestDatesInTheFormsThatFeedsHave(t *testing.T) {
	const evening = "2026-11-05T21:04:00Z"
	for s, want := range map[string]string{
		"Thu, 05 Nov 2026 13:04:00 PST":                               evening,
		"tHU, 5 nov 2026 13:04:00 pst":                                evening,
		"Thu, 05 Nov 2026 21:04:00 z":                                 evening,
		"Thu, 05 Nov 2026 21:04:00 K":                                 evening, // a letter of RFC 822
		"2026-11-05 T 21:04:00Z":                                      evening,
		"2026-11-05T 13:04:00 -08:00":                                 evening,
		"Thu(rsday), 5(th) Nov(ember) 2026 21:04:00 +0000 (UTC)":      evening,
		"Thu Nov 05 2026 13:04:00 GMT-0800 (Pacific (Standard) Time)": evening,
		"2026-11-31T21:04:00Z":                                        "", // no such day
		"2026-11-05T25:04:00Z":                                        "",
		"(2026-11-05)":                                                "",
		"5 Nov 2026 21:04:00 +0000) (UTC":                             "",
	} {
		got := ""
		if at := parseDate(s); !at.IsZero() {
			got = at.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q is read as %q, want %q", s, got, want)
		}
	}
}
