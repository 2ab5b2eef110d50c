package corona

import (
	"maps"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Before each poll a member checks the grant of the origin's domain itself. A node that lies about
// a channel gains nothing, because honest members make the polls.

// Owners knows the owners of keys. An *owner.Owners implements it.
type Owners interface {
	View(key overlay.ID) (owner.View, bool)
	RequestOwners(key overlay.ID, url string, done func(ok bool))
	Track(key overlay.ID, url string, verify func() bool, changed func(e *owner.Epoch)) *owner.Tracker
}

// permits asks the stewards of domains for grants, and checks grants that this node gets. It serves
// the channels that this node leads and those that it polls.
type permits struct {
	*base
	domains *domains
	owners  Owners // nil: domains have no budgets
	up      claimant

	calendar env.Calendar[string]      // domains whose steward is to be asked for grants
	allowed  map[overlay.ID]env.Moment // extra.allowedAt of channels that this node no longer polls
}

// claimant leads the channels for which grants are requested.
type claimant interface {
	// demand says how many readers a channel has, at what interval each poller polls it, and what a
	// poll costs in bytes; ok is false if it is not polled.
	demand(key overlay.ID) (readers int, interval time.Duration, pollBytes float64, ok bool)

	// granted says that a channel has got a permit.
	granted(key overlay.ID, now time.Time)
}

// run requests the grants that are due.
func (ps *permits) run(now time.Time) {
	for name, at, ok := ps.calendar.Pop(now); ok; name, at, ok = ps.calendar.Pop(now) {
		if d := ps.domains.byName[name]; d != nil && d.stewards != nil && d.stewards.requestAt.Equal(at) {
			ps.requestGrants(d, now)
		}
	}
}

// maxAllowed bounds the remembered channels that this node no longer polls, at the number for which
// overlay/wedge enlists one node.
const maxAllowed = 20_000

// keepAllowed remembers when a channel that this node stops polling may be polled again. Otherwise a
// sequencer could have a channel polled more often by enlisting this node again and again.
func (ps *permits) keepAllowed(key overlay.ID, again env.Moment) {
	now := ps.clock.Now()
	if ps.owners == nil || !again.After(now) {
		return
	}
	if len(ps.allowed) >= maxAllowed {
		maps.DeleteFunc(ps.allowed, func(_ overlay.ID, again env.Moment) bool { return !again.After(now) })
	}
	if len(ps.allowed) < maxAllowed {
		ps.allowed[key] = again
	}
}

// takeAllowed returns what keepAllowed has remembered, and forgets it.
func (ps *permits) takeAllowed(key overlay.ID) env.Moment {
	again := ps.allowed[key]
	delete(ps.allowed, key)
	return again
}

// acceptGrant takes a grant for a channel of a domain, and says whether the grant is now in force.
func (ps *permits) acceptGrant(p *permitState, d *domain, g *grant, now time.Time) bool {
	switch {
	case p.permit != nil && g.number == p.permit.number:
		return false
	case p.permit != nil && g.number < p.permit.number:
		ps.stats.Replayed++
		return false
	case !g.expiry.After(now):
		ps.stats.Expired++
		return false
	}
	p.unverified = g // it replaces another one, whose sender can send it again
	return ps.verifyGrant(p, d)
}

// verifyGrant checks whether a domain's stewards have signed the unverified grant. If their epoch
// is not known, this node asks for it and checks again at the next use.
func (ps *permits) verifyGrant(p *permitState, d *domain) bool {
	g := p.unverified
	if g == nil {
		return false
	}
	e := ps.ensureStewards(d).epochs.Epoch(g.epoch)
	if e == nil {
		return false
	}
	p.unverified = nil
	if !g.signedBy(ps.verifier, e) {
		ps.stats.Forged++
		return false
	}
	p.permit = &permit{g.portion, g.expiry, g.number}
	return true
}

// readerLimit is the largest number of pollers of a channel, regardless of its domain. The channel
// is polled no more often than its own readers would, or once in minChannelGap if that is more
// often.
func (ps *permits) readerLimit(readers int, interval time.Duration) int {
	return max(readers, int(interval/ps.scaled(minChannelGap)), 1)
}

// pollerLimit is the number of pollers that a channel may have now under a permit; 0: no limit.
func (ps *permits) pollerLimit(d *domain, p *permit, readers int, interval time.Duration) int {
	switch {
	case ps.domains.exempt(d):
		return 0
	case p == nil || !p.expiry.After(ps.clock.Now()):
		return 1
	}
	return min(ps.readerLimit(readers, interval), p.pollers)
}

// awaitsGrant says whether a channel that was recently taken over is about to get a grant for more
// pollers.
func (ps *permits) awaitsGrant(l *channelBudget, now time.Time) bool {
	return !ps.domains.exempt(l.domain) && now.Sub(l.since.Time()) < fullGrantIntervals*ps.cfg.MaintenanceInterval &&
		(l.permit == nil || l.permit.pollers < l.desiredPollers)
}

// decisionLimit is the largest number of pollers in a decision; 0: no limit. An awaited grant
// counts as if it allowed everything up to readerLimit. Otherwise the first channels to get grants
// would take the load that is meant for the others.
func (ps *permits) decisionLimit(l *channelBudget, readers int, interval time.Duration, now time.Time) int {
	if ps.awaitsGrant(l, now) {
		return ps.readerLimit(readers, interval)
	}
	return ps.pollerLimit(l.domain, l.permit, readers, interval)
}
