package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

// joinWant is the number of members near its id that a joining node looks up: enough that most
// of them are honest.
const joinWant = 8

// An offer is a leaf as one of its members describes it to a joining node.
type offer struct {
	depth   int
	decided uint64
	members []*Contact
}

// checkOffer compares an offered leaf with the answers of the members near the node's id,
// which it finds by disjoint routes. Otherwise a liar could offer a leaf that has only liars
// in it.
func (n *Node) checkOffer() {
	j := &n.join
	switch {
	case j.lookingUp():
	case len(j.nearest) == 0 || n.clock.Now().Sub(j.nearestAt) > nearestLifetime:
		n.lookUpSelf()
	case !j.lookedUpTwice && n.missedInPool():
		j.lookedUpTwice = true
		n.lookUpSelf()
	default:
		n.decideOffer()
	}
}

// decideOffer takes the offered leaf if it agrees with most of the members near the node's id.
// Otherwise it asks one of these members for another offer.
func (n *Node) decideOffer() {
	j := &n.join
	most := majorityDepth(j.nearest)
	if most == nil || j.offer.depth == most.depth && j.offer.namesMost(j.nearest) || j.offersAsked == maxOffers {
		if most != nil && j.offer.depth != most.depth {
			j.offer.depth, j.offer.decided = most.depth, most.decided
		}
		n.announce(j.offer.depth, j.offer.decided, append(j.offer.members, contactsOf(j.nearest)...))
		return
	}
	for _, member := range j.nearest { // another member may give a better offer
		if member.covers && member.depth == most.depth && !j.asked[member.contact.ID] {
			j.asked[member.contact.ID] = true
			j.offersAsked++
			j.findAttempts = 0
			n.sendFind(member.contact.Peer)
			return
		}
	}
	j.offersAsked = maxOffers
	n.decideOffer()
}

// lookUpSelf looks up the members near the id of a joining node. It does not wait for an
// offer, because the same peers would name the same members to begin with.
func (n *Node) lookUpSelf() {
	j := &n.join
	j.nearest = nil
	var search *lookup
	search = n.queueLookup(n.self.ID, joinWant, true, func(found []*lookupMember) {
		if j.selfLookup != search {
			return // a later attempt has replaced this lookup
		}
		j.nearest, j.nearestAt = append([]*lookupMember{}, found...), n.clock.Now() // not nil, even if empty
		switch {
		case n.state != Alone:
		case j.offer == nil:
			n.stepJoin() // acting alone may have waited for this result
		case len(found) == 0: // only the member that made the offer answers
			n.decideOffer()
		default:
			n.checkOffer()
		}
	})
	j.selfLookup = search
}

// nearestLifetime is the time for which the result of selfLookup is valid.
const nearestLifetime = 10 * time.Second

// missedInPool reports whether the pool holds a member that belongs among those near the
// node's id, but that the lookup has not asked because none of the members it began with named
// it. They may all have been liars if the lookup began after a single answer.
func (n *Node) missedInPool() bool {
	j := &n.join
	last := j.nearest[len(j.nearest)-1].contact.ID
	return slices.ContainsFunc(j.pool, func(c *Contact) bool {
		return c.ID != n.self.ID && (len(j.nearest) < joinWant || Nearer(n.self.ID, c.ID, last)) && !j.selfLookup.tried(c)
	})
}

// maxOffers bounds the further offers requested if the first one does not agree with most
// members.
const maxOffers = 3

// interleave orders members so that routes begin with members named by as many different peers
// as possible: every peer gets one of its members in before any gets a second. Members of the
// offered leaf get no second one.
func (j *join) interleave(contacts []*Contact) {
	named, turn := map[ID]int{}, map[ID]int{}
	for _, c := range contacts {
		by := j.namedBy[c.ID]
		if turn[c.ID] = named[by]; turn[c.ID] > 0 && j.offer != nil && j.offer.has(c) {
			turn[c.ID] = maxPool
		}
		named[by]++
	}
	slices.SortStableFunc(contacts, func(a, b *Contact) int { return turn[a.ID] - turn[b.ID] })
}

// has reports whether an offer names a member.
func (o *offer) has(c *Contact) bool {
	return slices.ContainsFunc(o.members, func(m *Contact) bool { return m.ID == c.ID })
}

// namesMost reports whether an offer names all given members except at most one.
func (o *offer) namesMost(near []*lookupMember) bool {
	missing := 0
	for _, member := range near {
		if !o.has(member.contact) {
			missing++
		}
	}
	return missing <= 1
}

// majorityDepth returns a member whose leaf holds the looked-up id and has the depth that most
// of these members state, and among those the one with the latest decision. It returns nil if
// there is none.
func majorityDepth(near []*lookupMember) (best *lookupMember) {
	votes := map[int]int{}
	for _, member := range near {
		if member.covers {
			votes[member.depth]++
		}
	}
	for _, member := range near {
		if !member.covers {
			continue
		}
		if best == nil || votes[member.depth] > votes[best.depth] ||
			votes[member.depth] == votes[best.depth] && member.decided > best.decided {
			best = member
		}
	}
	return best
}

// A member looks up its own id again after selfLookupSoon, then after selfLookupFirst, then
// every selfLookupLater. A node that was caught by liars, or that joined during a partition,
// thus finds its real neighbours. One route begins at a bootstrap member, because a node that
// has only liars as contacts would not get past them.
const (
	selfLookupSoon  = time.Minute
	selfLookupFirst = 10 * time.Minute
	selfLookupLater = time.Hour
)

// maxBootstraps bounds the remembered members through which the node could join.
const maxBootstraps = 8

// keepBootstraps remembers the members that were found outside the network, in the operator's
// list or on the local network. They remain available to a node all of whose contacts are
// liars.
func (n *Node) keepBootstraps() {
	for _, c := range n.join.pool {
		if len(n.bootstraps) < maxBootstraps && !slices.ContainsFunc(n.bootstraps, func(d *Contact) bool { return d.ID == c.ID }) &&
			slices.ContainsFunc(n.join.found, func(p env.Peer) bool { return p.ID == c.Peer.ID }) {
			n.bootstraps = append(n.bootstraps, c)
		}
	}
}

// scheduleSelfLookup sets the time of the next self-lookup. Only one is scheduled at a time.
func (n *Node) scheduleSelfLookup(in time.Duration) {
	n.selfLookupAt = n.clock.Now().Add(n.jitter(in))
	n.at(n.selfLookupAt, task{kind: taskSelfLookup})
}

// selfLookup looks up the members near the node's own id and considers them for the leaf.
func (n *Node) selfLookup() {
	if n.state != Active {
		return
	}
	n.scheduleSelfLookup(n.selfLookupInterval)
	n.selfLookupInterval = selfLookupLater
	n.queueLookup(n.self.ID, joinWant, true, func(found []*lookupMember) {
		for _, member := range found {
			n.considerMember(member.contact)
		}
	})
}
