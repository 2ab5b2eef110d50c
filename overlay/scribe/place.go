package scribe

import (
	"tidings/internal/env"
	"tidings/overlay"
)

// A Place is a node's place in a group's tree, for tests and observers.
type Place struct {
	Root     bool
	Own      int          // weight of the node's own subscription; 0: none
	Weight   int          // clients at and below the node, as far as it knows
	Parents  []overlay.ID // at most one; up to two for a client
	Children []overlay.ID
}

// Place returns the node's place in a group; ok is false if it has none.
func (s *Scribe) Place(id overlay.ID) (p Place, ok bool) {
	g := s.groups.Get(id)
	if g == nil {
		return Place{}, false
	}
	p = Place{Root: g.root, Own: int(g.ownWeight), Weight: int(g.weight())}
	for _, up := range g.parentEdges() {
		p.Parents = append(p.Parents, s.links.at(up.link).contact.ID)
	}
	for _, c := range g.children {
		p.Children = append(p.Children, s.links.at(c.link).contact.ID)
	}
	return p, true
}

// Parent returns the node's first parent in a group; ok is false if it has none.
func (s *Scribe) Parent(id overlay.ID) (parent overlay.ID, ok bool) {
	if g := s.groups.Get(id); g != nil && len(g.parentEdges()) > 0 {
		return s.links.at(g.parents[0].link).contact.ID, true
	}
	return overlay.ID{}, false
}

// Groups returns the groups in which the node has a place, sorted by id.
func (s *Scribe) Groups() []overlay.ID {
	var of []overlay.ID
	for _, g := range s.groups.sorted(func(*group) bool { return true }) {
		of = append(of, g.id)
	}
	return of
}

// Parents returns the node's parents in a group: one, or up to two for a client; none at the root.
func (s *Scribe) Parents(id overlay.ID) (of []*overlay.Contact) {
	if g := s.groups.Get(id); g != nil {
		for _, up := range g.parentEdges() {
			of = append(of, s.links.at(up.link).contact)
		}
	}
	return of
}

// Children returns the node's children in a group.
func (s *Scribe) Children(id overlay.ID) (of []*overlay.Contact) {
	if g := s.groups.Get(id); g != nil {
		for _, c := range g.children {
			of = append(of, s.links.at(c.link).contact)
		}
	}
	return of
}

// GroupsOf returns the groups in which a peer is a child of this node, sorted by id.
func (s *Scribe) GroupsOf(child env.PeerID) (of []overlay.ID) {
	if l := s.links.byPeer[child]; l != nil {
		for _, number := range l.down.groups {
			of = append(of, s.groups.At(number).id)
		}
	}
	return of
}

// Neighbour says whether a peer is a parent or a child of this node in any group.
func (s *Scribe) Neighbour(peer env.PeerID) bool {
	l := s.links.byPeer[peer]
	return l != nil && len(l.up.groups)+len(l.down.groups) > 0
}
