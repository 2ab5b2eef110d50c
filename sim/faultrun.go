package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/internal/script"
	"tidings/overlay"
)

// A faultRun is a Scenario in progress.
type faultRun struct {
	Scenario
	*Swarm
	rng            *rand.Rand
	machines       []*Peer // the present peer of each machine
	urls           []string
	groups         []overlay.ID
	partitions     int  // partitions so far
	lossFaults     int  // network faults so far
	faultsOver     bool // the period with faults is over
	loadOver       bool // the load has ended
	faultsEndedAt  time.Time
	recoveredAfter map[string]time.Duration
	unhealthy      bool // some invariant did not hold at the last check
}

// grow starts all machines. Each is told of the founder and of its predecessor.
func (o *faultRun) grow() {
	pause := min(100*time.Millisecond, growTime/4/time.Duration(o.Members))
	for i := range o.Scenario.machineCount() {
		var via []*Peer
		if i > 0 {
			via = append(via, o.machines[0], o.machines[min(i, o.Members)-1])
		}
		p := o.Add(i < o.Members, via...)
		o.machines = append(o.machines, p)
		o.After(time.Duration(i)*pause, p.Start)
	}
	o.every(bootstrapInterval, o.bootstrap)
}

// bootstrapInterval is the time between two attempts of a node without a network to find a peer.
// The discovery of real nodes takes about as long.
const bootstrapInterval = 20 * time.Second

// bootstrap tells nodes that know no peer of some members.
func (o *faultRun) bootstrap() {
	for _, p := range o.machines {
		if p.Up() && !p.Stalled() && p.node.Overlay.State() == overlay.Alone {
			for _, q := range o.randomMembers(3) {
				p.Found(q.Host)
			}
		}
	}
}

// randomMembers returns up to n random live members.
func (o *faultRun) randomMembers(n int) (of []*Peer) {
	for range n {
		if p := o.RandomMember(o.rng); p != nil {
			of = append(of, p)
		}
	}
	return of
}

// randomMachine returns a random machine that is up; nil if hardly any is.
func (o *faultRun) randomMachine() *Peer {
	for range 100 {
		if p := o.machines[o.rng.IntN(len(o.machines))]; p.Up() {
			return p
		}
	}
	return nil
}

// startLoad starts the load, which runs until the end.
func (o *faultRun) startLoad() {
	items := int((warmupTime + o.Length + publishTail) / itemInterval)
	for i := range channelCount {
		url := fmt.Sprintf("http://feed%d.example/", i)
		if o.Public {
			url = fmt.Sprintf("http://feeds.town%d.example/%d", i%domainCount, i)
		}
		f := o.Serve(url, script.NewLively(script.Config{
			Seed: o.Scenario.Seed*1000 + uint64(i), Format: script.Format(i % 3), Every: itemInterval, Limit: items, Rebuild: 5 * time.Minute,
		}))
		f.Public = o.Public
		o.urls = append(o.urls, url)
		for _, m := range o.rng.Perm(len(o.machines))[:min(2+o.rng.IntN(5), len(o.machines))] {
			o.machines[m].SubscribeFeed(url)
		}
	}
	for i := range groupCount {
		g := o.Key(fmt.Sprintf("http://group%d.example/", i))
		o.groups = append(o.groups, g)
		for _, m := range o.rng.Perm(len(o.machines))[:max(1, len(o.machines)/4)] {
			o.machines[m].JoinGroup(g, 1)
		}
	}
	o.every(lookupInterval, func() {
		if p := o.randomMachine(); p != nil && !o.loadOver {
			var key overlay.ID
			for i := range key {
				key[i] = byte(o.rng.Uint32())
			}
			o.Route(p, key)
		}
	})
	o.every(multicastInterval, func() {
		if p := o.randomMachine(); p != nil && !o.loadOver {
			o.Publish(p, o.groups[o.rng.IntN(len(o.groups))], 200)
		}
	})
	o.every(subscribeInterval, func() {
		if p := o.randomMachine(); p != nil && !o.faultsOver {
			p.SubscribeFeed(o.urls[o.rng.IntN(len(o.urls))])
		}
	})
}

// inject applies one fault of the plan. A machine that is down because of another fault is left
// out.
func (o *faultRun) inject(s Fault) {
	if o.faultsOver {
		return
	}
	switch s.Kind {
	case Loss:
		o.lossFaults++
		this := o.lossFaults
		o.SetNetworkFaults(s.Network)
		o.After(s.Duration, func() {
			if this == o.lossFaults {
				o.SetNetworkFaults(NetworkFaults{})
			}
		})
	case Partition, OneWayPartition:
		o.partitions++
		this := o.partitions
		if s.Kind == Partition {
			o.Partition(o.hosts(s.Hosts))
		} else {
			o.PartitionOneWay(o.hosts(s.Hosts), o.hosts(s.To))
		}
		o.After(s.Duration, func() {
			if this == o.partitions {
				o.Heal()
			}
		})
	default:
		for _, m := range s.Hosts {
			if p := o.machines[m]; p.Up() {
				o.injectInto(s, m, p)
			}
		}
	}
}

func (o *faultRun) hosts(of []int) (hosts []*Host) {
	for _, m := range of {
		hosts = append(hosts, o.machines[m].Host)
	}
	return hosts
}

// injectInto applies a fault to a machine that is up.
func (o *faultRun) injectInto(s Fault, m int, p *Peer) {
	life := p.lives
	later := func(d time.Duration, do func()) { // runs do if the node is still in the same life
		o.After(d, func() {
			if p.Up() && p.lives == life {
				do()
			}
		})
	}
	restartLater := func() {
		if o.faultsOver { // the faults ended while the node was leaving
			o.restart(p)
			return
		}
		o.After(s.Duration, func() { o.restart(p) })
	}
	switch s.Kind {
	case Crash:
		p.Kill(!s.Silent)
		restartLater()
	case Leave:
		p.Leave(restartLater)
	case DiskLost:
		p.Kill(!s.Silent)
		p.diskLost = true
		o.After(s.Duration, func() { o.replace(m, p) })
	case TornWrite:
		p.SetDisk(DiskBroken)
		later(s.Duration/2, func() {
			p.Kill(!s.Silent)
			o.After(s.Duration/2, func() { o.restart(p) })
		})
	case NoDiskSpace:
		p.SetDisk(s.Disk)
		o.After(s.Duration, func() { p.SetDisk(DiskOK) })
	case Pause:
		p.Pause(s.Duration)
	case Slow:
		p.SetServiceTime(s.Amount)
		later(s.Duration, func() { p.SetServiceTime(0) })
	case ClockJump:
		if s.Amount < p.ClockOffset() {
			p.Kill(true)
			p.SetClock(s.Amount)
			restartLater()
		} else {
			p.SetClock(s.Amount)
		}
	}
}

// restart starts a machine that died, unless it was started already.
func (o *faultRun) restart(p *Peer) {
	if !p.Up() && !p.diskLost {
		if p != o.machines[0] { // the founder needs no contacts
			p.bootstrap = o.randomMembers(3)
		}
		p.Start()
	}
}

// replace starts a new machine with an empty disk and a new key in place of one whose disk was
// lost. A node without its records must not use its old key. The new machine gets the subscriptions
// of the old one.
func (o *faultRun) replace(m int, p *Peer) {
	if o.machines[m] != p {
		return
	}
	q := o.Add(p.open, o.randomMembers(3)...)
	o.machines[m] = q
	q.Start()
	for _, url := range slices.Sorted(maps.Keys(p.subscriptions)) {
		q.SubscribeFeed(url)
	}
	for _, g := range sortedIDs(p.groups) {
		q.JoinGroup(g, p.groups[g])
		p.LeaveGroup(g)
	}
}

// endFaults ends all faults and starts checking when all invariants hold again.
func (o *faultRun) endFaults() {
	o.faultsOver, o.faultsEndedAt = true, o.Now()
	o.SetNetworkFaults(NetworkFaults{})
	o.Heal()
	for m, p := range o.machines {
		p.SetDisk(DiskOK)
		p.SetServiceTime(0)
		if p.diskLost {
			o.replace(m, p)
		} else {
			o.restart(p)
		}
	}
	o.After(RecoveryLimit, func() { o.lookupsMayFail, o.lookupsMustBeFast = false, true })
	o.After(RecoveryPeriod-silentTime, func() { o.loadOver = true })
	o.every(invariantCheckInterval, func() {
		since := o.Now().Sub(o.faultsEndedAt)
		broken := o.BrokenInvariants()
		o.unhealthy = len(broken) > 0
		for _, what := range broken {
			o.recoveredAfter[what] = since
		}
	})
}
