package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// NewPlan returns a random plan: each kind of trouble takes part in half of all plans,
// so that what one kind hides another cannot (Groce and others, Swarm testing, ISSTA
// 2012), and has a rate of its own in each. Without kinds all may take part.
func NewPlan(seed uint64, members int, length time.Duration, kinds ...Trouble) []Strike {
	if len(kinds) == 0 {
		kinds = Troubles
	}
	dice := rand.New(rand.NewPCG(seed, 0x91a7))
	p := planner{dice, Nemesis{Members: members}.machines(), length}
	var plan []Strike
	for len(plan) == 0 {
		for _, kind := range Troubles {
			if part := dice.IntN(2) == 0; slices.Contains(kinds, kind) && (part || len(kinds) == 1) {
				plan = append(plan, p.strikes(kind)...)
			}
		}
	}
	slices.SortStableFunc(plan, func(a, b Strike) int { return cmp.Compare(a.At, b.At) })
	return plan
}

type planner struct {
	dice     *rand.Rand
	machines int
	length   time.Duration
}

// strikes are those of one kind in a plan: at random times, with a mean pause between
// them of up to four times the shortest that is bearable.
func (p planner) strikes(kind Trouble) (of []Strike) {
	least := pauses[kind]
	mean := least + p.upTo(3*least)
	for at := p.after(mean); at < p.length; at += p.after(mean) {
		of = append(of, p.strike(kind, at))
	}
	return of
}

// pauses are the shortest mean times between two strikes of a kind.
var pauses = map[Trouble]time.Duration{
	Crash: 30 * time.Second, Leave: time.Minute, Wipe: 5 * time.Minute, Torn: 2 * time.Minute, Disk: 2 * time.Minute,
	Loss: 3 * time.Minute, Halves: 5 * time.Minute, OneWay: 4 * time.Minute,
	Pause: time.Minute, Slow: 2 * time.Minute, Clock: time.Minute,
}

func (p planner) strike(kind Trouble, at time.Duration) Strike {
	s := Strike{At: at.Round(time.Millisecond), Trouble: kind}
	switch kind {
	case Crash: // a fifth of all at once, now and then
		s.Hosts, s.Lasts, s.Silent = p.hosts(1), p.between(time.Second, 4*time.Minute), p.dice.IntN(2) == 0
		if p.dice.IntN(10) == 0 {
			s.Hosts = p.hosts(p.machines / 5)
		}
	case Leave:
		s.Hosts, s.Lasts = p.hosts(1), p.between(2*time.Second, 4*time.Minute)
	case Wipe:
		s.Hosts, s.Lasts, s.Silent = p.hosts(1), p.between(time.Second, 2*time.Minute), p.dice.IntN(2) == 0
	case Torn:
		s.Hosts, s.Lasts, s.Silent = p.hosts(1), p.between(time.Second, 2*time.Minute), p.dice.IntN(2) == 0
	case Disk:
		s.Hosts, s.Lasts, s.Disk = p.hosts(1+p.dice.IntN(p.machines/4)), p.between(10*time.Second, 4*time.Minute), Crowded
		if p.dice.IntN(2) == 0 {
			s.Disk = Full
		}
	case Loss:
		s.Lasts = p.between(10*time.Second, 4*time.Minute)
		s.Net = Faults{Loss: p.share(0.15), Duplicate: p.share(0.1), Reorder: p.share(0.1), Late: p.between(time.Second, 5*time.Second)}
	case Halves:
		s.Hosts, s.Lasts = p.hosts(1+p.dice.IntN(p.machines/2)), p.between(5*time.Second, 12*time.Minute)
	case OneWay:
		all := p.hosts(2 + p.dice.IntN(p.machines-2))
		cut := 1 + p.dice.IntN(len(all)-1)
		s.Hosts, s.To, s.Lasts = slices.Sorted(slices.Values(all[:cut])), slices.Sorted(slices.Values(all[cut:])), p.between(5*time.Second, 6*time.Minute)
	case Pause: // nobody ends one when the troubles are over
		s.Hosts, s.Lasts = p.hosts(1+p.dice.IntN(3)), min(p.between(time.Second, time.Minute), p.length-s.At)
	case Slow:
		s.Hosts, s.Lasts, s.By = p.hosts(1+p.dice.IntN(p.machines/8)), p.between(10*time.Second, 4*time.Minute), p.between(5*time.Millisecond, 100*time.Millisecond)
	case Clock: // five minutes, or a day
		s.Hosts, s.Lasts, s.By = p.hosts(1), 5*time.Second, p.between(-5*time.Minute, 5*time.Minute)
		if p.dice.IntN(4) == 0 {
			s.By = p.between(-24*time.Hour, 24*time.Hour)
		}
	}
	if kind != OneWay {
		slices.Sort(s.Hosts)
	}
	return s
}

// hosts are n machines.
func (p planner) hosts(n int) []int { return p.dice.Perm(p.machines)[:max(n, 1)] }

// share is a part of up to most, mostly small.
func (p planner) share(most float64) float64 {
	x := p.dice.Float64()
	return float64(int(1e4*most*x*x)) / 1e4
}

func (p planner) upTo(most time.Duration) time.Duration {
	return time.Duration(p.dice.Int64N(int64(most) + 1))
}

func (p planner) between(least, most time.Duration) time.Duration {
	return (least + p.upTo(most-least)).Round(time.Millisecond)
}

// after is a random time with some mean: that of events that know nothing of each other.
func (p planner) after(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * p.dice.ExpFloat64())
}
