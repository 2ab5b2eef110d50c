package overlay

import (
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

// attach accepts a client if there is room.
func (ns *neighbours) attach(p *peer) bool {
	if ns.state != Active || p.contact == nil || p.contact.Member {
		return false
	}
	if p.attached == env.Never && len(ns.clientList()) >= maxClients {
		return false
	}
	p.attached = env.MomentOf(ns.clock.Now())
	ns.hasClients = true
	return true
}

// ActsFor reports whether this member acts for a client.
func (ns *neighbours) ActsFor(id env.PeerID) bool {
	p := ns.peers.get(id)
	return p != nil && !p.isHost && p.attached != env.Never
}

// clientList returns the clients that this member acts for, in the order of their peer ids.
func (ns *neighbours) clientList() []*peer {
	var peers []*peer
	for _, p := range ns.peers.all {
		if !p.isHost && p.attached != env.Never {
			peers = append(peers, p)
		}
	}
	return peers
}
