package honeycomb

import "math"

// Ideal returns the best numbers of pollers if they could be any real numbers from 1 to each
// channel's maximum, and all of T were spent. By Cauchy and Schwarz these are
//
//	n = clamp(√(delay/load lambda), 1, maxPollers)
//
// No schedule that does not predict updates detects them sooner, because evenly spaced polls
// minimise the wait. Measure of these numbers is therefore the bound. For Lite, if no channel
// reaches its maximum, it is
//
//	tau/2 (Σ√(q s))² / T Q
func Ideal(p *Problem, channels []Channel) []float64 {
	curves, n := make([]tradeoff, len(channels)), make([]float64, len(channels))
	subscribers := 0.
	for i := range channels {
		curves[i] = p.tradeoff(&channels[i])
		subscribers += channels[i].subscribers()
	}
	budget := p.Budget(subscribers)
	// cost returns the cost of all channels at lambda = 2^at and sets n.
	cost := func(at float64) (sum float64) {
		for i, c := range curves {
			x := math.Exp2(-at)
			if p.Objective == Fast {
				x = 1 / x
			}
			n[i] = clamp(math.Sqrt(c.ratio()*x), 1, c.maxPollers)
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

// A Measurement evaluates numbers of pollers whose polls are evenly spaced.
type Measurement struct {
	// Detection is the paper's mean detection time: seconds, averaged over subscribers.
	Detection float64
	// Notification is the mean detection time in seconds, averaged over all updates that
	// subscribers receive. Channels that change often count more.
	Notification float64
	// Load is the mean load of a channel: polls of content of mean size per interval.
	Load float64
	// Polls is the mean number of polls of a channel per interval.
	Polls float64
	// Objective is the sum of f.
	Objective float64
}

// Measure evaluates numbers of pollers.
func Measure(p *Problem, channels []Channel, pollers func(i int) float64) Measurement {
	var m Measurement
	subscribers, updates := 0., 0.
	rate := Problem{Objective: Fair, Nodes: p.Nodes, Interval: p.Interval}
	plain := Problem{Objective: Lite, Nodes: p.Nodes, Interval: p.Interval}
	for i := range channels {
		c, n := &channels[i], pollers(i)
		wait, told := plain.tradeoff(c), rate.tradeoff(c)
		of := p.tradeoff(c)
		f, _ := p.values(of, n)
		m.Objective += f
		m.Load += of.load * n
		size := 1.
		if c.Size != 0 {
			size = clamp(c.Size, MinSize, MaxSize)
		}
		m.Polls += of.load * n / size
		m.Detection += wait.delay / n
		m.Notification += told.delay / n
		q := clamp(c.Subscribers, MinSubscribers, MaxSubscribers)
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
