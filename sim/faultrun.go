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

// An ordeal is a Nemesis under way.
type ordeal struct {
	Nemesis
	*Swarm
	dice     *rand.Rand
	machines []*Peer // the peer that each now is
	urls     []string
	groups   []overlay.ID
	parting  int  // how many partitions there were
	losing   int  // how many times the network was made to lose frames
	over     bool // the troubles are
	silent   bool // nobody uses the network any more
	relented time.Time
	right    map[string]time.Duration
	ailing   bool // something was not right at the last look
}

// grow starts all machines. A member is told of the founder and of its predecessor.
func (o *ordeal) grow() {
	pause := min(100*time.Millisecond, growth/4/time.Duration(o.Members))
	for i := range o.Nemesis.machines() {
		var via []*Peer
		if i > 0 {
			via = append(via, o.machines[0], o.machines[min(i, o.Members)-1])
		}
		p := o.Add(i < o.Members, via...)
		o.machines = append(o.machines, p)
		o.After(time.Duration(i)*pause, p.Start)
	}
	o.every(bootPause, o.bootstrap)
}

// bootPause is the time between two looks of a node that has no network for somebody to
// join through; the edge's discovery takes about as long.
const bootPause = 20 * time.Second

// bootstrap tells those of some members who know nobody.
func (o *ordeal) bootstrap() {
	for _, p := range o.machines {
		if p.Up() && !p.Stalled() && p.node.Overlay.State() == overlay.Alone {
			for _, q := range o.some(3) {
				p.Found(q.Host)
			}
		}
	}
}

// some are a few live members by the dice.
func (o *ordeal) some(n int) (of []*Peer) {
	for range n {
		if p := o.Someone(o.dice); p != nil {
			of = append(of, p)
		}
	}
	return of
}

// anyone is a machine that is up, by the dice, nil if hardly any is.
func (o *ordeal) anyone() *Peer {
	for range 100 {
		if p := o.machines[o.dice.IntN(len(o.machines))]; p.Up() {
			return p
		}
	}
	return nil
}

// work begins all that the world does until it ends.
func (o *ordeal) work() {
	items := int((warmth + o.Length + after) / itemPause)
	for i := range channels {
		url := fmt.Sprintf("http://feed%d.example/", i)
		if o.Public {
			url = fmt.Sprintf("http://feeds.town%d.example/%d", i%domains, i)
		}
		f := o.Serve(url, script.NewLively(script.Config{
			Seed: o.Nemesis.Seed*1000 + uint64(i), Format: script.Format(i % 3), Every: itemPause, Limit: items, Rebuild: 5 * time.Minute,
		}))
		f.Public = o.Public
		o.urls = append(o.urls, url)
		for _, m := range o.dice.Perm(len(o.machines))[:min(2+o.dice.IntN(5), len(o.machines))] {
			o.machines[m].Read(url)
		}
	}
	for i := range groupsOf {
		g := o.Key(fmt.Sprintf("http://group%d.example/", i))
		o.groups = append(o.groups, g)
		for _, m := range o.dice.Perm(len(o.machines))[:max(1, len(o.machines)/4)] {
			o.machines[m].Subscribe(g, 1)
		}
	}
	o.every(lookupPause, func() {
		if p := o.anyone(); p != nil && !o.silent {
			var key overlay.ID
			for i := range key {
				key[i] = byte(o.dice.Uint32())
			}
			o.Route(p, key)
		}
	})
	o.every(sendPause, func() {
		if p := o.anyone(); p != nil && !o.silent {
			o.Publish(p, o.groups[o.dice.IntN(len(o.groups))], 200)
		}
	})
	o.every(readPause, func() {
		if p := o.anyone(); p != nil && !o.over {
			p.Read(o.urls[o.dice.IntN(len(o.urls))])
		}
	})
}

// strike has one strike of the plan befall the world. Whom it cannot befall, because
// another has, it passes by.
func (o *ordeal) strike(s Strike) {
	if o.over {
		return
	}
	switch s.Trouble {
	case Loss:
		o.losing++
		this := o.losing
		o.SetFaults(s.Net)
		o.After(s.Lasts, func() {
			if this == o.losing {
				o.SetFaults(Faults{})
			}
		})
	case Halves, OneWay:
		o.parting++
		this := o.parting
		if s.Trouble == Halves {
			o.Partition(o.hosts(s.Hosts))
		} else {
			o.PartOneWay(o.hosts(s.Hosts), o.hosts(s.To))
		}
		o.After(s.Lasts, func() {
			if this == o.parting {
				o.Heal()
			}
		})
	default:
		for _, m := range s.Hosts {
			if p := o.machines[m]; p.Up() {
				o.befall(s, m, p)
			}
		}
	}
}

func (o *ordeal) hosts(of []int) (hosts []*Host) {
	for _, m := range of {
		hosts = append(hosts, o.machines[m].Host)
	}
	return hosts
}

// befall has a strike befall a machine that is up.
func (o *ordeal) befall(s Strike, m int, p *Peer) {
	life := p.lives
	later := func(d time.Duration, do func()) { // in the same life
		o.After(d, func() {
			if p.Up() && p.lives == life {
				do()
			}
		})
	}
	back := func() {
		if o.over { // it took a moment to leave
			o.back(p)
			return
		}
		o.After(s.Lasts, func() { o.back(p) })
	}
	switch s.Trouble {
	case Crash:
		p.Kill(!s.Silent)
		back()
	case Leave:
		p.Leave(back)
	case Wipe:
		p.Kill(!s.Silent)
		p.wiped = true
		o.After(s.Lasts, func() { o.replace(m, p) })
	case Torn:
		p.SetDisk(Broken)
		later(s.Lasts/2, func() {
			p.Kill(!s.Silent)
			o.After(s.Lasts/2, func() { o.back(p) })
		})
	case Disk:
		p.SetDisk(s.Disk)
		o.After(s.Lasts, func() { p.SetDisk(Sound) })
	case Pause:
		p.Pause(s.Lasts)
	case Slow:
		p.SetPace(s.By)
		later(s.Lasts, func() { p.SetPace(0) })
	case Clock:
		if s.By < p.Ahead() {
			p.Kill(true)
			p.SetClock(s.By)
			back()
		} else {
			p.SetClock(s.By)
		}
	}
}

// back starts a machine that died, unless it was started already.
func (o *ordeal) back(p *Peer) {
	if !p.Up() && !p.wiped {
		if p != o.machines[0] { // who founded the network needs nobody
			p.via = o.some(3)
		}
		p.Start()
	}
}

// replace has a machine with an empty disk and a key of its own take the place of one
// whose disk was lost: locks that are lost make a new node. Its owner wants what he
// wanted before.
func (o *ordeal) replace(m int, p *Peer) {
	if o.machines[m] != p {
		return
	}
	q := o.Add(p.open, o.some(3)...)
	o.machines[m] = q
	q.Start()
	for _, url := range slices.Sorted(maps.Keys(p.reads)) {
		q.Read(url)
	}
	for _, g := range sortedIDs(p.wants) {
		q.Subscribe(g, p.wants[g])
		p.Unsubscribe(g)
	}
}

// relent ends all troubles, and begins to look when all is right again.
func (o *ordeal) relent() {
	o.over, o.relented = true, o.Now()
	o.SetFaults(Faults{})
	o.Heal()
	for m, p := range o.machines {
		p.SetDisk(Sound)
		p.SetPace(0)
		if p.wiped {
			o.replace(m, p)
		} else {
			o.back(p)
		}
	}
	o.After(Patience, func() { o.tolerant, o.prompt = false, true })
	o.After(Rest-silence, func() { o.silent = true })
	o.every(ailLook, func() {
		since := o.Now().Sub(o.relented)
		ails := o.Ails()
		o.ailing = len(ails) > 0
		for _, what := range ails {
			o.right[what] = since
		}
	})
}
