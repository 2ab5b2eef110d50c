package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/internal/node"
	"tidings/internal/wire"
)

// A Scenario is a fault-injection run: a network under load goes through a plan of faults and is
// then left alone. During the faults only safety is checked: no invariant that must always hold is
// violated. After them, all other invariants must hold within RecoveryLimit, which is liveness.
//
// The load: constant lookups; some channels with readers, polled every minute, whose origins
// publish until some minutes after the last fault; and some groups to which members publish. Some
// of the readers are clients.
//
// The seed and the plan determine everything, so a plan can be reduced to the faults that cause a
// violation.
type Scenario struct {
	Seed    uint64
	Members int           // machines that can be dialled; there are an eighth as many clients besides
	Length  time.Duration // of the period with faults
	Plan    []Fault       // sorted by the start of the fault
	Public  bool          // feeds are at public addresses of few domains, which have budgets
}

// The load.
const (
	channelCount      = 6 // with 2 to 6 readers each
	domainCount       = 3 // of public feeds
	groupCount        = 4 // with a quarter of all machines each
	lookupInterval    = 500 * time.Millisecond
	multicastInterval = 10 * time.Second // between two multicast messages
	itemInterval      = 90 * time.Second // between two items of a channel, on average
	subscribeInterval = 4 * time.Minute  // between two new readers
)

// ownerLease is the lease of owners: a third of the default, so that it expires in many partitions
// and both sides found a branch.
const ownerLease = 3 * time.Minute

// The phases.
const (
	growTime    = time.Minute     // until all are members
	warmupTime  = time.Minute     // until there are trees, and logs have owners
	publishTail = 3 * time.Minute // for which origins go on publishing after the faults
	// RecoveryPeriod is how long the network is left alone after its faults. The last items come in
	// its first minutes.
	RecoveryPeriod = 10 * time.Minute
	// RecoveryLimit is the part of it after which all invariants must hold for good.
	RecoveryLimit = 2 * time.Minute
	// silentTime is the part of it, at its end, without load, so that operations in progress end.
	silentTime             = 3 * time.Minute
	invariantCheckInterval = 2 * time.Second // between two checks of the invariants

	retentionCheckInterval = 5 * time.Minute  // between two checks of what readers still have
	progressStep           = 10 * time.Second // between two reports of progress
)

// An Outcome is the result of a run.
type Outcome struct {
	*Swarm
	// RecoveredAfter is how long after the last fault an invariant was last violated, by its name.
	// Invariants that held all the time are missing.
	RecoveredAfter map[string]time.Duration
	Completed      bool // progress did not stop the run
	Recovered      bool // the run completed, and all invariants held at its end
}

// Run runs the scenario. It calls progress with the part that is done, from 0 to 1, and stops if
// progress returns false.
func (n Scenario) Run(progress func(done float64) bool) Outcome {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Minute
	network.MaintenanceInterval = ownerLease
	tune := func(c *node.Config) {
		// Polls and leases are frequent, to have more of them in a run. Comparison and repair are
		// as rare relative to them as in a network with the default times, so that they are tested
		// under the same conditions.
		c.Feeds.DigestInterval = time.Minute
		c.Corona.Compression = float64(wire.DefaultNetwork("").PollInterval / network.PollInterval)
		c.Corona.ExemptPrivate = !n.Public || n.Seed%2 == 1 // of the runs with public feeds, half exempt private addresses from budgets
	}
	s := NewSwarm(SwarmConfig{World: Config{Seed: n.Seed, Topology: King(n.Seed)}, Network: network, Tune: tune})
	o := &faultRun{
		Scenario: n, Swarm: s,
		rng:            rand.New(rand.NewPCG(n.Seed, 0x4e)),
		recoveredAfter: map[string]time.Duration{},
	}
	total := growTime + warmupTime + n.Length + RecoveryPeriod
	began := s.Now()
	pass := func(d time.Duration) bool {
		for end := s.Now().Add(d); s.Now().Before(end); {
			s.World.Run(min(progressStep, end.Sub(s.Now())))
			if !progress(min(float64(s.Now().Sub(began))/float64(total), 1)) { // checking the readers takes some virtual time as well
				return false
			}
		}
		return true
	}
	out := Outcome{Swarm: s, RecoveredAfter: o.recoveredAfter}
	o.grow()
	if !pass(growTime) {
		return out
	}
	o.startLoad()
	if !pass(warmupTime) {
		return out
	}
	s.lookupsMayFail = true
	for _, fault := range n.Plan {
		s.After(fault.At, func() { o.inject(fault) })
	}
	for left := n.Length; left > 0; left -= retentionCheckInterval {
		if !pass(min(left, retentionCheckInterval)) {
			return out
		}
		s.CheckRetained()
	}
	o.endFaults()
	if !pass(RecoveryPeriod) {
		return out
	}
	s.CheckSettled()
	s.CheckBounds()
	s.CheckRetained()
	s.CheckReaders()
	for _, what := range slices.Sorted(maps.Keys(o.recoveredAfter)) {
		if took := o.recoveredAfter[what]; took > RecoveryLimit {
			s.reportViolation(what, "violated until %v after the last fault", took)
		}
	}
	out.Completed, out.Recovered = true, !o.unhealthy
	return out
}
