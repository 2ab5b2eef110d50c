package scribe

import (
	"bytes"
	"math"
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
)

// A group is this node's part in one tree. A node has as many groups as subscriptions, so they are
// kept small, 120 bytes: rare and temporary state is kept elsewhere.
type group struct {
	id         overlay.ID
	number     uint32    // in the groupTable
	ownWeight  uint32    // clients behind the node's own subscription; 0: no subscription
	sentWeight uint32    // weight as last sent to the first parent
	parents    [2]parent // used entries first; see parentEdges
	children   []child
	search     *parentSearch // the search for a parent; nil: none
	offeredAt  uint32        // when the node last sent an Offer, in seconds of Unix time; 0: never

	root             bool
	pushPlanned      bool // pushDown is planned
	pushCheckPlanned bool // a check of children that were asked to move is planned
	sweepQueued      bool // in groupTable.toSweep
}

// A groupTable holds the groups of a node.
type groupTable struct {
	*groupIndex
	toSweep []*group // groups that the next sweep checks
}

// A parent is the edge to a parent.
type parent struct {
	edge uint64 // id chosen by this node
	link linkNumber
}

// A child is the edge to a child.
type child struct {
	edge       uint64     // id chosen by the child
	since      env.Moment // when it last joined, or was asked to move
	link       linkNumber
	weight     uint32
	redirected uint16 // children redirected to it
	client     bool
	moving     bool // it was asked to move to another parent
}

// parentEdges returns the edges to parents: at most one, or two for a client, of which the first
// counts its weight.
func (g *group) parentEdges() []parent {
	n := 0
	for n < len(g.parents) && g.parents[n].link != noLink {
		n++
	}
	return g.parents[:n]
}

// lacksParent says whether the node has no parent and is not the root.
func (g *group) lacksParent() bool { return !g.root && g.parents[0].link == noLink }

// sweepLater has the next sweep check a group that may be unused, lack a parent, or keep messages.
func (gt *groupTable) sweepLater(g *group) {
	if !g.sweepQueued {
		g.sweepQueued = true
		gt.toSweep = append(gt.toSweep, g)
	}
}

// weight returns the number of clients at and below the node.
func (g *group) weight() uint32 {
	w := uint64(g.ownWeight)
	for i := range g.children {
		w += uint64(g.children[i].weight)
	}
	return uint32(min(w, math.MaxUint32))
}

// heaviest returns the member child with the most clients below it; nil if there is none.
func (g *group) heaviest() (most *child) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && (most == nil || c.weight > most.weight) {
			most = c
		}
	}
	return most
}

// onlyForwards says whether the node has neither a subscription nor clients as children.
func (g *group) onlyForwards() bool {
	return g.ownWeight == 0 && !slices.ContainsFunc(g.children, func(c child) bool { return c.client })
}

// child returns the edge to the child on a link, or nil.
func (g *group) child(l *link) *child {
	if l == nil {
		return nil
	}
	for i := range g.children {
		if g.children[i].link == l.number {
			return &g.children[i]
		}
	}
	return nil
}

// parent returns the edge to the parent on a link, or nil.
func (g *group) parent(l *link) *parent {
	if l == nil {
		return nil
	}
	for i := range g.parentEdges() {
		if g.parents[i].link == l.number {
			return &g.parents[i]
		}
	}
	return nil
}

// countMembers returns the number of children that count towards the fan-out.
func (g *group) countMembers() (count int) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving {
			count++
		}
	}
	return count
}

// ensure returns the state of a group, making it if there is none.
func (gt *groupTable) ensure(id overlay.ID) *group {
	g := gt.Get(id)
	if g == nil {
		var number uint32
		g, number = gt.Put(group{id: id})
		g.number = number
		gt.sweepLater(g)
	}
	return g
}

// isCurrent says whether a pointer to a group is still valid. The memory of a removed group may be
// reused.
func (gt *groupTable) isCurrent(g *group) bool { return gt.Get(g.id) == g }

// isChild reports whether the peer of a link is a child in a group.
func (gt *groupTable) isChild(id overlay.ID, l *link) bool {
	g := gt.Get(id)
	return g != nil && g.child(l) != nil
}

// sorted returns the groups for which keep is true, by id.
func (gt *groupTable) sorted(keep func(*group) bool) []*group {
	var of []*group
	for g := range gt.All() {
		if keep(g) {
			of = append(of, g)
		}
	}
	return sortByID(of)
}

func sortByID(of []*group) []*group {
	slices.SortFunc(of, func(a, b *group) int { return bytes.Compare(a.id[:], b.id[:]) })
	return of
}
