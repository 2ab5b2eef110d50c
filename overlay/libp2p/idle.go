package libp2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// A connection costs about 100 KB, and a keep-alive every 15 s. A connection that has had no link for connIdle
	// is closed. A member asks each contact of its table once in 10 minutes, and should not have to dial for that.
	// A connection that never had a link was made by kad-dht for one query, and is closed after connUnused.
	connIdle   = 12 * time.Minute
	connUnused = 2 * time.Minute

	// idleCheckInterval is the time between two checks for idle connections.
	idleCheckInterval = 30 * time.Second
)

// An idleTracker records how long connections have been idle.
type idleTracker struct{ conns map[peer.ID]idleState }

// An idleState describes one connection.
type idleState struct {
	since   time.Time // when the last link closed; zero while there is a link
	hadLink bool      // the connection has had a link
}

// limit is how long the connection may stay idle.
func (s idleState) limit() time.Duration {
	if s.hadLink {
		return connIdle
	}
	return connUnused
}

// update records which peers are connected at now, and for each whether a link is open. It returns the peers whose
// connections have been idle for too long.
func (s *idleTracker) update(connected map[peer.ID]bool, now time.Time) (idle []peer.ID) {
	for p := range s.conns {
		if _, still := connected[p]; !still {
			delete(s.conns, p)
		}
	}
	for p, hasLink := range connected {
		switch state := s.conns[p]; {
		case hasLink:
			s.conns[p] = idleState{hadLink: true}
		case state.since.IsZero():
			s.conns[p] = idleState{since: now, hadLink: state.hadLink}
		case now.Sub(state.since) >= state.limit():
			idle = append(idle, p)
		}
	}
	return idle
}

// removed records that a connection has ended, and reports whether it was due to be closed as idle. The end of an
// idle connection is no sign that the peer died. Both sides check every idleCheckInterval, so the other side may
// have closed the connection up to two intervals early.
func (s *idleTracker) removed(p peer.ID, now time.Time) (idle bool) {
	state := s.conns[p]
	delete(s.conns, p)
	return !state.since.IsZero() && now.Sub(state.since) >= state.limit()-2*idleCheckInterval
}

// closeIdle closes the connections that have been idle for too long at now.
func (h *Host) closeIdle(s *idleTracker, now time.Time) {
	connected := map[peer.ID]bool{}
	var partners map[peer.ID]bool
	if t := h.topics.topics.Load(); t != nil {
		partners = t.connectedPeers()
	}
	for _, p := range h.host.Network().Peers() {
		connected[p] = h.neighbours.has(p) || partners[p]
	}
	for _, p := range s.update(connected, now) {
		h.background(func() {
			if err := h.host.Network().ClosePeer(p); err != nil {
				h.log.Debug("idle connection was not closed cleanly", "peer", p, "err", err)
			}
		})
	}
}
