package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

// Across returns a live member on the other side of bit d: one whose id shares exactly the
// first d bits with the node's id. The candidates are the members of the leaf, or, beyond the
// leaf, the contacts and spares of all slots of that half. The same pick returns the same
// member as long as that member is known, and rendezvous hashing spreads different picks
// evenly over the candidates. Members in except are skipped, and suspects are returned only if
// there is nobody else. Across returns nil if it knows no candidate.
func (n *Node) Across(d int, pick uint64, except ...env.PeerID) *Contact {
	var best *peer
	var most uint64
	consider := func(p *peer) {
		if p == nil || p.contact == nil || slices.Contains(except, p.id) {
			return
		}
		score := mix(pick ^ mix(p.contact.ID.prefix64()))
		if best == nil || best.suspect && !p.suspect || best.suspect == p.suspect && score > most {
			best, most = p, score
		}
	}
	switch {
	case n.state != Active || d < 0 || d >= Bits:
		return nil
	case d >= n.leaf.Depth():
		for _, c := range n.leaf.Members() {
			if n.self.ID.Common(c.ID) == d {
				consider(n.peers.get(c.Peer.ID))
			}
		}
	default:
		row := d / 4
		for col := range n.table.rows[row] {
			if n.table.beyond(row, col, n.leaf.Depth()) && n.table.common(row, col) == d {
				s := &n.table.rows[row][col]
				consider(s.contact)
				consider(s.spare)
			}
		}
	}
	if best == nil {
		return nil
	}
	return best.contact
}

// RTT returns the smoothed round-trip time to a peer, or zero if it was never measured.
func (n *Node) RTT(id env.PeerID) time.Duration {
	if p := n.peers.get(id); p != nil {
		return p.rtt.duration()
	}
	return 0
}
