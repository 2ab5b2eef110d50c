package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

const (
	// hostsWanted is the number of members that act for one client. With two, the client loses
	// nothing when one of them dies.
	hostsWanted = 2
	// maxClients bounds the clients of one member. A further client is refused and asks
	// another member.
	maxClients = 128
	// clientSilence is the number of watch intervals that a client may be silent before its
	// member forgets it.
	clientSilence = 4
)

// chooseHosts asks the members nearest to the client's id to act for it.
func (n *Node) chooseHosts() {
	contacts := slices.DeleteFunc(slices.Clone(n.join.pool), func(c *Contact) bool {
		p := n.peers.get(c.Peer.ID)
		return p != nil && p.isHost || n.tombstones.diedRecently(c, n.clock.Now())
	})
	for _, c := range nearestN(contacts, n.self.ID, hostsWanted-len(n.hosts)) {
		p := n.ensureContact(c)
		p.isHost = true
		n.hosts = append(n.hosts, p)
		p.probing = false // a probe that is already out does not carry the request
		n.probe(p)
	}
	if len(n.hosts) == 0 { // no member is left, so the search starts again
		n.state = Alone
		n.join.nonce = 0
		n.pauseJoin(n.clock.Now().Add(n.jitter(maxJoinPause)))
	}
}

// attachedTo records that a member agreed to act for this client.
func (n *Node) attachedTo(p *peer) {
	if !p.isHost || n.self.Member {
		return
	}
	if n.state == Alone {
		n.state = Attached
		n.log.Info("attached to the network as a client", "id", n.self.ID.Short(), "host", p.contact.ID.Short())
	}
	if p.attached == never {
		p.attached = timestampOf(n.clock.Now())
		n.leafChanged = true
		n.release()
	}
}

// detach records that a member no longer acts for this client, and looks for another member.
func (n *Node) detach(p *peer) {
	p.isHost, p.attached = false, never
	n.hosts = slices.DeleteFunc(n.hosts, func(q *peer) bool { return q == p })
	n.join.pool = slices.DeleteFunc(n.join.pool, func(c *Contact) bool { return c.Peer.ID == p.id })
	n.leafChanged = true
	if !n.self.Member && n.state != Left {
		n.chooseHosts()
	}
}

// attach accepts a client if there is room.
func (n *Node) attach(p *peer) bool {
	if n.state != Active || p.contact == nil || p.contact.Member {
		return false
	}
	if p.attached == never && len(n.clientList()) >= maxClients {
		return false
	}
	p.attached = timestampOf(n.clock.Now())
	n.hasClients = true
	return true
}

// ActsFor reports whether this member acts for a client.
func (n *Node) ActsFor(id env.PeerID) bool {
	p := n.peers.get(id)
	return p != nil && !p.isHost && p.attached != never
}

// clientList returns the clients that this member acts for, in the order of their peer ids.
func (n *Node) clientList() []*peer {
	var peers []*peer
	for _, p := range n.peers.all {
		if !p.isHost && p.attached != never {
			peers = append(peers, p)
		}
	}
	return peers
}

// expireClients removes clients that have been silent for too long.
func (n *Node) expireClients(now time.Time) {
	if !n.hasClients {
		return
	}
	clients := n.clientList()
	n.hasClients = len(clients) > 0
	for _, p := range clients {
		if now.Sub(p.lastHeard.time()) > clientSilence*n.cfg.WatchInterval {
			n.removePeer(p)
		}
	}
}

// watchHosts calls look for each member that acts for this client.
func (n *Node) watchHosts(look func(*peer)) {
	for _, p := range n.hosts {
		look(p)
	}
}
