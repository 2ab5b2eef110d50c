package overlay

import (
	"time"

	"tidings/internal/env"
)

// What one says of another is only a reason to look. Who has been wrong maxCries times
// within cryMemory is not heeded for as long: it sees badly, or lies, and each false word
// costs everyone who heeds it a probe.
const (
	maxFalseReports   = 3
	falseReportMemory = time.Hour
	// maxCriers bounds those who are remembered for false words: more than one leaf holds.
	maxReporters = 256
)

// gossip is what others have said of members that they take for dead.
type deathReports struct {
	pending      map[env.PeerID]env.PeerID // who is probed for it, and on whose word
	falseReports map[env.PeerID]falseReportCount
}

// cry counts the false words of one peer since a time.
type falseReportCount struct {
	count int
	since time.Time
}

// accused notes that a member is probed because another said that it is dead.
func (g *deathReports) reported(id, reporter env.PeerID) { g.pending[id] = reporter }

// lives notes that a member has spoken: who took it for dead was wrong.
func (g *deathReports) alive(id env.PeerID, now time.Time) {
	if reporter, ok := g.pending[id]; ok {
		delete(g.pending, id)
		g.countFalse(reporter, now)
	}
}

// died notes that a member is dead indeed.
func (g *deathReports) dead(id env.PeerID) { delete(g.pending, id) }

// wrong counts one false word.
func (g *deathReports) countFalse(reporter env.PeerID, now time.Time) {
	c := g.falseReports[reporter]
	if now.Sub(c.since) > falseReportMemory {
		if len(g.falseReports) >= maxReporters {
			g.prune(now)
		}
		c = falseReportCount{since: now}
	}
	c.count++
	if _, known := g.falseReports[reporter]; known || len(g.falseReports) < maxReporters {
		g.falseReports[reporter] = c
	}
}

func (g *deathReports) prune(now time.Time) {
	for id, c := range g.falseReports {
		if now.Sub(c.since) > falseReportMemory {
			delete(g.falseReports, id)
		}
	}
}

// heeds says whether what a peer says of others is still looked into.
func (g *deathReports) trusts(reporter env.PeerID, now time.Time) bool {
	c := g.falseReports[reporter]
	return c.count < maxFalseReports || now.Sub(c.since) > falseReportMemory
}
