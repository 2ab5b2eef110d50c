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
type mending struct {
	lost  []*owner.Entry // the oldest first; those that came are taken out
	some  bool           // some have come
	peers []env.Peer     // that were not asked yet in this round
	round int
	done  bool // the window is made anew; nothing more is mended in this life
}

// mendRounds is how often those who may have a body are looked for, with the pauses of a repair
// between: two minutes in all. A node that has just started knows nobody for some seconds.
const mendRounds = 6

// mend begins a mending.
func (f *FeedTree) mend(c *channel, lost []*owner.Entry) {
	switch {
	case len(lost) == 0:
	case c.mending != nil:
		f.lack(c)
	default:
		c.mending = &mending{lost: lost}
		f.after(0, task{kind: taskMend, key: c.key})
	}
}

// mendOn asks the next who may have the bodies.
func (f *FeedTree) mendOn(c *channel) {
	m := c.mending
	switch {
	case m == nil || m.done || !c.subscribed:
	case len(m.peers) > 0:
		to := m.peers[0]
		m.peers = m.peers[1:]
		f.owners.RepairBodies(to, m.lost, func(missing []*owner.Entry) {
			if c.mending != m {
				return
			}
			m.some = m.some || len(missing) < len(m.lost)
			if m.lost = missing; len(missing) == 0 {
				f.showAnew(c)
				return
			}
			f.after(0, task{kind: taskMend, key: c.key})
		})
	case m.round == mendRounds && m.some:
		f.showAnew(c) // which asks the origin for the others
	case m.round == mendRounds:
		c.mending = nil
		f.lack(c)
	default:
		f.owners.FindOwners(c.key, func(found []*overlay.Contact) {
			if c.mending != m {
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
			f.after(pause, task{kind: taskMend, key: c.key})
		})
	}
}

// showAnew has a window made anew from its log, as soon as it is not being brought up to it. Nothing in
// it is news: it was shown, in this life or an earlier one.
func (f *FeedTree) showAnew(c *channel) {
	c.mending.done, c.anew = true, true
	f.sync(c, nil)
}

// empty begins a window that is made anew.
func (w *window) empty() {
	if w.applied != (owner.Hash{}) {
		w.quiet = w.applied
	}
	w.of, w.applied, w.unread, w.signed = difference.Window{}, owner.Hash{}, nil, nil
	w.version++
}
