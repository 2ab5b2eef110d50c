package scribe

import (
	"bytes"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// maxHeartbeatTries bounds the unanswered heartbeats to a peer. Then the overlay probes it.
const maxHeartbeatTries = 2

// planHeartbeatSoon plans a heartbeat within about one HeartbeatInterval, after edges of the link
// changed. The other end may have missed the change.
func (s *Scribe) planHeartbeatSoon(l *link) {
	if !l.heartbeating || l.heartbeatAt.sub(s.now()) > s.cfg.HeartbeatInterval*5/4 {
		l.heartbeating = true
		s.heartbeatIn(l, s.jitter(s.cfg.HeartbeatInterval))
	}
}

// heartbeatSlots is the number of times in an interval at which a node sends heartbeats. All that
// are due are sent together, so that a thousand links do not wake the node a thousand times.
const heartbeatSlots = 32

// align delays a time to the next multiple of pause on this node's clock. Each node's multiples
// have a random offset.
func (s *Scribe) align(at time.Time, pause time.Duration) time.Time {
	last := at.Add(-s.heartbeatPhase).Truncate(pause).Add(s.heartbeatPhase)
	if last.Before(at) {
		return last.Add(pause)
	}
	return last
}

// heartbeatPeriod returns the time between two heartbeats on one link. It grows with the number of
// links, as heartbeatShare says.
func (s *Scribe) heartbeatPeriod() time.Duration {
	return max(s.cfg.HeartbeatInterval, min(time.Duration(len(s.links))*heartbeatShare, maxHeartbeatPeriod))
}

// periodSeconds returns the period as announced to peers, in seconds; 0: HeartbeatInterval.
func (s *Scribe) periodSeconds() uint32 {
	if pause := s.heartbeatPeriod(); pause > s.cfg.HeartbeatInterval {
		return uint32((pause + time.Second - 1) / time.Second)
	}
	return 0
}

// planHeartbeat sets the time of the next heartbeat, replacing an earlier plan.
func (s *Scribe) planHeartbeat(l *link) {
	s.heartbeatIn(l, s.jitter(s.heartbeatPeriod()))
}

func (s *Scribe) heartbeatIn(l *link, d time.Duration) {
	at := s.align(s.clock.Now().Add(d), s.cfg.HeartbeatInterval/heartbeatSlots)
	l.heartbeatAt = momentOf(at)
	s.planHeartbeatCheck(l)
}

// planHeartbeatCheck plans a check at the time of the next heartbeat, unless an earlier one is
// planned. A peer whose heartbeats delay this node's own again and again does not add an entry to
// the calendar each time.
func (s *Scribe) planHeartbeatCheck(l *link) {
	if l.heartbeatCheckAt == never || l.heartbeatAt < l.heartbeatCheckAt {
		l.heartbeatCheckAt = l.heartbeatAt
		s.cal.Add(time.Unix(0, int64(l.heartbeatAt)), task{kind: taskHeartbeat, number: uint32(l.number)})
	}
}

// PeerDown handles a broken connection. If the peer has restarted, it has no edges, so a heartbeat
// is sent soon.
func (s *Scribe) PeerDown(id env.PeerID) {
	if l := s.links[id]; l != nil && l.heartbeating {
		s.heartbeatIn(l, s.jitter(reconnectDelay))
	}
}

// heartbeat renews all edges of a link.
func (s *Scribe) heartbeat(l *link, now time.Time) {
	if l.heartbeatCheckAt == never || momentOf(now) < l.heartbeatCheckAt {
		return
	}
	l.heartbeatCheckAt = never
	if !l.heartbeating {
		return
	}
	if momentOf(now) < l.heartbeatAt { // it was postponed
		s.planHeartbeatCheck(l)
		return
	}
	if len(l.up.groups)+len(l.down.groups) == 0 {
		l.heartbeating = false
		return
	}
	s.planHeartbeat(l)
	s.flushWeights(l)
	l.tries = 0
	s.sendHeartbeat(l, now)
}

func (s *Scribe) sendHeartbeat(l *link, now time.Time) {
	l.pendingNonce = s.rand.Uint64() | 1
	l.ownHeartbeat = heartbeatRef{l.pendingNonce, momentOf(now)}
	l.tries++
	s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{
		Nonce: l.pendingNonce, UpCount: uint32(len(l.up.groups)), UpDigest: l.up.digest, PeriodS: s.periodSeconds(),
		DownCount: uint32(len(l.down.groups)), DownDigest: l.down.digest,
	}}})
	s.cal.Add(s.align(now.Add(s.node.RTO(l.contact.Peer.ID)), time.Second), task{kind: taskHeartbeatTimeout, number: uint32(l.number)})
}

// heartbeatTimeout reacts to a heartbeat that was not answered in time: it sends another, or has
// the overlay probe the peer.
func (s *Scribe) heartbeatTimeout(l *link, now time.Time) {
	if l.pendingNonce == 0 {
		return
	}
	if l.tries < maxHeartbeatTries {
		s.sendHeartbeat(l, now)
		return
	}
	l.pendingNonce = 0
	s.node.Suspect(l.contact.Peer.ID)
}

// onHeartbeat compares the edges in both directions. The exchange serves both ends, so this node's
// own heartbeat is postponed.
func (s *Scribe) onHeartbeat(from env.PeerID, l *link, m *scribepb.Heartbeat) {
	ack := &scribepb.HeartbeatAck{Nonce: m.Nonce, Match: l == nil && m.UpCount == 0, PeriodS: s.periodSeconds()}
	to := env.Peer{ID: from}
	if l != nil {
		to = l.contact.Peer
		s.renew(l, m.PeriodS)
		l.peerHeartbeat = heartbeatRef{}
		if ack.Match = len(l.down.groups) == int(m.UpCount) && l.down.digest == m.UpDigest; !ack.Match {
			l.peerHeartbeat = heartbeatRef{m.Nonce, s.now()}
		}
	}
	s.send(to, &scribepb.Message{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: ack}})
	switch {
	case l == nil && m.DownCount > 0:
		s.sendEdgeLists(to, nil, m.Nonce)
	case l != nil && (len(l.up.groups) != int(m.DownCount) || l.up.digest != m.DownDigest) && s.now() >= l.nextListAt:
		l.nextListAt = momentOf(s.clock.Now().Add(time.Duration(len(l.up.groups)) * timePerListedEdge))
		s.sendEdgeLists(to, l, m.Nonce)
	}
	if l != nil && l.heartbeating && l.pendingNonce == 0 {
		s.planHeartbeat(l)
	}
}

// renew renews the lease of the edges down on a link.
func (s *Scribe) renew(l *link, pause uint32) {
	l.renewedAt, l.peerPeriod = s.now(), uint16(min(pause, uint32(maxHeartbeatPeriod/time.Second)))
}

// onHeartbeatAck lists the edges up if the peer knows different ones. It does so even if there are
// none, because this node's heartbeat postponed the peer's own, which would have shown that.
func (s *Scribe) onHeartbeatAck(l *link, m *scribepb.HeartbeatAck) {
	if l == nil || m.Nonce != l.pendingNonce || l.pendingNonce == 0 {
		return
	}
	l.pendingNonce = 0
	s.renew(l, m.PeriodS)
	if !m.Match {
		s.sendEdgeLists(l.contact.Peer, l, m.Nonce)
	}
}

// sendEdgeLists lists the edges up to a peer. The link is nil if there is none, and thus no edge.
func (s *Scribe) sendEdgeLists(to env.Peer, l *link, nonce uint64) {
	var all []*scribepb.Edge
	if l != nil {
		all = s.edgesUp(l)
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
		s.send(to, &scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{
			First: bytes.Clone(first[:]), Last: bytes.Clone(last[:]), Edges: part, Nonce: nonce,
		}}})
		first = nextID(last)
	}
}

// edgesUp returns the edges up on a link in the form of an EdgeList.
func (s *Scribe) edgesUp(l *link) []*scribepb.Edge {
	all := make([]*scribepb.Edge, 0, len(l.up.groups))
	for _, number := range l.up.groups {
		g := s.groups.At(number)
		e := &scribepb.Edge{Group: g.id[:]}
		if g.parents[0].link == l.number {
			e.Weight = g.sentWeight
		}
		all = append(all, e)
	}
	return all
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

// onEdgeList adopts the weights of the child's edges, and rejects edges that this node does not
// have. Unless the list is partial, edges within its range that it does not contain end, if they
// are old enough that the child must have known them.
func (s *Scribe) onEdgeList(from env.PeerID, l *link, m *scribepb.EdgeList) {
	var asked moment
	if !m.Partial && l != nil {
		switch {
		case m.Nonce == 0:
			return
		case m.Nonce == l.ownHeartbeat.nonce:
			asked = l.ownHeartbeat.at
		case m.Nonce == l.peerHeartbeat.nonce:
			asked = l.peerHeartbeat.at
		default:
			return // an answer to an older heartbeat; edges may have changed since
		}
	}
	var unknown []overlay.ID
	named := make(map[overlay.ID]bool, len(m.Edges))
	for _, e := range m.Edges {
		id := overlay.ID(e.Group)
		named[id] = true
		g := s.groups.Get(id)
		if l == nil || g == nil || g.child(l) == nil {
			unknown = append(unknown, id)
			continue
		}
		c := g.child(l)
		weight := s.clamp(e.Weight)
		l.down.change(g, c.weight, weight)
		c.weight = weight
		s.updateWeight(g)
	}
	if len(unknown) > 0 {
		s.sendReject(env.Peer{ID: from}, unknown...)
	}
	if m.Partial || l == nil {
		return
	}
	for _, number := range slices.Clone(l.down.between(s.groups, m.First, m.Last)) {
		g := s.groups.At(number)
		if c := g.child(l); !named[g.id] && c != nil && asked.sub(c.since) > joinTimeout {
			s.forgetChild(g, l)
			s.dropIfUnused(g)
		}
	}
}

// onReject looks for another parent in a group in which the peer does not have the edge.
func (s *Scribe) onReject(from env.PeerID, l *link, id overlay.ID) {
	g := s.groups.Get(id)
	if l == nil || g == nil {
		return
	}
	if g.parent(l) != nil {
		s.forgetParent(g, l)
		s.searchParent(g)
	} else if g.searching() && g.search.target == from {
		s.searchNow(g) // the chosen parent is not in the tree
	}
}
