package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Sessions is the distribution of the time that nodes stay: Weibull with shape 1/2, which has a
// heavy tail. Stutzbach and Rejaie (Understanding churn in peer-to-peer networks, IMC 2006)
// measured shapes from 0.34 to 0.59 in Kad, Gnutella and BitTorrent.
type Sessions struct {
	Median time.Duration
}

// Draw returns the length of a new session.
func (s Sessions) Draw(rng *rand.Rand) time.Duration {
	return s.scale(rng.ExpFloat64())
}

// Residual returns how long a node that is present at a random time stays on. Long sessions are met
// more often, so the mean is longer than that of Draw.
func (s Sessions) Residual(rng *rand.Rand) time.Duration {
	e := rng.ExpFloat64() + rng.ExpFloat64() + rng.ExpFloat64() // gamma of shape 1 + 2
	return time.Duration(rng.Float64() * float64(s.scale(e)))
}

// scale turns a value of the exponential distribution into a session length. The exponential
// median, ln 2, becomes Median.
func (s Sessions) scale(e float64) time.Duration {
	return time.Duration(float64(s.Median) * e * e / (math.Ln2 * math.Ln2))
}

// Churn describes how peers come and go.
type Churn struct {
	Sessions Sessions
	// Silent is the share of departures that no other node is told of, such as power cuts and lost
	// links. Half of the others leave in good order; the other half are killed, and their peers see
	// the links close.
	Silent float64
	// Returning is the share of arrivals that were members before and still have their disk.
	Returning float64
	// Permanent reports which peers never leave; nil: every peer leaves at some time.
	Permanent func(*Peer) bool
	// Arrived is called for each peer that is new to the network; may be nil.
	Arrived func(*Peer)
}

// Churn ends every peer's session at its time and starts another peer at once, until end is called.
func (s *Swarm) Churn(c Churn) (end func()) {
	ch := &churnRun{Churn: c, swarm: s, rng: rand.New(rand.NewPCG(s.Seed(), 0xc4))}
	for _, p := range s.Live() {
		if c.Permanent == nil || !c.Permanent(p) {
			ch.endSessionAfter(p, c.Sessions.Residual(ch.rng))
		}
	}
	return func() { ch.over = true }
}

// A churnRun is churn in progress.
type churnRun struct {
	Churn
	swarm *Swarm
	rng   *rand.Rand
	gone  []*Peer
	over  bool
}

// endSessionAfter ends a peer's session after d.
func (c *churnRun) endSessionAfter(p *Peer, d time.Duration) {
	life := p.lives
	c.swarm.After(d, func() {
		if !c.over && p.Up() && p.lives == life {
			c.leave(p)
			c.arrive()
		}
	})
}

func (c *churnRun) leave(p *Peer) {
	silent := c.rng.Float64() < c.Silent
	orderly := c.rng.IntN(2) == 0
	if !silent && orderly {
		p.Leave(func() { c.gone = append(c.gone, p) })
		return
	}
	p.Kill(!silent)
	c.gone = append(c.gone, p)
}

// flushTime is how long a node that has left keeps running, so that its last messages are sent.
const flushTime = 100 * time.Millisecond

// Leave makes a peer leave in good order and then calls gone. That takes about two seconds; gone is
// not called if the peer is killed before.
func (p *Peer) Leave(gone func()) {
	life := p.lives
	p.Do(func() {
		p.node.Leave(func() {
			p.swarm.After(flushTime, func() {
				if p.Up() && p.lives == life {
					p.Kill(true)
					gone()
				}
			})
		})
	})
}

// arrive starts a peer that is told of three live members.
func (c *churnRun) arrive() {
	var via []*Peer
	for range 3 {
		if p := c.swarm.RandomMember(c.rng); p != nil {
			via = append(via, p)
		}
	}
	var p *Peer
	fresh := false
	if back := c.rng.Float64() < c.Returning; back && len(c.gone) > 1 {
		i := c.rng.IntN(len(c.gone) - 1) // not the peer that has just left
		p = c.gone[i]
		c.gone = append(c.gone[:i], c.gone[i+1:]...)
		p.bootstrap = via
	} else {
		p, fresh = c.swarm.Add(true, via...), true
	}
	p.Start()
	if fresh && c.Arrived != nil {
		c.Arrived(p)
	}
	c.endSessionAfter(p, c.Sessions.Draw(c.rng))
}
