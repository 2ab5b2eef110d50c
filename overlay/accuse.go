package overlay

import (
	"time"

	"tidings/internal/env"
)

// What one says of another is only a reason to look. Who has been wrong maxCries times
// within cryMemory is not heeded for as long: it sees badly, or lies, and each false word
// costs everyone who heeds it a probe.
const (
	maxCries  = 3
	cryMemory = time.Hour
	// maxCriers bounds those who are remembered for false words: more than one leaf holds.
	maxCriers = 256
)

// gossip is what others have said of members that they take for dead.
type gossip struct {
	by    map[env.PeerID]env.PeerID // who is probed for it, and on whose word
	cries map[env.PeerID]cry
}

// cry counts the false words of one peer since a time.
type cry struct {
	n     int
	since time.Time
}

// accused notes that a member is probed because another said that it is dead.
func (g *gossip) accused(id, by env.PeerID) { g.by[id] = by }

// lives notes that a member has spoken: who took it for dead was wrong.
func (g *gossip) lives(id env.PeerID, now time.Time) {
	if by, ok := g.by[id]; ok {
		delete(g.by, id)
		g.wrong(by, now)
	}
}

// died notes that a member is dead indeed.
func (g *gossip) died(id env.PeerID) { delete(g.by, id) }

// wrong counts one false word.
func (g *gossip) wrong(by env.PeerID, now time.Time) {
	c := g.cries[by]
	if now.Sub(c.since) > cryMemory {
		if len(g.cries) >= maxCriers {
			g.prune(now)
		}
		c = cry{since: now}
	}
	c.n++
	if _, known := g.cries[by]; known || len(g.cries) < maxCriers {
		g.cries[by] = c
	}
}

func (g *gossip) prune(now time.Time) {
	for id, c := range g.cries {
		if now.Sub(c.since) > cryMemory {
			delete(g.cries, id)
		}
	}
}

// heeds says whether what a peer says of others is still looked into.
func (g *gossip) heeds(by env.PeerID, now time.Time) bool {
	c := g.cries[by]
	return c.n < maxCries || now.Sub(c.since) > cryMemory
}
