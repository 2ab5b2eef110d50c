package feedtree

import (
	"tidings/difference"
	"tidings/internal/env"
	"tidings/overlay/owner"
)

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

// recoverBodies starts a recovery. If one was started before, the origin is asked instead.
func (f *FeedTree) recoverBodies(c *channel, lost []*owner.Entry) {
	switch {
	case len(lost) == 0:
	case c.recovery != nil:
		f.scheduleOriginFetch(c)
	default:
		c.recovery = &bodyRecovery{lost: lost}
		f.after(0, task{kind: taskRecover, key: c.key})
	}
}

// continueRecovery asks the next node that may have the bodies.
func (f *FeedTree) continueRecovery(c *channel) {
	m := c.recovery
	switch {
	case m == nil || m.done || !c.subscribed:
	case len(m.peers) > 0:
		to := m.peers[0]
		m.peers = m.peers[1:]
		f.owners.RepairBodies(to, m.lost, func(missing []*owner.Entry) {
			if c.recovery != m {
				return
			}
			m.anyFound = m.anyFound || len(missing) < len(m.lost)
			if m.lost = missing; len(missing) == 0 {
				f.rebuildWindow(c)
				return
			}
			f.after(0, task{kind: taskRecover, key: c.key})
		})
	case m.round == recoveryRounds && m.anyFound:
		f.rebuildWindow(c) // which asks the origin for the others
	case m.round == recoveryRounds:
		c.recovery = nil
		f.scheduleOriginFetch(c)
	default:
		f.owners.FindOwners(c.key, func(found owner.Found) {
			if c.recovery != m {
				return
			}
			for _, p := range found.Peers() {
				if p.Peer.ID != f.signer.PeerID() {
					m.peers = append(m.peers, p.Peer)
				}
			}
			pause := f.spread(repairPause << m.round)
			if m.round++; len(m.peers) > 0 {
				pause = 0
			}
			f.after(pause, task{kind: taskRecover, key: c.key})
		})
	}
}

// rebuildWindow rebuilds a window from its log, after the update in progress if there is one. None of the items is
// news: they were shown in this life of the node or in an earlier one.
func (f *FeedTree) rebuildWindow(c *channel) {
	c.recovery.done, c.rebuild = true, true
	f.sync(c, nil)
}

// reset empties a window that is to be rebuilt.
func (w *window) reset() {
	if w.applied != (owner.Hash{}) {
		w.shownUpTo = w.applied
	}
	w.log, w.applied, w.unreadable, w.signed = difference.Window{}, owner.Hash{}, nil, nil
	w.version++
}
