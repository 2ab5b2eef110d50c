package wedge

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/wedge/wedgepb"
)

// renewals renew the edges down to each peer once in a maintenance interval, and find differences
// between what the two ends know.
type renewals struct {
	*base
	links  *links
	table  *table
	outbox *outbox
}

// renewalState is what renewals keep of a link.
type renewalState struct {
	renewedAt     time.Time // when the peer last renewed the edges up
	digestAt      time.Time // when the edges down are renewed next; zero: not planned
	digestPending uint64    // number of the digest that awaits an answer; 0: none
	digestDue     time.Time // when that answer is overdue
	digestTries   int
	listFor       uint64 // number of the peer's digest that the expected list answers; 0: none
	round         uint8  // counts the peer's lists, modulo 256
}

// start begins to renew the edges down to a peer, unless that is planned already.
func (rn *renewals) start(l *link) {
	if l.digestAt.IsZero() {
		rn.plan(l, env.Jitter(rn.rand, rn.cfg.Maintenance))
	}
}

// plan sets the time of the next Digest, replacing an earlier plan.
func (rn *renewals) plan(l *link, in time.Duration) {
	l.digestAt = rn.clock.Now().Add(in)
	rn.cal.Add(l.digestAt, task{kind: taskDigest, peer: l.peer.ID})
}

// digest renews all edges down to a peer. It waits until all changes have been acknowledged,
// because until then the two ends know different edges.
func (rn *renewals) digest(l *link, at time.Time) {
	switch {
	case l == nil || !l.digestAt.Equal(at):
	case l.down.count == 0:
		l.digestAt = time.Time{}
	case !l.settled():
		rn.plan(l, flushDelay)
	default:
		rn.plan(l, env.Jitter(rn.rand, rn.cfg.Maintenance))
		l.digestTries = 0
		rn.sendDigest(l)
	}
}

func (rn *renewals) sendDigest(l *link) {
	l.digestPending = rn.nextNumber()
	l.digestTries++
	rn.stats.Digests++
	rn.send(l.peer, &wedgepb.Message{Body: &wedgepb.Message_Digest{Digest: &wedgepb.Digest{
		Number: l.digestPending, Count: l.down.count, Digest: l.down.digest,
	}}})
	l.digestDue = rn.clock.Now().Add(rn.links.timeout(l, l.digestTries))
	rn.cal.Add(l.digestDue, task{kind: taskDigestTimeout, peer: l.peer.ID})
}

// timeout reacts to a digest that was not answered in time. After suspectTries it has the
// overlay probe the peer, and plans the next digest soon: if the peer lives, another lost round
// would cost its lease.
func (rn *renewals) timeout(l *link, at time.Time) {
	if l == nil || l.digestPending == 0 || !l.digestDue.Equal(at) {
		return
	}
	if l.digestTries >= suspectTries || !l.settled() {
		l.digestPending = 0
		rn.node.Suspect(l.peer.ID)
		rn.plan(l, env.Jitter(rn.rand, rn.cfg.Maintenance/8))
		return
	}
	rn.stats.Resent++
	rn.sendDigest(l)
}

// onDigest renews the edges from a parent if both ends know the same ones, and otherwise asks for a
// list.
func (rn *renewals) onDigest(from env.PeerID, l *link, m *wedgepb.Digest) {
	match := m.Count == 0
	to := env.Peer{ID: from}
	if l != nil {
		to, l.dead = l.peer, false
		match = l.up.count == m.Count && l.up.digest == m.Digest
		l.listFor = 0
		if match {
			l.renewedAt = rn.clock.Now()
		} else {
			l.listFor = m.Number
			l.round++
		}
	}
	rn.send(to, &wedgepb.Message{Body: &wedgepb.Message_DigestReply{DigestReply: &wedgepb.DigestReply{Number: m.Number, Match: match}}})
}

// onReply lists the edges to a child that knows different ones.
func (rn *renewals) onReply(l *link, m *wedgepb.DigestReply) {
	if l == nil || m.Number != l.digestPending || l.digestPending == 0 {
		return
	}
	l.digestPending = 0
	if m.Match || !l.settled() {
		return // edges that still differ are found in the next round
	}
	rn.stats.Lists++
	for r := range rn.table.all() {
		if r.edgeTo(l) != nil {
			rn.outbox.enqueue(l, change{kind: changeListed, key: shortKey(r.order.key)}, 0)
		}
	}
	rn.outbox.enqueue(l, change{kind: changeListEnd, key: m.Number}, 0)
}

// round compares all splits with fresh counts, and finds children for edges that have none.
func (w *Wedge) round() {
	w.schedule(env.Jitter(w.rand, w.cfg.Maintenance), task{kind: taskRound})
	if len(w.table.active) == 0 {
		return
	}
	w.tree.counts = w.tree.counts[:0]
	w.tree.count(0)
	same := slices.Equal(w.tree.counts, w.lastCounts)
	w.lastCounts = append(w.lastCounts[:0], w.tree.counts...)
	for r := range w.table.all() {
		moved := r.order.digitBits != 0 && w.tree.adjustLevel(r)
		if r.flags&inGrace == 0 && (moved || !same || slices.ContainsFunc(r.edges, func(e edge) bool { return e.link == noLink })) {
			w.tree.walk(r, hashOnly, false)
		}
	}
}

func (w *Wedge) sweepPause() time.Duration { return min(w.cfg.Maintenance/8, maxSweep) }

// sweep ends edges that were not renewed in time, and drops idle links.
func (w *Wedge) sweep(now time.Time) {
	w.schedule(w.sweepPause(), task{kind: taskSweep})
	w.links.unblock(now)
	for _, l := range w.links.sorted(func(l *link) bool { return l.leaseOver(now.Add(-w.cfg.lease())) || l.idle(now) }) {
		if l.leaseOver(now.Add(-w.cfg.lease())) {
			w.expire(l)
		}
		w.links.dropIdle(l, now)
	}
}

// leaseOver says whether there are edges from the peer, and the last renewal was before a time.
func (l *link) leaseOver(since time.Time) bool { return l.up.count > 0 && l.renewedAt.Before(since) }

// expire ends all memberships whose parent is a peer that did not renew them.
func (w *Wedge) expire(l *link) {
	for _, r := range slices.Collect(w.table.all()) {
		if r.parent == l.number {
			w.stats.Expired++
			w.tree.remove(r)
		}
	}
}

// idle says whether a link has no edges and no pending messages, is not blocked, and was not used
// for idleTimeout.
func (l *link) idle(now time.Time) bool {
	return l.up.count == 0 && l.down.count == 0 && l.settled() &&
		!now.Before(l.blockedUntil) && now.Sub(l.used) >= idleTimeout
}

// dropIdle drops a link if it is idle. The number of its last batch is no longer needed, because a
// frame that old cannot arrive any more.
func (ls *links) dropIdle(l *link, now time.Time) {
	if l.idle(now) {
		id := l.peer.ID
		delete(ls.byPeer, id)
		ls.store.Take(uint32(l.number - 1))
		ls.node.Unwatch(id)
	}
}
