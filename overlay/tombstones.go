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
const maxTombstones = 256

// A graveyard remembers who died. A peer that is remembered is not believed to
// live because others say so; and those who had a place are visited one by
// one, because after a partition the dead of one side are the living of the
// other.
type tombstones struct {
	list []tombstone // the oldest first
}

type tombstone struct {
	contact  *Contact
	died     time.Time
	hadPlace bool // had a place: is visited
}

func (g *tombstones) add(c *Contact, now time.Time, hadPlace bool) {
	hadPlace = g.remove(c) || hadPlace
	if len(g.list) == maxTombstones { // who had no place is forgotten first
		first := max(slices.IndexFunc(g.list, func(d tombstone) bool { return !d.hadPlace }), 0)
		g.list = slices.Delete(g.list, first, first+1)
	}
	g.list = append(g.list, tombstone{c, now, hadPlace})
}

// exhume forgets that somebody is dead. It says whether it was missed, and is
// back in the life in which it was buried: then it was never dead.
func (g *tombstones) remove(c *Contact) (wasAlive bool) {
	for i, d := range g.list {
		if d.contact.ID == c.ID {
			g.list = append(g.list[:i], g.list[i+1:]...)
			return d.hadPlace && c.Issued == d.contact.Issued
		}
	}
	return false
}

// hearsay is how long after a death others who speak of the dead are not heeded.
// By then they have noticed, or it was no death.
const reviveDelay = 15 * time.Second

// holds says whether hearsay about c has to be left alone: it died a moment ago,
// in the life its record is of.
func (g *tombstones) isRecent(c *Contact, now time.Time) bool {
	for _, d := range g.list {
		if d.contact.ID == c.ID {
			return c.Issued <= d.contact.Issued && now.Sub(d.died) < reviveDelay
		}
	}
	return false
}

// missed returns those who had a place.
func (g *tombstones) withPlace() (of []*Contact) {
	for _, d := range g.list {
		if d.hadPlace {
			of = append(of, d.contact)
		}
	}
	return of
}

func (g *tombstones) pick(r *rand.Rand) *Contact {
	if of := g.withPlace(); len(of) > 0 {
		return of[r.IntN(len(of))]
	}
	return nil
}

// visitGrave probes one of the dead. A network that fell apart finds itself
// together again through it.
func (n *Node) probeDead() {
	n.after(n.jitter(n.cfg.DeadInterval), task{kind: taskDead})
	if n.state != Active {
		return
	}
	c := n.tombstones.pick(n.rand)
	if c == nil {
		return
	}
	n.probeOnce(c)
}

// knock sends one probe without expecting an answer: an answer brings the
// peer's record, and with it the peer.
func (n *Node) probeOnce(c *Contact) {
	n.stats.Probes++
	m := &overlaypb.Message{Record: n.self.Raw, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce:      n.rand.Uint64() | 1,
		WantRecord: true,
		Depth:      uint32(n.leaf.Depth()),
		Digest:     n.leaf.Digest(),
		Decided:    n.leaf.decided,
	}}}
	n.net.Send(c.Peer, env.Control, n.encode(m))
}

// risen is called when somebody who was missed turns out never to have died: a
// partition may have healed, so all the others are visited at once.
func (n *Node) partitionHealed(now time.Time) {
	if !n.deadProbedAt.IsZero() && now.Sub(n.deadProbedAt) < n.cfg.DeadInterval {
		return
	}
	n.deadProbedAt = now
	for _, c := range n.tombstones.withPlace() {
		n.probeOnce(c)
	}
}
