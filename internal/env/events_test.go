package env

import (
	"slices"
	"testing"
	"time"
)

// A task is a layer with something to do at a time.
type task struct {
	at  time.Time
	run func() (next time.Time)
}

func (l *task) Next() time.Time { return l.at }

func (l *task) Run(time.Time) time.Time {
	l.at = l.run()
	return l.at
}

// Layers run in their order, only those that are due, and again if another one has given them work.
func TestDueLayersRun(t *testing.T) {
	now := time.Unix(1000, 0)
	var order []string
	first := &task{}
	first.run = func() time.Time { order = append(order, "first"); return now.Add(time.Hour) }
	later := &task{at: now.Add(time.Second), run: func() time.Time { order = append(order, "later"); return time.Time{} }}
	last := &task{at: now, run: func() time.Time { order = append(order, "last"); first.at = now; return time.Time{} }}
	if next := RunDue(now, first, later, last); !slices.Equal(order, []string{"last", "first"}) || !next.Equal(later.at) {
		t.Errorf("%v, next at %v", order, next)
	}
}

// Layers that keep each other busy give other events of the world a turn.
func TestBusyLayersGiveWay(t *testing.T) {
	now, runs := time.Unix(1000, 0), 0
	if next := RunDue(now, &task{now, func() time.Time { runs++; return AtOnce }}); runs == 0 || next.After(now) {
		t.Errorf("%d runs, next at %v", runs, next)
	}
}

// Events are handled in their order when the layers' calls are over, and those that follow from them as well. The
// clock need not stand still meanwhile.
func TestEventsWait(t *testing.T) {
	var handled []int
	var events *Events[int]
	events = NewEvents(func(n int) {
		if handled = append(handled, n); n == 1 {
			events.Emit(3)
		}
	})
	turn := time.Unix(1000, 0)
	layer := &task{turn, func() time.Time { events.Emit(1); events.Emit(2); return time.Time{} }}
	if next := RunDue(turn, events, layer); !slices.Equal(handled, []int{1, 2, 3}) || !next.IsZero() || len(events.Waiting()) > 0 {
		t.Errorf("handled %v, next at %v", handled, next)
	}
}
