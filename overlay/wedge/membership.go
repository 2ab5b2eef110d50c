package wedge

import (
	"slices"
	"time"
)

// A membership is this node's part in one key's tree. A node has a few thousand of them, so they
// are kept small: rarely used fields are in extra, and links are stored as numbers, which the
// garbage collector need not follow.
type membership struct {
	order         *order
	parent        linkNumber // noLink at the leader, and after the edge to the parent has ended
	edges         []edge
	extra         *extra
	intervalStart int64 // start of an interval, in nanoseconds of Unix time; 0: not known

	first, ranks uint32 // range of ranks that this node divides among the members it acts for
	reported     uint32 // missing ranks as last reported to the parent, or neverReported
	index        uint32 // in table.active
	depth        uint16 // bits that the node shares with all members it acts for
	flags        uint16
	level        uint8 // level down to which this node asks others, in a wedge of polling levels
	listRound    uint8 // link.round of the list in which the parent last named this key
}

const (
	leads           = 1 << iota // this node gave the order
	appAsked                    // the application was asked whether it is willing
	declines                    // the application declined
	changing                    // table.change was called, finishChanges was not
	removed                     // the membership has ended
	inGrace                     // there is no parent; the node goes on serving until extra.graceEnd
	statusQueued                // a Status is queued
	standInsChanged             // stand-ins changed, and children must be told
	reportedMissing             // the parent was told that ranks are missing, and may still believe it
)

// extra holds state that few memberships have.
type extra struct {
	standIns      []uint32        // for each rank of the range from n on: the rank below n whose phase it takes
	declinedBelow []childDeclined // declined ranks as reported by children
	graceEnd      time.Time       // end of the grace of a membership without parent
	standInsAt    time.Time       // when the leader assigns stand-ins; zero: not planned
	lastBroadcast []byte          // last broadcast received as a relay, kept for new children and for the time when the node serves; nil: none
}

// A childDeclined holds the declined ranks that one child reported.
type childDeclined struct {
	link  linkNumber
	count uint32
	ranks []uint32
}

// An edge gives a range of ranks to one child. The child acts for all members that share depth bits
// with this node but not the next bit.
type edge struct {
	link    linkNumber // noLink: no child; see childMoved
	first   uint32
	ranks   uint32
	missing uint32 // ranks of the range that nobody serves, as the child reported
	depth   uint16
	flags   uint8
}

const (
	detailMask  = 3      // the bits that hold the orderDetail of the next Entry
	entryQueued = 1 << 2 // an Entry is queued
	refusedOnce = 1 << 3 // one child has already refused this range
	payloadSent = 1 << 4 // the payload was sent because the child asked for it
	// childMoved means that the child had another parent, so no child is sought until the next
	// round. Without it, this node serves the ranks of an edge that has no link.
	childMoved       = 1 << 5
	childMovedBefore = 1 << 6 // childMoved was set in the previous round
	catchUpOwed      = 1 << 7 // the child still needs a catch-up message; this node had none when the child was new
)

// neverReported means that the parent has to be told even if no rank is missing.
const neverReported = ^uint32(0)

// An orderDetail says how much of its order an Entry carries.
type orderDetail uint8

const (
	hashOnly       orderDetail = iota // only the hash
	withoutPayload                    // everything except key and payload
	withPayload                       // everything
)

func (e *edge) servedHere() bool { return e.link == noLink && e.flags&childMoved == 0 }

// flagsForRetry returns the flags of an edge for a new attempt to find or keep its child.
func (e *edge) flagsForRetry() uint8 {
	if e.flags&childMoved != 0 {
		return childMovedBefore
	}
	return e.flags &^ (refusedOnce | payloadSent)
}

// edgeAt returns the edge to the members that share exactly depth bits with this node, or nil.
func (r *membership) edgeAt(depth int) *edge {
	for i := range r.edges {
		if int(r.edges[i].depth) == depth {
			return &r.edges[i]
		}
	}
	return nil
}

// edgeTo returns the edge on a link, or nil.
func (r *membership) edgeTo(l *link) *edge {
	for i := range r.edges {
		if r.edges[i].link == l.number {
			return &r.edges[i]
		}
	}
	return nil
}

// forgetStatus discards what the child of an edge has reported.
func (r *membership) forgetStatus(e *edge) {
	e.missing = 0
	if r.extra != nil {
		r.extra.declinedBelow = slices.DeleteFunc(r.extra.declinedBelow, func(b childDeclined) bool { return b.link == e.link })
	}
}

// keepStatus adapts the child's last report to the current range of the edge, until the child
// reports again. If reports were discarded whenever stand-ins change, the leader would withdraw the
// stand-ins and assign them again, forever.
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

// detach leaves an edge without a child.
func (r *membership) detach(e *edge) {
	r.forgetStatus(e)
	e.link, e.flags = noLink, 0
}

// ensureExtra returns the extra of a membership, making one if there is none.
func (r *membership) ensureExtra() *extra {
	if r.extra == nil {
		r.extra = &extra{}
	}
	return r.extra
}

// standIns returns the phases of those ranks of a range that are n or more.
func (r *membership) standIns(first, ranks uint32) []uint32 {
	if r.extra == nil || len(r.extra.standIns) == 0 || first+ranks <= r.order.n {
		return nil
	}
	base := max(r.first, r.order.n)
	return r.extra.standIns[max(first, r.order.n)-base : first+ranks-base]
}

// ownRanks returns the range that is left after the edges have taken theirs: the node's own ranks.
func (r *membership) ownRanks() (first, ranks uint32) {
	first, ranks = r.first, r.ranks
	for i := range r.edges { // edges are sorted from the widest half to the narrowest
		if e := &r.edges[i]; e.first == first {
			first += e.ranks
		}
		ranks -= r.edges[i].ranks
	}
	return first, ranks
}

// assignedRanks counts the ranks that this node itself should serve, and calls each for all of them
// unless each is nil. They include the ranks of edges that have no child.
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

// servedRanks returns the ranks below n whose phases the node serves. If it has more than MaxRanks,
// an evenly spaced choice of them is served.
func (r *membership) servedRanks() (ranks Ranks) {
	count := r.assignedRanks(nil)
	if count == 0 {
		return ranks
	}
	all := min(count, MaxRanks)
	var at uint32
	r.assignedRanks(func(rank uint32) {
		if uint32(ranks.count) < all && at == uint32(ranks.count)*count/all {
			if rank >= r.order.n { // it stands in for another rank, and takes its phase
				rank = r.standIns(rank, 1)[0]
			}
			ranks.add(rank)
		}
		at++
	})
	slices.Sort(ranks.list[:ranks.count])
	return ranks
}

// edgeHash identifies an edge to both of its ends.
func (o *order) edgeHash(depth uint16, first, ranks uint32, standIns []uint32) uint64 {
	h := hashNumber(o.hash, uint64(depth)<<32|uint64(first))
	h = hashNumber(h, uint64(ranks))
	for _, s := range standIns {
		h = hashNumber(h, uint64(s))
	}
	return h
}

// parentEdgeHash is the hash of the edge to the parent, childEdgeHash that of an edge to a child.
func (r *membership) parentEdgeHash() uint64 {
	return r.order.edgeHash(r.depth, r.first, r.ranks, r.standIns(r.first, r.ranks))
}

func (r *membership) childEdgeHash(e *edge) uint64 {
	return r.order.edgeHash(e.depth+1, e.first, e.ranks, r.standIns(e.first, e.ranks))
}

// serving returns the ranks that the node serves: none if the application has not been asked, or
// declined.
func (r *membership) serving() (ranks Ranks) {
	if r.flags&(appAsked|declines) != appAsked {
		return ranks
	}
	return r.servedRanks()
}

func (r *membership) assignment() Assignment {
	return Assignment{
		Term:          r.order.term,
		Ranks:         r.serving(),
		N:             int(r.order.n),
		IntervalStart: time.Unix(0, r.intervalStart).UTC(),
		Interval:      r.order.interval,
		Payload:       r.order.payload,
	}
}
