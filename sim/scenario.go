package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/internal/node"
	"tidings/internal/wire"
)

// A Nemesis is a world that goes through a plan of troubles while it is at work, and
// is then left alone. While the troubles last only safety is checked: that nothing
// wrong is done. When they are over all must be right again in a while: that is its
// liveness.
//
// At work means: look-ups all the time; a few channels with readers, polled every
// minute, whose origins publish until some minutes after the last trouble; a few groups
// to which members publish. Some of the readers are clients.
//
// Everything comes from the seed and the plan, so that a plan can be thinned out until
// only those strikes are left that do the harm.
type Nemesis struct {
	Seed    uint64
	Members int           // machines that can be dialled; an eighth as many cannot
	Length  time.Duration // of the troubles
	Plan    []Strike      // by the time at which they begin
	Public  bool          // its feeds are at public addresses of few domains, which have budgets
}

// The work of a world.
const (
	channels    = 6 // with 2 to 6 readers each
	domains     = 3 // of public feeds
	groupsOf    = 4 // with a quarter of all machines each
	lookupPause = 500 * time.Millisecond
	sendPause   = 10 * time.Second // between two publications
	itemPause   = 90 * time.Second // between two items of a channel, on average
	readPause   = 4 * time.Minute  // between two new readers
)

// ownerLease is that of owners: a third of what it is by default, so that it runs out in many a
// partition, and those who lost sight of each other found logs of their own.
const ownerLease = 3 * time.Minute

// The times of a world.
const (
	growth = time.Minute     // until all are members
	warmth = time.Minute     // until trees stand and logs have owners
	after  = 3 * time.Minute // for which items go on coming when the troubles are over
	// Rest is how long a world is left alone after its troubles. The last items come in
	// its first minutes.
	Rest = 10 * time.Minute
	// Patience is after what time in it all must be right, and remain so.
	Patience = 2 * time.Minute
	// silence is how long, at its end, nobody uses it: what was under way is over then.
	silence = 3 * time.Minute
	ailLook = 2 * time.Second // between two looks at what is not right

	keptPause = 5 * time.Minute  // between two looks at what readers have
	stride    = 10 * time.Second // between two words about the progress
)

// An Outcome is what became of a world.
type Outcome struct {
	*Swarm
	// Right is when each of the things that have to become right did so for good, since
	// the troubles were over: by the name of the invariant.
	Right  map[string]time.Duration
	Ended  bool // it was not told to stop
	Healed bool // it ended, and all was right then
}

// Run has the world live and die. progress is told how much of it is over, from 0 to 1,
// and says whether to go on.
func (n Nemesis) Run(progress func(done float64) bool) Outcome {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Minute
	network.MaintenanceInterval = ownerLease
	tune := func(c *node.Config) {
		// Polls and leases are quick, to have more of them in a world. What is compared and repaired is so
		// as seldom as in a network of its usual times, so that it is put to the test.
		c.Feeds.DigestInterval = time.Minute
		c.Corona.Compression = float64(wire.DefaultNetwork("").PollInterval / network.PollInterval)
		c.Corona.ExemptPrivate = !n.Public || n.Seed%2 == 1 // some of those who ask public feeds may ask private ones
	}
	s := NewSwarm(SwarmConfig{World: Config{Seed: n.Seed, Topology: King(n.Seed)}, Network: network, Tune: tune})
	o := &ordeal{
		Nemesis: n, Swarm: s,
		dice:  rand.New(rand.NewPCG(n.Seed, 0x4e)),
		right: map[string]time.Duration{},
	}
	total := growth + warmth + n.Length + Rest
	began := s.Now()
	pass := func(d time.Duration) bool {
		for end := s.Now().Add(d); s.Now().Before(end); {
			s.World.Run(min(stride, end.Sub(s.Now())))
			if !progress(min(float64(s.Now().Sub(began))/float64(total), 1)) { // to look at readers takes a moment
				return false
			}
		}
		return true
	}
	out := Outcome{Swarm: s, Right: o.right}
	o.grow()
	if !pass(growth) {
		return out
	}
	o.work()
	if !pass(warmth) {
		return out
	}
	s.tolerant = true
	for _, strike := range n.Plan {
		s.After(strike.At, func() { o.strike(strike) })
	}
	for left := n.Length; left > 0; left -= keptPause {
		if !pass(min(left, keptPause)) {
			return out
		}
		s.CheckKept()
	}
	o.relent()
	if !pass(Rest) {
		return out
	}
	s.CheckCalm()
	s.CheckBounds()
	s.CheckKept()
	s.CheckReaders()
	for _, what := range slices.Sorted(maps.Keys(o.right)) {
		if took := o.right[what]; took > Patience {
			s.violated(what, "until %v after the last trouble", took)
		}
	}
	out.Ended, out.Healed = true, !o.ailing
	return out
}
