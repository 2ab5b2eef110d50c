package overlay

import (
	"bytes"
	"slices"
)

// Known returns the members that this node knows of, each once, in the order of their ids: those of its leaf and
// table, and those that a client has heard of. The slice is the caller's.
func (n *Node) Known() []*Contact {
	known := slices.Concat(n.leaf.Members(), n.Contacts(), n.Hosts(), n.pool.members)
	known = slices.DeleteFunc(known, func(c *Contact) bool { return !c.Member || c.ID == n.self.ID })
	slices.SortFunc(known, func(a, b *Contact) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return slices.CompactFunc(known, func(a, b *Contact) bool { return a.ID == b.ID })
}
