package wedge

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/wedge/wedgepb"
)

// startDigests begins to renew the edges down to a peer, unless that is planned already.
func (w *Wedge) startDigests(l *link) {
	if l.digestAt.IsZero() {
		w.planDigest(l, w.jitter(w.cfg.Maintenance))
	}
}

// planDigest sets the time of the next Digest, replacing an earlier plan.
func (w *Wedge) planDigest(l *link, in time.Duration) {
	l.digestAt = w.clock.Now().Add(in)
	w.cal.Add(l.digestAt, task{kind: taskDigest, peer: l.peer.ID})
}

// digest renews all edges down to a peer. It waits until all changes have been acknowledged,
// because until then the two ends know different edges.
func (w *Wedge) digest(l *link, at time.Time) {
	switch {
	case l == nil || !l.digestAt.Equal(at):
	case l.down.count == 0:
		l.digestAt = time.Time{}
	case l.inFlight != nil || len(l.queue) > 0:
		w.planDigest(l, flushDelay)
	default:
		w.planDigest(l, w.jitter(w.cfg.Maintenance))
		l.digestTries = 0
		w.sendDigest(l)
	}
}

func (w *Wedge) sendDigest(l *link) {
	l.digestPending = w.nextNumber()
	l.digestTries++
	w.stats.Digests++
	w.send(l.peer, &wedgepb.Message{Body: &wedgepb.Message_Digest{Digest: &wedgepb.Digest{
		Number: l.digestPending, Count: l.down.count, Digest: l.down.digest,
	}}})
	l.digestDue = w.clock.Now().Add(w.timeout(l, l.digestTries))
	w.cal.Add(l.digestDue, task{kind: taskDigestTimeout, peer: l.peer.ID})
}

// digestTimeout reacts to a digest that was not answered in time. After suspectTries it has the
// overlay probe the peer, and plans the next digest soon: if the peer lives, another lost round
// would cost its lease.
func (w *Wedge) digestTimeout(l *link, at time.Time) {
	if l == nil || l.digestPending == 0 || !l.digestDue.Equal(at) {
		return
	}
	if l.digestTries >= suspectTries || l.inFlight != nil || len(l.queue) > 0 {
		l.digestPending = 0
		w.node.Suspect(l.peer.ID)
		w.planDigest(l, w.jitter(w.cfg.Maintenance/8))
		return
	}
	w.stats.Resent++
	w.sendDigest(l)
}

// onDigest renews the edges from a parent if both ends know the same ones, and otherwise asks for a
// list.
func (w *Wedge) onDigest(from env.PeerID, l *link, m *wedgepb.Digest) {
	match := m.Count == 0
	to := env.Peer{ID: from}
	if l != nil {
		to, l.dead = l.peer, false
		match = l.up.count == m.Count && l.up.digest == m.Digest
		l.listFor = 0
		if match {
			l.renewedAt = w.clock.Now()
		} else {
			l.listFor = m.Number
			l.round++
		}
	}
	w.send(to, &wedgepb.Message{Body: &wedgepb.Message_DigestReply{DigestReply: &wedgepb.DigestReply{Number: m.Number, Match: match}}})
}

// onDigestReply lists the edges to a child that knows different ones.
func (w *Wedge) onDigestReply(l *link, m *wedgepb.DigestReply) {
	if l == nil || m.Number != l.digestPending || l.digestPending == 0 {
		return
	}
	l.digestPending = 0
	if m.Match || l.inFlight != nil || len(l.queue) > 0 {
		return // edges that still differ are found in the next round
	}
	w.stats.Lists++
	for r := range w.all() {
		if r.edgeTo(l) != nil {
			w.enqueue(l, change{kind: changeListed, key: shortKey(r.order.key)}, 0)
		}
	}
	w.enqueue(l, change{kind: changeListEnd, key: m.Number}, 0)
}

// endList ends the edges from a parent that its list did not contain.
func (w *Wedge) endList(l *link) {
	l.listFor = 0
	l.renewedAt = w.clock.Now()
	for r := range w.all() {
		if r.parent == l.number && r.listRound != l.round {
			w.loseParent(r)
		}
	}
}

// round compares all splits with fresh counts, and finds children for edges that have none.
func (w *Wedge) round() {
	w.schedule(w.jitter(w.cfg.Maintenance), task{kind: taskRound})
	if len(w.active) == 0 {
		return
	}
	w.counts = w.counts[:0]
	w.count(0)
	same := slices.Equal(w.counts, w.lastCounts)
	w.lastCounts = append(w.lastCounts[:0], w.counts...)
	for r := range w.all() {
		moved := r.order.digitBits != 0 && w.adjustLevel(r)
		if r.flags&inGrace == 0 && (moved || !same || slices.ContainsFunc(r.edges, func(e edge) bool { return e.link == noLink })) {
			w.walk(r, hashOnly, false)
		}
	}
}

func (w *Wedge) sweepPause() time.Duration { return min(w.cfg.Maintenance/8, maxSweep) }

// sweep ends edges that were not renewed in time, and drops idle links.
func (w *Wedge) sweep(now time.Time) {
	w.schedule(w.sweepPause(), task{kind: taskSweep})
	w.unblock(now)
	for _, l := range w.sortedLinks(func(l *link) bool { return l.leaseOver(now.Add(-w.cfg.Lease)) || l.idle(now) }) {
		if l.leaseOver(now.Add(-w.cfg.Lease)) {
			w.expire(l)
		}
		w.dropIdle(l, now)
	}
}

// leaseOver says whether there are edges from the peer, and the last renewal was before a time.
func (l *link) leaseOver(since time.Time) bool { return l.up.count > 0 && l.renewedAt.Before(since) }

// expire ends all memberships whose parent is a peer that did not renew them.
func (w *Wedge) expire(l *link) {
	for _, r := range slices.Collect(w.all()) {
		if r.parent == l.number {
			w.stats.Expired++
			w.remove(r)
		}
	}
}

// idle says whether a link has no edges and no pending messages, is not blocked, and was not used
// for idleTimeout.
func (l *link) idle(now time.Time) bool {
	return l.up.count == 0 && l.down.count == 0 && l.inFlight == nil && len(l.queue) == 0 &&
		!now.Before(l.blockedUntil) && now.Sub(l.used) >= idleTimeout
}

// dropIdle drops a link if it is idle. The number of its last batch is no longer needed, because a
// frame that old cannot arrive any more.
func (w *Wedge) dropIdle(l *link, now time.Time) {
	if l.idle(now) {
		id := l.peer.ID
		delete(w.links, id)
		w.linkStore.Take(uint32(l.number - 1))
		w.node.Unwatch(id)
	}
}
