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
	only           *Contact        // the only member to start from; nil: the node's own contacts
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

// lookups are the node's searches for the members nearest to keys.
type lookups struct {
	*neighbours
	counts   *counts
	liveness *liveness
	pool     *pool

	queries            map[uint64]lookupQuery // outstanding queries, by nonce
	active             []*lookup
	queued             []*lookup     // lookups that wait for room
	selfLookupAt       time.Time     // when the node next looks up its own id
	selfLookupInterval time.Duration // time until the lookup after that
}

func newLookups(cs *counts, lv *liveness, pl *pool) *lookups {
	return &lookups{neighbours: cs.neighbours, counts: cs, liveness: lv, pool: pl, queries: map[uint64]lookupQuery{}}
}

// Lookup finds the live members nearest to a key by disjoint routes, at most want of them and
// no more than MaxLookup. It calls done once, usually within seconds and at most about half a
// minute after the lookup leaves the queue. A lookup costs about twenty messages of a
// kilobyte. Route costs two or three, but has to trust the members on its way.
func (ls *lookups) Lookup(key ID, want int, done func(Lookup)) {
	if ls.state != Active && ls.state != Attached {
		done(Lookup{})
		return
	}
	want = min(want, MaxLookup)
	ls.queue(key, want, false, func(found []*lookupMember) {
		contacts := contactsOf(found)
		done(Lookup{Nearest: contacts, Plausible: ls.counts.plausible(key, contacts, want)})
	})
}

// queue queues a lookup.
func (ls *lookups) queue(key ID, want int, fromScratch bool, done func(found []*lookupMember)) *lookup {
	l := &lookup{key: key, want: want, fromScratch: fromScratch, done: done}
	ls.queued = append(ls.queued, l)
	ls.at(ls.clock.Now(), task{kind: taskStartLookups})
	return l
}

// start starts queued lookups while there is room.
func (ls *lookups) start() {
	for len(ls.active) < maxLookups && len(ls.queued) > 0 {
		l := ls.queued[0]
		ls.queued[0] = nil // the backing array would keep it alive
		ls.queued = ls.queued[1:]
		ls.active = append(ls.active, l)
		l.startedAt = ls.clock.Now()
		if l.only != nil {
			ls.startRoutes(l)
			continue
		}
		if ls.state == Active {
			l.addMember(ls.self, 0).state = answered
		}
		if ls.state == Active && ls.leaf.Covers(l.key) && !l.fromScratch {
			ls.lookUpInLeaf(l)
			continue
		}
		ls.startRoutes(l)
	}
}

// lookUpInLeaf starts with all members of the node's own leaf, which the node knows at first
// hand. Members that have not spoken recently are asked.
func (ls *lookups) lookUpInLeaf(l *lookup) {
	now := ls.clock.Now()
	for _, c := range ls.leaf.Members() {
		if p := ls.peers.get(c.Peer.ID); p != nil {
			member := l.addMember(c, 0)
			if now.Sub(p.lastHeard.Time()) < p.rto() && !p.suspect {
				member.state = answered
			}
		}
	}
	l.round = lookupRounds // there is no other place to start again from
	l.ended = 1<<lookupRoutes - 1
	ls.step(l)
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
func (ls *lookups) queryMember(l *lookup, member *lookupMember, route int) {
	now := ls.clock.Now()
	p := ls.ensureContact(member.contact)
	want := l.want + 1 + l.extraRecords
	if member.nonce == 0 || member.want != want { // a query for more records needs a nonce of its own
		delete(ls.queries, member.nonce)
		member.nonce, member.want, member.tries = ls.rand.Uint64()|1, want, 0
	}
	ls.queries[member.nonce] = lookupQuery{l, member}
	if member.state != asked {
		l.pending++
	}
	member.state, member.route, member.answerDue = asked, route, now.Add(p.answerTimeout(now))
	member.tries++
	l.asked++
	ls.at(member.answerDue, task{kind: taskLookupQuery, n: member.nonce})
	m := &overlaypb.Message{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{
		Nonce: member.nonce, Key: l.key[:], Limit: uint32(want),
	}}}
	ls.send(p, m)
	if member.tries >= doubleSendFrom {
		ls.send(p, m)
	}
	ls.forget(p)
}

// queryUnanswered asks once more, or continues without the member.
func (ls *lookups) queryUnanswered(nonce uint64, due time.Time) {
	q, ok := ls.queries[nonce]
	if !ok || q.member.state != asked || !q.member.answerDue.Equal(due) {
		return
	}
	switch more := q.member.tries < lookupTries; {
	case more && q.member.route != confirming:
		q.member.state = skipped
	case more && q.lookup.asked < maxLookupAsked:
		ls.queryMember(q.lookup, q.member, confirming)
		return
	default:
		q.member.state = silent
	}
	q.lookup.pending--
	ls.step(q.lookup)
}

// onNearby takes an answer to Find. It reports whether the Find belonged to a lookup. The answer counts only if the peer
// gave it under the id that it was asked for: of another id it has proven nothing.
func (ls *lookups) onNearby(from env.PeerID, m *overlaypb.Nearby) bool {
	q, ok := ls.queries[m.Nonce]
	if ok && q.member.contact.Peer.ID == from && q.member.contact.ID == ls.IDOf(from) {
		ls.queryAnswered(q, m)
	}
	return ok
}

// queryAnswered takes the answer to a query.
func (ls *lookups) queryAnswered(q lookupQuery, m *overlaypb.Nearby) {
	delete(ls.queries, m.Nonce)
	l := q.lookup
	if q.member.state == asked {
		l.pending--
	}
	q.member.state = answered
	q.member.covers, q.member.depth, q.member.decided = m.Covers, int(m.Depth), m.Decided
	if ls.state == Alone && !m.Covers {
		ls.pool.maxDepthHeard = max(ls.pool.maxDepthHeard, int(m.Depth))
	}
	q.member.answer = q.member.answer[:0]
	for i, c := range ls.openRecords(m.Records) {
		if i <= l.want+l.extraRecords && c.Member && c.ID != ls.self.ID {
			q.member.answer = append(q.member.answer, l.addMember(c, 0))
		}
	}
	l.followAnswer(q.member)
	ls.step(l)
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

// step continues each route that has no outstanding query. When half of the routes have
// ended it asks the nearest named members: the other routes may be slow, and usually lead to
// the same members.
func (ls *lookups) step(l *lookup) {
	full := l.asked >= maxLookupAsked || ls.clock.Now().Sub(l.startedAt) >= lookupTimeout
	for route := 0; route < lookupRoutes && !full; route++ {
		for l.ended>>route&1 == 0 && !l.busy(route) {
			switch member := l.next(1 << route); {
			case member == nil:
				l.ended |= 1 << route
			case member.state == unasked:
				ls.queryMember(l, member, route)
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
		for _, member := range ls.witnesses(l, live) {
			ls.queryMember(l, member, witnessing)
		}
	}
	for _, member := range live {
		if (member.state == unasked || member.state == skipped) && !full {
			ls.queryMember(l, member, confirming)
		}
	}
	if !ended && !full {
		return
	}
	if sure && dead > l.extraRecords && !full { // the silent members took the place of others in the answers
		l.extraRecords = dead
		for _, member := range live {
			if member.contact.ID != ls.self.ID {
				ls.queryMember(l, member, confirming)
				sure = false
			}
		}
	}
	switch {
	case !full && (!sure || l.busy(witnessing)) || full && l.pending > 0 && ls.clock.Now().Sub(l.startedAt) < lookupTimeout:
		return
	case !full && l.round < lookupRounds && ls.membersMissing(l, contactsOf(live)):
		ls.startRoutes(l)
		return
	}
	live = slices.DeleteFunc(live, func(member *lookupMember) bool { return member.state != answered })
	ls.end(l, live)
}

// witnesses returns random members that were named but not asked, are not among the nearest,
// and should have the key in their leaves.
func (ls *lookups) witnesses(l *lookup, nearest []*lookupMember) []*lookupMember {
	depth := ls.leaf.Depth()
	if ls.state == Alone {
		depth = ls.pool.maxDepthHeard
	}
	var members []*lookupMember
	for _, member := range l.members {
		if member.state == unasked && member.contact.ID.Common(l.key) >= depth && !slices.Contains(nearest, member) {
			members = append(members, member)
		}
	}
	ls.rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
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
		if displaceLast(members, member) {
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

// end passes on the result and makes room for the next lookup.
func (ls *lookups) end(l *lookup, found []*lookupMember) {
	for _, member := range l.members { // a late answer no longer steps the lookup
		delete(ls.queries, member.nonce)
	}
	ls.active = slices.DeleteFunc(ls.active, func(o *lookup) bool { return o == l })
	ls.at(ls.clock.Now(), task{kind: taskStartLookups})
	l.done(found)
}

// endAll ends all lookups without a result, because the node leaves.
func (ls *lookups) endAll() {
	of := append(ls.active, ls.queued...)
	ls.active, ls.queued = nil, nil
	clear(ls.queries)
	for _, l := range of {
		l.done(nil)
	}
}
