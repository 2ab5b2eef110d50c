package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// NewFaultPlan returns a random plan. Each kind of fault takes part in half of all plans, because
// one kind may hide the effect of another (Groce and others, Swarm testing, ISSTA 2012), and has a
// random rate in each. If kinds are given, only these may take part.
func NewFaultPlan(seed uint64, members int, length time.Duration, kinds ...FaultKind) []Fault {
	if len(kinds) == 0 {
		kinds = FaultKinds
	}
	rng := rand.New(rand.NewPCG(seed, 0x91a7))
	p := planner{rng, Scenario{Members: members}.machineCount(), length}
	var plan []Fault
	for len(plan) == 0 {
		for _, kind := range FaultKinds {
			if part := rng.IntN(2) == 0; slices.Contains(kinds, kind) && (part || len(kinds) == 1) {
				plan = append(plan, p.faultsOf(kind)...)
			}
		}
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

type planner struct {
	rng          *rand.Rand
	machineCount int
	length       time.Duration
}

// faultsOf returns the faults of one kind: at random times, with a mean interval between one and
// four times the minimum.
func (p planner) faultsOf(kind FaultKind) (of []Fault) {
	least := minIntervals[kind]
	mean := least + p.randomUpTo(3*least)
	for at := p.exponential(mean); at < p.length; at += p.exponential(mean) {
		of = append(of, p.fault(kind, at))
	}
	return of
}

// minIntervals are the shortest mean times between two faults of a kind.
var minIntervals = map[FaultKind]time.Duration{
	Crash: 30 * time.Second, Leave: time.Minute, DiskLost: 5 * time.Minute, TornWrite: 2 * time.Minute, NoDiskSpace: 2 * time.Minute,
	Loss: 3 * time.Minute, Partition: 5 * time.Minute, OneWayPartition: 4 * time.Minute,
	Pause: time.Minute, Slow: 2 * time.Minute, ClockJump: time.Minute,
}

func (p planner) fault(kind FaultKind, at time.Duration) Fault {
	s := Fault{At: at.Round(time.Millisecond), Kind: kind}
	switch kind {
	case Crash: // in one of ten cases a fifth of all machines at once
		s.Hosts, s.Duration, s.Silent = p.hosts(1), p.randomBetween(time.Second, 4*time.Minute), p.rng.IntN(2) == 0
		if p.rng.IntN(10) == 0 {
			s.Hosts = p.hosts(p.machineCount / 5)
		}
	case Leave:
		s.Hosts, s.Duration = p.hosts(1), p.randomBetween(2*time.Second, 4*time.Minute)
	case DiskLost:
		s.Hosts, s.Duration, s.Silent = p.hosts(1), p.randomBetween(time.Second, 2*time.Minute), p.rng.IntN(2) == 0
	case TornWrite:
		s.Hosts, s.Duration, s.Silent = p.hosts(1), p.randomBetween(time.Second, 2*time.Minute), p.rng.IntN(2) == 0
	case NoDiskSpace:
		s.Hosts, s.Duration, s.Disk = p.hosts(1+p.rng.IntN(p.machineCount/4)), p.randomBetween(10*time.Second, 4*time.Minute), AlmostFull
		if p.rng.IntN(2) == 0 {
			s.Disk = DiskFull
		}
	case Loss:
		s.Duration = p.randomBetween(10*time.Second, 4*time.Minute)
		s.Network = NetworkFaults{Loss: p.randomShare(0.15), Duplicate: p.randomShare(0.1), Reorder: p.randomShare(0.1), Late: p.randomBetween(time.Second, 5*time.Second)}
	case Partition:
		s.Hosts, s.Duration = p.hosts(1+p.rng.IntN(p.machineCount/2)), p.randomBetween(5*time.Second, 12*time.Minute)
	case OneWayPartition:
		all := p.hosts(2 + p.rng.IntN(p.machineCount-2))
		cut := 1 + p.rng.IntN(len(all)-1)
		s.Hosts, s.To, s.Duration = slices.Sorted(slices.Values(all[:cut])), slices.Sorted(slices.Values(all[cut:])), p.randomBetween(5*time.Second, 6*time.Minute)
	case Pause: // no longer than the period with faults, because a pause cannot be ended early
		s.Hosts, s.Duration = p.hosts(1+p.rng.IntN(3)), min(p.randomBetween(time.Second, time.Minute), p.length-s.At)
	case Slow:
		s.Hosts, s.Duration, s.Amount = p.hosts(1+p.rng.IntN(p.machineCount/8)), p.randomBetween(10*time.Second, 4*time.Minute), p.randomBetween(5*time.Millisecond, 100*time.Millisecond)
	case ClockJump: // up to five minutes; in a quarter of the cases up to a day
		s.Hosts, s.Duration, s.Amount = p.hosts(1), 5*time.Second, p.randomBetween(-5*time.Minute, 5*time.Minute)
		if p.rng.IntN(4) == 0 {
			s.Amount = p.randomBetween(-24*time.Hour, 24*time.Hour)
		}
	}
	if kind != OneWayPartition {
		slices.Sort(s.Hosts)
	}
	return s
}

// hosts returns n random machines.
func (p planner) hosts(n int) []int { return p.rng.Perm(p.machineCount)[:max(n, 1)] }

// randomShare returns a random share of up to most, mostly small.
func (p planner) randomShare(most float64) float64 {
	x := p.rng.Float64()
	return float64(int(1e4*most*x*x)) / 1e4
}

func (p planner) randomUpTo(most time.Duration) time.Duration {
	return time.Duration(p.rng.Int64N(int64(most) + 1))
}

func (p planner) randomBetween(least, most time.Duration) time.Duration {
	return (least + p.randomUpTo(most-least)).Round(time.Millisecond)
}

// exponential returns a random time with a given mean, as between independent events.
func (p planner) exponential(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * p.rng.ExpFloat64())
}
