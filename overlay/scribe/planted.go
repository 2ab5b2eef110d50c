package scribe

import (
	"slices"

	"tidings/internal/plant"
)

// planted does what the planted bugs do from time to time; see internal/plant.
func (s *Scribe) planted() {
	if plant.Cycle { // ask a child to be the parent
		for _, g := range s.sorted(func(g *group) bool { return len(g.above()) == 1 && g.members() > 0 && g.sought == nil }) {
			i := slices.IndexFunc(g.children, func(c child) bool { return !c.client })
			to := s.numbered(g.children[i].link).contact.Peer
			g.sought = &sought{asking: s.rand.Uint64() | 1, told: g.weight(), target: to.ID}
			s.send(to, s.join(g, g.weight()))
		}
	}
	if plant.LostChild { // forget a child, but not in the digest of its link
		for _, g := range s.sorted(func(g *group) bool { return len(g.children) > 1 }) {
			g.children = g.children[1:]
		}
	}
}
