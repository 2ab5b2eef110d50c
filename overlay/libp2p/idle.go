package libp2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// A connection costs about 100 KB, and a keep-alive every 15 s. One that has had no
	// link for connIdle is closed: a member asks each contact of its table once in 10
	// minutes, and need not dial anew for that. One that never had any was made by
	// kad-dht for a question, and lives for connUnused.
	connIdle   = 12 * time.Minute
	connUnused = 2 * time.Minute

	// sweepEvery is the time between two looks for idle connections.
	idleCheckInterval = 30 * time.Second
)

// A sweeper knows how long connections have been idle.
type idleTracker struct{ conns map[peer.ID]idleState }

// A lull is what is known of a connection without a link.
type idleState struct {
	since   time.Time // zero: there is a link
	hadLink bool      // there was one before
}

// limit is how long a lull may last.
func (l idleState) limit() time.Duration {
	if l.hadLink {
		return connIdle
	}
	return connUnused
}

// look takes the peers that are connected at now, with whether a link is open to each,
// and returns those whose connections have been idle for too long.
func (s *idleTracker) update(connected map[peer.ID]bool, now time.Time) (idle []peer.ID) {
	for p := range s.conns {
		if _, still := connected[p]; !still {
			delete(s.conns, p)
		}
	}
	for p, linked := range connected {
		switch l := s.conns[p]; {
		case linked:
			s.conns[p] = idleState{hadLink: true}
		case l.since.IsZero():
			s.conns[p] = idleState{since: now, hadLink: l.hadLink}
		case now.Sub(l.since) >= l.limit():
			idle = append(idle, p)
		}
	}
	return idle
}

// ended takes the news that a connection is gone, and says whether its time had come, so
// that this is no sign of a death: either side may have closed it, and both look at it
// every sweepEvery.
func (s *idleTracker) removed(p peer.ID, now time.Time) (idle bool) {
	l := s.conns[p]
	delete(s.conns, p)
	return !l.since.IsZero() && now.Sub(l.since) >= l.limit()-2*idleCheckInterval
}

// closeIdle closes the connections that have been idle for too long at now.
func (h *Host) closeIdle(s *idleTracker, now time.Time) {
	connected := map[peer.ID]bool{}
	var partners map[peer.ID]bool
	if t := h.topics.of.Load(); t != nil {
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
