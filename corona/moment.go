package corona

import "time"

// A moment is a time as it is kept where there are many: nanoseconds of Unix time, or never.
type moment int64

const never moment = 0

func momentOf(t time.Time) moment {
	if t.IsZero() {
		return never
	}
	return moment(t.UnixNano())
}

// time is the zero time for never.
func (m moment) time() time.Time {
	if m == never {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).UTC()
}

func (m moment) after(t time.Time) bool { return m != never && int64(m) > t.UnixNano() }
