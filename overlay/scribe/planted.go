package scribe

import (
	"slices"

	"tidings/internal/plant"
)

// planted runs the planted bugs that occur from time to time; see internal/plant.
func (s *Scribe) planted() {
	if plant.Cycle { // ask a child to be the parent
		for _, g := range s.groups.sorted(func(g *group) bool { return len(g.parentEdges()) == 1 && g.countMembers() > 0 && g.search == nil }) {
			i := slices.IndexFunc(g.children, func(c child) bool { return !c.client })
			to := s.links.at(g.children[i].link).contact.Peer
			g.search = &parentSearch{edge: s.rand.Uint64() | 1, weight: g.weight(), target: to.ID}
			s.send(to, s.parents.joinMessage(g, g.weight()))
		}
	}
	if plant.LostChild { // forget a child, but not in the digest of its link
		for _, g := range s.groups.sorted(func(g *group) bool { return len(g.children) > 1 }) {
			g.children = g.children[1:]
		}
	}
}
