package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"tidings/internal/env"
)

// A link connects two hosts, which share the value. Frames keep their order on it, per direction
// and class.
type link struct {
	ends        [2]*Host    // the lower index first
	delay       int64       // one way, without jitter, in nanoseconds
	ready       int64       // when the handshake is over
	lastUsed    int64       // when a frame was last sent; linkClosed after the link was closed
	lastArrival [2][2]int64 // arrival of the last frame, by sending end and class
}

// linkIdle is how long an unused link stays open. A host that is not open can be reached only over
// it. Real nodes close idle links after the same time.
const linkIdle = 3 * time.Minute

// linkClosed is lastUsed of a link that was closed.
const linkClosed = math.MinInt64

func (l *link) idle(now int64) bool { return l.lastUsed < now-int64(linkIdle) }

// side returns the index of a host in ends.
func (l *link) side(h *Host) int {
	if l.ends[0] == h {
		return 0
	}
	return 1
}

// link returns the link to a peer, and opens one if there is none. A link can be opened only if the
// peer is up, open, not partitioned off, not blocked, and at one of the given addresses; otherwise
// link returns nil.
func (h *Host) link(peer *Host, to *env.Peer) *link {
	if peer == nil {
		return nil
	}
	w, now := h.world, h.world.scriptLane.now
	l := h.links[peer.index]
	if l != nil && !l.idle(now) {
		return l
	}
	if peer == h || peer.node == nil || !peer.open || h.cannotHear(peer) || peer.cannotHear(h) ||
		!slices.Contains(to.Addrs, peer.addr) || h.blocks(peer) || peer.blocks(h) {
		return nil
	}
	made := l == nil
	if made {
		l = &link{ends: [2]*Host{h, peer}}
		if h.index > peer.index {
			l.ends = [2]*Host{peer, h}
		}
		l.delay = int64(max(w.config.Topology(l.ends[0].Index(), l.ends[1].Index()), w.config.Lookahead))
		h.links[peer.index], peer.links[h.index] = l, l
	}
	// A QUIC handshake takes one round trip before the first frame leaves.
	l.ready, l.lastUsed, l.lastArrival = now+2*l.delay, now, [2][2]int64{}
	if made {
		h.linkOpened()
		peer.linkOpened()
	}
	return l
}

// minSweep is the number of new links after which a host drops its idle ones. A host with many
// links waits for half as many as it has.
const minSweep = 32

// hostOf returns the host of a peer; nil if there is none. Finding it by address is faster than by
// id.
func (w *World) hostOf(p *env.Peer) *Host {
	for _, addr := range p.Addrs {
		if i, ok := indexOf(addr); ok && i < len(w.hosts) && w.hosts[i].id == p.ID {
			return w.hosts[i]
		}
	}
	return w.byID[p.ID]
}

// linkOpened counts a new link and drops idle ones now and then.
func (h *Host) linkOpened() {
	if h.newLinks++; h.newLinks < max(minSweep, len(h.links)/2) {
		return
	}
	h.newLinks = 0
	left := map[int32]*link{} // copied, because a map does not shrink
	for id, l := range h.links {
		if !l.idle(h.world.scriptLane.now) {
			left[id] = l
		} else {
			l.close()
		}
	}
	h.links = left
}

// closeLinks closes all links; with hint, the peers are told.
func (h *Host) closeLinks(hint bool) {
	now := h.world.scriptLane.now
	for _, i := range slices.Sorted(maps.Keys(h.links)) {
		l := h.links[i]
		if peer := l.ends[1-l.side(h)]; hint && !l.idle(now) && !peer.cannotHear(h) {
			peer.lane.schedule(now+l.delay, peer, eventPeerDown, uint32(h.index))
		}
		l.close()
	}
}

func (l *link) close() {
	a, b := l.ends[0], l.ends[1]
	delete(a.links, b.index)
	delete(b.links, a.index)
	l.lastUsed = linkClosed
}

// A host cuts the link of a peer that sends maxBadFrames invalid frames within badFrameWindow, and
// refuses the peer for blockTime. Real nodes do the same.
const (
	maxBadFrames   = 16
	badFrameWindow = 10 * time.Minute
	blockTime      = time.Hour
)

// An offenceRecord counts the invalid frames of a peer.
type offenceRecord struct {
	times        [maxBadFrames]int64 // of the last invalid frames, a ring
	count        int                 // invalid frames so far
	blockedUntil int64               // the peer is blocked until then
}

// recordOffence counts an invalid frame of a peer and cuts the link at the limit.
func (h *Host) recordOffence(peer *Host) {
	now := h.lane.now
	h.stats.BadFrames++
	b := h.offences[peer.index]
	if b == nil {
		b = &offenceRecord{}
		h.offences[peer.index] = b
	}
	b.times[b.count%maxBadFrames] = now
	b.count++
	if b.count < maxBadFrames || b.times[b.count%maxBadFrames] < now-int64(badFrameWindow) {
		return
	}
	*b = offenceRecord{blockedUntil: now + int64(blockTime)}
	h.stats.LinksCut++
	h.lane.submit(crossLaneOp{host: h, kind: opCutLink, peer: peer})
}

// cutLink closes the link to a peer and tells both.
func (h *Host) cutLink(peer *Host) {
	if l := h.links[peer.index]; l != nil {
		now := h.world.scriptLane.now
		h.lane.schedule(now, h, eventPeerDown, uint32(peer.index))
		peer.lane.schedule(now+l.delay, peer, eventPeerDown, uint32(h.index))
		l.close()
	}
}

// blocks reports whether the host has blocked a peer.
func (h *Host) blocks(peer *Host) bool {
	if len(h.offences) == 0 {
		return false
	}
	b := h.offences[peer.index]
	return b != nil && b.blockedUntil > h.lane.now
}
