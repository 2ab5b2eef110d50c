package corona

import "time"

// moment is a compact time for structs that exist in large numbers: nanoseconds of Unix time, or
// never.
type moment int64

const never moment = 0

func momentOf(t time.Time) moment {
	if t.IsZero() {
		return never
	}
	return moment(t.UnixNano())
}

// time converts a moment; never becomes the zero time.
func (m moment) time() time.Time {
	if m == never {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).UTC()
}

func (m moment) after(t time.Time) bool { return m != never && int64(m) > t.UnixNano() }
