package longtest

import (
	"testing"
	"time"
)

// judged is a test that notes that it failed.
type judged struct {
	testing.TB
	failed bool
}

func (j *judged) Errorf(string, ...any) { j.failed = true }
func (j *judged) Logf(string, ...any)   {}

func TestWhatTakesTooMuchFails(t *testing.T) {
	var kept []byte
	for size, want := range map[int]bool{MaxMemory / 2: false, MaxMemory * 2: true} {
		j := &judged{TB: t}
		Bounded(j, func() { kept = make([]byte, size) })
		if len(kept) != size || j.failed != want {
			t.Errorf("%d bytes: failed %v", size, j.failed)
		}
	}
}

// A machine that does half as much in the same processor time has twice the time.
func TestTheBoundIsThatOfTheMachine(t *testing.T) {
	for yard, want := range map[time.Duration]time.Duration{yardTime / 2: MaxTime, yardTime: MaxTime, 2 * yardTime: 2 * MaxTime} {
		if got := boundOf(yard); got != want {
			t.Errorf("yard takes %v: %v, want %v", yard, got, want)
		}
	}
}
