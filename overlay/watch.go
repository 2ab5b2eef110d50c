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
func (lv *liveness) watches(c *Contact) bool {
	if lv.leaf.Has(c.ID) == nil {
		return false
	}
	nearer := 0
	for _, m := range lv.leaf.Members() {
		if m.ID != c.ID && Nearer(c.ID, m.ID, lv.self.ID) {
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
func (w *watchList) members(lv *liveness) []*Contact {
	if w.leaf == lv.leaf && w.changes == lv.leaf.changes {
		return w.cached
	}
	*w = watchList{leaf: lv.leaf, changes: lv.leaf.changes}
	for _, c := range lv.leaf.Members() {
		if c != lv.self && lv.watches(c) {
			w.cached = append(w.cached, c)
		}
	}
	return w.cached
}

// watch probes the watched members, and the members that act for this client, that have been
// silent for an interval. It returns the next time at which one will have been.
func (lv *liveness) watch(now time.Time) time.Time {
	next := now.Add(lv.cfg.WatchInterval)
	look := func(p *peer) {
		if p == nil {
			return
		}
		due := p.lastHeard.Time().Add(lv.cfg.WatchInterval)
		if !due.After(now) {
			lv.probe(p)
			return
		}
		if due.Before(next) {
			next = due
		}
	}
	for _, c := range lv.watchList.members(lv) {
		look(lv.peers.get(c.Peer.ID))
	}
	for _, p := range lv.hosts {
		look(p)
	}
	if soonest := now.Add(lv.cfg.WatchInterval / 8); next.Before(soonest) {
		return soonest
	}
	return next
}

// announceDeath tells the leaf that a watched member is dead.
func (lv *liveness) announceDeath(dead *Contact) {
	for _, c := range lv.leaf.Members() {
		if p := lv.peers.get(c.Peer.ID); c != lv.self && p != nil {
			lv.sendDead(p, dead)
		}
	}
}

func (lv *liveness) sendDead(p *peer, dead *Contact) {
	lv.send(p, &overlaypb.Message{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{
		Id:       dead.ID[:],
		IssuedMs: dead.Issued,
	}}})
}

// onDead takes a report of a death. The node probes the member itself.
func (lv *liveness) onDead(from *peer, m *overlaypb.Dead) {
	now := lv.clock.Now()
	if !lv.deathReports.trusts(from.id, now) {
		return
	}
	id := ID(m.Id)
	if id == lv.self.ID {
		lv.deathReports.countFalse(from.id, now)
		from.knowsMe = false // it may have forgotten this node
		lv.probe(from)
		return
	}
	c := lv.leaf.Has(id)
	if c == nil || c.Issued > m.IssuedMs {
		return
	}
	if p := lv.peers.get(c.Peer.ID); p != nil && !p.probing && now.Sub(p.lastHeard.Time()) > p.rto() {
		lv.deathReports.pending[p.id] = from.id
		lv.probe(p)
	}
}
