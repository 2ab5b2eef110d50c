package overlay

import (
	"slices"
	"time"
)

// joinWant is the number of members near its id that a joining node looks up: enough that most
// of them are honest.
const joinWant = 8

// offerCheck compares the leaf that a member offers with the answers of others.
type offerCheck struct {
	offersAsked   int             // number of further offers requested
	selfLookup    *lookup         // lookup of members near the node's id
	nearest       []*lookupMember // result of selfLookup with the members' answers; nil until it has ended
	nearestAt     time.Time       // time at which selfLookup ended
	lookedUpTwice bool            // selfLookup was repeated
}

// discardOffer drops the offer and the lookup of an earlier attempt. A lookup that is still
// running finds that its result is no longer wanted.
func (j *join) discardOffer() {
	j.pool.offer = nil
	j.offerCheck = offerCheck{}
}

// lookingUp reports whether the lookup of members near the node's id is running.
func (o *offerCheck) lookingUp() bool { return o.selfLookup != nil && o.nearest == nil }

// checkOffer compares an offered leaf with the answers of the members near the node's id,
// which it finds by disjoint routes. Otherwise a liar could offer a leaf that has only liars
// in it.
func (j *join) checkOffer() {
	switch {
	case j.lookingUp():
	case len(j.nearest) == 0 || j.clock.Now().Sub(j.nearestAt) > nearestLifetime:
		j.lookUpSelf()
	case !j.lookedUpTwice && j.missedInPool():
		j.lookedUpTwice = true
		j.lookUpSelf()
	default:
		j.decideOffer()
	}
}

// decideOffer takes the offered leaf if it agrees with most of the members near the node's id.
// Otherwise it asks one of these members for another offer.
func (j *join) decideOffer() {
	most := majorityDepth(j.nearest)
	if most == nil || j.pool.offer.depth == most.depth && j.pool.offer.namesMost(j.nearest) || j.offersAsked == maxOffers {
		if most != nil && j.pool.offer.depth != most.depth {
			j.pool.offer.depth, j.pool.offer.decided = most.depth, most.decided
		}
		j.announce(j.pool.offer.depth, j.pool.offer.decided, append(j.pool.offer.members, contactsOf(j.nearest)...))
		return
	}
	for _, member := range j.nearest { // another member may give a better offer
		if member.covers && member.depth == most.depth && !j.asked[member.contact.ID] {
			j.asked[member.contact.ID] = true
			j.offersAsked++
			j.findAttempts = 0
			j.sendFind(member.contact.Peer)
			return
		}
	}
	j.offersAsked = maxOffers
	j.decideOffer()
}

// lookUpSelf looks up the members near the id of a joining node. It does not wait for an
// offer, because the same peers would name the same members to begin with.
func (j *join) lookUpSelf() {
	j.nearest = nil
	var search *lookup
	search = j.lookups.queue(j.self.ID, joinWant, true, func(found []*lookupMember) {
		if j.selfLookup != search {
			return // a later attempt has replaced this lookup
		}
		j.nearest, j.nearestAt = append([]*lookupMember{}, found...), j.clock.Now() // not nil, even if empty
		switch {
		case j.state != Alone:
		case j.pool.offer == nil:
			j.step() // acting alone may have waited for this result
		case len(found) == 0: // only the member that made the offer answers
			j.decideOffer()
		default:
			j.checkOffer()
		}
	})
	j.selfLookup = search
}

// nearestLifetime is the time for which the result of selfLookup is valid.
const nearestLifetime = 10 * time.Second

// missedInPool reports whether the pool holds a member that belongs among those near the
// node's id, but that the lookup has not asked because none of the members it began with named
// it. They may all have been liars if the lookup began after a single answer.
func (j *join) missedInPool() bool {
	last := j.nearest[len(j.nearest)-1].contact.ID
	return slices.ContainsFunc(j.pool.members, func(c *Contact) bool {
		return c.ID != j.self.ID && (len(j.nearest) < joinWant || Nearer(j.self.ID, c.ID, last)) && !j.selfLookup.tried(c)
	})
}

// maxOffers bounds the further offers requested if the first one does not agree with most
// members.
const maxOffers = 3

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
