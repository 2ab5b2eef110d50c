package wedge

import (
	"slices"
	"time"

	"tidings/internal/plant"
)

// A record is this node's part in one key's tree. A network has a few thousand at each
// node, so they are kept small: what few need is in extra. Links have numbers there, which a
// collector of garbage need not follow.
type membership struct {
	order         *order
	parent        linkNumber // none at the leader, and when the edge up has ended
	edges         []edge
	extra         *extra
	intervalStart int64 // when the reference phase began: nanoseconds of Unix time

	first, ranks uint32 // the interval that this node parts among those it stands for
	reported     uint32 // ranks missing, as the parent was last told
	index        uint32 // in Wedge.listed
	depth        uint16 // bits it shares with all it stands for
	flags        uint16
	level        uint8 // of a wedge of levels: down to which this node asks others
	listRound    uint8 // of the link's lists, when the parent last named it
}

const (
	leads           = 1 << iota // this node gave the order
	appAsked                    // the application was asked whether it is willing
	declines                    // and it is not
	changing                    // being changed; see begin
	removed                     // forgotten
	inGrace                     // has no parent any longer, and serves on until extra.end
	statusQueued                // a Tally is queued
	standInsChanged             // its stand-ins have just changed
	reportedMissing             // the parent was told that ranks are missing, and may still hold it to be so
)

// extra is what few records need.
type extra struct {
	standIns      []uint32        // phases of those ranks of the interval that are n and more
	declinedBelow []childDeclined // what children told of ranks declined
	graceEnd      time.Time       // of a record that is ending
	standInsAt    time.Time       // when the leader looks at its stand-ins again; zero: no look is planned
	lastBroadcast []byte          // what came down last to a relay, for who comes after, and for itself when it serves; nil: nothing has
}

// below is what a child told.
type childDeclined struct {
	link  linkNumber
	count uint32
	ranks []uint32
}

// An edge gives an interval of ranks to one child, who stands for all members that share
// depth bits with this node and not the next.
type edge struct {
	link    linkNumber // none: nobody was found; see elsewhere
	first   uint32
	ranks   uint32
	missing uint32 // of these, as the child told
	depth   uint16
	flags   uint8
}

const (
	detailMask  = 3      // how much of the order the next Entry carries: a wording
	entryQueued = 1 << 2 // an Entry is
	refusedOnce = 1 << 3 // another child has refused this interval
	payloadSent = 1 << 4 // the words were sent because the child asked
	childMoved  = 1 << 5 // the child had another parent; until the next round nobody is asked.
	// An edge without a link that is not elsewhere is served by this node itself.
	childMovedBefore = 1 << 6 // was elsewhere in the last round
	catchUpOwed      = 1 << 7 // the child is to have what this node is handed: it had nothing to hand on
)

// A wording is how much of its order an Entry carries.
type orderDetail uint8

const (
	hashOnly       orderDetail = iota // its name
	withoutPayload                    // all but the words
	withPayload                       // all
)

func (e *edge) servedHere() bool { return e.link == noLink && e.flags&childMoved == 0 }

// asked is what the flags become when an edge is looked at anew.
func (e *edge) flagsForRetry() uint8 {
	if e.flags&childMoved != 0 {
		return childMovedBefore
	}
	return e.flags &^ (refusedOnce | payloadSent)
}

// edge returns the edge to the other half of what shares depth bits, or nil.
func (r *membership) edgeAt(depth int) *edge {
	for i := range r.edges {
		if int(r.edges[i].depth) == depth {
			return &r.edges[i]
		}
	}
	return nil
}

// to returns the edge on a link, or nil.
func (r *membership) edgeTo(l *link) *edge {
	for i := range r.edges {
		if r.edges[i].link == l.number {
			return &r.edges[i]
		}
	}
	return nil
}

// reset forgets what the child of an edge has told of it.
func (r *membership) forgetStatus(e *edge) {
	e.missing = 0
	if r.extra != nil {
		r.extra.declinedBelow = slices.DeleteFunc(r.extra.declinedBelow, func(b childDeclined) bool { return b.link == e.link })
	}
}

// keep holds what the child of an edge told to be true of the edge as it is now, until the
// child tells anew: if all were forgotten whenever stand-ins change, the leader would take
// them back, and name them again.
func (r *membership) keepStatus(e *edge) {
	e.missing = min(e.missing, e.ranks)
	if r.extra == nil {
		return
	}
	for i := range r.extra.declinedBelow {
		b := &r.extra.declinedBelow[i]
		if b.link != e.link {
			continue
		}
		had := len(b.ranks)
		b.ranks = slices.DeleteFunc(slices.Clone(b.ranks), func(rank uint32) bool { return rank-e.first >= e.ranks })
		b.count -= uint32(had - len(b.ranks))
	}
}

// part leaves an edge without a child.
func (r *membership) detach(e *edge) {
	r.forgetStatus(e)
	e.link, e.flags = noLink, 0
}

// rare returns what few records need, making it if there is none.
func (r *membership) ensureExtra() *extra {
	if r.extra == nil {
		r.extra = &extra{}
	}
	return r.extra
}

// standIns returns the phases of those ranks of an interval that are n and more.
func (r *membership) standIns(first, ranks uint32) []uint32 {
	if r.extra == nil || len(r.extra.standIns) == 0 || first+ranks <= r.order.n {
		return nil
	}
	base := max(r.first, r.order.n)
	return r.extra.standIns[max(first, r.order.n)-base : first+ranks-base]
}

// own returns the interval that no edge takes away: the node's own ranks.
func (r *membership) ownRanks() (first, ranks uint32) {
	first, ranks = r.first, r.ranks
	for i := range r.edges { // from the widest half to the narrowest
		if e := &r.edges[i]; e.first == first {
			first += e.ranks
		}
		ranks -= r.edges[i].ranks
	}
	return first, ranks
}

// held counts the ranks that are this node's to serve, and calls each for all of them.
func (r *membership) assignedRanks(each func(rank uint32)) (count uint32) {
	first, ranks := r.ownRanks()
	if r.order.digitBits != 0 {
		first, ranks = 0, 1
	}
	span := func(first, ranks uint32) {
		count += ranks
		if each != nil {
			for i := range ranks {
				each(first + i)
			}
		}
	}
	span(first, ranks)
	for i := range r.edges {
		if e := &r.edges[i]; e.servedHere() && r.order.digitBits == 0 {
			span(e.first, e.ranks)
		}
	}
	return count
}

// serves returns the ranks whose phases the node serves: all that are its own, or, if
// these are too many, as many as may be, evenly chosen.
func (r *membership) servedRanks() (ranks Ranks) {
	count := r.assignedRanks(nil)
	if count == 0 || plant.LostRank && r.parent != noLink && r.order.key[31]&1 == 0 {
		return ranks
	}
	all := min(count, MaxRanks)
	var at uint32
	r.assignedRanks(func(rank uint32) {
		if uint32(ranks.count) < all && at == uint32(ranks.count)*count/all {
			ranks.add(r.phaseRank(rank))
		}
		at++
	})
	slices.Sort(ranks.list[:ranks.count])
	return ranks
}

// phased returns the rank below n whose phase a rank has.
func (r *membership) phaseRank(rank uint32) uint32 {
	if rank < r.order.n {
		return rank
	}
	return r.standIns(rank, 1)[0]
}

// hash names an edge as both its ends know it.
func (o *order) edgeHash(depth uint16, first, ranks uint32, standIns []uint32) uint64 {
	h := hashNumber(o.hash, uint64(depth)<<32|uint64(first))
	h = hashNumber(h, uint64(ranks))
	for _, s := range standIns {
		h = hashNumber(h, uint64(s))
	}
	return h
}

// up is the hash of the edge to the parent, down that of one to a child.
func (r *membership) parentEdgeHash() uint64 {
	return r.order.edgeHash(r.depth, r.first, r.ranks, r.standIns(r.first, r.ranks))
}

func (r *membership) childEdgeHash(e *edge) uint64 {
	return r.order.edgeHash(e.depth+1, e.first, e.ranks, r.standIns(e.first, e.ranks))
}
