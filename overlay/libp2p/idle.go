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
	sweepEvery = 30 * time.Second
)

// A sweeper knows how long connections have been idle.
type sweeper struct{ lulls map[peer.ID]lull }

// A lull is what is known of a connection without a link.
type lull struct {
	since time.Time // zero: there is a link
	used  bool      // there was one before
}

// limit is how long a lull may last.
func (l lull) limit() time.Duration {
	if l.used {
		return connIdle
	}
	return connUnused
}

// look takes the peers that are connected at now, with whether a link is open to each,
// and returns those whose connections have been idle for too long.
func (s *sweeper) look(connected map[peer.ID]bool, now time.Time) (idle []peer.ID) {
	for p := range s.lulls {
		if _, still := connected[p]; !still {
			delete(s.lulls, p)
		}
	}
	for p, linked := range connected {
		switch l := s.lulls[p]; {
		case linked:
			s.lulls[p] = lull{used: true}
		case l.since.IsZero():
			s.lulls[p] = lull{since: now, used: l.used}
		case now.Sub(l.since) >= l.limit():
			idle = append(idle, p)
		}
	}
	return idle
}

// ended takes the news that a connection is gone, and says whether its time had come, so
// that this is no sign of a death: either side may have closed it, and both look at it
// every sweepEvery.
func (s *sweeper) ended(p peer.ID, now time.Time) (idle bool) {
	l := s.lulls[p]
	delete(s.lulls, p)
	return !l.since.IsZero() && now.Sub(l.since) >= l.limit()-2*sweepEvery
}

// closeIdle closes the connections that have been idle for too long at now.
func (h *Host) closeIdle(s *sweeper, now time.Time) {
	connected := map[peer.ID]bool{}
	var partners map[peer.ID]bool
	if t := h.topics.of.Load(); t != nil {
		partners = t.partners()
	}
	for _, p := range h.host.Network().Peers() {
		connected[p] = h.neighbours.has(p) || partners[p]
	}
	for _, p := range s.look(connected, now) {
		h.aside(func() {
			if err := h.host.Network().ClosePeer(p); err != nil {
				h.log.Debug("idle connection was not closed cleanly", "peer", p, "err", err)
			}
		})
	}
}
