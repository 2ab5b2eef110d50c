package corona

import (
	"cmp"
	"slices"
	"time"

	"tidings/internal/env"
)

// outstandingPoll is a scheduled poll without an answer. Answers come in any order: an answered
// poll stays in the list, without an assignment, until it is the first.
type outstandingPoll struct {
	assignment *assignment
	handle     env.Handle
	askedAt    env.Moment
	asked      string        // the address
	since      []fingerprint // of the document to which the request asked for changes
}

// lateAt is when the answer is overdue.
func (o *outstandingPoll) lateAt() time.Time { return o.askedAt.Time().Add(answerTimeout) }

// takeOutstanding takes an outstanding poll; its assignment is nil if the poll is not in the list.
func (po *poller) takeOutstanding(h env.Handle) (o outstandingPoll) {
	i, ok := slices.BinarySearchFunc(po.outstanding, h, func(o outstandingPoll, h env.Handle) int { return cmp.Compare(o.handle, h) })
	if !ok {
		return outstandingPoll{}
	}
	o = po.outstanding[i]
	po.outstanding[i].assignment = nil
	if n := slices.IndexFunc(po.outstanding, func(o outstandingPoll) bool { return o.assignment != nil }); n >= 0 {
		po.outstanding = po.outstanding[n:]
	} else {
		po.outstanding = po.outstanding[:0]
	}
	return o
}

// checkOverdue repeats polls whose answers never came.
func (po *poller) checkOverdue(now time.Time) {
	for len(po.outstanding) > 0 {
		o := po.outstanding[0]
		if o.lateAt().After(now) {
			return
		}
		po.takeOutstanding(o.handle)
		if o.assignment.waiting == o.handle {
			o.assignment.waiting = 0
			po.stats.Late++
			po.due(o.assignment, now)
		}
	}
}
