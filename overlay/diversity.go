package overlay

import (
	"net/netip"
	"slices"

	"tidings/internal/env"
)

// NearestOwners returns the n members of the leaf that should own a key: the nearest ones that are not passed over, the
// nearest first. In a network of address ids they are of different providers. All members of a leaf hold the same
// records, so all find the same owners. passOver may be nil.
func (ns *neighbours) NearestOwners(key ID, n int, passOver func(env.PeerID) bool) []*Contact {
	if passOver == nil && !ns.leaf.diverse() {
		return ns.leaf.NearestN(key, n)
	}
	members := ns.leaf.NearestN(key, ns.leaf.Len())
	if passOver != nil {
		members = slices.DeleteFunc(members, func(c *Contact) bool { return passOver(c.Peer.ID) })
	}
	return Diverse(members, n)
}

// diverse reports whether the members' ids are made of blocks of addresses.
func (l *LeafSet) diverse() bool { return l.self.Block.IsValid() }

// Diverse returns the first n of some members, at most one of each provider's block of addresses (/16 for IPv4, /32 for
// IPv6) in a network of address ids: an attacker who rents a thousand addresses of two providers then owns at most two
// of five places. If all members are of one provider, there is nothing to choose from, and the rule does not apply.
func Diverse(members []*Contact, n int) []*Contact {
	seen := map[netip.Prefix]bool{}
	kept := make([]*Contact, 0, min(n, len(members)))
	for _, c := range members {
		provider := providerOf(c.Block)
		if c.Block.IsValid() && seen[provider] {
			continue
		}
		seen[provider] = true
		if len(kept) < n {
			kept = append(kept, c)
		}
	}
	if len(seen) == 1 {
		return members[:min(n, len(members))]
	}
	return kept
}

// displaceLast reports whether a member has the place of the last of others, so that only one of the two counts, and keeps the
// one that has the right to it.
func displaceLast(members []*lookupMember, m *lookupMember) bool {
	last := len(members) - 1
	if last < 0 || m.state != answered || members[last].state != answered || !samePlace(members[last].contact.ID, m.contact.ID) {
		return false
	}
	if compare(m.contact.ID, members[last].contact.ID) < 0 {
		members[last] = m
	}
	return true
}
