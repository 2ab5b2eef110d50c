package feed

import (
	"testing"
	"time"

	"pgregory.net/rapid"
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

// Both ways of reading a date agree.
func TestExactDatesAreReadAsLooseOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "s"), rapid.SampledFrom([]int64{0, 5e8}).Draw(t, "ns"))
		at = at.In(time.FixedZone("", 60*rapid.IntRange(-12*60, 14*60).Draw(t, "zone")))
		for _, layout := range append(exactLayouts, time.RFC3339Nano) {
			s := at.Format(layout)
			if exact, loose := parseDate(s), looseDate(s); exact.IsZero() || !exact.Equal(loose) {
				t.Errorf("%s: %v and %v", s, exact, loose)
			}
		}
	})
}
