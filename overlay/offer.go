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
	of      []*Contact
}

// weigh compares a leaf that was offered with what those near the node's id say, whom it
// finds by disjoint routes: a liar could offer one that has nobody in it but liars.
func (n *Node) weigh() {
	j := &n.join
	switch {
	case j.searching():
	case len(j.near) == 0 || n.clock.Now().Sub(j.nearAt) > nearLasts:
		n.seek()
	case !j.again && n.overlooks():
		j.again = true
		n.seek()
	default:
		n.compareOffer()
	}
}

// compareOffer takes the leaf that was offered if it is what most of those near the node's id
// say, and otherwise asks one of these for another.
func (n *Node) compareOffer() {
	j := &n.join
	most := most(j.near)
	if most == nil || j.offer.depth == most.depth && j.offer.names(j.near) || j.offers == maxOffers {
		if most != nil && j.offer.depth != most.depth {
			j.offer.depth, j.offer.decided = most.depth, most.decided
		}
		n.announce(j.offer.depth, j.offer.decided, append(j.offer.of, contactsOf(j.near)...))
		return
	}
	for _, w := range j.near { // another may know better
		if w.covers && w.depth == most.depth && !j.asked[w.contact.ID] {
			j.asked[w.contact.ID] = true
			j.offers++
			j.tries = 0
			n.find(w.contact.Peer)
			return
		}
	}
	j.offers = maxOffers
	n.compareOffer()
}

// seek looks up who lives near the id of a node that joins. It need not wait for an offer:
// whoever it begins with is named by the same peers.
func (n *Node) seek() {
	j := &n.join
	j.near = nil
	var search *lookup
	search = n.lookup(n.self.ID, joinWant, true, func(found []*named) {
		if j.search != search {
			return // the node's place is another one since
		}
		j.near, j.nearAt = append([]*named{}, found...), n.clock.Now() // not nil
		switch {
		case n.state != Alone:
		case j.offer == nil:
			n.stepJoin() // it may have waited for this to act alone
		case len(found) == 0: // nobody but who made the offer answers
			n.compareOffer()
		default:
			n.weigh()
		}
	})
	j.search = search
}

// nearLasts is how long those near the node's id are those who were found there.
const nearLasts = 10 * time.Second

// overlooks says whether somebody was named to the node who stands among those whom it found
// near its id, and whom it has not asked: nobody whom it began with has named him. It may
// have begun with liars only, when it had heard but one answer.
func (n *Node) overlooks() bool {
	j := &n.join
	last := j.near[len(j.near)-1].contact.ID
	return slices.ContainsFunc(j.pool, func(c *Contact) bool {
		return c.ID != n.self.ID && (len(j.near) < joinWant || Nearer(n.self.ID, c.ID, last)) && !j.search.tried(c)
	})
}

// maxOffers is how many more leaves are asked for if the first is not what most say.
const maxOffers = 3

// mix orders members so that those with whom routes begin have as many advocates as there
// are: each of them names one before any names two. Who has offered a leaf names no second.
func (j *join) mix(of []*Contact) {
	named, turn := map[ID]int{}, map[ID]int{}
	for _, c := range of {
		by := j.by[c.ID]
		if turn[c.ID] = named[by]; turn[c.ID] > 0 && j.offer != nil && j.offer.has(c) {
			turn[c.ID] = maxPool
		}
		named[by]++
	}
	slices.SortStableFunc(of, func(a, b *Contact) int { return turn[a.ID] - turn[b.ID] })
}

// has says whether an offer names a member.
func (o *offer) has(c *Contact) bool {
	return slices.ContainsFunc(o.of, func(m *Contact) bool { return m.ID == c.ID })
}

// names says whether an offer names all but one of some members.
func (o *offer) names(near []*named) bool {
	missing := 0
	for _, w := range near {
		if !o.has(w.contact) {
			missing++
		}
	}
	return missing <= 1
}

// most returns one of those members whose leaf holds the id that was looked up, of the
// depth that most of them say, and of these the one that says it since the latest; nil if
// there are none.
func most(near []*named) (best *named) {
	votes := map[int]int{}
	for _, w := range near {
		if w.covers {
			votes[w.depth]++
		}
	}
	for _, w := range near {
		if !w.covers {
			continue
		}
		if best == nil || votes[w.depth] > votes[best.depth] ||
			votes[w.depth] == votes[best.depth] && w.decided > best.decided {
			best = w
		}
	}
	return best
}

// A member looks up its own id as it did when it joined, a minute after that, then after
// firstLook, then every laterLook: who was caught by liars, or joined while the network
// was in parts, finds those among whom it belongs. One route begins at a door: who has no contacts
// but liars would go on among these.
const (
	soonLook  = time.Minute
	firstLook = 10 * time.Minute
	laterLook = time.Hour
)

// maxDoors is how many of those are remembered through whom the node could join.
const maxDoors = 8

// keepDoors remembers who was found outside the network, in a list of its operator's or on the local
// one: they are still there for a node whose every contact is a liar.
func (n *Node) keepDoors() {
	for _, c := range n.join.pool {
		if len(n.doors) < maxDoors && !slices.ContainsFunc(n.doors, func(d *Contact) bool { return d.ID == c.ID }) &&
			slices.ContainsFunc(n.join.found, func(p env.Peer) bool { return p.ID == c.Peer.ID }) {
			n.doors = append(n.doors, c)
		}
	}
}

// planSelf sets the time of the next lookForSelf; there is only one.
func (n *Node) planSelf(in time.Duration) {
	n.selfAt = n.clock.Now().Add(n.spread(in))
	n.at(n.selfAt, task{kind: taskSelf})
}

// lookForSelf gets to know whoever stands near the node's id.
func (n *Node) lookForSelf() {
	if n.state != Active {
		return
	}
	n.planSelf(n.selfPause)
	n.selfPause = laterLook
	n.lookup(n.self.ID, joinWant, true, func(found []*named) {
		for _, w := range found {
			n.meet(w.contact)
		}
	})
}
