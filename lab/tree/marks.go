package tree

import (
	"fmt"

	"tidings/lab/mark"
)

const (
	// minForMemory is the number of subscriptions from which on their memory has a target; with
	// fewer, connections dominate.
	minForMemory = 100_000
	// minForLoad is the number of topics from which on the load of hosts has a target; with fewer,
	// a few roots dominate.
	minForLoad = 1_000
	// minForIdle is the number of subscriptions per host from which on idle traffic has a target.
	minForIdle = IdleSubscriptions * 9 / 10
)

// IdleSubscriptions is the number of subscriptions per host for which idle traffic has a target.
const IdleSubscriptions = 4800

// Judge returns the figures of the trees that have a target.
func Judge(results []Result) (marks []mark.Mark) {
	for _, r := range results {
		if r.System != OfTrees {
			continue
		}
		var of []mark.Mark
		if r.Expected > 0 {
			of = append(of,
				mark.AtLeast("delivered", "%", 100*float64(r.Delivered)/float64(r.Expected), 100),
				mark.AtMost("bytes on tree links per delivery, relative to the envelope", "", r.BytesPerDelivery()/float64(r.Envelope), 1.15).WithStretch(1.05))
			if r.Topics >= minForLoad {
				of = append(of, mark.AtMost("bytes that a host forwards, maximum by mean", "", r.LoadMaxMean, 4).WithStretch(2.5))
			}
		}
		if r.Subscriptions >= minForMemory {
			of = append(of, mark.AtMost("heap per subscription", "B", r.HeapPerSubscription, 400).WithStretch(200))
		}
		if r.IdleS > 0 && r.Subscriptions >= minForIdle*r.Hosts {
			messages, bytes := r.IdleExcess()
			of = append(of,
				mark.AtMost("idle messages per host beyond the overlay's own", "/s", messages, 2),
				mark.AtMost("idle traffic per host beyond the overlay's own", "KB/s", bytes/1e3, 2))
		}
		marks = append(marks, mark.ForRun(fmt.Sprintf("%d topics", r.Topics), of...)...)
	}
	return marks
}

// Judge returns the figure with its target.
func (s Speed) Judge() mark.Mark {
	return mark.AtLeast("envelopes opened on one core", "/s", s.PerSecond, 10_000)
}

// BytesPerDelivery returns the bytes that a delivery costs on links, including acknowledgements.
func (r Result) BytesPerDelivery() float64 { return r.ContentBytes + r.ControlBytes }

// IdleExcess returns what an idle host sends per second beyond what it would send without
// subscriptions.
func (r Result) IdleExcess() (messages, bytes float64) {
	return r.IdleMessages + max(0, r.OverlayMessagesAfter-r.OverlayMessages), r.IdleBytes + max(0, r.OverlayBytesAfter-r.OverlayBytes)
}
