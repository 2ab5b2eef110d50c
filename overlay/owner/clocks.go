package owner

import (
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// maxDateAhead is how far the date of an entry may be ahead of the clocks of an owner and of the members that it knows.
// Owners do not store an entry with a later date, so that a sequencer cannot date what follows, and what the log keeps. It
// is twice the slack that polls and grants allow between two clocks.
const maxDateAhead = 10 * time.Minute

// Members that own keys together tell each other their clocks.

// heardClock notes what a member has said of its clock; 0: nothing.
func (t *timers) heardClock(from env.PeerID, ms uint64) {
	if t.ahead == nil {
		t.ahead = map[env.PeerID]time.Duration{}
	}
	if ms > 0 && ms <= wire.MaxMillis {
		t.ahead[from] = time.UnixMilli(int64(ms)).Sub(t.clock.Now())
	}
}

// mostClocks returns the median of all known clocks, including this one. A minority of liars does not move it beyond the
// clocks of the others.
func (t *timers) mostClocks() time.Time {
	of := append(slices.Collect(maps.Values(t.ahead)), 0)
	slices.Sort(of)
	return t.clock.Now().Add(of[len(of)/2])
}

// date returns the date for an entry: by this node's clock, or if that is far ahead of most clocks, by those.
func (t *timers) date() time.Time {
	now, most := t.clock.Now(), t.mostClocks()
	if now.Sub(most) > maxDateAhead/2 {
		return most
	}
	return now
}

// tooFarAhead reports whether a date is more than maxDateAhead ahead of this clock and of most others.
func (t *timers) tooFarAhead(at time.Time) bool {
	return at.Sub(t.clock.Now()) > maxDateAhead && at.Sub(t.mostClocks()) > maxDateAhead
}

// clockMillis returns this node's clock as messages tell it.
func (t *timers) clockMillis() uint64 { return uint64(max(0, t.clock.Now().UnixMilli())) }
