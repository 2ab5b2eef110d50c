package overlay

import (
	"math"
	"time"
)

// What is spent on the order of the table follows how often its contacts die, as in
// MSPastry (Castro, Costa and Rowstron, Performance and dependability of structured
// peer-to-peer overlays, DSN 2004, §4.1): in a calm network a contact is asked once in
// TableInterval; where members stay for minutes, so often that at most maxStale of the
// contacts are dead and not known to be.
const (
	maxStaleShare = 0.1
	// leastInterval is the shortest time for a round: what the order of the table may cost
	// at most, some three messages a second, when nobody stays.
	minTableInterval = time.Minute
	// unrestMemory is how long a death counts: its weight falls to a third in that time.
	churnMemory = 10 * time.Minute
)

// unrest is a running count of deaths.
type churnRate struct {
	deaths float64 // those of long ago count less
	at     time.Time
}

func (u *churnRate) recordDeath(now time.Time) {
	u.deaths = u.deathsAt(now) + 1
	u.at = now
}

func (u *churnRate) deathsAt(now time.Time) float64 {
	return u.deaths * math.Exp(-max(now.Sub(u.at).Seconds(), 0)/churnMemory.Seconds())
}

// tableInterval is the time in which every contact is asked once.
func (n *Node) tableInterval(now time.Time) time.Duration {
	deaths := n.churn.deathsAt(now)
	if deaths < 1 {
		return n.cfg.TableInterval
	}
	known := n.leaf.Len()
	n.table.each(n.leaf.Depth(), func(_, _ int, s *slot) {
		if s.contact != nil {
			known++
		}
		if s.spare != nil {
			known++
		}
	})
	// Who is asked every t is dead unnoticed for t/2 in the mean, and a member lives for
	// known × unrestMemory / deaths.
	life := float64(known) * churnMemory.Seconds() / deaths
	t := time.Duration(2 * maxStaleShare * life * float64(time.Second))
	return min(max(t, min(minTableInterval, n.cfg.TableInterval)), n.cfg.TableInterval)
}
