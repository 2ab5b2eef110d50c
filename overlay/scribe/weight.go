package scribe

import "slices"

// Weights are claims. A child could claim any number of clients, and nobody may ask its own children, because nobody
// should be able to list the readers of a feed. A parent therefore compares its children with each other: joining nodes are
// redirected to the child with the least weight, so the subtrees of one node have about the same size.

const (
	// minSiblings is the number of other member children with which a child is compared, if the fan-out
	// allows so many. With fewer the median says little, and the node has no large subtrees yet.
	minSiblings = 4
	// siblingFactor is how many times the median weight of the others a child may claim. Of honest
	// children few have more than four times the median.
	siblingFactor = 8
)

// believed bounds the weight that a child claims. A client has no nodes below it, so it has at most MaxWeight clients, and so has
// a member as far as it speaks for itself. A member with a greater weight is compared with the other member children, or
// with MaxWeight if there are few of these; all nodes of the network together are a bound, too. known is the child's edge, nil if it is new.
func (cs *children) believed(g *group, known *child, client bool, weight uint32) uint32 {
	most := uint32(cs.cfg.MaxWeight)
	if weight <= most {
		return weight
	}
	if client {
		return most
	}
	var others []uint32
	for i := range g.children {
		if c := &g.children[i]; !c.client && c != known {
			others = append(others, c.weight)
		}
	}
	usual := uint64(most)
	if len(others) >= min(minSiblings, cs.cfg.FanOut-1) {
		slices.Sort(others)
		usual = uint64(others[len(others)/2])
	}
	all := uint64(most) * uint64(max(cs.node.Count(0), 1))
	return uint32(min(uint64(weight), all, max(uint64(most), siblingFactor*usual)))
}
