package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

const (
	findTimeout = time.Second // for one answer to Find
	findTries   = 2
	// The pause before all peers are asked again starts at minJoinPause and doubles up to
	// maxJoinPause. Nodes that return together and find no member therefore do not flood one
	// another.
	minJoinPause = 500 * time.Millisecond
	maxJoinPause = 5 * time.Second
	// announceTimeout is the time in which the leaf has to acknowledge a node before the node
	// starts its join again: twice the time of all probes of a dead member.
	announceTimeout = 20 * time.Second
	// maxAnnouncements bounds these attempts. After the last one the node becomes active
	// without the members that speak but never answer; otherwise one of them could keep others
	// out.
	maxAnnouncements = 3
	maxPool          = 256
)

// join is the state of a node that has no place in the network yet.
//
// The node asks the known peer nearest to its own id for members still nearer (Find), until a
// member answers whose leaf covers the id. Then it announces itself to that leaf. Each member
// of the leaf knows the node from the moment of its answer, and sends it the messages that the
// node is now the root of. The node holds these until it is Active, which it becomes when all
// members it has heard of have answered and none of them knows others. So two nodes never
// consider themselves the root of one key at the same time.
type join struct {
	pool          []*Contact // members heard of, at most maxPool
	namedBy       map[ID]ID  // the member that named each of them first
	found         []env.Peer // peers of which only the address is known
	asked         map[ID]bool
	askedAgain    map[ID]bool   // members asked once more in this round, see askOnceMore
	pause         time.Duration // before the next time that all peers are asked, 500 ms to 5 s
	resumeAt      time.Time     // end of the pause; zero: not scheduled
	nonce         uint64        // shared by all Finds of this join, so that late answers count too
	findPending   bool          // an answer to Find is outstanding
	findPeer      env.Peer
	findAttempts  int
	findDue       time.Time
	announcedAt   time.Time // time of the last announcement
	announcements int       // announcements made so far

	offer         *offer          // the leaf that a member offered last
	offersAsked   int             // number of further offers requested
	selfLookup    *lookup         // lookup of members near the node's id
	nearest       []*lookupMember // result of selfLookup with the members' answers; nil until it has ended
	nearestAt     time.Time       // time at which selfLookup ended
	lookedUpTwice bool            // selfLookup was repeated
	maxDepthHeard int             // maximum depth that others said their leaves have
}

// discardOffer drops the offer and the lookup of an earlier attempt. A lookup that is still
// running finds that its result is no longer wanted.
func (j *join) discardOffer() {
	j.offer, j.offersAsked = nil, 0
	j.selfLookup, j.nearest, j.lookedUpTwice = nil, nil, false
}

// lookingUp reports whether the lookup of members near the node's id is running.
func (j *join) lookingUp() bool { return j.selfLookup != nil && j.nearest == nil }

// Found takes a peer through which the node may join.
func (n *Node) Found(peer env.Peer) {
	if peer.ID == n.self.Peer.ID {
		return
	}
	switch n.state {
	case Alone:
		if !slices.ContainsFunc(n.join.found, func(p env.Peer) bool { return p.ID == peer.ID }) &&
			len(n.join.found) < maxPool {
			n.join.found = append(n.join.found, peer)
		}
		n.stepJoin()
	case Active:
		if n.peers.get(peer.ID) == nil {
			n.probeOnce(&Contact{ID: NodeID(n.network, peer.ID), Peer: peer})
		}
	}
}

// Reachable takes the addresses at which the node can be dialled, or nil if it cannot be
// dialled.
func (n *Node) Reachable(addrs []string) {
	if n.state == Left || slices.Equal(addrs, n.reachable) && (addrs == nil) == (n.reachable == nil) {
		return
	}
	n.reachable = slices.Clone(addrs)
	member := addrs != nil
	was := n.self.Member
	if was != member {
		n.join.discardOffer()
		n.join.askAllAgain()
	}
	if was && !member && n.state != Alone {
		n.Leave()
		n.reset()
	}
	n.issue(addrs, member)
	if member && was {
		n.Moved()
	}
	if member && !was && n.state == Attached {
		n.addToPool(n.self.ID, n.Hosts())
		n.state = Alone
	}
	n.stepJoin()
}

// Moved takes the news that the node's addresses have changed. The node probes all peers in
// use from its new addresses, with its current record, before they miss it. A node that is
// still looking for its network asks all peers again.
func (n *Node) Moved() {
	if n.state == Alone {
		n.join.askAllAgain()
		n.stepJoin()
		return
	}
	for _, p := range slices.Clone(n.peers.all) {
		if n.hasPlace(p) {
			n.probe(p)
		}
	}
}

// issue signs a new record of the node.
func (n *Node) issue(addrs []string, member bool) {
	now := n.clock.Now()
	if last := time.UnixMilli(int64(n.self.Issued)); !now.After(last) {
		now = last.Add(time.Millisecond)
	}
	n.self = newRecord(n.network, n.signer, addrs, now, member)
	n.leaf.Add(n.self)
	for _, p := range n.peers.all {
		p.knowsMe, p.recordSent = false, false
	}
	n.saveIssued()
}

// reset returns a former member to the state in which it knows nobody.
func (n *Node) reset() {
	n.addToPool(n.self.ID, n.leaf.Members())
	n.join.discardOffer()
	n.join.askAllAgain()
	n.leaf = newLeafSet(n.self, n.leaf.splitSize, n.leaf.mergeSize)
	n.table = table{self: n.self.ID}
	n.state = Alone
	n.leafChanged = true
	for _, p := range slices.Clone(n.peers.all) {
		if p.candidate, p.attached = false, never; !n.inUse(p) {
			n.peers.remove(p.id)
		}
	}
}

// addToPool adds members that by named to the pool.
func (n *Node) addToPool(by ID, contacts []*Contact) {
	if n.join.namedBy == nil {
		n.join.namedBy = map[ID]ID{}
	}
	for _, c := range contacts {
		if c.ID == n.self.ID || !c.Member {
			continue
		}
		i := slices.IndexFunc(n.join.pool, func(o *Contact) bool { return o.ID == c.ID })
		switch {
		case i >= 0:
			n.join.pool[i] = c
		case len(n.join.pool) < maxPool:
			n.join.pool = append(n.join.pool, c)
			n.join.namedBy[c.ID] = by
		}
	}
}

// stepJoin takes the next step of a node that has no place yet.
func (n *Node) stepJoin() {
	now := n.clock.Now()
	j := &n.join
	switch n.state {
	case Active, Attached, Left:
		return
	case Joining:
		switch late := now.Sub(j.announcedAt) > announceTimeout; {
		case late && j.announcements == maxAnnouncements:
			n.log.Warn("joined, but some leaf set members did not answer")
			n.activate()
			return
		case late:
			n.log.Debug("leaf set members did not acknowledge in time, so joining starts again")
			n.reset()
		default:
			n.checkJoined()
			n.after(findTimeout, task{kind: taskJoin})
			return
		}
	case Alone:
	}
	if j.lookingUp() && j.offer != nil || j.findPending && now.Before(j.findDue) {
		return
	}
	if j.findPending && j.findAttempts < findTries {
		n.sendFind(j.findPeer)
		return
	}
	if j.findPending = false; j.nearest != nil && j.offer != nil { // the member asked for another offer is silent
		n.checkOffer()
		return
	}
	if !j.resumeAt.IsZero() && !now.Before(j.resumeAt) {
		j.askAllAgain()
	}
	if next, ok := n.nextToAsk(); ok {
		j.findAttempts = 0
		n.sendFind(next)
		return
	}
	if !j.lookingUp() && n.mayActAlone(now) {
		n.leaf.SetDepth(0)
		n.activate()
		n.probeAllDead(now) // other known nodes may have started alone at the same time
		return
	}
	if j.resumeAt.IsZero() {
		j.pause = min(max(2*j.pause, minJoinPause), maxJoinPause)
		n.pauseJoin(now.Add(n.jitter(j.pause)))
	}
}

// pauseJoin stops the node from asking any peer a second time before until; peers not asked
// yet still are. The next step comes sooner if the node may act alone before until, with up to
// a second of jitter, so that nodes that start together do not all act alone.
func (n *Node) pauseJoin(until time.Time) {
	n.join.resumeAt = until
	n.at(until, task{kind: taskJoin})
	if alone := n.started.Add(n.cfg.JoinTimeout); alone.After(n.clock.Now()) && alone.Before(until) {
		n.at(alone.Add(time.Duration(n.rand.Int64N(int64(time.Second)))), task{kind: taskJoin})
	}
}

// askAllAgain allows all known peers to be asked again.
func (j *join) askAllAgain() {
	clear(j.asked)
	clear(j.askedAgain)
	j.resumeAt = time.Time{}
}

// askOnceMore asks a member again after a probe from it, because it has probably got its place
// since it was asked. This happens once per round; otherwise a member that keeps probing would
// keep the node from asking the others.
func (n *Node) askOnceMore(p *peer) {
	j := &n.join
	if n.state != Alone || p.contact == nil || !p.contact.Member || !j.asked[p.contact.ID] || j.askedAgain[p.contact.ID] {
		return
	}
	if j.askedAgain == nil {
		j.askedAgain = map[ID]bool{}
	}
	j.askedAgain[p.contact.ID] = true
	delete(j.asked, p.contact.ID)
	n.stepJoin()
}

// mayActAlone reports whether a node that gets no answers may be a network of its own.
func (n *Node) mayActAlone(now time.Time) bool {
	if !n.self.Member {
		return false
	}
	if n.cfg.Founder && len(n.remembered) == 0 && len(n.join.found) == 0 {
		return true
	}
	return (n.cfg.Founder || len(n.remembered) > 0) && now.Sub(n.started) >= n.cfg.JoinTimeout
}

// nextToAsk returns the peer nearest to the node's own id that was not asked yet.
func (n *Node) nextToAsk() (best env.Peer, ok bool) {
	j := &n.join
	if j.asked == nil {
		j.asked = map[ID]bool{}
	}
	var nearest ID
	consider := func(id ID, p env.Peer) {
		if !j.asked[id] && id != n.self.ID && (!ok || Nearer(n.self.ID, id, nearest)) {
			best, nearest, ok = p, id, true
		}
	}
	for _, c := range j.pool {
		consider(c.ID, c.Peer)
	}
	for _, c := range n.remembered {
		consider(c.ID, c.Peer)
	}
	for _, p := range j.found {
		consider(NodeID(n.network, p.ID), p)
	}
	if ok {
		j.asked[nearest] = true
	}
	return best, ok
}

func (n *Node) sendFind(peer env.Peer) {
	j := &n.join
	if j.nonce == 0 {
		j.nonce = n.rand.Uint64() | 1
	}
	j.findPeer, j.findPending, j.findDue = peer, true, n.clock.Now().Add(findTimeout)
	j.findAttempts++
	n.net.Send(peer, env.Control, n.encode(&overlaypb.Message{
		Record: n.self.Raw,
		Body:   &overlaypb.Message_Find{Find: &overlaypb.Find{Nonce: j.nonce, Key: n.self.ID[:], Rows: true}},
	}))
	n.at(j.findDue, task{kind: taskJoin})
}

// onFind answers with members near the key.
func (n *Node) onFind(p *peer, m *overlaypb.Find) {
	key := ID(m.Key)
	r := &overlaypb.Nearby{Nonce: m.Nonce, Depth: uint32(n.leaf.Depth()), Decided: n.leaf.decided}
	if n.state == Active {
		r.Covers = n.leaf.Covers(key)
		contacts := []*Contact{n.self}
		switch {
		case m.Limit > 0:
			contacts = n.nearestKnown(key, int(m.Limit))
		case r.Covers:
			contacts = slices.Clone(n.leaf.Members())
		default:
			contacts = append(contacts, n.nearestKnown(key, 4)...)
		}
		row := n.self.ID.Common(key) / 4
		n.table.each(n.leaf.Depth(), func(at, _ int, s *slot) {
			if m.Rows && at <= row && s.contact != nil {
				contacts = append(contacts, s.contact.contact)
			}
		})
		contacts = slices.DeleteFunc(contacts, func(c *Contact) bool { return p.contact != nil && c.ID == p.contact.ID })
		r.Records = rawRecords(contacts)
	}
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: r}})
}

// nearestKnown returns the k members nearest to a key among leaf and table.
func (n *Node) nearestKnown(key ID, k int) []*Contact {
	contacts := slices.Clone(n.leaf.Members())
	n.table.each(n.leaf.Depth(), func(_, _ int, s *slot) {
		if s.contact != nil {
			contacts = append(contacts, s.contact.contact)
		}
	})
	return nearestN(contacts, key, k)
}

func (n *Node) onNearby(p *peer, m *overlaypb.Nearby) {
	j := &n.join
	if search := n.slotSearches[m.Nonce]; search != nil {
		n.slotSearchAnswered(p, search, m)
		return
	}
	if q, ok := n.lookupQueries[m.Nonce]; ok {
		n.queryAnswered(p.id, q, m)
		return
	}
	if n.state != Alone || m.Nonce != j.nonce || j.nonce == 0 {
		return
	}
	j.findPending = false
	if !m.Covers {
		j.maxDepthHeard = max(j.maxDepthHeard, int(m.Depth))
	}
	contacts := n.openRecords(m.Records)
	if p.contact != nil {
		contacts = append(contacts, p.contact)
	}
	n.addToPool(NodeID(n.network, p.id), contacts)
	switch {
	case !m.Covers || n.self.ID.Common(NodeID(n.network, p.id)) < int(m.Depth):
		if j.selfLookup == nil && n.self.Member {
			n.lookUpSelf()
		}
		n.stepJoin()
	case n.self.Member:
		j.offer = &offer{depth: int(m.Depth), decided: m.Decided, members: contacts}
		n.checkOffer()
	case n.clock.Now().Sub(n.started) >= n.cfg.DialBackTimeout:
		n.chooseHosts()
	default: // no node has dialled this node back yet
		n.pauseJoin(n.started.Add(n.cfg.DialBackTimeout))
	}
}

// announce makes the node known to the leaf it belongs to, and to contacts for its table.
func (n *Node) announce(depth int, decided uint64, contacts []*Contact) {
	n.state = Joining
	n.join.announcedAt = n.clock.Now()
	n.join.discardOffer()
	n.join.announcements++
	n.leaf.SetDepth(depth)
	n.leaf.decided = min(decided, n.latestDecision())
	n.table.resize(depth)
	for _, p := range n.peers.all {
		p.acked = false
		if p.leafSync != nil {
			p.leafSync.joinAsks, p.leafSync.complete = 0, false
		}
	}
	for _, c := range contacts {
		n.considerMember(c)
	}
	n.after(findTimeout, task{kind: taskJoin})
	n.checkJoined()
}

// checkJoined makes the node active once its whole leaf has acknowledged it. Every member it
// has heard of must have answered the announcement, and must either have named only members
// that the node knows, or have been asked maxJoinAsks times for others. A member that joins
// later learns of the node from any member it asks, because all of them know the node.
func (n *Node) checkJoined() {
	if n.state != Joining {
		return
	}
	for _, p := range n.peers.all {
		if p.candidate && p.contact != nil && n.leaf.Covers(p.contact.ID) {
			return // members are asked for others only after all have answered
		}
	}
	waits := false
	for _, p := range n.peers.all {
		switch {
		case p.contact == nil || !n.leaf.Covers(p.contact.ID):
		case n.leaf.Has(p.contact.ID) != nil && p.syncState().joinAsks < maxJoinAsks && !n.knowsAllOf(p):
			if n.requestLeaf(p) {
				p.leafSync.joinAsks++
			}
			waits = true
		}
	}
	if !waits {
		n.activate()
	}
}

// maxJoinAsks bounds how often a joining node asks one member of its leaf for others. A member
// that has not noticed a death keeps naming the dead.
const maxJoinAsks = 3

// tombstoneUnheard adds a tombstone for each remembered peer that has not been heard since the node
// started: it may be dead, or on the other side of a partition. A node that acts alone does so
// for all of them, including those that said they are looking for the network themselves.
func (n *Node) tombstoneUnheard() {
	alone := n.leaf.Len() == 1
	long := n.clock.Now().Add(-reviveDelay)
	for _, c := range n.remembered {
		p := n.peers.get(c.Peer.ID)
		if !alone && p != nil && p.lastHeard != never {
			continue
		}
		n.tombstones.add(c, long, true)
		if p != nil {
			p.lastHeard = never // the next message from the peer restores it
		}
	}
}

// activate makes the node a full member, which is the root of keys.
func (n *Node) activate() {
	n.state = Active
	n.leafChanged = true
	for _, p := range slices.Clone(n.hosts) {
		n.detach(p)
	}
	n.tombstoneUnheard()
	n.keepBootstraps()
	n.join = join{}
	n.quickRounds = 2
	n.scheduleRow(time.Second)
	n.selfLookupInterval = selfLookupFirst
	n.scheduleSelfLookup(selfLookupSoon)
	n.savePeers() // a node killed in its first seconds finds its network again
	if n.leaf.Len() == 1 {
		n.log.Info("running without other nodes so far", "id", n.self.ID.Short())
	} else {
		n.log.Info("joined the network", "id", n.self.ID.Short(), "leaf", n.leaf.Len(), "depth", n.leaf.Depth())
	}
	n.release()
}
