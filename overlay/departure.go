package overlay

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// declareDead removes a peer that left all probes unanswered, and adds a tombstone.
func (n *Node) declareDead(p *peer) {
	now := n.clock.Now()
	wasCandidate := p.candidate
	watched := p.contact != nil && n.liveness.watches(p.contact)
	placed := n.removePeer(p)
	if p.contact != nil {
		n.liveness.tombstones.add(p.contact, now, placed)
	}
	if placed {
		n.stats.Deaths++
		n.tableUpkeep.churn.recordDeath(now)
		if watched {
			n.liveness.announceDeath(p.contact)
		}
		n.liveness.probeTable()
	}
	if wasCandidate {
		n.join.checkJoined()
	}
}

// removePeer takes a peer that is dead or has left out of leaf, table and all lists. It
// reports whether the peer had a place.
func (n *Node) removePeer(p *peer) (placed bool) {
	placed = n.liveness.remove(p)
	placed = n.tableUpkeep.remove(p) || placed
	if p.isHost {
		placed = true
		n.join.detach(p)
	}
	if p.attached != env.Never {
		placed = true
		p.attached = env.Never
	}
	n.router.rerouteFrom(p)
	if p.watchCount > 0 {
		placed = true
		for _, app := range n.router.apps {
			app.PeerGone(p.id)
		}
	}
	n.forget(p)
	return placed
}

// meet updates the state of a node with a verified record, and takes the node out of leaf and
// table if it is no longer a member.
func (n *Node) meet(c *Contact) *peer {
	before := n.Contact(c.Peer.ID)
	p := n.ensureContact(c)
	if p.contact == c && before != nil && before.Member && !c.Member {
		n.removePeer(p)
	}
	return p
}

// expireClients removes clients that have been silent for too long.
func (n *Node) expireClients(now time.Time) {
	if !n.hasClients {
		return
	}
	clients := n.clientList()
	n.hasClients = len(clients) > 0
	for _, p := range clients {
		if now.Sub(p.lastHeard.Time()) > clientSilence*n.cfg.WatchInterval {
			n.removePeer(p)
		}
	}
}

// Watch asks for a call of PeerGone when a peer is dead or has left. Each Watch is ended by an
// Unwatch. The overlay does not probe the peer only because of Watch; a layer that misses a
// message from it calls Suspect.
func (n *Node) Watch(c *Contact) { n.meet(c).watchCount++ }

// Unwatch ends a Watch.
func (n *Node) Unwatch(id env.PeerID) {
	if p := n.peers.get(id); p != nil && p.watchCount > 0 {
		p.watchCount--
		n.forget(p)
	}
}

// Leave takes the node out of the network in good order. Leaf, contacts and clients are told,
// so they need not detect it. Afterwards the node does nothing.
func (n *Node) Leave() {
	if n.state == Left {
		return
	}
	for _, p := range n.peers.all {
		if n.hasPlace(p) {
			n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}})
		}
	}
	n.state = Left
	n.memory.savePeriodically()
	n.router.failOwn()
	n.lookups.endAll()
}

func (n *Node) onLeave(p *peer) {
	if p.contact == nil {
		return
	}
	if n.removePeer(p) { // it is not probed later, but others naming it are ignored for a while
		n.liveness.tombstones.add(p.contact, n.clock.Now(), false)
	}
}
