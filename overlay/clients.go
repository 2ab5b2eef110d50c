package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

const (
	// A client keeps two members that act for it, so that it loses nothing
	// when one of them dies.
	hostsWanted = 2
	// maxClients is how many clients a member acts for; another one is sent
	// away, and asks elsewhere.
	maxClients = 128
	// clientSilence is how many watch intervals a client may be silent.
	clientSilence = 4
)

// chooseHosts asks the members nearest to the client's id to act for it.
func (n *Node) chooseHosts() {
	of := slices.DeleteFunc(slices.Clone(n.join.pool), func(c *Contact) bool {
		p := n.peers.get(c.Peer.ID)
		return p != nil && p.isHost || n.tombstones.isRecent(c, n.clock.Now())
	})
	for _, c := range nearestN(of, n.self.ID, hostsWanted-len(n.hosts)) {
		p := n.ensureContact(c)
		p.isHost = true
		n.hosts = append(n.hosts, p)
		p.probing = false // one that is out does not ask for it
		n.probe(p)
	}
	if len(n.hosts) == 0 { // nobody is left: look again
		n.state = Alone
		n.join.nonce = 0
		n.pauseJoin(n.clock.Now().Add(n.jitter(maxJoinPause)))
	}
}

// attachedTo notes that a member acts for this client.
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

// detach ends what a member did for this client, and looks for another.
func (n *Node) detach(p *peer) {
	p.isHost, p.attached = false, never
	n.hosts = slices.DeleteFunc(n.hosts, func(q *peer) bool { return q == p })
	n.join.pool = slices.DeleteFunc(n.join.pool, func(c *Contact) bool { return c.Peer.ID == p.id })
	n.leafChanged = true
	if !n.self.Member && n.state != Left {
		n.chooseHosts()
	}
}

// attach takes a client on, if there is room.
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

// ActsFor says whether this member acts for a client.
func (n *Node) ActsFor(id env.PeerID) bool {
	p := n.peers.get(id)
	return p != nil && !p.isHost && p.attached != never
}

// clientList returns the clients this member acts for, by peer id.
func (n *Node) clientList() []*peer {
	var of []*peer
	for _, p := range n.peers.all {
		if !p.isHost && p.attached != never {
			of = append(of, p)
		}
	}
	return of
}

// expireClients forgets clients that have been silent too long.
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

// watchHosts looks at each member that acts for this client.
func (n *Node) watchHosts(look func(*peer)) {
	for _, p := range n.hosts {
		look(p)
	}
}
