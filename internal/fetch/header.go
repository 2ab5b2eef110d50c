package fetch

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxDelay bounds the delays that an origin may ask for. An origin that means it repeats the header
// after a week. A mistake, or a header that somebody injected into one answer, must not silence a feed
// and its whole domain for a year.
const maxDelay = 7 * 24 * time.Hour

// maxAge returns how long a document stays fresh from now on: the max-age of Cache-Control less the
// Age, or else the time until Expires (RFC 9111, section 4.2.1). It returns 0 if the origin says
// nothing or wants to be asked each time.
func maxAge(h http.Header, now time.Time) time.Duration {
	var fresh time.Duration
	given := false
	for d := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(d), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			if !given { // the first of several counts
				fresh, given = seconds(strings.Trim(value, `" `)), true
			}
		}
	}
	if given {
		return max(0, fresh-seconds(h.Get("Age")))
	}
	expires, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		date = now
	}
	return min(max(0, expires.Sub(date)), maxDelay)
}

// retryAfter returns how long an origin wants no requests: the Retry-After, in seconds or as a date, or
// else the time until an exhausted quota is reset.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if s := h.Get("Retry-After"); s != "" {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date // times in headers refer to the origin's clock
		}
		if at, err := http.ParseTime(s); err == nil {
			return min(max(0, at.Sub(now)), maxDelay)
		}
		return seconds(s)
	}
	return quotaWait(h, now)
}

// quotaWait returns the time until an exhausted quota is reset, also if this request was the last one
// that it allowed. There is no standard for quotas yet: the function reads two forms of a draft, and two
// customs.
func quotaWait(h http.Header, now time.Time) time.Duration {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	longest := time.Duration(0)
	used := func(remaining, reset string) {
		if left, err := strconv.ParseFloat(remaining, 64); err == nil && left <= 0 {
			longest = max(longest, quotaReset(reset, now))
		}
	}
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-", "X-Rate-Limit-"} {
		used(h.Get(prefix+"Remaining"), h.Get(prefix+"Reset"))
	}
	for policy := range strings.SplitSeq(strings.Join(h.Values("RateLimit"), ","), ",") {
		parameters := map[string]string{}
		for p := range strings.SplitSeq(policy, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			parameters[name] = value
		}
		used(parameters["r"], parameters["t"])
	}
	return longest
}

// quotaReset reads when a quota is reset: a number of seconds or, at some origins, a Unix time.
func quotaReset(s string, now time.Time) time.Duration {
	const unixTime = 1_000_000_000 // in 2001; as a delay it would be 31 years
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && f >= unixTime && f < math.MaxInt32*1000 {
		return min(max(0, time.Unix(int64(f), 0).Sub(now)), maxDelay)
	}
	return seconds(s)
}

// seconds reads a number of seconds. It returns 0 if s is not a number.
func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return time.Duration(min(f, maxDelay.Seconds()) * float64(time.Second))
}
