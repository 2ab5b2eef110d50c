package overlay

import (
	"slices"

	"tidings/internal/env"
)

// maxPool bounds the members of a pool.
const maxPool = 256

// A pool holds what a node without a place, or a client, has heard of members.
type pool struct {
	members       []*Contact // members heard of, at most maxPool
	namedBy       map[ID]ID  // the member that named each of them first
	offer         *offer     // the leaf that a member offered last
	maxDepthHeard int        // maximum depth that others said their leaves have
	bootstraps    []*Contact // nodes found outside the network, such as from a list of the operator, at most maxBootstraps
}

// An offer is a leaf as one of its members describes it to a joining node.
type offer struct {
	depth   int
	decided uint64
	members []*Contact
}

// has reports whether an offer names a member.
func (o *offer) has(c *Contact) bool {
	return slices.ContainsFunc(o.members, func(m *Contact) bool { return m.ID == c.ID })
}

// clear forgets everything but the bootstrap nodes.
func (pl *pool) clear() { *pl = pool{bootstraps: pl.bootstraps} }

// add adds members that a member named, without the node itself. In a full pool they take the places of members that are
// farther from the node.
func (pl *pool) add(self, by ID, contacts []*Contact) {
	if pl.namedBy == nil {
		pl.namedBy = map[ID]ID{}
	}
	for _, c := range contacts {
		if c.ID == self || !c.Member {
			continue
		}
		i := slices.IndexFunc(pl.members, func(o *Contact) bool { return o.Peer.ID == c.Peer.ID })
		switch {
		case i >= 0 && pl.members[i].ID == c.ID:
			pl.members[i] = c
			continue
		case i >= 0 && c.Issued < pl.members[i].Issued: // the member has moved since
			continue
		case i >= 0:
		case len(pl.members) < maxPool:
			i = len(pl.members)
			pl.members = append(pl.members, c)
		default:
			if i = pl.farthest(self); !Nearer(self, c.ID, pl.members[i].ID) {
				continue
			}
		}
		delete(pl.namedBy, pl.members[i].ID)
		pl.members[i], pl.namedBy[c.ID] = c, by
	}
}

// of returns the record of a peer, or nil if it is not in the pool.
func (pl *pool) of(peer env.PeerID) *Contact {
	for _, c := range pl.members {
		if c.Peer.ID == peer {
			return c
		}
	}
	return nil
}

// farthest returns the position of the member that is farthest from an id.
func (pl *pool) farthest(from ID) (at int) {
	for i, c := range pl.members {
		if Nearer(from, pl.members[at].ID, c.ID) {
			at = i
		}
	}
	return at
}

// interleave orders members so that routes begin with members named by as many different peers
// as possible: every peer gets one of its members in before any gets a second. Members of the
// offered leaf get no second one.
func (pl *pool) interleave(contacts []*Contact) {
	named, turn := map[ID]int{}, map[ID]int{}
	for _, c := range contacts {
		by := pl.namedBy[c.ID]
		if turn[c.ID] = named[by]; turn[c.ID] > 0 && pl.offer != nil && pl.offer.has(c) {
			turn[c.ID] = maxPool
		}
		named[by]++
	}
	slices.SortStableFunc(contacts, func(a, b *Contact) int { return turn[a.ID] - turn[b.ID] })
}

// maxBootstraps bounds the bootstrap nodes that a member keeps.
const maxBootstraps = 8

// keepBootstraps keeps nodes that were found outside the network, in the operator's list, in the
// store or on the local network. They remain available to a node all of whose contacts are liars.
func (pl *pool) keepBootstraps(network string, found []env.Peer) {
	for _, p := range found {
		if len(pl.bootstraps) == maxBootstraps {
			return
		}
		if !slices.ContainsFunc(pl.bootstraps, func(c *Contact) bool { return c.Peer.ID == p.ID }) {
			pl.bootstraps = append(pl.bootstraps, &Contact{ID: NodeID(network, p.ID), Peer: p})
		}
	}
	for _, c := range pl.members {
		pl.metBootstrap(c)
	}
}

// metBootstrap stores the record of a bootstrap node, of which only the address may have been known.
func (pl *pool) metBootstrap(c *Contact) {
	for i, b := range pl.bootstraps {
		if b.Peer.ID == c.Peer.ID && c.Issued >= b.Issued {
			pl.bootstraps[i] = c
		}
	}
}

// bootstrapMembers returns the bootstrap nodes that are known to be members.
func (pl *pool) bootstrapMembers() []*Contact {
	return slices.DeleteFunc(slices.Clone(pl.bootstraps), func(c *Contact) bool { return !c.Member })
}
