package corona

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/overlay"
)

// Before each poll a member checks the grant of the origin's domain itself. A node that lies about
// a channel gains nothing, because honest members make the polls.

// permit is a grant in force, as a poller or a sequencer keeps it.
type permit struct {
	portion
	expiry time.Time
	number uint64 // 0: inherited from an earlier sequencer and not verified by this node
}

// permitState is what a node has of the grants of one channel.
type permitState struct {
	permit     *permit // nil: there is none
	unverified *grant  // the last grant whose epoch is not known yet
}

// acceptGrant takes a grant for a channel of a domain, and says whether the grant is now in force.
func (c *Corona) acceptGrant(p *permitState, d *domain, g *grant, now time.Time) bool {
	switch {
	case p.permit != nil && g.number == p.permit.number:
		return false
	case p.permit != nil && g.number < p.permit.number:
		c.stats.Replayed++
		return false
	case !g.expiry.After(now):
		c.stats.Expired++
		return false
	}
	p.unverified = g // it replaces another one, whose sender can send it again
	return c.verifyGrant(p, d)
}

// verifyGrant checks whether a domain's stewards have signed the unverified grant. If their epoch
// is not known, this node asks for it and checks again at the next use.
func (c *Corona) verifyGrant(p *permitState, d *domain) bool {
	g := p.unverified
	if g == nil {
		return false
	}
	e := c.ensureStewards(d).epochs.Epoch(g.epoch)
	if e == nil {
		return false
	}
	p.unverified = nil
	if !g.signedBy(c.verifier, e) {
		c.stats.Forged++
		return false
	}
	p.permit = &permit{g.portion, g.expiry, g.number}
	return true
}

// scaled shortens a time of politeness in a laboratory.
func (c *Corona) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.cfg.Compression)
}

// exempt says whether a domain has no budget.
func (c *Corona) exempt(d *domain) bool {
	return c.politeness == nil || c.cfg.ExemptPrivate && d.private
}

// privateHost says whether an address literally names a private host.
func privateHost(raw string) bool {
	raw, _ = feed.AtOrigin(raw)
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// takeAssignmentGrant takes the grant in the payload of an assignment.
func (c *Corona) takeAssignmentGrant(d *assignment, b []byte) {
	if len(b) == 0 || c.exempt(d.domain) {
		return
	}
	if g, err := openGrant(b); err != nil || g.key != d.key() || g.domain != d.domain.name {
		c.stats.Forged++
	} else {
		c.acceptGrant(&d.ensureExtra().permitState, d.domain, g, c.clock.Now())
	}
}

// permitted says whether an assignment's grant covers its polls.
func (c *Corona) permitted(d *assignment, now time.Time) bool {
	x := d.ensureExtra()
	c.verifyGrant(&x.permitState, d.domain)
	p := x.permit
	if p != nil && !p.expiry.After(now) {
		c.stats.Expired++
		x.permit, p = nil, nil
	}
	return p != nil && int(d.schedule.Of) <= p.pollers && d.schedule.Interval >= p.interval && c.nearEnough(d.key(), p.pollers)
}

// polite says whether an assignment may poll now. If not, it returns when to check again and the
// rule.
func (c *Corona) polite(d *assignment, now time.Time) (ok bool, at time.Time, why string) {
	if c.exempt(d.domain) {
		return true, now, ""
	}
	if free := d.extras().allowedAt.time().Add(d.schedule.minGap() - maxAhead*d.schedule.Interval); now.Before(free) {
		at, _ = d.nextAllowed(free)
		return false, at, "it was polled recently"
	}
	if c.permitted(d, now) {
		return true, now, ""
	}
	at, _ = d.nextAllowed(now)
	own := d.schedule.Of == 1 && c.app.Owns(d.key()) && c.nearEnough(d.key(), 1) && d.schedule.Interval >= c.shortestUngranted()
	if !own && (d.domain.privateKnown || !c.cfg.ExemptPrivate) { // otherwise the domain may be exempt, which a response will show
		return false, at, d.domain.name + " has not granted a poll"
	}
	if c.takeUngranted(d.domain, now) {
		return true, now, ""
	}
	// A domain's channels go one after the other. At its next slot each channel would come too late
	// again.
	if next := d.domain.lastUngranted.time().Add(c.scaled(ungrantedGap)); next.Before(at) {
		at = next
	}
	return false, at, "without a grant " + d.domain.name + " is polled rarely"
}

// maxAhead is how many intervals too early a member may poll a channel. Each change of rank moves
// its slot by up to one interval in either direction. A member that refused to poll early would
// lose polls that nobody makes up for.
const maxAhead = 2

// chargePoll counts a poll of an assignment. A member polls a channel once in an interval, and at
// most maxAhead intervals too early, however it is enlisted: with several ranks, repeatedly, or
// with another phase each time.
func (d *assignment) chargePoll(now time.Time) {
	x := d.ensureExtra()
	x.allowedAt = max(x.allowedAt, momentOf(now)) + moment(d.schedule.Interval)
}

// refundPoll takes back a charge for a poll that did not reach the origin.
func (d *assignment) refundPoll() {
	if d.extra != nil && d.extra.allowedAt != never {
		d.extra.allowedAt -= moment(d.schedule.Interval)
	}
}

// maxRecentPolls bounds the remembered channels that this node no longer polls, at the number for
// which overlay/wedge enlists one node.
const maxRecentPolls = 20_000

// shortestUngranted is the shortest interval of a channel without a grant.
func (c *Corona) shortestUngranted() time.Duration {
	return max(c.cfg.PollInterval, c.scaled(minPublicInterval))
}

// takeUngranted says whether a domain may be polled now without a grant, and notes that it is.
func (c *Corona) takeUngranted(d *domain, now time.Time) bool {
	if now.Before(d.lastUngranted.time().Add(c.scaled(ungrantedGap))) {
		return false
	}
	d.lastUngranted = momentOf(now)
	c.stats.Solo++
	return true
}

// nearEnough says whether this node can be among the n members nearest to a key, as far as it knows
// the others. It allows for members that decline and for inaccurate counts.
func (c *Corona) nearEnough(key overlay.ID, n int) bool {
	return c.countNearer(key) <= float64(n+n/8)
}

// countNearer is the number of members nearer to a key than this node. It is exact for a key in the
// leaf set.
func (c *Corona) countNearer(key overlay.ID) float64 {
	self, leaf, n := c.node.ID(), c.node.Leaf(), 0.
	if leaf.Covers(key) {
		for _, m := range leaf.Members() {
			if overlay.Nearer(key, m.ID, self) {
				n++
			}
		}
		return n
	}
	// Members that share one more bit with the key are all nearer. Of the members that share as
	// many bits, a part is nearer, assuming evenly spread ids.
	d := self.Common(key)
	among := float64(c.node.Count(d + 1))
	part, bit := 0., 0.5
	for i := d + 1; i < min(d+24, overlay.Bits); i++ {
		if self.Bit(i) != key.Bit(i) {
			part += bit
		}
		bit /= 2
	}
	return float64(c.node.Count(d)) - among + among*part
}

// readerLimit is the largest number of pollers of a channel, regardless of its domain. The channel
// is polled no more often than its own readers would, or once in minChannelGap if that is more
// often.
func (c *Corona) readerLimit(readers int, interval time.Duration) int {
	return max(readers, int(interval/c.scaled(minChannelGap)), 1)
}

// pollerLimit is the number of pollers that a channel may have now under a permit; 0: no limit.
func (c *Corona) pollerLimit(d *domain, p *permit, readers int, interval time.Duration) int {
	switch {
	case c.exempt(d):
		return 0
	case p == nil || !p.expiry.After(c.clock.Now()):
		return 1
	}
	return min(c.readerLimit(readers, interval), p.pollers)
}

// awaitsGrant says whether a channel that was recently taken over is about to get a grant for more
// pollers.
func (c *Corona) awaitsGrant(l *leaderState, now time.Time) bool {
	return !c.exempt(l.domain) && now.Sub(l.since) < fullGrantIntervals*c.cfg.MaintenanceInterval &&
		(l.permit == nil || l.permit.pollers < l.desiredPollers)
}

// decisionLimit is the largest number of pollers in a decision; 0: no limit. An awaited grant
// counts as if it allowed everything up to readerLimit. Otherwise the first channels to get grants
// would take the load that is meant for the others.
func (c *Corona) decisionLimit(l *leaderState, now time.Time) int {
	if c.awaitsGrant(l, now) {
		return c.readerLimit(c.readers(l), l.interval)
	}
	return c.pollerLimit(l.domain, l.permit, c.readers(l), l.interval)
}
