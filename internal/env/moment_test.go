package env

import (
	"testing"
	"time"
)

// A Moment is the time that it was made of, to the nanosecond, and a time that it cannot hold becomes the nearest one that it can.
func TestMomentsAreTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(1, 2), time.Date(2026, 11, 29, 1, 2, 3, 4, time.UTC), time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := MomentOf(at).Time(); !got.Equal(at) {
			t.Errorf("%v became %v", at, got)
		}
	}
	first, last := MomentOf(time.Unix(-lastSecond, 0)), MomentOf(time.Unix(lastSecond, 0))
	for at, want := range map[time.Time]Moment{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC): last, time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC): first} {
		if got := MomentOf(at); got != want {
			t.Errorf("%v became %v", at, got.Time())
		}
	}
	if Never.Millis() != 0 || MomentOf(time.UnixMilli(7)).Millis() != 7 || MomentOf(time.UnixMilli(-7)).Millis() != 0 {
		t.Error("wrong milliseconds")
	}
}
