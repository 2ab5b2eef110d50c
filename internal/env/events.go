package env

import "time"

// Events is a queue of what layers report while they work. It is a Layer that handles the events once the layers'
// calls have returned, in the order of the events, so that no layer is called while it is in the middle of another
// call.
type Events[E any] struct {
	handle  func(E)
	waiting []E
}

// NewEvents returns a queue whose events go to handle.
func NewEvents[E any](handle func(E)) *Events[E] {
	return &Events[E]{handle: handle}
}

// Emit adds an event.
func (q *Events[E]) Emit(ev E) { q.waiting = append(q.waiting, ev) }

// Waiting returns the events that are not handled yet, which must not be changed.
func (q *Events[E]) Waiting() []E { return q.waiting }

// Next returns AtOnce while events wait, and otherwise the zero time.
func (q *Events[E]) Next() time.Time {
	if len(q.waiting) == 0 {
		return time.Time{}
	}
	return AtOnce
}

// Run handles the events, and those that follow from them.
func (q *Events[E]) Run(time.Time) time.Time {
	for i := 0; i < len(q.waiting); i++ { // handle may add events
		q.handle(q.waiting[i])
	}
	clear(q.waiting)
	q.waiting = q.waiting[:0]
	return time.Time{}
}
