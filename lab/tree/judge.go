package tree

import (
	"fmt"

	"tidings/lab/mark"
)

const (
	// weighty is from how many subscriptions on their memory is judged: below, it is lost in
	// that of connections.
	weighty = 100_000
	// spread is from how many topics on the load of hosts is judged: below, it is the load of
	// the few roots.
	spread = 1_000
	// burden is with how many subscriptions of a host, less a tenth, idle traffic is judged.
	burden = Burden * 9 / 10
)

// Burden is the number of subscriptions of a host with which idle traffic is asked for.
const Burden = 4800

// Judge returns the figures of the trees that have a target.
func Judge(results []Result) (marks []mark.Mark) {
	for _, r := range results {
		if r.System != OfTrees {
			continue
		}
		var of []mark.Mark
		if r.Wanted > 0 {
			of = append(of,
				mark.AtLeast("delivered", "%", 100*float64(r.Got)/float64(r.Wanted), 100),
				mark.AtMost("bytes on tree links a delivery, of the envelope", "", r.OnLinks()/float64(r.Envelope), 1.15).Better(1.05))
			if r.Topics >= spread {
				of = append(of, mark.AtMost("bytes a host passes on, max of mean", "", r.Load, 4).Better(2.5))
			}
		}
		if r.Subscriptions >= weighty {
			of = append(of, mark.AtMost("heap a subscription", "B", r.Heap, 400).Better(200))
		}
		if r.IdleS > 0 && r.Subscriptions >= burden*r.Hosts {
			messages, bytes := r.Beyond()
			of = append(of,
				mark.AtMost("idle, messages of a host beyond the overlay's own", "/s", messages, 2),
				mark.AtMost("idle, traffic of a host beyond the overlay's own", "KB/s", bytes/1e3, 2))
		}
		marks = append(marks, mark.Of(fmt.Sprintf("%d topics", r.Topics), of...)...)
	}
	return marks
}

// Judge returns the figure with its target.
func (s Speed) Judge() mark.Mark {
	return mark.AtLeast("envelopes opened on one core", "/s", s.PerSecond, 10_000)
}

// OnLinks is how many bytes a delivery costs on links, acknowledgements included.
func (r Result) OnLinks() float64 { return r.Content + r.Control }

// Beyond is what a host says in a second while nothing is published, beyond what it would
// say without subscriptions.
func (r Result) Beyond() (messages, bytes float64) {
	return r.IdleMessages + max(0, r.OverlayMessagesThen-r.OverlayMessages), r.IdleBytes + max(0, r.OverlayBytesThen-r.OverlayBytes)
}
