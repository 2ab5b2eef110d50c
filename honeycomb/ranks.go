package honeycomb

import "math"

// ranks are channels that may have any number of pollers. A step changes it by one, and
// there are too many to be listed: the number is a function of lambda.
type ranks struct {
	p        *Problem
	channels []Channel
	curves   []curve
}

func (v *ranks) tie(i int) uint64 { return v.channels[i].Key }

// pollers is the choice when all steps steeper than lambda are taken: the step between n-1
// and n has slope ratio/n(n-1), or its inverse if load is what is saved.
func (p *Problem) pollers(c curve, lambda float64) float64 {
	x := c.ratio()
	if p.Objective == Fast {
		x *= lambda
	} else {
		x /= lambda
	}
	n := math.Floor((1 + math.Sqrt(1+4*x)) / 2)
	return min(max(n, 1), c.most)
}

// slope is that of the step between n-1 and n.
func (p *Problem) slope(c curve, n float64) float64 {
	if p.Objective == Fast {
		return n * (n - 1) / c.ratio()
	}
	return c.ratio() / (n * (n - 1))
}

// A point is what all own channels do at one lambda.
type point struct {
	lambda  float64
	own     float64 // cost
	spent   float64 // with the rest's
	pollers float64
}

func (v *ranks) at(lambda float64, rest *fluid) point {
	pt := point{lambda: lambda}
	for _, c := range v.curves {
		n := v.p.pollers(c, lambda)
		_, g := v.p.values(c, n)
		pt.own += g
		pt.pollers += n
	}
	pt.spent = pt.own + rest.at(lambda)
	return pt
}

// maxListed is how many steps are listed; at least as many as a sixteenth of the channels,
// because of ties.
const maxListed = 2048

// choose brackets lambda until few steps lie between, and takes those one by one.
func (v *ranks) choose(rest *fluid, budget float64) Solution {
	s := Solution{Pick: make([]int32, len(v.curves)), Budget: budget}
	up, down := v.ends()
	hi, lo := v.at(up, rest), v.at(down, rest)
	switch {
	case hi.spent > budget: // nothing own is taken
		lo = hi
	case lo.spent <= budget: // everything is
		hi = lo
	default:
		hi, lo = v.narrow(hi, lo, rest, budget)
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
	s.walk(list, v, rest)
	if s.Odd < 0 && lo.spent > budget && hi.spent <= budget { // the rest takes what is left, or the sums differ in their last bits
		s.Lambda = max(s.Lambda, lo.lambda)
	}
	return s
}

// step is one from n towards another number.
func (v *ranks) step(i int, n, towards float64) (step, float64) {
	c := v.curves[i]
	next := n + 1
	if towards < n {
		next = n - 1
	}
	f, g := v.p.values(c, n)
	after, cost := v.p.values(c, next)
	return step{slope: v.p.slope(c, max(n, next)), gain: f - after, cost: cost - g, row: int32(i), to: int32(next)}, next
}

// ends returns a lambda above all own slopes, and one below.
func (v *ranks) ends() (up, down float64) {
	up, down = 0, math.Inf(1)
	for _, c := range v.curves {
		a, b := v.p.slope(c, 2), v.p.slope(c, max(c.most, 2))
		up, down = max(up, a, b), min(down, a, b)
	}
	if up == 0 {
		return 1, 1 // no channels
	}
	return 2 * up, down / 2
}

// narrow moves two points together between which the budget is reached. The cost goes about
// with lambda^-½, whatever the objective, so the first guesses are near; they aim more and
// more beyond the budget, until there is a near point on either side. Many channels are
// alike and the cost has leaps, so from there on halving the interval is best.
func (v *ranks) narrow(hi, lo point, rest *fluid, budget float64) (point, point) {
	guess := 0. // √lambda, if no channel were at a bound: a sum over all channels
	for _, c := range v.curves {
		guess += math.Sqrt(c.delay * c.load)
	}
	guess = guess/budget + math.Sqrt(rest.slopeAt(budget))
	guess *= guess
	most := max(maxListed, float64(len(v.curves)/16))
	over, under, beyond := false, false, 0.25
	for math.Abs(hi.pollers-lo.pollers) > most && hi.lambda > lo.lambda*(1+1e-12) {
		if !(guess > lo.lambda && guess < hi.lambda) {
			guess = math.Sqrt(hi.lambda) * math.Sqrt(lo.lambda)
		}
		pt := v.at(guess, rest)
		off := pt.spent / budget
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
			guess = 0 // halve
		}
	}
	return hi, lo
}
