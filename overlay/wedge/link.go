package wedge

import (
	"cmp"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/slab"
	"tidings/overlay"
)

// A link is everything that this node shares with one peer: the edges between them, in both
// directions, and the changes to be sent.
type link struct {
	number  linkNumber
	peer    env.Peer
	contact *overlay.Contact
	dead    bool // the peer was reported dead, and has sent nothing since
	common  int  // bits of the id that the peer shares with this node

	up, down edgeSet // up: the peer is the parent; down: the peer is the child
	childOf  int     // memberships whose parent the peer is; equals up.count except during changes

	batchState
	renewalState
	broadcastState

	used         time.Time // when a batch was last received or sent
	blockedUntil time.Time // no new entries are sent to the peer before; zero: it is not blocked
}

// links are the links of a node.
type links struct {
	*base
	byPeer  map[env.PeerID]*link
	store   slab.Slab[link] // see linkNumber
	blocked []env.PeerID    // peers that recently refused entries for lack of room, or did not answer
}

// A linkNumber is one more than the place of a link in links.store. Memberships, of which a
// simulated network has millions, store it in place of a pointer. The number is reused when its
// link is gone.
type linkNumber uint32

const noLink linkNumber = 0 // the number of no link

// at returns the link with a number; nil for noLink.
func (ls *links) at(n linkNumber) *link {
	if n == noLink {
		return nil
	}
	return ls.store.At(uint32(n - 1))
}

// An edgeSet summarises the edges of a link in one direction, so that both ends can compare what
// they know.
type edgeSet struct {
	count  uint32
	digest uint64
}

func (e *edgeSet) add(hash uint64) {
	e.count++
	e.digest ^= hash
}

func (e *edgeSet) remove(hash uint64) {
	e.count--
	e.digest ^= hash
}

// open returns the link to a node, making one if there is none.
func (ls *links) open(c *overlay.Contact) *link {
	l := ls.byPeer[c.Peer.ID]
	if l == nil {
		number := ls.store.Put(link{common: ls.node.ID().Common(c.ID), used: ls.clock.Now()})
		l = ls.store.At(number)
		l.number = linkNumber(number + 1)
		ls.byPeer[c.Peer.ID] = l
		ls.node.Watch(c)
		if ls.node.RTT(c.Peer.ID) == 0 {
			ls.node.Suspect(c.Peer.ID) // starts a probe, since times are corrected by half the round trip
		}
	}
	if l.contact == nil || c.Issued > l.contact.Issued {
		l.peer, l.contact = c.Peer, c
	}
	return l
}

// sorted returns the links for which keep is true, by peer.
func (ls *links) sorted(keep func(*link) bool) (links []*link) {
	for _, l := range ls.byPeer {
		if keep(l) {
			links = append(links, l)
		}
	}
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.peer.ID, b.peer.ID) })
	return links
}

// rtt returns the round-trip time of a link. It prefers the link's own measurement, because the
// overlay's first probe may have waited for the connection.
func (ls *links) rtt(l *link) time.Duration {
	if l.rtt != 0 {
		return l.rtt
	}
	return ls.node.RTT(l.peer.ID)
}

// timeout returns how long to wait for an answer after so many tries.
func (ls *links) timeout(l *link, tries int) time.Duration {
	return ls.node.RTO(l.peer.ID) << min(tries-1, 5)
}

// block stops new entries to a peer for one maintenance interval.
func (ls *links) block(l *link) {
	l.blockedUntil = ls.clock.Now().Add(ls.cfg.Maintenance)
	if !slices.Contains(ls.blocked, l.peer.ID) {
		ls.blocked = append(ls.blocked, l.peer.ID)
	}
}

// unblock ends the blocks that are over.
func (ls *links) unblock(now time.Time) {
	ls.blocked = slices.DeleteFunc(ls.blocked, func(id env.PeerID) bool {
		l := ls.byPeer[id]
		return l == nil || !now.Before(l.blockedUntil)
	})
}
