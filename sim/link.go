package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"tidings/internal/env"
)

// A link joins two hosts. Both hold the same value; frames keep their order on
// it in each direction and class.
type link struct {
	ends  [2]*Host    // the lower index first
	delay int64       // one way, without jitter
	ready int64       // when its handshake is over
	used  int64       // when a frame was last sent on it; closed: it is no link any longer
	last  [2][2]int64 // when the last frame arrives, by sending end and class
}

// linkIdle is how long an unused link stays, and with it the way into a host
// that is not open. The edge closes its idle links after as long.
const linkIdle = 3 * time.Minute

// closed is when a link was last used that has been closed.
const closed = math.MinInt64

func (l *link) idle(now int64) bool { return l.used < now-int64(linkIdle) }

// side is the end of a link that a host is, 0 or 1.
func (l *link) side(h *Host) int {
	if l.ends[0] == h {
		return 0
	}
	return 1
}

// link returns the link to a peer and opens one if there is none, provided that
// the peer is up, can be dialled, and is at one of its addresses. It returns
// nil if nothing can be sent.
func (h *Host) link(peer *Host, to *env.Peer) *link {
	if peer == nil {
		return nil
	}
	w, now := h.world, h.world.own.now
	l := h.links[peer.index]
	if l != nil && !l.idle(now) {
		return l
	}
	if peer == h || peer.node == nil || !peer.open || h.deaf(peer) || peer.deaf(h) ||
		!slices.Contains(to.Addrs, peer.addr) || h.shuns(peer) || peer.shuns(h) {
		return nil
	}
	made := l == nil
	if made {
		l = &link{ends: [2]*Host{h, peer}}
		if h.index > peer.index {
			l.ends = [2]*Host{peer, h}
		}
		l.delay = int64(max(w.config.Topology(l.ends[0].Index(), l.ends[1].Index()), w.config.Stride))
		h.links[peer.index], peer.links[h.index] = l, l
	}
	// A QUIC handshake takes a round trip before the first frame leaves.
	l.ready, l.used, l.last = now+2*l.delay, now, [2][2]int64{}
	if made {
		h.opened()
		peer.opened()
	}
	return l
}

// sweepAfter is after how many new links a host forgets those that are idle, or as many as
// half of those it has, if that is more.
const sweepAfter = 32

// find returns the host of a peer, nil if there is none. Its address tells it sooner than
// its id.
func (w *World) find(p *env.Peer) *Host {
	for _, addr := range p.Addrs {
		if i, ok := indexOf(addr); ok && i < len(w.hosts) && w.hosts[i].id == p.ID {
			return w.hosts[i]
		}
	}
	return w.byID[p.ID]
}

// opened notes a new link.
func (h *Host) opened() {
	if h.fresh++; h.fresh < max(sweepAfter, len(h.links)/2) {
		return
	}
	h.fresh = 0
	left := map[int32]*link{} // another map, because one does not shrink
	for id, l := range h.links {
		if !l.idle(h.world.own.now) {
			left[id] = l
		} else {
			l.close()
		}
	}
	h.links = left
}

// closeLinks ends all links; with hint the peers hear of it.
func (h *Host) closeLinks(hint bool) {
	now := h.world.own.now
	for _, i := range slices.Sorted(maps.Keys(h.links)) {
		l := h.links[i]
		if peer := l.ends[1-l.side(h)]; hint && !l.idle(now) && !peer.deaf(h) {
			peer.lane.push(now+l.delay, peer, down, uint32(h.index))
		}
		l.close()
	}
}

func (l *link) close() {
	a, b := l.ends[0], l.ends[1]
	delete(a.links, b.index)
	delete(b.links, a.index)
	l.used = closed
}

// As the edge does, a host cuts the link of a peer that breaks the protocol
// maxBroken times within brokenWithin, and has nothing to do with the peer for
// shunFor.
const (
	maxBroken    = 16
	brokenWithin = 10 * time.Minute
	shunFor      = time.Hour
)

// blame is what a host holds against a peer.
type blame struct {
	times [maxBroken]int64 // of the last broken frames, a ring
	n     int              // broken frames so far
	until int64            // the peer is shunned
}

// blame notes a broken frame of a peer.
func (h *Host) blame(peer *Host) {
	now := h.lane.now
	h.stats.Refused++
	b := h.blamed[peer.index]
	if b == nil {
		b = &blame{}
		h.blamed[peer.index] = b
	}
	b.times[b.n%maxBroken] = now
	b.n++
	if b.n < maxBroken || b.times[b.n%maxBroken] < now-int64(brokenWithin) {
		return
	}
	*b = blame{until: now + int64(shunFor)}
	h.stats.Cut++
	h.lane.ask(errand{host: h, kind: cutting, peer: peer})
}

// cut ends the link to a peer, of which both hear.
func (h *Host) cut(peer *Host) {
	if l := h.links[peer.index]; l != nil {
		now := h.world.own.now
		h.lane.push(now, h, down, uint32(peer.index))
		peer.lane.push(now+l.delay, peer, down, uint32(h.index))
		l.close()
	}
}

// shuns reports that the host has cut a peer off.
func (h *Host) shuns(peer *Host) bool {
	if len(h.blamed) == 0 {
		return false
	}
	b := h.blamed[peer.index]
	return b != nil && b.until > h.lane.now
}
