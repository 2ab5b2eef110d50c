package owner

import (
	"time"

	"tidings/internal/env"
)

// A liveness knows when sequencers were last heard.
type liveness struct {
	*timers
	lease   time.Duration            // how long a sequencer may be silent before other owners take over
	matched map[env.PeerID]time.Time // time of the last matching heartbeat, by sequencer
}

// silent reports whether a key's sequencer has given no sign of life for 7/8 of a lease. The margin allows for
// inexact clocks and heartbeats.
func (l *liveness) silent(s *replica) bool {
	return s.leader == nil && l.clock.Now().Sub(l.lastHeard(s)) > l.lease*7/8
}

// lastHeard returns the time of the sequencer's last sign of life, about this key or in a heartbeat.
func (l *liveness) lastHeard(s *replica) time.Time {
	at := s.lastHeard
	if s.epoch != nil {
		if b := l.matched[s.epoch.Sequencer]; b.After(at) {
			at = b
		}
	}
	return at
}

// heard records a sign of life of a key's sequencer.
func (l *liveness) heard(s *replica) { s.lastHeard = l.clock.Now() }
