package scribe

import (
	"time"

	"tidings/internal/env"
	"tidings/internal/slab"
	"tidings/overlay"
)

// A link is everything that this node shares with one peer: the edges of many groups, the messages
// between them, and pending weights. A node has hundreds of links.
type link struct {
	contact   *overlay.Contact // nil: the link was removed
	number    linkNumber
	createdAt env.Moment
	checkAt   env.Moment // when a lease may be over, or the link may be unused; never: no check is planned

	up, down edgeSet // up: the peer is the parent; down: the peer is the child
	renewal  renewal
	transfer *transfer           // nil: no messages are in transit
	weights  map[overlay.ID]bool // groups whose changed weight must be sent
	flushAt  env.Moment          // never: no flush is planned
}

// links are the links of a node.
type links struct {
	*base
	byPeer map[env.PeerID]*link
	store  slab.Slab[link]
}

// A linkNumber is one more than the place of a link in links.store. Groups, of which a
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

// open returns the link to a node, making one if there is none.
func (ls *links) open(c *overlay.Contact) *link {
	l := ls.byPeer[c.Peer.ID]
	if l == nil {
		number := ls.store.Put(link{createdAt: ls.now(), contact: c})
		l = ls.store.At(number)
		l.number = linkNumber(number + 1)
		ls.byPeer[c.Peer.ID] = l
		ls.node.Watch(c)
		ls.checkIn(l, linkGrace)
	}
	if c.Issued > l.contact.Issued {
		l.contact = c
	}
	return l
}

// linkGrace is how long a link without edges is kept, so that the edges for which it was made can
// be accepted.
const linkGrace = 2 * joinTimeout

// checkIn plans a check of a link within d.
func (ls *links) checkIn(l *link, d time.Duration) {
	at := ls.clock.Now().Add(d)
	if l.checkAt == env.Never || env.MomentOf(at) < l.checkAt {
		l.checkAt = env.MomentOf(at)
		ls.cal.Add(at, task{kind: taskCheckLink, number: uint32(l.number)})
	}
}

// dropIdleLater plans the removal of a link that has lost its last edge.
func (ls *links) dropIdleLater(l *link) {
	if len(l.up.groups) == 0 && len(l.down.groups) == 0 {
		ls.checkIn(l, linkGrace)
	}
}

// dropIdle removes a link without edges, once it is older than linkGrace.
func (ls *links) dropIdle(l *link) {
	if len(l.up.groups) > 0 || len(l.down.groups) > 0 || ls.now().Sub(l.createdAt) < linkGrace {
		return
	}
	id := l.contact.Peer.ID
	delete(ls.byPeer, id)
	ls.store.Take(uint32(l.number - 1))
	ls.node.Unwatch(id)
}

// flushSoon plans a flush of a link within d, at once if acknowledgements fill a message.
func (ls *links) flushSoon(l *link, d time.Duration) {
	if l.transfer != nil && len(l.transfer.acks) >= maxAcks {
		d = 0
	}
	at := ls.clock.Now().Add(d)
	if l.flushAt == env.Never || env.MomentOf(at) < l.flushAt {
		l.flushAt = env.MomentOf(at)
		ls.cal.Add(at, task{kind: taskFlush, number: uint32(l.number)})
	}
}
