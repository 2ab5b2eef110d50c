package corona

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/overlay"
)

// Before each poll a member looks whether the origin's domain has granted it, so that who
// lies about a channel gains nothing by it: the polls are those of honest members.

// A permit is a grant in force, as a node keeps it.
type permit struct {
	portion
	expiry time.Time
	number uint64 // 0: the sequencer before has left it, and nobody here has verified it
}

// A pass is what a node has of the grants of one channel.
type pass struct {
	permit  *permit // nil: there is none
	offered *grant  // one that has come, of an epoch that is not known yet
}

// admit takes a grant of a channel of a domain, and says whether it is in force now.
func (c *Corona) admit(p *pass, d *domain, g *grant, now time.Time) bool {
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
	p.offered = g // in place of another one: who can send it can send it again
	return c.verify(p, d, now)
}

// verify looks whether a domain's stewards have signed what was offered. If it is not known
// who they are, they are asked for, and it is looked at again when it is needed.
func (c *Corona) verify(p *pass, d *domain, now time.Time) bool {
	g := p.offered
	if g == nil {
		return false
	}
	e := c.epoch(d, g.epoch, now)
	if e == nil {
		return false
	}
	p.offered = nil
	if !g.signedBy(c.verifier, e) {
		c.stats.Forged++
		return false
	}
	p.permit = &permit{g.portion, g.expiry, g.number}
	return true
}

// scaled is a time of politeness, as short as a laboratory's.
func (c *Corona) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.cfg.Compression)
}

// exempt says whether a domain has no budget: it is its reader's own.
func (c *Corona) exempt(d *domain) bool {
	return c.manners == nil || c.cfg.ExemptPrivate && d.private
}

// privateHost says whether an address names a private one as it stands.
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

// present takes the grant that came with the words of a duty.
func (c *Corona) present(d *duty, b []byte) {
	if len(b) == 0 || c.exempt(d.domain) {
		return
	}
	if g, err := openGrant(b); err != nil || g.key != d.key() || g.domain != d.domain.name {
		c.stats.Forged++
	} else {
		c.admit(&d.rare().pass, d.domain, g, c.clock.Now())
	}
}

// permitted says whether a duty's grant covers it.
func (c *Corona) permitted(d *duty, now time.Time) bool {
	x := d.rare()
	c.verify(&x.pass, d.domain, now)
	p := x.permit
	if p != nil && !p.expiry.After(now) {
		c.stats.Expired++
		x.permit, p = nil, nil
	}
	return p != nil && int(d.grid.Of) <= p.pollers && d.grid.Interval >= p.interval && c.stands(d.key(), p.pollers)
}

// polite says whether a duty may ask now; if not, when to look again, and by which rule.
func (c *Corona) polite(d *duty, now time.Time) (ok bool, at time.Time, why string) {
	if c.exempt(d.domain) {
		return true, now, ""
	}
	if free := d.extras().again.time().Add(d.grid.breather() - ahead*d.grid.Interval); now.Before(free) {
		at, _ = d.opening(free)
		return false, at, "it was asked often enough of late"
	}
	if c.permitted(d, now) {
		return true, now, ""
	}
	at, _ = d.opening(now)
	own := d.grid.Of == 1 && c.app.Owns(d.key()) && c.stands(d.key(), 1) && d.grid.Interval >= c.least()
	if !own && (d.domain.seen || !c.cfg.ExemptPrivate) { // else it may be exempt, which is seen when it answers
		return false, at, d.domain.name + " has not granted it"
	}
	if c.solo(d.domain, now) {
		return true, now, ""
	}
	// One after the other: at their own slots the same would come too late each time.
	if next := d.domain.solo.time().Add(c.scaled(soloGap)); next.Before(at) {
		at = next
	}
	return false, at, "without a grant " + d.domain.name + " is asked rarely"
}

// ahead is how many intervals too early a member asks a channel at most. Each time that it is given
// another rank its turn comes up to one sooner, or later: who refused to be sooner would lose
// polls that nobody makes up for.
const ahead = 2

// spend notes that a duty's channel is asked. A member asks it once in an interval, and never
// more than ahead too early, however it is enlisted: with several ranks, again and again,
// or each time at another phase.
func (d *duty) spend(now time.Time) {
	x := d.rare()
	x.again = max(x.again, momentOf(now)) + moment(d.grid.Interval)
}

// unspend takes that back: the origin has not noticed it.
func (d *duty) unspend() {
	if d.extra != nil && d.extra.again != never {
		d.extra.again -= moment(d.grid.Interval)
	}
}

// maxLately bounds the channels that this node polls no longer and remembers:
// as many as overlay/wedge enlists it for.
const maxLately = 20_000

// least is the shortest interval of a channel without a grant.
func (c *Corona) least() time.Duration {
	return max(c.cfg.PollInterval, c.scaled(floor))
}

// solo says whether a domain may be asked now without a grant, and notes that it is.
func (c *Corona) solo(d *domain, now time.Time) bool {
	if now.Before(d.solo.time().Add(c.scaled(soloGap))) {
		return false
	}
	d.solo = momentOf(now)
	c.stats.Solo++
	return true
}

// stands says whether this node can be among the n members nearest to a key, as far as it
// knows who else is there. Of members that decline and of counts that are off there may be
// some.
func (c *Corona) stands(key overlay.ID, n int) bool {
	return c.nearer(key) <= float64(n+n/8)
}

// nearer is how many members are nearer to a key than this node: exactly, of a key in its
// leaf.
func (c *Corona) nearer(key overlay.ID) float64 {
	self, leaf, n := c.node.ID(), c.node.Leaf(), 0.
	if leaf.Covers(key) {
		for _, m := range leaf.Members() {
			if overlay.Nearer(key, m.ID, self) {
				n++
			}
		}
		return n
	}
	// All who share a bit more with the key are nearer; of those who share as many, who
	// stand evenly, a part.
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

// worth is how many pollers a channel has at most, its domain aside: it is asked no oftener
// than its own readers would, or once in politeGap, whichever is more.
func (c *Corona) worth(readers int, interval time.Duration) int {
	return max(readers, int(interval/c.scaled(politeGap)), 1)
}

// most is how many pollers a channel of a domain may have now, by the permit that there is; 0:
// as many as the network has members.
func (c *Corona) most(d *domain, p *permit, readers int, interval time.Duration) int {
	switch {
	case c.exempt(d):
		return 0
	case p == nil || !p.expiry.After(c.clock.Now()):
		return 1
	}
	return min(c.worth(readers, interval), p.pollers)
}

// awaits says whether a channel that was taken over lately is about to have a grant of more
// pollers.
func (c *Corona) awaits(l *lead, now time.Time) bool {
	return !c.exempt(l.domain) && now.Sub(l.since) < fullGrant*c.cfg.MaintenanceInterval &&
		(l.permit == nil || l.permit.pollers < l.want)
}

// bound is how many pollers a channel is decided with at most, 0: as many as there are members. A
// grant that is on its way counts as if it were for all that the channel is worth: else the first
// ones to come would take what others are about to have.
func (c *Corona) bound(l *lead, now time.Time) int {
	if c.awaits(l, now) {
		return c.worth(c.readers(l), l.interval)
	}
	return c.most(l.domain, l.permit, c.readers(l), l.interval)
}
