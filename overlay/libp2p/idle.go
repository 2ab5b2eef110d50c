package libp2p

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// A connection costs about 150 KB, and a keep-alive every 15 s. One that has had no
	// link for connIdle is closed: a member asks each contact of its table once in 10
	// minutes, and need not dial anew for that. One that never had any was made by
	// kad-dht for a question, and lives for connUnused.
	connIdle   = 12 * time.Minute
	connUnused = 2 * time.Minute

	// sweepEvery is the time between two looks for idle connections.
	sweepEvery = 30 * time.Second
)

// A lull is the time since which a peer is connected and no link is open to it.
type lull struct {
	since time.Time
	used  bool // there was a link before
}

// A sweeper finds the connections that are of no use.
type sweeper struct {
	lulls map[peer.ID]lull
}

// due takes the peers that are connected at now, with whether a link is open to each,
// and returns those whose connections have been idle for long.
func (s *sweeper) due(connected map[peer.ID]bool, now time.Time) (idle []peer.ID) {
	for p := range s.lulls {
		if _, still := connected[p]; !still {
			delete(s.lulls, p)
		}
	}
	for p, linked := range connected {
		l, known := s.lulls[p]
		switch limit := connUnused; {
		case linked:
			s.lulls[p] = lull{used: true}
		case !known || l.since.IsZero():
			s.lulls[p] = lull{since: now, used: l.used}
		default:
			if l.used {
				limit = connIdle
			}
			if now.Sub(l.since) >= limit {
				idle = append(idle, p)
			}
		}
	}
	return idle
}

// sweep closes idle connections until ctx ends.
func (h *Host) sweep(ctx context.Context) {
	s := sweeper{lulls: map[peer.ID]lull{}}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		connected := map[peer.ID]bool{}
		for _, p := range h.host.Network().Peers() {
			connected[p] = h.neighbours.has(p)
		}
		for _, p := range s.due(connected, time.Now()) {
			if err := h.host.Network().ClosePeer(p); err != nil {
				h.log.Debug("idle connection not closed cleanly", "peer", p, "err", err)
			}
		}
	}
}
