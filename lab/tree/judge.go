package tree

import (
	"fmt"

	"tidings/lab/mark"
)

const (
	// weighty is from how many subscriptions on their memory is judged: below, it is lost in
	// that of connections.
	minForMemory = 100_000
	// spread is from how many topics on the load of hosts is judged: below, it is the load of
	// the few roots.
	minForLoad = 1_000
	// burden is with how many subscriptions of a host, less a tenth, idle traffic is judged.
	minForIdle = IdleSubscriptions * 9 / 10
)

// Burden is the number of subscriptions of a host with which idle traffic is asked for.
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
				mark.AtMost("bytes on tree links a delivery, of the envelope", "", r.BytesPerDelivery()/float64(r.Envelope), 1.15).WithStretch(1.05))
			if r.Topics >= minForLoad {
				of = append(of, mark.AtMost("bytes a host passes on, max of mean", "", r.LoadMaxMean, 4).WithStretch(2.5))
			}
		}
		if r.Subscriptions >= minForMemory {
			of = append(of, mark.AtMost("heap a subscription", "B", r.HeapPerSubscription, 400).WithStretch(200))
		}
		if r.IdleS > 0 && r.Subscriptions >= minForIdle*r.Hosts {
			messages, bytes := r.IdleExcess()
			of = append(of,
				mark.AtMost("idle, messages of a host beyond the overlay's own", "/s", messages, 2),
				mark.AtMost("idle, traffic of a host beyond the overlay's own", "KB/s", bytes/1e3, 2))
		}
		marks = append(marks, mark.ForRun(fmt.Sprintf("%d topics", r.Topics), of...)...)
	}
	return marks
}

// Judge returns the figure with its target.
func (s Speed) Judge() mark.Mark {
	return mark.AtLeast("envelopes opened on one core", "/s", s.PerSecond, 10_000)
}

// OnLinks is how many bytes a delivery costs on links, acknowledgements included.
func (r Result) BytesPerDelivery() float64 { return r.ContentBytes + r.ControlBytes }

// Beyond is what a host says in a second while nothing is published, beyond what it would
// say without subscriptions.
func (r Result) IdleExcess() (messages, bytes float64) {
	return r.IdleMessages + max(0, r.OverlayMessagesAfter-r.OverlayMessages), r.IdleBytes + max(0, r.OverlayBytesAfter-r.OverlayBytes)
}
