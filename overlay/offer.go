package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

// joinWant is how many members near its id a joining node finds by disjoint routes: enough
// for most of them to be honest.
const joinWant = 8

// An offer is a leaf as one of its members describes it to a node that joins.
type offer struct {
	depth   int
	decided uint64
	members []*Contact
}

// weigh compares a leaf that was offered with what those near the node's id say, whom it
// finds by disjoint routes: a liar could offer one that has nobody in it but liars.
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

// compareOffer takes the leaf that was offered if it is what most of those near the node's id
// say, and otherwise asks one of these for another.
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
	for _, member := range j.nearest { // another may know better
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

// seek looks up who lives near the id of a node that joins. It need not wait for an offer:
// whoever it begins with is named by the same peers.
func (n *Node) lookUpSelf() {
	j := &n.join
	j.nearest = nil
	var search *lookup
	search = n.queueLookup(n.self.ID, joinWant, true, func(found []*lookupMember) {
		if j.selfLookup != search {
			return // the node's place is another one since
		}
		j.nearest, j.nearestAt = append([]*lookupMember{}, found...), n.clock.Now() // not nil
		switch {
		case n.state != Alone:
		case j.offer == nil:
			n.stepJoin() // it may have waited for this to act alone
		case len(found) == 0: // nobody but who made the offer answers
			n.decideOffer()
		default:
			n.checkOffer()
		}
	})
	j.selfLookup = search
}

// nearLasts is how long those near the node's id are those who were found there.
const nearestLifetime = 10 * time.Second

// overlooks says whether somebody was named to the node who stands among those whom it found
// near its id, and whom it has not asked: nobody whom it began with has named him. It may
// have begun with liars only, when it had heard but one answer.
func (n *Node) missedInPool() bool {
	j := &n.join
	last := j.nearest[len(j.nearest)-1].contact.ID
	return slices.ContainsFunc(j.pool, func(c *Contact) bool {
		return c.ID != n.self.ID && (len(j.nearest) < joinWant || Nearer(n.self.ID, c.ID, last)) && !j.selfLookup.tried(c)
	})
}

// maxOffers is how many more leaves are asked for if the first is not what most say.
const maxOffers = 3

// mix orders members so that those with whom routes begin have as many advocates as there
// are: each of them names one before any names two. Who has offered a leaf names no second.
func (j *join) interleave(of []*Contact) {
	named, turn := map[ID]int{}, map[ID]int{}
	for _, c := range of {
		by := j.namedBy[c.ID]
		if turn[c.ID] = named[by]; turn[c.ID] > 0 && j.offer != nil && j.offer.has(c) {
			turn[c.ID] = maxPool
		}
		named[by]++
	}
	slices.SortStableFunc(of, func(a, b *Contact) int { return turn[a.ID] - turn[b.ID] })
}

// has says whether an offer names a member.
func (o *offer) has(c *Contact) bool {
	return slices.ContainsFunc(o.members, func(m *Contact) bool { return m.ID == c.ID })
}

// names says whether an offer names all but one of some members.
func (o *offer) namesMost(near []*lookupMember) bool {
	missing := 0
	for _, member := range near {
		if !o.has(member.contact) {
			missing++
		}
	}
	return missing <= 1
}

// most returns one of those members whose leaf holds the id that was looked up, of the
// depth that most of them say, and of these the one that says it since the latest; nil if
// there are none.
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

// A member looks up its own id as it did when it joined, a minute after that, then after
// firstLook, then every laterLook: who was caught by liars, or joined while the network
// was in parts, finds those among whom it belongs. One route begins at a door: who has no contacts
// but liars would go on among these.
const (
	selfLookupSoon  = time.Minute
	selfLookupFirst = 10 * time.Minute
	selfLookupLater = time.Hour
)

// maxDoors is how many of those are remembered through whom the node could join.
const maxBootstraps = 8

// keepDoors remembers who was found outside the network, in a list of its operator's or on the local
// one: they are still there for a node whose every contact is a liar.
func (n *Node) keepBootstraps() {
	for _, c := range n.join.pool {
		if len(n.bootstraps) < maxBootstraps && !slices.ContainsFunc(n.bootstraps, func(d *Contact) bool { return d.ID == c.ID }) &&
			slices.ContainsFunc(n.join.found, func(p env.Peer) bool { return p.ID == c.Peer.ID }) {
			n.bootstraps = append(n.bootstraps, c)
		}
	}
}

// planSelf sets the time of the next lookForSelf; there is only one.
func (n *Node) scheduleSelfLookup(in time.Duration) {
	n.selfLookupAt = n.clock.Now().Add(n.jitter(in))
	n.at(n.selfLookupAt, task{kind: taskSelfLookup})
}

// lookForSelf gets to know whoever stands near the node's id.
func (n *Node) lookUpSelfAgain() {
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
