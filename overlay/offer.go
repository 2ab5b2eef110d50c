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
	case j.looking:
	case j.near == nil:
		n.seek()
	default:
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
		n.weigh()
	}
}

// seek begins to look up who lives near the id of a node that joins. It need not wait for an
// offer: whoever it begins with is named by the same peers.
func (n *Node) seek() {
	j := &n.join
	if j.looking || j.near != nil || !n.self.Member {
		return
	}
	j.looking = true
	n.lookup(n.self.ID, joinWant, true, func(found []*named) {
		if n.state != Alone || !j.looking {
			return
		}
		j.looking, j.near = false, append([]*named{}, found...) // not nil
		if j.offer != nil {
			n.weigh()
		}
	})
}

// maxOffers is how many more leaves are asked for if the first is not what most say.
const maxOffers = 3

// count is 1 for a member that an offer names, else 0.
func (o *offer) count(c *Contact) int {
	if slices.ContainsFunc(o.of, func(m *Contact) bool { return m.ID == c.ID }) {
		return 1
	}
	return 0
}

// names says whether an offer names all but one of some members.
func (o *offer) names(near []*named) bool {
	missing := 0
	for _, w := range near {
		missing += 1 - o.count(w.contact)
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
