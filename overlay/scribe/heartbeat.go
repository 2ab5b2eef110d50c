package scribe

import (
	"bytes"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// heartbeats renew all edges of each link, in both directions, and find differences between what the
// two ends know.
type heartbeats struct {
	*base
	links *links
	edges edges
	phase time.Duration // offset of this node's heartbeat slots; see align
}

// edges are what the heartbeats of a link are about.
type edges interface {
	// flushWeights tells a peer the weights that have changed.
	flushWeights(l *link)
	// list returns the edges up on a link, sorted by group.
	list(l *link) []*scribepb.Edge
}

// A renewal is the state of the heartbeats on one link.
type renewal struct {
	renewedAt  env.Moment // when the peer last confirmed the edges down
	peerPeriod uint16     // seconds until the peer's next heartbeat, as it announced; 0: the default

	on      bool // heartbeats are sent
	tries   int8
	dueAt   env.Moment
	checkAt env.Moment // time of the planned check whether a heartbeat is due; never: not planned
	pending uint64     // nonce of the heartbeat that awaits an answer; 0: none
	// The last heartbeats of this node and of the peer. An EdgeList must answer one of them.
	own, peer  heartbeatRef
	nextListAt env.Moment // no EdgeLists are sent in answer to the peer's heartbeats before
}

// lease returns how long the edges down last without a heartbeat.
func (r *renewal) lease(interval time.Duration) time.Duration {
	return leasePeriods * max(interval, time.Duration(r.peerPeriod)*time.Second)
}

// answers returns the time of the heartbeat with a nonce; ok is false if it is not one of the last
// two.
func (r *renewal) answers(nonce uint64) (at env.Moment, ok bool) {
	switch nonce {
	case 0:
		return env.Never, false
	case r.own.nonce:
		return r.own.at, true
	case r.peer.nonce:
		return r.peer.at, true
	}
	return env.Never, false
}

// A heartbeatRef identifies a heartbeat that an EdgeList may answer.
type heartbeatRef struct {
	nonce uint64 // 0: none
	at    env.Moment
}

// maxHeartbeatTries bounds the unanswered heartbeats to a peer. Then the overlay probes it.
const maxHeartbeatTries = 2

// planSoon plans a heartbeat within about one HeartbeatInterval, after edges of the link
// changed. The other end may have missed the change.
func (h *heartbeats) planSoon(l *link) {
	if !l.renewal.on || l.renewal.dueAt.Sub(h.now()) > h.cfg.HeartbeatInterval*5/4 {
		l.renewal.on = true
		h.in(l, env.Jitter(h.rand, h.cfg.HeartbeatInterval))
	}
}

// planNow has the planned heartbeat sent at the next slot.
func (h *heartbeats) planNow(l *link) {
	if l.renewal.dueAt > h.now() {
		h.in(l, 0)
	}
}

// heartbeatSlots is the number of times in an interval at which a node sends heartbeats. All that
// are due are sent together, so that a thousand links do not wake the node a thousand times.
const heartbeatSlots = 32

// align delays a time to the next multiple of pause on this node's clock. Each node's multiples
// have a random offset.
func (h *heartbeats) align(at time.Time, pause time.Duration) time.Time {
	last := at.Add(-h.phase).Truncate(pause).Add(h.phase)
	if last.Before(at) {
		return last.Add(pause)
	}
	return last
}

// period returns the time between two heartbeats on one link. It grows with the number of
// links, as heartbeatShare says.
func (h *heartbeats) period() time.Duration {
	return max(h.cfg.HeartbeatInterval, min(time.Duration(len(h.links.byPeer))*heartbeatShare, maxHeartbeatPeriod))
}

// periodSeconds returns the period as announced to peers, in seconds; 0: HeartbeatInterval.
func (h *heartbeats) periodSeconds() uint32 {
	if pause := h.period(); pause > h.cfg.HeartbeatInterval {
		return uint32((pause + time.Second - 1) / time.Second)
	}
	return 0
}

// plan sets the time of the next heartbeat, replacing an earlier plan.
func (h *heartbeats) plan(l *link) {
	h.in(l, env.Jitter(h.rand, h.period()))
}

func (h *heartbeats) in(l *link, d time.Duration) {
	at := h.align(h.clock.Now().Add(d), h.cfg.HeartbeatInterval/heartbeatSlots)
	l.renewal.dueAt = env.MomentOf(at)
	h.planCheck(l)
}

// planCheck plans a check at the time of the next heartbeat, unless an earlier one is
// planned. A peer whose heartbeats delay this node's own again and again does not add an entry to
// the calendar each time.
func (h *heartbeats) planCheck(l *link) {
	if l.renewal.checkAt == env.Never || l.renewal.dueAt < l.renewal.checkAt {
		l.renewal.checkAt = l.renewal.dueAt
		h.cal.Add(l.renewal.dueAt.Time(), task{kind: taskHeartbeat, number: uint32(l.number)})
	}
}

// beat renews all edges of a link.
func (h *heartbeats) beat(l *link, now time.Time) {
	if l.renewal.checkAt == env.Never || env.MomentOf(now) < l.renewal.checkAt {
		return
	}
	l.renewal.checkAt = env.Never
	if !l.renewal.on {
		return
	}
	if env.MomentOf(now) < l.renewal.dueAt { // it was postponed
		h.planCheck(l)
		return
	}
	if len(l.up.groups)+len(l.down.groups) == 0 {
		l.renewal.on = false
		return
	}
	h.plan(l)
	h.edges.flushWeights(l)
	l.renewal.tries = 0
	h.sendHeartbeat(l, now)
}

func (h *heartbeats) sendHeartbeat(l *link, now time.Time) {
	l.renewal.pending = h.rand.Uint64() | 1
	l.renewal.own = heartbeatRef{l.renewal.pending, env.MomentOf(now)}
	l.renewal.tries++
	h.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{
		Nonce: l.renewal.pending, UpCount: uint32(len(l.up.groups)), UpDigest: l.up.digest, PeriodS: h.periodSeconds(),
		DownCount: uint32(len(l.down.groups)), DownDigest: l.down.digest,
	}}})
	h.cal.Add(h.align(now.Add(h.node.RTO(l.contact.Peer.ID)), time.Second), task{kind: taskHeartbeatTimeout, number: uint32(l.number)})
}

// timeout reacts to a heartbeat that was not answered in time: it sends another, or has
// the overlay probe the peer.
func (h *heartbeats) timeout(l *link, now time.Time) {
	if l.renewal.pending == 0 {
		return
	}
	if l.renewal.tries < maxHeartbeatTries {
		h.sendHeartbeat(l, now)
		return
	}
	l.renewal.pending = 0
	h.node.Suspect(l.contact.Peer.ID)
}

// onHeartbeat compares the edges in both directions. The exchange serves both ends, so this node's
// own heartbeat is postponed.
func (h *heartbeats) onHeartbeat(from env.PeerID, l *link, m *scribepb.Heartbeat) {
	ack := &scribepb.HeartbeatAck{Nonce: m.Nonce, Match: l == nil && m.UpCount == 0, PeriodS: h.periodSeconds()}
	to := env.Peer{ID: from}
	if l != nil {
		to = l.contact.Peer
		h.renew(l, m.PeriodS)
		l.renewal.peer = heartbeatRef{}
		if ack.Match = len(l.down.groups) == int(m.UpCount) && l.down.digest == m.UpDigest; !ack.Match {
			l.renewal.peer = heartbeatRef{m.Nonce, h.now()}
		}
	}
	h.send(to, &scribepb.Message{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: ack}})
	switch {
	case l == nil && m.DownCount > 0:
		h.sendLists(to, nil, m.Nonce)
	case l != nil && (len(l.up.groups) != int(m.DownCount) || l.up.digest != m.DownDigest) && h.now() >= l.renewal.nextListAt:
		l.renewal.nextListAt = env.MomentOf(h.clock.Now().Add(time.Duration(len(l.up.groups)) * timePerListedEdge))
		h.sendLists(to, l, m.Nonce)
	}
	if l != nil && l.renewal.on && l.renewal.pending == 0 {
		h.plan(l)
	}
}

// renew renews the lease of the edges down on a link.
func (h *heartbeats) renew(l *link, pause uint32) {
	l.renewal.renewedAt, l.renewal.peerPeriod = h.now(), uint16(min(pause, uint32(maxHeartbeatPeriod/time.Second)))
}

// onAck lists the edges up if the peer knows different ones. It does so even if there are
// none, because this node's heartbeat postponed the peer's own, which would have shown that.
func (h *heartbeats) onAck(l *link, m *scribepb.HeartbeatAck) {
	if l == nil || m.Nonce != l.renewal.pending || l.renewal.pending == 0 {
		return
	}
	l.renewal.pending = 0
	h.renew(l, m.PeriodS)
	if !m.Match {
		h.sendLists(l.contact.Peer, l, m.Nonce)
	}
}

// sendLists lists the edges up to a peer. The link is nil if there is none, and thus no edge.
func (h *heartbeats) sendLists(to env.Peer, l *link, nonce uint64) {
	var all []*scribepb.Edge
	if l != nil {
		all = h.edges.list(l)
	}
	// The lists cover the whole range of ids, so that the parent learns which edges no longer
	// exist.
	first := overlay.ID{}
	for more := true; more; more = len(all) > 0 {
		part := all[:min(len(all), maxList)]
		all = all[len(part):]
		last := overlay.ID(bytes.Repeat([]byte{0xff}, len(first)))
		if len(all) > 0 {
			last = overlay.ID(part[len(part)-1].Group)
		}
		h.send(to, &scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{
			First: bytes.Clone(first[:]), Last: bytes.Clone(last[:]), Edges: part, Nonce: nonce,
		}}})
		first = nextID(last)
	}
}

// nextID returns id+1 as a number.
func nextID(id overlay.ID) overlay.ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}
