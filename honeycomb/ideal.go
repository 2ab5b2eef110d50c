package honeycomb

import "math"

// Ideal returns the best numbers of pollers if they could be any real numbers between 1 and
// the most that each channel may have, and all of T were spent: by Cauchy and Schwarz
//
//	n = clamp(√(delay/load lambda), 1, most)
//
// No schedule detects changes sooner that does not guess when they come: the wait of a
// channel polled n times an interval is least when the polls are even. What Measure makes
// of these numbers is the bound; for Lite, where no channel reaches its most,
//
//	tau/2 (Σ√(q s))² / T Q
func Ideal(p *Problem, channels []Channel) []float64 {
	curves, n := make([]curve, len(channels)), make([]float64, len(channels))
	subscribers := 0.
	for i := range channels {
		curves[i] = p.curve(&channels[i])
		subscribers += channels[i].subscribers()
	}
	budget := p.Budget(subscribers)
	// cost of all at lambda = 2^at
	cost := func(at float64) (sum float64) {
		for i, c := range curves {
			x := math.Exp2(-at)
			if p.Objective == Fast {
				x = 1 / x
			}
			n[i] = within(math.Sqrt(c.ratio()*x), 1, c.most)
			_, g := p.values(c, n[i])
			sum += g
		}
		return sum
	}
	lo, hi := -float64(maxOctave), float64(maxOctave)
	for hi-lo > 1e-12 {
		if mid := (lo + hi) / 2; cost(mid) > budget {
			lo = mid
		} else {
			hi = mid
		}
	}
	cost(hi)
	return n
}

// A Measurement says what numbers of pollers are worth, when their polls are at even phases.
type Measurement struct {
	// Detection is the mean detection time of subscribers in seconds, over time (the
	// paper's).
	Detection float64
	// Notification is the mean detection time in seconds over all updates that subscribers
	// get: channels that change often count more.
	Notification float64
	// Load is what is polled in an interval, in contents of mean size, for each channel.
	Load float64
	// Polls is the same in polls.
	Polls float64
	// Objective is F.
	Objective float64
}

// Measure says what numbers of pollers are worth.
func Measure(p *Problem, channels []Channel, pollers func(i int) float64) Measurement {
	var m Measurement
	subscribers, updates := 0., 0.
	rate := Problem{Objective: Fair, Nodes: p.Nodes, Interval: p.Interval}
	plain := Problem{Objective: Lite, Nodes: p.Nodes, Interval: p.Interval}
	for i := range channels {
		c, n := &channels[i], pollers(i)
		wait, told := plain.curve(c), rate.curve(c)
		of := p.curve(c)
		f, _ := p.values(of, n)
		m.Objective += f
		m.Load += of.load * n
		size := 1.
		if c.Size != 0 {
			size = within(c.Size, MinSize, MaxSize)
		}
		m.Polls += of.load * n / size
		m.Detection += wait.delay / n
		m.Notification += told.delay / n
		q := within(c.Subscribers, MinSubscribers, MaxSubscribers)
		subscribers += q
		updates += told.delay / wait.delay * q
	}
	if count := float64(len(channels)); count > 0 {
		m.Detection /= subscribers
		m.Notification /= updates
		m.Load /= count
		m.Polls /= count
	}
	return m
}
