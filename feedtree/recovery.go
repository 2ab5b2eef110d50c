package feedtree

import (
	"tidings/difference"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A mending gets the bodies of entries that this node's disk has lost from the owners of the feed, or
// from others who follow it, and then makes the window anew. The origin is asked for the items of
// bodies that none of them has.
type bodyRecovery struct {
	lost     []*owner.Entry // the oldest first; those that came are taken out
	anyFound bool           // some have come
	peers    []env.Peer     // that were not asked yet in this round
	round    int
	done     bool // the window is made anew; nothing more is mended in this life
}

// mendRounds is how often those who may have a body are looked for, with the pauses of a repair
// between: two minutes in all. A node that has just started knows nobody for some seconds.
const recoveryRounds = 6

// mend begins a mending.
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

// mendOn asks the next who may have the bodies.
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
		f.owners.FindOwners(c.key, func(found []*overlay.Contact) {
			if c.recovery != m {
				return
			}
			for _, p := range found {
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

// showAnew has a window made anew from its log, as soon as it is not being brought up to it. Nothing in
// it is news: it was shown, in this life or an earlier one.
func (f *FeedTree) rebuildWindow(c *channel) {
	c.recovery.done, c.rebuild = true, true
	f.sync(c, nil)
}

// empty begins a window that is made anew.
func (w *window) reset() {
	if w.applied != (owner.Hash{}) {
		w.shownUpTo = w.applied
	}
	w.log, w.applied, w.unread, w.signed = difference.Window{}, owner.Hash{}, nil, nil
	w.version++
}
