package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
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
	*neighbours
	liveness    *liveness
	tableUpkeep *tableUpkeep
	leafUpkeep  *leafUpkeep
	router      *router
	pool        *pool
	lookups     *lookups
	memory      *memory
	entryPoints *entryPoints
	signer      *wire.Signer
	search
	offerCheck
}

// search is what a node has done to find its place.
type search struct {
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
	hostsAt       time.Time // when a client with too few hosts looks for more
}

// Found takes a peer through which the node may join.
func (j *join) Found(peer env.Peer) {
	if peer.ID == j.self.Peer.ID {
		return
	}
	switch j.state {
	case Alone:
		if !slices.ContainsFunc(j.found, func(p env.Peer) bool { return p.ID == peer.ID }) &&
			len(j.found) < maxPool {
			j.found = append(j.found, peer)
		}
		j.step()
	case Active:
		if j.leaf.Len() == 1 {
			j.entryPoints.keepBootstraps(peer)
		}
		if j.peers.get(peer.ID) == nil {
			j.liveness.probeOnce(&Contact{ID: j.IDOf(peer.ID), Peer: peer})
		}
	}
}

// Moved takes the news that the node's addresses have changed. The node probes all peers in
// use from its new addresses, with its current record, before they miss it. A node that is
// still looking for its network asks all peers again.
func (j *join) Moved() {
	if j.state == Alone {
		j.askAllAgain()
		j.step()
		return
	}
	for _, p := range slices.Clone(j.peers.all) {
		if j.hasPlace(p) {
			j.liveness.probe(p)
		}
	}
}

// issue signs a new record of the node.
func (j *join) issue(addrs []string, member bool) {
	now := j.clock.Now()
	if last := time.UnixMilli(int64(j.self.Issued)); !now.After(last) {
		now = last.Add(time.Millisecond)
	}
	was := j.self.ID
	j.self = j.records.newRecord(j.signer, addrs, now, member, j.place)
	if j.self.ID == was {
		j.leaf.Add(j.self)
	}
	for _, p := range j.peers.all {
		p.knowsMe, p.recordSent = false, false
	}
	j.memory.saveIssued()
}

// reset returns a former member to the state in which it knows nobody.
func (j *join) reset() {
	j.pool.add(j.self.ID, j.self.ID, slices.DeleteFunc(slices.Clone(j.leaf.Members()), func(c *Contact) bool { return c.Peer.ID == j.self.Peer.ID }))
	j.discardOffer()
	j.askAllAgain()
	j.leaf = newLeafSet(j.self, j.leaf.splitSize, j.leaf.mergeSize)
	j.table = table{self: j.self.ID}
	j.state = Alone
	j.leafChanged = true
	for _, p := range slices.Clone(j.peers.all) {
		if p.candidate, p.attached = false, env.Never; !j.inUse(p) {
			j.peers.remove(p.id)
		}
	}
}

// step takes the next step of a node that has no place yet.
func (j *join) step() {
	now := j.clock.Now()
	switch j.state {
	case Active, Attached, Left:
		return
	case Joining:
		switch late := now.Sub(j.announcedAt) > announceTimeout; {
		case late && j.announcements == maxAnnouncements:
			j.log.Warn("joined, but some leaf set members did not answer")
			j.activate()
			return
		case late:
			j.log.Debug("leaf set members did not acknowledge in time, so joining starts again")
			j.reset()
		default:
			j.checkJoined()
			j.after(findTimeout, task{kind: taskJoin})
			return
		}
	case Alone:
	}
	if j.lookingUp() && j.pool.offer != nil || j.findPending && now.Before(j.findDue) {
		return
	}
	if j.findPending && j.findAttempts < findTries {
		j.sendFind(j.findPeer)
		return
	}
	if j.findPending = false; j.nearest != nil && j.pool.offer != nil { // the member asked for another offer is silent
		j.checkOffer()
		return
	}
	if !j.resumeAt.IsZero() && !now.Before(j.resumeAt) {
		j.askAllAgain()
	}
	if next, ok := j.nextToAsk(); ok {
		j.findAttempts = 0
		j.sendFind(next)
		return
	}
	if !j.lookingUp() && j.mayActAlone(now) {
		j.leaf.SetDepth(0)
		j.activate()
		j.liveness.probeAllDead(now) // other known nodes may have started alone at the same time
		return
	}
	if j.resumeAt.IsZero() {
		j.pause = min(max(2*j.pause, minJoinPause), maxJoinPause)
		j.pauseUntil(now.Add(env.Jitter(j.rand, j.pause)))
	}
}

// pauseUntil stops the node from asking any peer a second time before until; peers not asked
// yet still are. The next step comes sooner if the node may act alone before until, with up to
// a second of jitter, so that nodes that start together do not all act alone.
func (j *join) pauseUntil(until time.Time) {
	j.resumeAt = until
	j.at(until, task{kind: taskJoin})
	if alone := j.started.Add(joinTimeout); alone.After(j.clock.Now()) && alone.Before(until) {
		j.at(alone.Add(time.Duration(j.rand.Int64N(int64(time.Second)))), task{kind: taskJoin})
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
func (j *join) askOnceMore(p *peer) {
	if j.state != Alone || p.contact == nil || !p.contact.Member || !j.asked[p.contact.ID] || j.askedAgain[p.contact.ID] {
		return
	}
	if j.askedAgain == nil {
		j.askedAgain = map[ID]bool{}
	}
	j.askedAgain[p.contact.ID] = true
	delete(j.asked, p.contact.ID)
	j.step()
}

// mayActAlone reports whether a node that gets no answers may be a network of its own.
func (j *join) mayActAlone(now time.Time) bool {
	if !j.self.Member {
		return false
	}
	if j.cfg.Founder && len(j.memory.remembered) == 0 && len(j.found) == 0 {
		return true
	}
	return (j.cfg.Founder || len(j.memory.remembered) > 0) && now.Sub(j.started) >= joinTimeout
}

// nextToAsk returns the peer nearest to the node's own id that was not asked yet.
func (j *join) nextToAsk() (best env.Peer, ok bool) {
	if j.asked == nil {
		j.asked = map[ID]bool{}
	}
	var nearest ID
	consider := func(id ID, p env.Peer) {
		if !j.asked[id] && id != j.self.ID && (!ok || Nearer(j.self.ID, id, nearest)) {
			best, nearest, ok = p, id, true
		}
	}
	for _, c := range j.pool.members {
		consider(c.ID, c.Peer)
	}
	for _, c := range j.memory.remembered {
		consider(c.ID, c.Peer)
	}
	for _, p := range j.found {
		consider(j.IDOf(p.ID), p)
	}
	if ok {
		j.asked[nearest] = true
	}
	return best, ok
}

// idOf returns the id of a peer that the node has asked. Its record may be in the pool only.
func (j *join) idOf(peer env.PeerID) ID {
	if c := j.pool.of(peer); c != nil && j.Contact(peer) == nil {
		return c.ID
	}
	return j.IDOf(peer)
}

func (j *join) sendFind(peer env.Peer) {
	if j.nonce == 0 {
		j.nonce = j.rand.Uint64() | 1
	}
	j.findPeer, j.findPending, j.findDue = peer, true, j.clock.Now().Add(findTimeout)
	j.findAttempts++
	j.net.Send(peer, env.Control, j.encode(&overlaypb.Message{
		Record: j.self.Raw,
		Body:   &overlaypb.Message_Find{Find: &overlaypb.Find{Nonce: j.nonce, Key: j.self.ID[:], Rows: true}},
	}))
	j.at(j.findDue, task{kind: taskJoin})
}

// onNearby takes an answer to one of the Finds of this join.
func (j *join) onNearby(p *peer, m *overlaypb.Nearby) {
	if m.Nonce != j.nonce || j.nonce == 0 {
		return
	}
	if j.state == Attached {
		j.takeHosts(p, m)
		return
	}
	if j.state != Alone {
		return
	}
	j.findPending = false
	if !m.Covers {
		j.pool.maxDepthHeard = max(j.pool.maxDepthHeard, int(m.Depth))
	}
	contacts := j.openRecords(m.Records)
	if p.contact != nil {
		contacts = append(contacts, p.contact)
	}
	by := j.idOf(p.id)
	j.pool.add(j.self.ID, by, contacts)
	switch {
	case !m.Covers || j.self.ID.Common(by) < int(m.Depth):
		if j.selfLookup == nil && j.self.Member {
			j.lookUpSelf()
		}
		j.step()
	case j.self.Member:
		j.pool.offer = &offer{depth: int(m.Depth), decided: m.Decided, members: contacts}
		j.checkOffer()
	case j.clock.Now().Sub(j.started) >= j.cfg.DialBackTimeout:
		j.chooseHosts()
	default: // no node has dialled this node back yet
		j.pauseUntil(j.started.Add(j.cfg.DialBackTimeout))
	}
}

// announce makes the node known to the leaf it belongs to, and to contacts for its table.
func (j *join) announce(depth int, decided uint64, contacts []*Contact) {
	j.state = Joining
	j.announcedAt = j.clock.Now()
	j.discardOffer()
	j.announcements++
	j.leaf.SetDepth(depth)
	j.leaf.decided = min(decided, j.latestDecision())
	j.table.resize(depth)
	for _, p := range j.peers.all {
		p.acked = false
		if p.leafSync != nil {
			p.leafSync.joinAsks, p.leafSync.complete = 0, false
		}
	}
	for _, c := range contacts {
		j.liveness.considerMember(c)
	}
	j.after(findTimeout, task{kind: taskJoin})
	j.checkJoined()
}

// checkJoined makes the node active once its whole leaf has acknowledged it. Every member it
// has heard of must have answered the announcement, and must either have named only members
// that the node knows, or have been asked maxJoinAsks times for others. A member that joins
// later learns of the node from any member it asks, because all of them know the node.
func (j *join) checkJoined() {
	if j.state != Joining {
		return
	}
	for _, p := range j.peers.all {
		if p.candidate && p.contact != nil && j.leaf.Covers(p.contact.ID) {
			return // members are asked for others only after all have answered
		}
	}
	waits := false
	for _, p := range j.peers.all {
		switch {
		case p.contact == nil || !j.leaf.Covers(p.contact.ID):
		case j.leaf.Has(p.contact.ID) != nil && p.syncState().joinAsks < maxJoinAsks && !j.leafUpkeep.knowsAllOf(p):
			if j.leafUpkeep.requestLeaf(p) {
				p.leafSync.joinAsks++
			}
			waits = true
		}
	}
	if !waits {
		j.activate()
	}
}

// maxJoinAsks bounds how often a joining node asks one member of its leaf for others. A member
// that has not noticed a death keeps naming the dead.
const maxJoinAsks = 3

// tombstoneUnheard adds a tombstone for each remembered peer that has not been heard since the node
// started: it may be dead, or on the other side of a partition. A node that acts alone does so
// for all of them, including those that said they are looking for the network themselves.
func (j *join) tombstoneUnheard() {
	alone := j.leaf.Len() == 1
	long := j.clock.Now().Add(-reviveDelay)
	for _, c := range j.memory.remembered {
		p := j.peers.get(c.Peer.ID)
		if !alone && p != nil && p.lastHeard != env.Never {
			continue
		}
		j.liveness.tombstones.add(c, long, true)
		if p != nil {
			p.lastHeard = env.Never // the next message from the peer restores it
		}
	}
}

// activate makes the node a full member, which is the root of keys.
func (j *join) activate() {
	j.state = Active
	j.leafChanged = true
	for _, p := range slices.Clone(j.hosts) {
		j.detach(p)
	}
	j.tombstoneUnheard()
	j.entryPoints.begin(j.found)
	j.search, j.offerCheck = search{}, offerCheck{}
	j.pool.clear()
	j.tableUpkeep.quickRounds = 2
	j.tableUpkeep.scheduleRow(time.Second)
	j.lookups.selfLookupInterval = selfLookupFirst
	j.lookups.scheduleSelfLookup(selfLookupSoon)
	j.memory.save() // a node killed in its first seconds finds its network again
	if j.leaf.Len() == 1 {
		j.log.Info("running without other nodes so far", "id", j.self.ID.Short())
	} else {
		j.log.Info("joined the network", "id", j.self.ID.Short(), "leaf", j.leaf.Len(), "depth", j.leaf.Depth())
	}
	j.router.release()
}
