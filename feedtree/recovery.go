package feedtree

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A recoverer gets bodies of entries that this node's disk has lost.
type recoverer struct {
	*common
	repairer *repairer
	cal      env.Calendar[overlay.ID] // feeds whose recovery is to be continued
	rebuild  func(c *channel)         // rebuilds the window of a feed
}

// A bodyRecovery gets bodies of entries that this node's disk has lost from the owners of the feed or from other
// followers, and then rebuilds the window. The origin is asked for the items of bodies that no node has.
type bodyRecovery struct {
	lost     []*owner.Entry // entries whose body is still missing, the oldest first
	anyFound bool           // at least one body was recovered
	peers    []env.Peer     // peers that were not asked yet in this round
	round    int
	done     bool // the window has been rebuilt; this node recovers nothing more of the feed until it restarts
}

// recoveryRounds is the number of lookups of nodes that may have a body. The pauses between them are those of a
// repair, two minutes in all. A node that has just started knows no other node for some seconds.
const recoveryRounds = 6

// recover starts a recovery. If one was started before, the origin is asked instead.
func (rc *recoverer) recover(c *channel, lost []*owner.Entry) {
	switch {
	case len(lost) == 0:
	case c.recovery != nil:
		rc.repairer.fetchMissing(c)
	default:
		c.recovery = &bodyRecovery{lost: lost}
		rc.cal.Add(rc.after(0), c.key)
	}
}

// run continues the recoveries that are due.
func (rc *recoverer) run(now time.Time) time.Time {
	for key := range due(&rc.cal, now) {
		if c := rc.feeds[key]; c != nil {
			rc.continueRecovery(c)
		}
	}
	return rc.cal.Next()
}

// continueRecovery asks the next node that may have the bodies.
func (rc *recoverer) continueRecovery(c *channel) {
	m := c.recovery
	switch {
	case m == nil || m.done || !c.subscribed:
	case len(m.peers) > 0:
		to := m.peers[0]
		m.peers = m.peers[1:]
		rc.owners.RepairBodies(to, m.lost, func(missing []*owner.Entry) {
			if c.recovery != m {
				return
			}
			m.anyFound = m.anyFound || len(missing) < len(m.lost)
			if m.lost = missing; len(missing) == 0 {
				m.done = true
				rc.rebuild(c)
				return
			}
			rc.cal.Add(rc.after(0), c.key)
		})
	case m.round == recoveryRounds && m.anyFound:
		m.done = true
		rc.rebuild(c) // which asks the origin for the others
	case m.round == recoveryRounds:
		c.recovery = nil
		rc.repairer.fetchMissing(c)
	default:
		rc.owners.FindOwners(c.key, func(found owner.Found) {
			if c.recovery != m {
				return
			}
			for _, p := range found.Peers() {
				if p.Peer.ID != rc.signer.PeerID() {
					m.peers = append(m.peers, p.Peer)
				}
			}
			pause := rc.spread(repairPause << m.round)
			if m.round++; len(m.peers) > 0 {
				pause = 0
			}
			rc.cal.Add(rc.after(pause), c.key)
		})
	}
}
