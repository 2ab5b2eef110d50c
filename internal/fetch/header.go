package fetch

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWish is the longest time an origin can ask for. Whoever means it says so again
// a week later; a slip, or a header that a stranger got into one answer, must not
// silence a feed, and all of its domain, for a year.
const maxWish = 7 * 24 * time.Hour

// maxAge is how long a document stays fresh from now on: what Cache-Control says
// less its Age in caches on the way, else until it expires (RFC 9111, section
// 4.2.1). It is 0 if the origin does not say, or says that it must be asked.
func maxAge(h http.Header, now time.Time) time.Duration {
	var fresh time.Duration
	said := false
	for d := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(d), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			if !said { // said twice: the first counts
				fresh, said = seconds(strings.Trim(value, `" `)), true
			}
		}
	}
	if said {
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
	return min(max(0, expires.Sub(date)), maxWish)
}

// retryAfter is how long an origin wants to be left alone: what Retry-After
// says, in seconds or as a date, else until a quota that is used up is filled
// again. There is no standard for quotas yet: a draft in two forms, and two
// customs.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		now = at // the origin's clock is the one its times are by
	}
	if s := h.Get("Retry-After"); s != "" {
		if at, err := http.ParseTime(s); err == nil {
			return min(max(0, at.Sub(now)), maxWish)
		}
		return seconds(s)
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

// quotaReset reads when a quota is filled again: in so many seconds, or, as some
// have it, at a Unix time.
func quotaReset(s string, now time.Time) time.Duration {
	const unixTime = 1_000_000_000 // in 2001; as seconds to wait it would be 31 years
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && f >= unixTime && f < math.MaxInt32*1000 {
		return min(max(0, time.Unix(int64(f), 0).Sub(now)), maxWish)
	}
	return seconds(s)
}

// seconds reads a number of seconds, 0 if it is none.
func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return time.Duration(min(f, maxWish.Seconds()) * float64(time.Second))
}
