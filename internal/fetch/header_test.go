package fetch

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func headers(lines string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return h
}

func TestMaxAgeSubtractsTheAge(t *testing.T) {
	for _, c := range []struct {
		headers string
		want    time.Duration
	}{
		{"", 0},
		{"Cache-Control: max-age=60", time.Minute},
		{"Cache-Control: MAX-AGE = \"60\"", time.Minute},
		{"Cache-Control: public, max-age=60, must-revalidate", time.Minute},
		{"Cache-Control: public\nCache-Control: max-age=60", time.Minute},
		{"Cache-Control: max-age=60, max-age=90", time.Minute},
		{"Cache-Control: max-age=60\nAge: 20", 40 * time.Second},
		{"Cache-Control: max-age=60\nAge: 80", 0},
		{"Cache-Control: max-age=60\nAge: -80", time.Minute},
		{"Cache-Control: max-age=60\nAge: old", time.Minute},
		{"Cache-Control: max-age=60, no-cache", 0},
		{"Cache-Control: no-store\nExpires: Sun, 01 Mar 2026 13:00:00 GMT", 0},
		{"Cache-Control: s-maxage=60", 0},
		{"Cache-Control: max-age=-1", 0},
		{"Cache-Control: max-age=soon", 0},
		{"Cache-Control: max-age", 0},
		{"Cache-Control: max-age=99999999999999999999", maxDelay},
		{"Cache-Control: max-age=60\nExpires: Sun, 01 Mar 2026 13:00:00 GMT", time.Minute},
		{"Cache-Control: max-age=0\nExpires: Sun, 01 Mar 2026 13:00:00 GMT", 0},
		{"Expires: Sun, 01 Mar 2026 13:00:00 GMT", time.Hour},
		{"Expires: Sun, 01 Mar 2026 13:00:00 GMT\nDate: Sun, 01 Mar 2026 12:30:00 GMT", 30 * time.Minute},
		{"Expires: Sunday, 01-Mar-26 13:00:00 GMT", time.Hour},
		{"Expires: Sun, 01 Mar 2026 11:00:00 GMT", 0},
		{"Expires: 0", 0},
		{"Expires: Fri, 31 Dec 9999 23:59:59 GMT", maxDelay},
	} {
		if got := maxAge(headers(c.headers), noon); got != c.want {
			t.Errorf("%q: %v, want %v", c.headers, got, c.want)
		}
	}
}

func TestRetryAfterReadsAllForms(t *testing.T) {
	for _, c := range []struct {
		headers string
		want    time.Duration
	}{
		{"", 0},
		{"Retry-After: 120", 2 * time.Minute},
		{"Retry-After: 0", 0},
		{"Retry-After: -5", 0},
		{"Retry-After: 1.5", 1500 * time.Millisecond},
		{"Retry-After: Sun, 01 Mar 2026 12:10:00 GMT", 10 * time.Minute},
		{"Retry-After: Sun, 01 Mar 2026 11:10:00 GMT", 0},
		{"Date: Sun, 01 Mar 2026 10:00:00 GMT\nRetry-After: Sun, 01 Mar 2026 10:10:00 GMT", 10 * time.Minute},
		{"Retry-After: later", 0},
		{"Retry-After: 99999999999999", 7 * 24 * time.Hour},
		{"Retry-After: 99999999999999999999", maxDelay},
		{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", maxDelay},
		{"Retry-After: NaN", 0},
		{"Retry-After: Inf", maxDelay},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30", 30 * time.Second},
		{"X-RateLimit-Remaining: 0.0\nX-RateLimit-Reset: 30", 30 * time.Second},
		{"X-RateLimit-Remaining: 5\nX-RateLimit-Reset: 30", 0},
		{"X-RateLimit-Reset: 30", 0},
		{"X-RateLimit-Remaining: 0", 0},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1772366460", time.Minute},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1772366340", 0},
		{"X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 30", 30 * time.Second},
		{"RateLimit-Remaining: 0\nRateLimit-Reset: 30", 30 * time.Second},
		{`RateLimit: "default";r=0;t=30`, 30 * time.Second},
		{`RateLimit: "burst";r=3;t=30, "daily"; r=0; t=3600`, time.Hour},
		{`RateLimit: "default";r=50;t=30`, 0},
		{"Retry-After: 10\nRateLimit-Remaining: 0\nRateLimit-Reset: 30", 10 * time.Second},
	} {
		if got := retryAfter(headers(c.headers), noon); got != c.want {
			t.Errorf("%q: %v, want %v", c.headers, got, c.want)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("Cache-Control: max-age=60\nAge: 20\nExpires: Sun, 01 Mar 2026 13:00:00 GMT")
	f.Add("Retry-After: 10\nRateLimit: \"a\";r=0;t=1e300\nX-RateLimit-Remaining: -0x1p-2\nX-RateLimit-Reset: 1772366460")
	f.Fuzz(func(t *testing.T, lines string) {
		h := headers(lines)
		for _, d := range []time.Duration{maxAge(h, noon), retryAfter(h, noon)} {
			if d < 0 || d > maxDelay {
				t.Errorf("%q: %v", lines, d)
			}
		}
	})
}
