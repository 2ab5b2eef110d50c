package wedge

import (
	"slices"
	"time"

	"tidings/internal/plant"
)

// A record is this node's part in one key's tree. A network has a few thousand at each
// node, so they are kept small: what few need is in extra. Links have numbers there, which a
// collector of garbage need not follow.
type record struct {
	order  *order
	parent linkNumber // none at the leader, and when the edge up has ended
	edges  []edge
	extra  *extra
	ref    int64 // when the reference phase began: nanoseconds of Unix time

	first, ranks uint32 // the interval that this node parts among those it stands for
	told         uint32 // ranks missing, as the parent was last told
	place        uint32 // in Wedge.listed
	depth        uint16 // bits it shares with all it stands for
	flags        uint16
	level        uint8 // of a wedge of levels: down to which this node asks others
	round        uint8 // of the link's lists, when the parent last named it
}

const (
	leads    = 1 << iota // this node gave the order
	asked                // the application was asked whether it is willing
	declines             // and it is not
	touched              // being changed; see begin
	ended                // forgotten
	ending               // has no parent any longer, and serves on until extra.end
	telling              // a Tally is queued
	stood                // its stand-ins have just changed
	spoke                // the parent was told that ranks are missing, and may still hold it to be so
)

// extra is what few records need.
type extra struct {
	standIns []uint32  // phases of those ranks of the interval that are n and more
	below    []below   // what children told of ranks declined
	end      time.Time // of a record that is ending
	standing time.Time // when the leader looks at its stand-ins again; zero: no look is planned
	passed   []byte    // what came down last to a relay, for who comes after, and for itself when it serves; nil: nothing has
}

// below is what a child told.
type below struct {
	link     linkNumber
	declined uint32
	ranks    []uint32
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
	fill      = 3      // how much of the order the next Entry carries: a wording
	queued    = 1 << 2 // an Entry is
	second    = 1 << 3 // another child has refused this interval
	filled    = 1 << 4 // the words were sent because the child asked
	elsewhere = 1 << 5 // the child had another parent; until the next round nobody is asked.
	// An edge without a link that is not elsewhere is served by this node itself.
	astray = 1 << 6 // was elsewhere in the last round
	owed   = 1 << 7 // the child is to have what this node is handed: it had nothing to hand on
)

// A wording is how much of its order an Entry carries.
type wording uint8

const (
	bare    wording = iota // its name
	ordered                // all but the words
	full                   // all
)

func (e *edge) serves() bool { return e.link == none && e.flags&elsewhere == 0 }

// asked is what the flags become when an edge is looked at anew.
func (e *edge) asked() uint8 {
	if e.flags&elsewhere != 0 {
		return astray
	}
	return e.flags &^ (second | filled)
}

// edge returns the edge to the other half of what shares depth bits, or nil.
func (r *record) edge(depth int) *edge {
	for i := range r.edges {
		if int(r.edges[i].depth) == depth {
			return &r.edges[i]
		}
	}
	return nil
}

// to returns the edge on a link, or nil.
func (r *record) to(l *link) *edge {
	for i := range r.edges {
		if r.edges[i].link == l.number {
			return &r.edges[i]
		}
	}
	return nil
}

// reset forgets what the child of an edge has told of it.
func (r *record) reset(e *edge) {
	e.missing = 0
	if r.extra != nil {
		r.extra.below = slices.DeleteFunc(r.extra.below, func(b below) bool { return b.link == e.link })
	}
}

// keep holds what the child of an edge told to be true of the edge as it is now, until the
// child tells anew: if all were forgotten whenever stand-ins change, the leader would take
// them back, and name them again.
func (r *record) keep(e *edge) {
	e.missing = min(e.missing, e.ranks)
	if r.extra == nil {
		return
	}
	for i := range r.extra.below {
		b := &r.extra.below[i]
		if b.link != e.link {
			continue
		}
		had := len(b.ranks)
		b.ranks = slices.DeleteFunc(slices.Clone(b.ranks), func(rank uint32) bool { return rank-e.first >= e.ranks })
		b.declined -= uint32(had - len(b.ranks))
	}
}

// part leaves an edge without a child.
func (r *record) part(e *edge) {
	r.reset(e)
	e.link, e.flags = none, 0
}

// rare returns what few records need, making it if there is none.
func (r *record) rare() *extra {
	if r.extra == nil {
		r.extra = &extra{}
	}
	return r.extra
}

// standIns returns the phases of those ranks of an interval that are n and more.
func (r *record) standIns(first, ranks uint32) []uint32 {
	if r.extra == nil || len(r.extra.standIns) == 0 || first+ranks <= r.order.n {
		return nil
	}
	base := max(r.first, r.order.n)
	return r.extra.standIns[max(first, r.order.n)-base : first+ranks-base]
}

// own returns the interval that no edge takes away: the node's own ranks.
func (r *record) own() (first, ranks uint32) {
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
func (r *record) held(each func(rank uint32)) (count uint32) {
	first, ranks := r.own()
	if r.order.digit != 0 {
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
		if e := &r.edges[i]; e.serves() && r.order.digit == 0 {
			span(e.first, e.ranks)
		}
	}
	return count
}

// serves returns the ranks whose phases the node serves: all that are its own, or, if
// these are too many, as many as may be, evenly chosen.
func (r *record) serves() (of Ranks) {
	count := r.held(nil)
	if count == 0 || plant.LostRank && r.parent != none && r.order.key[31]&1 == 0 {
		return of
	}
	all := min(count, MaxRanks)
	var at uint32
	r.held(func(rank uint32) {
		if uint32(of.n) < all && at == uint32(of.n)*count/all {
			of.add(r.phased(rank))
		}
		at++
	})
	slices.Sort(of.of[:of.n])
	return of
}

// phased returns the rank below n whose phase a rank has.
func (r *record) phased(rank uint32) uint32 {
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
func (r *record) up() uint64 {
	return r.order.edgeHash(r.depth, r.first, r.ranks, r.standIns(r.first, r.ranks))
}

func (r *record) down(e *edge) uint64 {
	return r.order.edgeHash(e.depth+1, e.first, e.ranks, r.standIns(e.first, e.ranks))
}
