package tree

// A Mark is a figure beside what was asked for.
type Mark struct {
	What    string
	Topics  int // of the run it is of; 0: of none
	Got     float64
	Asked   float64
	Stretch float64 // what would be better still; 0: nothing
	Least   bool    // the figure is to be no less than what was asked; else no more
}

// Met says whether the figure is as good as was asked for.
func (m Mark) Met() bool { return m.than(m.Asked) }

// Stretched says whether it is better still.
func (m Mark) Stretched() bool { return m.Stretch != 0 && m.than(m.Stretch) }

func (m Mark) than(limit float64) bool {
	if m.Least {
		return m.Got >= limit
	}
	return m.Got <= limit
}

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
func Judge(of []Result) (marks []Mark) {
	for _, r := range of {
		if r.System != OfTrees {
			continue
		}
		mark := func(m Mark) {
			m.Topics = r.Topics
			marks = append(marks, m)
		}
		if r.Wanted > 0 {
			mark(Mark{What: "delivered, %", Got: 100 * float64(r.Got) / float64(r.Wanted), Asked: 100, Least: true})
			mark(Mark{What: "bytes on tree links a delivery, of the envelope", Got: r.OnLinks() / float64(r.Envelope), Asked: 1.15, Stretch: 1.05})
			if r.Topics >= spread {
				mark(Mark{What: "bytes a host passes on, max of mean", Got: r.Load, Asked: 4, Stretch: 2.5})
			}
		}
		if r.Subscriptions >= weighty {
			mark(Mark{What: "heap a subscription, B", Got: r.Heap, Asked: 400, Stretch: 200})
		}
		if r.IdleS > 0 && r.Subscriptions >= burden*r.Hosts {
			messages, bytes := r.Beyond()
			mark(Mark{What: "idle, messages a second and host beyond the overlay's own", Got: messages, Asked: 2})
			mark(Mark{What: "idle, KB a second and host beyond the overlay's own", Got: bytes / 1e3, Asked: 2})
		}
	}
	return marks
}

// Judge returns the figure with its target.
func (s Speed) Judge() []Mark {
	return []Mark{{What: "envelopes opened a second on one core", Got: s.PerSecond, Asked: 10_000, Least: true}}
}

// OnLinks is how many bytes a delivery costs on links, acknowledgements included.
func (r Result) OnLinks() float64 { return r.Content + r.Control }

// Beyond is what a host says in a second while nothing is published, beyond what it would
// say without subscriptions.
func (r Result) Beyond() (messages, bytes float64) {
	return r.IdleMessages + max(0, r.OverlayMessagesThen-r.OverlayMessages), r.IdleBytes + max(0, r.OverlayBytesThen-r.OverlayBytes)
}
