package overlay

import (
	"math/bits"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

const (
	// lookupRoutes is how many routes a look-up takes at once. No member is asked on two
	// of them, so one liar spoils one (S/Kademlia, Baumgart and Mies, ICPADS 2007, §4.4).
	// If a tenth of the members lie, about a third of all routes meet one of them.
	lookupRoutes = 4
	// lookupWitnesses is how many members are asked besides, when all routes have ended, who stand
	// near enough to the key to have it in their leaves, and whom nobody took for the nearest: where
	// most of those nearest to a key lie, all routes may end among them.
	lookupWitnesses = 2
	// leafRoutes is how many of them begin in the own leaf.
	leafRoutes = 2
	// lookupRounds is how often a look-up begins anew, elsewhere, when those it found
	// stand too far apart to be the nearest.
	lookupRounds = 3
	// lookupTries is how often one member is asked, and maxLookupAsked how many are in
	// all: far more than honest ones make necessary.
	lookupTries    = leafAttempts
	maxLookupAsked = 128
	// lookupTwice is from which time on the question goes out twice over. Where 5 % of all
	// messages are lost one question of ten comes to nothing: with four, one look-up in 2,000
	// for five members missed one that lives; with seven, one in two million. As many that wait for
	// each other would take too long where many have died.
	doubleSendFrom = 2
	// lookupLimit is how long it may take; then what was found is all there is.
	lookupTimeout = 30 * time.Second
	// MaxLookup is how many members a look-up finds at most: as many as own a key.
	MaxLookup = 16
	// maxLookups is how many go on at once; others wait for their turn.
	maxLookups = 16
)

// A Lookup is what a look-up has found.
type Lookup struct {
	// Nearest are live members, the nearest to the key first: each has answered.
	Nearest []*Contact
	// Plausible says that they stand as close together as members of this network do: not
	// so far apart that nearer ones must have been hidden, and not so close that
	// somebody must have searched for their keys.
	Plausible bool
}

// A lookup is a search by disjoint routes for the members nearest to a key. Each route
// goes from member to member, always to the nearest that was named on it and that no
// other route has asked. When half of them have ended, the nearest of all who were named are
// asked too, until nobody is named who is nearer: a route that comes to one of these goes on with
// his answer. When all have ended, two witnesses by the dice are asked besides, who
// stand farther away and have the key in their leaves. A liar can therefore keep to himself
// whom he knows, but not what others know; who answered a question lives; and nobody
// can be made up, because records are signed.
type lookup struct {
	key            ID
	want           int
	done           func(found []*lookupMember)
	startedAt      time.Time
	fromScratch    bool            // nothing is taken for known, and nobody for nearest: it begins anywhere
	members        []*lookupMember // the nearest first
	asked          int
	pending        int // questions that are out
	round          int
	ended          uint // routes that came to a member whose leaf holds the key: a bit each
	witnessesAsked bool // witnesses were asked
	extraRecords   int  // records asked for beyond want, for those who turned out to be silent
}

// named is a member that a route was told of.
type lookupMember struct {
	contact   *Contact
	routes    uint // a bit for each that may go to it
	state     namedState
	route     int       // on which it was asked
	want      int       // how many it was asked for last,
	tries     int       // how often,
	nonce     uint64    // and in all these questions: an answer that comes late is one too
	answerDue time.Time // when the last of them counts as unanswered

	// As it answered:
	covers  bool            // its leaf holds the key
	depth   int             // of its leaf
	decided uint64          // when that was chosen
	answer  []*lookupMember // whom it named
}

type namedState uint8

const (
	unasked namedState = iota
	asked
	answered
	skipped // left one question unanswered on a route, which went on without it
	silent  // left all unanswered
)

// What stands in for a route where a member is asked on none.
const (
	confirming = -1 // it is among the nearest; a route that comes to it takes its answer
	witnessing = -2
)

// A question of a look-up that may be answered.
type lookupQuery struct {
	lookup *lookup
	member *lookupMember
}

// Lookup finds the live members nearest to a key, at most want of them (no more than
// MaxLookup), by disjoint routes, and calls done with them once, mostly within seconds,
// and some half a minute after its turn came at the latest. It costs about twenty
// messages of a kilobyte; Route costs two or three, but has to believe whom it meets.
func (n *Node) Lookup(key ID, want int, done func(Lookup)) {
	if n.state != Active && n.state != Attached {
		done(Lookup{})
		return
	}
	want = min(want, MaxLookup)
	n.queueLookup(key, want, false, func(found []*lookupMember) {
		of := contactsOf(found)
		done(Lookup{Nearest: of, Plausible: n.plausible(key, of, want)})
	})
}

// lookup plans a look-up.
func (n *Node) queueLookup(key ID, want int, fromScratch bool, done func(found []*lookupMember)) *lookup {
	l := &lookup{key: key, want: want, fromScratch: fromScratch, done: done}
	n.queuedLookups = append(n.queuedLookups, l)
	n.at(n.clock.Now(), task{kind: taskStartLookups})
	return l
}

// nextLookup begins those that wait, as far as there is room.
func (n *Node) startLookups() {
	for len(n.activeLookups) < maxLookups && len(n.queuedLookups) > 0 {
		l := n.queuedLookups[0]
		n.queuedLookups[0] = nil // the array stays, and would keep it
		n.queuedLookups = n.queuedLookups[1:]
		n.activeLookups = append(n.activeLookups, l)
		l.startedAt = n.clock.Now()
		if n.state == Active {
			l.name(n.self, 0).state = answered
		}
		if n.state == Active && n.leaf.Covers(l.key) && !l.fromScratch {
			n.lookUpInLeaf(l)
			continue
		}
		n.startRoutes(l)
	}
}

// lookInLeaf names all members of the own leaf, who are known at first hand; who has not
// spoken lately is asked.
func (n *Node) lookUpInLeaf(l *lookup) {
	now := n.clock.Now()
	for _, c := range n.leaf.Members() {
		if p := n.peers.get(c.Peer.ID); p != nil {
			member := l.name(c, 0)
			if now.Sub(p.lastHeard.time()) < p.rto() && !p.suspect {
				member.state = answered
			}
		}
	}
	l.round = lookupRounds // there is nobody else to begin with
	l.ended = 1<<lookupRoutes - 1
	n.stepLookup(l)
}

// startRoutes gives each route somebody to begin with who has not been asked yet: the nearest
// to the key, and members of the own leaf. The nearest may be liars who have got into the
// table together; the leaf is known at first hand, and the tables of its members are others.
func (n *Node) startRoutes(l *lookup) {
	l.round++
	l.ended = 0
	for _, member := range l.members {
		if member.routes = 0; member.route == confirming { // who named them has been heard, and so have they
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
	if l.fromScratch { // the nearest may be those that one liar has named
		n.rand.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		if n.state != Active {
			n.join.interleave(from)
		} else if len(n.bootstraps) > 0 { // one route is not of the node's contacts
			from = slices.Insert(from, 0, n.bootstraps[n.rand.IntN(len(n.bootstraps))])
		}
	}
	route := 0
	for _, c := range from {
		if p := n.peers.get(c.Peer.ID); c.ID == n.self.ID || p != nil && p.suspect {
			continue
		}
		if member := l.name(c, 1<<route); member.state == unasked {
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

// find returns where a member stands among those named, and whether it is one of them.
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

// tried says whether a member was asked.
func (l *lookup) tried(c *Contact) bool {
	i, ok := l.find(c)
	return ok && l.members[i].state != unasked
}

// name notes that a member was named on some routes.
func (l *lookup) name(c *Contact, routes uint) *lookupMember {
	i, ok := l.find(c)
	if !ok {
		l.members = slices.Insert(l.members, i, &lookupMember{contact: c})
	}
	member := l.members[i]
	member.routes |= routes
	return member
}

// ask asks a member for those that it knows nearest to the key.
func (n *Node) queryMember(l *lookup, member *lookupMember, route int) {
	now := n.clock.Now()
	p := n.ensureContact(member.contact)
	want := l.want + 1 + l.extraRecords
	if member.nonce == 0 || member.want != want { // who is asked for more has not answered that yet
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

// askUnanswered asks once more, or goes on without the member.
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

// lookupAnswered takes an answer to a question.
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
			q.member.answer = append(q.member.answer, l.name(c, 0))
		}
	}
	l.followAnswer(q.member)
	n.stepLookup(l)
}

// heed has the route on which a member was asked go by its answer.
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

// stepLookup lets each route that waits for nothing go on. When half of them have ended it asks
// those who were named nearest: the others may be slow, and mostly come to the same members.
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
	if sure && dead > l.extraRecords && !full { // they were named in the place of others
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

// witnesses returns some members, by the dice, who were named, not asked, and are not among
// the nearest, in whose leaves the key should be.
func (n *Node) witnesses(l *lookup, nearest []*lookupMember) []*lookupMember {
	depth := n.leaf.Depth()
	if n.state == Alone {
		depth = n.join.maxDepthHeard
	}
	var of []*lookupMember
	for _, member := range l.members {
		if member.state == unasked && member.contact.ID.Common(l.key) >= depth && !slices.Contains(nearest, member) {
			of = append(of, member)
		}
	}
	n.rand.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return of[:min(len(of), lookupWitnesses)]
}

// busy says whether a question of a route is out.
func (l *lookup) busy(route int) bool {
	return slices.ContainsFunc(l.members, func(member *lookupMember) bool { return member.state == asked && member.route == route })
}

// next is the nearest member named on a route that no other has asked.
func (l *lookup) next(route uint) *lookupMember {
	for _, member := range l.members {
		free := member.state == unasked || member.route == confirming && (member.state == asked || member.state == answered)
		if free && member.routes&route != 0 {
			return member
		}
	}
	return nil
}

// nearest returns those named nearest who are not silent, and how many nearer ones are;
// sure says that all of them have answered.
func (l *lookup) nearest() (of []*lookupMember, dead int, sure bool) {
	sure = true
	for _, member := range l.members {
		if member.state == silent {
			dead++
			continue
		}
		if len(of) == l.want {
			break
		}
		sure = sure && member.state == answered
		of = append(of, member)
	}
	return of, dead, sure
}

func contactsOf(named []*lookupMember) []*Contact {
	of := make([]*Contact, len(named))
	for i, member := range named {
		of[i] = member.contact
	}
	return of
}

// endLookup tells what was found, and makes room for the next.
func (n *Node) endLookup(l *lookup, found []*lookupMember) {
	for _, member := range l.members { // so nothing steps it any more
		delete(n.lookupQueries, member.nonce)
	}
	n.activeLookups = slices.DeleteFunc(n.activeLookups, func(o *lookup) bool { return o == l })
	n.at(n.clock.Now(), task{kind: taskStartLookups})
	l.done(found)
}

// endLookups ends all of them without a word of whom they found: the node leaves.
func (n *Node) endLookups() {
	of := append(n.activeLookups, n.queuedLookups...)
	n.activeLookups, n.queuedLookups = nil, nil
	clear(n.lookupQueries)
	for _, l := range of {
		l.done(nil)
	}
}
