package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Sessions are how long nodes stay: a Weibull distribution of shape 1/2, which has a
// heavy tail. Stutzbach and Rejaie (Understanding churn in peer-to-peer networks, IMC
// 2006) measured shapes from 0.34 to 0.59 in Kad, Gnutella and BitTorrent.
type Sessions struct {
	Median time.Duration
}

// Draw returns the length of a session that begins.
func (s Sessions) Draw(dice *rand.Rand) time.Duration {
	return s.scale(dice.ExpFloat64())
}

// Rest returns how long somebody stays on who is met at any time: who stays long is met
// more often.
func (s Sessions) Rest(dice *rand.Rand) time.Duration {
	e := dice.ExpFloat64() + dice.ExpFloat64() + dice.ExpFloat64() // gamma of shape 1 + 2
	return time.Duration(dice.Float64() * float64(s.scale(e)))
}

// scale makes of a value of the exponential distribution one of these: at its median,
// ln 2, the median.
func (s Sessions) scale(e float64) time.Duration {
	return time.Duration(float64(s.Median) * e * e / (math.Ln2 * math.Ln2))
}

// Churn is how peers come and go.
type Churn struct {
	Sessions Sessions
	// Silent is the part of those who go that nobody hears of: power cuts and lost
	// links. Of the others half leave in good order, and half are killed, so that their
	// links are seen to close.
	Silent float64
	// Back is the part of those who come that were here before, and have their disk.
	Back float64
	// Stays says who never goes; nil: nobody stays.
	Stays func(*Peer) bool
	// Came is told of each that comes and was not here before; nil: nobody is told.
	Came func(*Peer)
}

// Churn has all peers go when their session is over, and for each another come at
// once, until End is called.
func (s *Swarm) Churn(c Churn) (end func()) {
	ch := &churning{Churn: c, swarm: s, dice: rand.New(rand.NewPCG(s.Seed(), 0xc4))}
	for _, p := range s.Live() {
		if c.Stays == nil || !c.Stays(p) {
			ch.stay(p, c.Sessions.Rest(ch.dice))
		}
	}
	return func() { ch.over = true }
}

// churning is churn under way.
type churning struct {
	Churn
	swarm *Swarm
	dice  *rand.Rand
	gone  []*Peer
	over  bool
}

// stay ends a peer's session after a while.
func (c *churning) stay(p *Peer, d time.Duration) {
	life := p.lives
	c.swarm.After(d, func() {
		if !c.over && p.Up() && p.lives == life {
			c.leave(p)
			c.come()
		}
	})
}

func (c *churning) leave(p *Peer) {
	silent := c.dice.Float64() < c.Silent
	orderly := c.dice.IntN(2) == 0
	if !silent && orderly {
		p.Leave(func() { c.gone = append(c.gone, p) })
		return
	}
	p.Kill(!silent)
	c.gone = append(c.gone, p)
}

// goodbye is how long a node that has left goes on, so that what it said is sent.
const goodbye = 100 * time.Millisecond

// Leave has a peer leave in good order, and then calls gone: within some two seconds, if
// it is not killed before.
func (p *Peer) Leave(gone func()) {
	life := p.lives
	p.Do(func() {
		p.node.Leave(func() {
			p.swarm.After(goodbye, func() {
				if p.Up() && p.lives == life {
					p.Kill(true)
					gone()
				}
			})
		})
	})
}

// come has a peer start that is told of three who are there.
func (c *churning) come() {
	var via []*Peer
	for range 3 {
		if p := c.swarm.Someone(c.dice); p != nil {
			via = append(via, p)
		}
	}
	var p *Peer
	fresh := false
	if back := c.dice.Float64() < c.Back; back && len(c.gone) > 1 {
		i := c.dice.IntN(len(c.gone) - 1) // not the one that has just gone
		p = c.gone[i]
		c.gone = append(c.gone[:i], c.gone[i+1:]...)
		p.via = via
	} else {
		p, fresh = c.swarm.Add(true, via...), true
	}
	p.Start()
	if fresh && c.Came != nil {
		c.Came(p)
	}
	c.stay(p, c.Sessions.Draw(c.dice))
}
