package overlay

import (
	"time"

	"tidings/overlay/overlaypb"
)

// Each member is watched by its two nearest. They notice its silent death, and
// tell the rest of the leaf, who believe it when their own probes say so too.
const watcherCount = 2

// watches says whether this node is one of the watchers of a member.
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

// A watched remembers whom a node watches, as long as its leaf stays as it is.
type watchList struct {
	cached  []*Contact
	leaf    *LeafSet
	changes uint64 // of the leaf, when that was found
}

// in returns the members that a node watches.
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

// watch probes those of the watched that have been silent for an interval, and
// comes back when the next will have been.
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

// onGone takes a notice of death: the node probes for itself.
func (n *Node) onDead(from *peer, m *overlaypb.Dead) {
	now := n.clock.Now()
	if !n.deathReports.trusts(from.id, now) {
		return
	}
	id := ID(m.Id)
	if id == n.self.ID {
		n.deathReports.countFalse(from.id, now)
		from.knowsMe = false // it may have forgotten me
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

// Leave takes the node out of the network in good order: leaf, contacts and
// clients are told, and need not find out. Afterwards the node does nothing.
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
	if n.removePeer(p) { // not one to look for later, but not to be taken on hearsay either
		n.tombstones.add(p.contact, n.clock.Now(), false)
	}
}
