package overlay

import (
	"math/bits"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

const (
	// lookupRoutes is the number of routes that a lookup follows in parallel. No member is
	// asked on two of them, so one liar spoils only one route (S/Kademlia, Baumgart and Mies,
	// ICPADS 2007, §4.4). If a tenth of the members lie, about a third of all routes meet a
	// liar.
	lookupRoutes = 4
	// lookupWitnesses is the number of additional members asked when all routes have ended. A
	// witness is near enough to the key to have it in its leaf, but is not among the nearest.
	// If most of the members nearest to a key lie, all routes may end among liars.
	lookupWitnesses = 2
	// leafRoutes is the number of routes that begin in the node's own leaf.
	leafRoutes = 2
	// lookupRounds bounds how often a lookup starts again from other members because those it
	// found are too far apart to be the nearest.
	lookupRounds = 3
	// lookupTries is the number of times that one member is asked, and maxLookupAsked bounds
	// the queries of one lookup. Honest members never need as many.
	lookupTries    = leafAttempts
	maxLookupAsked = 128
	// From attempt doubleSendFrom on, each query is sent twice. If 5 % of all messages are
	// lost, one query in ten gets no answer. With four messages one lookup in 2,000 for five
	// members missed a live one; with seven, one in two million. Seven attempts in sequence
	// would take too long if many members have died.
	doubleSendFrom = 2
	// lookupTimeout bounds the time of a lookup. After it the lookup returns what it has
	// found.
	lookupTimeout = 30 * time.Second
	// MaxLookup bounds the members that a lookup returns: the largest number of owners of a
	// key.
	MaxLookup = 16
	// maxLookups bounds the lookups that run in parallel. Further ones are queued.
	maxLookups = 16
)

// A Lookup is the result of Node.Lookup.
type Lookup struct {
	// Nearest holds live members, the nearest to the key first. Each of them has answered.
	Nearest []*Contact
	// Plausible says that the members are as close together as members of this network are:
	// not so far apart that nearer ones must be hidden, and not so close that somebody must
	// have searched for matching keys.
	Plausible bool
}

// A lookup searches for the members nearest to a key by disjoint routes. Each route goes from
// member to member, always to the nearest one that was named on it and that no other route has
// asked. When half of the routes have ended, the nearest of all named members are asked too,
// until no nearer one is named; a route that reaches one of these uses its answer. When all
// routes have ended, random witnesses are asked as well. They are farther away and have the
// key in their leaves.
//
// A liar can therefore hide the members that it knows, but not those that others know. Every
// member returned has answered, so it is alive, and nobody can invent members because records
// are signed.
type lookup struct {
	key            ID
	want           int
	done           func(found []*lookupMember)
	startedAt      time.Time
	fromScratch    bool            // ignores what the node knows of its leaf and starts from random members
	members        []*lookupMember // the nearest to the key first
	asked          int
	pending        int // members whose answer is outstanding
	round          int
	ended          uint // bit set of the routes that reached a member whose leaf holds the key, or ran out of members
	witnessesAsked bool
	extraRecords   int // records requested beyond want, to replace members that turned out to be silent
}

// lookupMember is a member that a lookup has heard of.
type lookupMember struct {
	contact   *Contact
	routes    uint // bit set of the routes that may go to it
	state     memberState
	route     int       // the route it was asked on, or confirming or witnessing
	want      int       // number of records requested in the last query
	tries     int       // queries sent for that number
	nonce     uint64    // shared by all these queries, so that late answers count too
	answerDue time.Time // when the last query counts as unanswered

	// The fields below are set by its answer.
	covers  bool
	depth   int
	decided uint64
	answer  []*lookupMember
}

type memberState uint8

const (
	unasked memberState = iota
	asked
	answered
	skipped // left a query on a route unanswered; the route went on without it
	silent  // left all queries unanswered
)

// These values stand in for a route if a member is asked outside all routes.
const (
	confirming = -1 // it is among the nearest; a route that reaches it uses its answer
	witnessing = -2
)

// lookupQuery is an outstanding query of a lookup.
type lookupQuery struct {
	lookup *lookup
	member *lookupMember
}

// Lookup finds the live members nearest to a key by disjoint routes, at most want of them and
// no more than MaxLookup. It calls done once, usually within seconds and at most about half a
// minute after the lookup leaves the queue. A lookup costs about twenty messages of a
// kilobyte. Route costs two or three, but has to trust the members on its way.
func (n *Node) Lookup(key ID, want int, done func(Lookup)) {
	if n.state != Active && n.state != Attached {
		done(Lookup{})
		return
	}
	want = min(want, MaxLookup)
	n.queueLookup(key, want, false, func(found []*lookupMember) {
		contacts := contactsOf(found)
		done(Lookup{Nearest: contacts, Plausible: n.plausible(key, contacts, want)})
	})
}

// queueLookup queues a lookup.
func (n *Node) queueLookup(key ID, want int, fromScratch bool, done func(found []*lookupMember)) *lookup {
	l := &lookup{key: key, want: want, fromScratch: fromScratch, done: done}
	n.queuedLookups = append(n.queuedLookups, l)
	n.at(n.clock.Now(), task{kind: taskStartLookups})
	return l
}

// startLookups starts queued lookups while there is room.
func (n *Node) startLookups() {
	for len(n.activeLookups) < maxLookups && len(n.queuedLookups) > 0 {
		l := n.queuedLookups[0]
		n.queuedLookups[0] = nil // the backing array would keep it alive
		n.queuedLookups = n.queuedLookups[1:]
		n.activeLookups = append(n.activeLookups, l)
		l.startedAt = n.clock.Now()
		if n.state == Active {
			l.addMember(n.self, 0).state = answered
		}
		if n.state == Active && n.leaf.Covers(l.key) && !l.fromScratch {
			n.lookUpInLeaf(l)
			continue
		}
		n.startRoutes(l)
	}
}

// lookUpInLeaf starts with all members of the node's own leaf, which the node knows at first
// hand. Members that have not spoken recently are asked.
func (n *Node) lookUpInLeaf(l *lookup) {
	now := n.clock.Now()
	for _, c := range n.leaf.Members() {
		if p := n.peers.get(c.Peer.ID); p != nil {
			member := l.addMember(c, 0)
			if now.Sub(p.lastHeard.time()) < p.rto() && !p.suspect {
				member.state = answered
			}
		}
	}
	l.round = lookupRounds // there is no other place to start again from
	l.ended = 1<<lookupRoutes - 1
	n.stepLookup(l)
}

// startRoutes gives each route a first member that has not been asked yet: those nearest to
// the key, and members of the node's own leaf. The nearest may be liars that have got into the
// table together. The leaf is known at first hand, and its members have other tables.
func (n *Node) startRoutes(l *lookup) {
	l.round++
	l.ended = 0
	for _, member := range l.members {
		if member.routes = 0; member.route == confirming { // its answer was used in the last round
			member.route = witnessing
		}
	}
	var from []*Contact
	if n.state == Active {
		from = n.nearestKnown(l.key, len(n.peers.all)+1)
	} else {
		from = slices.Clone(n.join.pool)
	}
	if n.state == Active && !l.fromScratch {
		leaf := slices.DeleteFunc(slices.Clone(n.leaf.Members()), func(c *Contact) bool { return c.ID == n.self.ID })
		n.rand.Shuffle(len(leaf), func(i, j int) { leaf[i], leaf[j] = leaf[j], leaf[i] })
		for i, c := range leaf[:min(len(leaf), leafRoutes)] {
			from = slices.Insert(from, min(2*i+1, len(from)), c)
		}
	}
	if l.fromScratch { // one liar may have named all of the nearest
		n.rand.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		if n.state != Active {
			n.join.interleave(from)
		} else if len(n.bootstraps) > 0 { // one route starts outside the node's own contacts
			from = slices.Insert(from, 0, n.bootstraps[n.rand.IntN(len(n.bootstraps))])
		}
	}
	route := 0
	for _, c := range from {
		if p := n.peers.get(c.Peer.ID); c.ID == n.self.ID || p != nil && p.suspect {
			continue
		}
		if member := l.addMember(c, 1<<route); member.state == unasked {
			n.queryMember(l, member, route)
			if route++; route == lookupRoutes {
				break
			}
		}
	}
	for ; route < lookupRoutes; route++ {
		l.ended |= 1 << route
	}
	n.stepLookup(l)
}

// find returns the position of a member among the named ones, and whether it is one of them.
func (l *lookup) find(c *Contact) (int, bool) {
	return slices.BinarySearchFunc(l.members, c.ID, func(member *lookupMember, id ID) int {
		switch {
		case member.contact.ID == id:
			return 0
		case Nearer(l.key, member.contact.ID, id):
			return -1
		}
		return 1
	})
}

// tried reports whether a member was asked.
func (l *lookup) tried(c *Contact) bool {
	i, ok := l.find(c)
	return ok && l.members[i].state != unasked
}

// addMember records that a member was named on some routes.
func (l *lookup) addMember(c *Contact, routes uint) *lookupMember {
	i, ok := l.find(c)
	if !ok {
		l.members = slices.Insert(l.members, i, &lookupMember{contact: c})
	}
	member := l.members[i]
	member.routes |= routes
	return member
}

// queryMember asks a member for the members nearest to the key that it knows.
func (n *Node) queryMember(l *lookup, member *lookupMember, route int) {
	now := n.clock.Now()
	p := n.ensureContact(member.contact)
	want := l.want + 1 + l.extraRecords
	if member.nonce == 0 || member.want != want { // a query for more records needs a nonce of its own
		delete(n.lookupQueries, member.nonce)
		member.nonce, member.want, member.tries = n.rand.Uint64()|1, want, 0
	}
	n.lookupQueries[member.nonce] = lookupQuery{l, member}
	if member.state != asked {
		l.pending++
	}
	member.state, member.route, member.answerDue = asked, route, now.Add(p.answerTimeout(now))
	member.tries++
	l.asked++
	n.at(member.answerDue, task{kind: taskLookupQuery, n: member.nonce})
	m := &overlaypb.Message{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{
		Nonce: member.nonce, Key: l.key[:], Limit: uint32(want),
	}}}
	n.send(p, m)
	if member.tries >= doubleSendFrom {
		n.send(p, m)
	}
	n.forget(p)
}

// queryUnanswered asks once more, or continues without the member.
func (n *Node) queryUnanswered(nonce uint64, due time.Time) {
	q, ok := n.lookupQueries[nonce]
	if !ok || q.member.state != asked || !q.member.answerDue.Equal(due) {
		return
	}
	switch more := q.member.tries < lookupTries; {
	case more && q.member.route != confirming:
		q.member.state = skipped
	case more && q.lookup.asked < maxLookupAsked:
		n.queryMember(q.lookup, q.member, confirming)
		return
	default:
		q.member.state = silent
	}
	q.lookup.pending--
	n.stepLookup(q.lookup)
}

// queryAnswered takes the answer to a query.
func (n *Node) queryAnswered(from env.PeerID, q lookupQuery, m *overlaypb.Nearby) {
	if q.member.contact.Peer.ID != from {
		return
	}
	delete(n.lookupQueries, m.Nonce)
	l := q.lookup
	if q.member.state == asked {
		l.pending--
	}
	q.member.state = answered
	q.member.covers, q.member.depth, q.member.decided = m.Covers, int(m.Depth), m.Decided
	if n.state == Alone && !m.Covers {
		n.join.maxDepthHeard = max(n.join.maxDepthHeard, int(m.Depth))
	}
	q.member.answer = q.member.answer[:0]
	for i, c := range n.openRecords(m.Records) {
		if i <= l.want+l.extraRecords && c.Member && c.ID != n.self.ID {
			q.member.answer = append(q.member.answer, l.addMember(c, 0))
		}
	}
	l.followAnswer(q.member)
	n.stepLookup(l)
}

// followAnswer continues the route on which a member was asked with its answer.
func (l *lookup) followAnswer(member *lookupMember) {
	if member.route < 0 || member.state != answered {
		return
	}
	for _, named := range member.answer {
		named.routes |= 1 << member.route
	}
	if member.covers {
		l.ended |= 1 << member.route
	}
}

// stepLookup continues each route that has no outstanding query. When half of the routes have
// ended it asks the nearest named members: the other routes may be slow, and usually lead to
// the same members.
func (n *Node) stepLookup(l *lookup) {
	full := l.asked >= maxLookupAsked || n.clock.Now().Sub(l.startedAt) >= lookupTimeout
	for route := 0; route < lookupRoutes && !full; route++ {
		for l.ended>>route&1 == 0 && !l.busy(route) {
			switch member := l.next(1 << route); {
			case member == nil:
				l.ended |= 1 << route
			case member.state == unasked:
				n.queryMember(l, member, route)
			default:
				member.route = route
				l.followAnswer(member)
			}
		}
	}
	ended := l.ended == 1<<lookupRoutes-1
	if bits.OnesCount(l.ended) < lookupRoutes/2 && !full {
		return
	}
	live, dead, sure := l.nearest()
	if ended && !l.witnessesAsked && !full {
		l.witnessesAsked = true
		for _, member := range n.witnesses(l, live) {
			n.queryMember(l, member, witnessing)
		}
	}
	for _, member := range live {
		if (member.state == unasked || member.state == skipped) && !full {
			n.queryMember(l, member, confirming)
		}
	}
	if !ended && !full {
		return
	}
	if sure && dead > l.extraRecords && !full { // the silent members took the place of others in the answers
		l.extraRecords = dead
		for _, member := range live {
			if member.contact.ID != n.self.ID {
				n.queryMember(l, member, confirming)
				sure = false
			}
		}
	}
	switch {
	case !full && (!sure || l.busy(witnessing)) || full && l.pending > 0 && n.clock.Now().Sub(l.startedAt) < lookupTimeout:
		return
	case !full && l.round < lookupRounds && n.membersMissing(l, contactsOf(live)):
		n.startRoutes(l)
		return
	}
	live = slices.DeleteFunc(live, func(member *lookupMember) bool { return member.state != answered })
	n.endLookup(l, live)
}

// witnesses returns random members that were named but not asked, are not among the nearest,
// and should have the key in their leaves.
func (n *Node) witnesses(l *lookup, nearest []*lookupMember) []*lookupMember {
	depth := n.leaf.Depth()
	if n.state == Alone {
		depth = n.join.maxDepthHeard
	}
	var members []*lookupMember
	for _, member := range l.members {
		if member.state == unasked && member.contact.ID.Common(l.key) >= depth && !slices.Contains(nearest, member) {
			members = append(members, member)
		}
	}
	n.rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members[:min(len(members), lookupWitnesses)]
}

// busy reports whether a query of a route is outstanding.
func (l *lookup) busy(route int) bool {
	return slices.ContainsFunc(l.members, func(member *lookupMember) bool { return member.state == asked && member.route == route })
}

// next returns the nearest member named on a route that no other route has asked.
func (l *lookup) next(route uint) *lookupMember {
	for _, member := range l.members {
		free := member.state == unasked || member.route == confirming && (member.state == asked || member.state == answered)
		if free && member.routes&route != 0 {
			return member
		}
	}
	return nil
}

// nearest returns the nearest named members that are not silent, and the number of silent ones
// nearer than the last of these; sure says that all of the returned members have answered.
func (l *lookup) nearest() (members []*lookupMember, dead int, sure bool) {
	sure = true
	for _, member := range l.members {
		if member.state == silent {
			dead++
			continue
		}
		if len(members) == l.want {
			break
		}
		sure = sure && member.state == answered
		members = append(members, member)
	}
	return members, dead, sure
}

func contactsOf(named []*lookupMember) []*Contact {
	contacts := make([]*Contact, len(named))
	for i, member := range named {
		contacts[i] = member.contact
	}
	return contacts
}

// endLookup passes on the result and makes room for the next lookup.
func (n *Node) endLookup(l *lookup, found []*lookupMember) {
	for _, member := range l.members { // a late answer no longer steps the lookup
		delete(n.lookupQueries, member.nonce)
	}
	n.activeLookups = slices.DeleteFunc(n.activeLookups, func(o *lookup) bool { return o == l })
	n.at(n.clock.Now(), task{kind: taskStartLookups})
	l.done(found)
}

// endLookups ends all lookups without a result, because the node leaves.
func (n *Node) endLookups() {
	of := append(n.activeLookups, n.queuedLookups...)
	n.activeLookups, n.queuedLookups = nil, nil
	clear(n.lookupQueries)
	for _, l := range of {
		l.done(nil)
	}
}
