package overlay

import (
	"time"

	"tidings/overlay/overlaypb"
)

// watcherCount is the number of watchers of each member, which are the members nearest to it.
// They detect its silent death and tell the rest of the leaf, which probes the member before
// it believes them.
const watcherCount = 2

// watches reports whether this node is one of the watchers of a member.
func (n *Node) watches(c *Contact) bool {
	if n.leaf.Has(c.ID) == nil {
		return false
	}
	nearer := 0
	for _, m := range n.leaf.Members() {
		if m.ID != c.ID && Nearer(c.ID, m.ID, n.self.ID) {
			if nearer++; nearer == watcherCount {
				return false
			}
		}
	}
	return true
}

// watchList caches the members that a node watches until its leaf changes.
type watchList struct {
	cached  []*Contact
	leaf    *LeafSet
	changes uint64 // the leaf's count of changes when cached was computed
}

// members returns the members that a node watches.
func (w *watchList) members(n *Node) []*Contact {
	if w.leaf == n.leaf && w.changes == n.leaf.changes {
		return w.cached
	}
	*w = watchList{leaf: n.leaf, changes: n.leaf.changes}
	for _, c := range n.leaf.Members() {
		if c != n.self && n.watches(c) {
			w.cached = append(w.cached, c)
		}
	}
	return w.cached
}

// watch probes the watched members that have been silent for an interval, and schedules the
// next time at which one will have been.
func (n *Node) watch(now time.Time) {
	next := now.Add(n.cfg.WatchInterval)
	look := func(p *peer) {
		if p == nil {
			return
		}
		due := p.lastHeard.time().Add(n.cfg.WatchInterval)
		if !due.After(now) {
			n.probe(p)
			return
		}
		if due.Before(next) {
			next = due
		}
	}
	for _, c := range n.watchList.members(n) {
		look(n.peers.get(c.Peer.ID))
	}
	n.watchHosts(look)
	n.expireClients(now)
	if soonest := now.Add(n.cfg.WatchInterval / 8); next.Before(soonest) {
		next = soonest
	}
	n.at(next, task{kind: taskWatch})
}

// announceDeath tells the leaf that a watched member is dead.
func (n *Node) announceDeath(dead *Contact) {
	for _, c := range n.leaf.Members() {
		if p := n.peers.get(c.Peer.ID); c != n.self && p != nil {
			n.sendDead(p, dead)
		}
	}
}

func (n *Node) sendDead(p *peer, dead *Contact) {
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{
		Id:       dead.ID[:],
		IssuedMs: dead.Issued,
	}}})
}

// onDead takes a report of a death. The node probes the member itself.
func (n *Node) onDead(from *peer, m *overlaypb.Dead) {
	now := n.clock.Now()
	if !n.deathReports.trusts(from.id, now) {
		return
	}
	id := ID(m.Id)
	if id == n.self.ID {
		n.deathReports.countFalse(from.id, now)
		from.knowsMe = false // it may have forgotten this node
		n.probe(from)
		return
	}
	c := n.leaf.Has(id)
	if c == nil || c.Issued > m.IssuedMs {
		return
	}
	if p := n.peers.get(c.Peer.ID); p != nil && !p.probing && now.Sub(p.lastHeard.time()) > p.rto() {
		n.deathReports.reported(p.id, from.id)
		n.probe(p)
	}
}

// Leave takes the node out of the network in good order. Leaf, contacts and clients are told,
// so they need not detect it. Afterwards the node does nothing.
func (n *Node) Leave() {
	if n.state == Left {
		return
	}
	for _, p := range n.peers.all {
		if n.hasPlace(p) {
			n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}})
		}
	}
	n.state = Left
	n.savePeriodically()
	n.failOwnRoutes()
	n.endLookups()
}

func (n *Node) onLeave(p *peer) {
	if p.contact == nil {
		return
	}
	if n.removePeer(p) { // it is not probed later, but others naming it are ignored for a while
		n.tombstones.add(p.contact, n.clock.Now(), false)
	}
}
