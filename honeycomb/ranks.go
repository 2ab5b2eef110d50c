package honeycomb

import "math"

// ranks are channels that may have any number of pollers. A step changes the number by one.
// There are too many steps to list, so the number is computed as a function of lambda.
type ranks struct {
	p        *Problem
	channels []Channel
	curves   []tradeoff
}

func (v *ranks) tieKey(i int) uint64 { return v.channels[i].Key }

// pollers returns the choice after all steps steeper than lambda: the step between n-1 and n
// has slope ratio/n(n-1), or the inverse for Fast.
func (p *Problem) pollers(c tradeoff, lambda float64) float64 {
	x := c.ratio()
	if p.Objective == Fast {
		x *= lambda
	} else {
		x /= lambda
	}
	n := math.Floor((1 + math.Sqrt(1+4*x)) / 2)
	return min(max(n, 1), c.maxPollers)
}

// slope returns the slope of the step between n-1 and n.
func (p *Problem) slope(c tradeoff, n float64) float64 {
	if p.Objective == Fast {
		return n * (n - 1) / c.ratio()
	}
	return c.ratio() / (n * (n - 1))
}

// A point is the outcome for all own channels at one lambda.
type point struct {
	lambda  float64
	own     float64 // cost of the own channels
	total   float64 // cost including the remote aggregate's
	pollers float64
}

func (v *ranks) at(lambda float64, remote *costCurve) point {
	pt := point{lambda: lambda}
	for _, c := range v.curves {
		n := v.p.pollers(c, lambda)
		_, g := v.p.values(c, n)
		pt.own += g
		pt.pollers += n
	}
	pt.total = pt.own + remote.costAt(lambda)
	return pt
}

// maxListedSteps bounds the steps that are listed, unless a sixteenth of the channels is more;
// several channels may have equal slopes.
const maxListedSteps = 2048

// choose brackets lambda until few steps remain in the bracket, and takes those one by one.
func (v *ranks) choose(remote *costCurve, budget float64) Solution {
	s := Solution{Pick: make([]int32, len(v.curves)), Budget: budget}
	up, down := v.lambdaRange()
	hi, lo := v.at(up, remote), v.at(down, remote)
	switch {
	case hi.total > budget: // no step of the own channels is taken
		lo = hi
	case lo.total <= budget: // all steps are taken
		hi = lo
	default:
		hi, lo = v.narrow(hi, lo, remote, budget)
	}
	var list []step
	for i, c := range v.curves {
		n, to := v.p.pollers(c, hi.lambda), v.p.pollers(c, lo.lambda)
		f, g := v.p.values(c, n)
		s.Down.F += f
		s.Down.G += g
		s.Pick[i] = int32(n)
		for n != to {
			var st step
			st, n = v.step(i, n, to)
			list = append(list, st)
		}
	}
	s.takeSteps(list, v, remote)
	if s.Marginal < 0 && lo.total > budget && hi.total <= budget { // the remote aggregate takes the remaining budget, or sums differ in their last bits
		s.Lambda = max(s.Lambda, lo.lambda)
	}
	return s
}

// step returns the step from n by one towards another number, and the number after it.
func (v *ranks) step(i int, n, towards float64) (step, float64) {
	c := v.curves[i]
	next := n + 1
	if towards < n {
		next = n - 1
	}
	f, g := v.p.values(c, n)
	after, cost := v.p.values(c, next)
	return step{slope: v.p.slope(c, max(n, next)), gain: f - after, cost: cost - g, item: int32(i), choice: int32(next)}, next
}

// lambdaRange returns a lambda above all slopes of the own channels, and one below.
func (v *ranks) lambdaRange() (up, down float64) {
	up, down = 0, math.Inf(1)
	for _, c := range v.curves {
		a, b := v.p.slope(c, 2), v.p.slope(c, max(c.maxPollers, 2))
		up, down = max(up, a, b), min(down, a, b)
	}
	if up == 0 { // no channels
		return 1, 1 // no channels
	}
	return 2 * up, down / 2
}

// narrow moves two points closer together that bracket the budget. The cost is about
// proportional to lambda^-½ for every objective, so the first guesses are good. Each guess
// overshoots the budget by more than the previous one, until the budget is closely bracketed.
// Many channels are alike and make the cost jump, so from then on narrow halves the interval.
func (v *ranks) narrow(hi, lo point, remote *costCurve, budget float64) (point, point) {
	guess := 0. // √lambda if no channel were at a bound; a sum over all channels
	for _, c := range v.curves {
		guess += math.Sqrt(c.delay * c.load)
	}
	guess = guess/budget + math.Sqrt(remote.lambdaAt(budget))
	guess *= guess
	most := max(maxListedSteps, float64(len(v.curves)/16))
	over, under, beyond := false, false, 0.25
	for math.Abs(hi.pollers-lo.pollers) > most && hi.lambda > lo.lambda*(1+1e-12) {
		if !(guess > lo.lambda && guess < hi.lambda) {
			guess = math.Sqrt(hi.lambda) * math.Sqrt(lo.lambda)
		}
		pt := v.at(guess, remote)
		off := pt.total / budget
		aim := min(beyond*math.Abs(off-1)+1e-6, 0.5)
		beyond *= 4
		if off > 1 {
			lo, over = pt, true
			aim = 1 + aim
		} else {
			hi, under = pt, true
			aim = 1 - aim
		}
		guess = pt.lambda * off * off * aim * aim
		if over && under {
			guess = 0 // bisect from now on
		}
	}
	return hi, lo
}
