package overlay

import (
	"math"
	"time"
)

// The effort spent on maintaining the routing table follows the rate at which contacts die, as
// in MSPastry (Castro, Costa and Rowstron, Performance and dependability of structured
// peer-to-peer overlays, DSN 2004, §4.1). In a calm network each contact is asked once per
// tableInterval. If members stay only for minutes, contacts are asked so often that at most
// maxStaleShare of them are dead without being known to be.
const (
	maxStaleShare = 0.1
	// minTableInterval is the shortest time for one round through the table. It bounds the
	// cost to about three messages a second, however short members stay.
	minTableInterval = time.Minute
	// churnMemory is the decay time of a death: its weight falls to a third (1/e) in that
	// time.
	churnMemory = 10 * time.Minute
)

// churnRate is an exponentially decaying count of deaths.
type churnRate struct {
	deaths float64 // decayed count as of at
	at     time.Time
}

func (u *churnRate) recordDeath(now time.Time) {
	u.deaths = u.deathsAt(now) + 1
	u.at = now
}

func (u *churnRate) deathsAt(now time.Time) float64 {
	return u.deaths * math.Exp(-max(now.Sub(u.at).Seconds(), 0)/churnMemory.Seconds())
}

// interval returns the time in which every contact of the table is asked once.
func (tu *tableUpkeep) interval(now time.Time) time.Duration {
	deaths := tu.churn.deathsAt(now)
	if deaths < 1 {
		return tableInterval
	}
	known := tu.leaf.Len()
	tu.table.eachPeer(tu.leaf.Depth(), func(*peer) { known++ })
	// A contact asked every t is dead without being noticed for t/2 on average, and a member
	// lives for known × churnMemory / deaths.
	life := float64(known) * churnMemory.Seconds() / deaths
	t := time.Duration(2 * maxStaleShare * life * float64(time.Second))
	return min(max(t, minTableInterval), tableInterval)
}
