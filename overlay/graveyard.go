package overlay

import (
	"math/rand/v2"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// maxDead is how many dead are remembered: all that a store remembers (maxKnown),
// and some who died since.
const maxDead = 256

// A graveyard remembers who died. A peer that is remembered is not believed to
// live because others say so; and those who had a place are visited one by
// one, because after a partition the dead of one side are the living of the
// other.
type graveyard struct {
	graves []grave // the oldest first
}

type grave struct {
	contact *Contact
	died    time.Time
	missed  bool // had a place: is visited
}

func (g *graveyard) bury(c *Contact, now time.Time, missed bool) {
	missed = g.exhume(c) || missed
	if len(g.graves) == maxDead { // who had no place is forgotten first
		first := max(slices.IndexFunc(g.graves, func(d grave) bool { return !d.missed }), 0)
		g.graves = slices.Delete(g.graves, first, first+1)
	}
	g.graves = append(g.graves, grave{c, now, missed})
}

// exhume forgets that somebody is dead. It says whether it was missed, and is
// back in the life in which it was buried: then it was never dead.
func (g *graveyard) exhume(c *Contact) (undead bool) {
	for i, d := range g.graves {
		if d.contact.ID == c.ID {
			g.graves = append(g.graves[:i], g.graves[i+1:]...)
			return d.missed && c.Issued == d.contact.Issued
		}
	}
	return false
}

// hearsay is how long after a death others who speak of the dead are not heeded.
// By then they have noticed, or it was no death.
const hearsay = 15 * time.Second

// holds says whether hearsay about c has to be left alone: it died a moment ago,
// in the life its record is of.
func (g *graveyard) holds(c *Contact, now time.Time) bool {
	for _, d := range g.graves {
		if d.contact.ID == c.ID {
			return c.Issued <= d.contact.Issued && now.Sub(d.died) < hearsay
		}
	}
	return false
}

// missed returns those who had a place.
func (g *graveyard) missed() (of []*Contact) {
	for _, d := range g.graves {
		if d.missed {
			of = append(of, d.contact)
		}
	}
	return of
}

func (g *graveyard) pick(r *rand.Rand) *Contact {
	if of := g.missed(); len(of) > 0 {
		return of[r.IntN(len(of))]
	}
	return nil
}

// visitGrave probes one of the dead. A network that fell apart finds itself
// together again through it.
func (n *Node) visitGrave() {
	n.after(n.spread(n.cfg.DeadInterval), task{kind: taskDead})
	if n.state != Active {
		return
	}
	c := n.dead.pick(n.rand)
	if c == nil {
		return
	}
	n.knock(c)
}

// knock sends one probe without expecting an answer: an answer brings the
// peer's record, and with it the peer.
func (n *Node) knock(c *Contact) {
	n.stats.Probes++
	m := &overlaypb.Message{Record: n.self.Raw, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce:   n.rand.Uint64() | 1,
		Want:    true,
		Depth:   uint32(n.leaf.Depth()),
		Digest:  n.leaf.Digest(),
		Decided: n.leaf.decided,
	}}}
	n.net.Send(c.Peer, env.Control, n.toSend(m))
}

// risen is called when somebody who was missed turns out never to have died: a
// partition may have healed, so all the others are visited at once.
func (n *Node) risen(now time.Time) {
	if !n.rose.IsZero() && now.Sub(n.rose) < n.cfg.DeadInterval {
		return
	}
	n.rose = now
	for _, c := range n.dead.missed() {
		n.knock(c)
	}
}
