package env

import (
	"math"
	"math/rand/v2"
	"time"
)

// A Moment is a time in nanoseconds of Unix time, or Never. It has a third of the size of time.Time, for
// structs that exist in large numbers.
type Moment int64

// Never is the Moment of the zero time.
const Never Moment = 0

// lastSecond is the last one of which all Moments exist, in the year 2262.
const lastSecond = math.MaxInt64/int64(time.Second) - 1

// MomentOf converts a time. Later ones than lastSecond become that, and earlier ones than 1677 its counterpart: both can come
// from strangers only.
func MomentOf(t time.Time) Moment {
	if t.IsZero() {
		return Never
	}
	if s := t.Unix(); s > lastSecond || s < -lastSecond {
		t = time.Unix(max(-lastSecond, min(s, lastSecond)), 0)
	}
	return Moment(t.UnixNano())
}

// Time converts a moment.
func (m Moment) Time() time.Time {
	if m == Never {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).UTC()
}

// Millis returns the milliseconds of Unix time, and 0 for Never and what was before.
func (m Moment) Millis() uint64 { return uint64(max(0, int64(m)/int64(time.Millisecond))) }

// After reports whether m is later than t. Never is not.
func (m Moment) After(t time.Time) bool { return m != Never && int64(m) > t.UnixNano() }

// Sub returns the time from an earlier moment to m.
func (m Moment) Sub(earlier Moment) time.Duration { return time.Duration(m - earlier) }

// Jitter varies a duration by up to a quarter, so that nodes do not act in step.
func Jitter(r *rand.Rand, d time.Duration) time.Duration {
	return d*3/4 + time.Duration(r.Int64N(int64(d)/2+1))
}

// Mix spreads the bits of x (the finaliser of MurmurHash3), so that a sum or an XOR of several values makes
// a digest.
func Mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
