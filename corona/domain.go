package corona

import (
	"time"

	"tidings/internal/env"
)

// domain is the state that all channels of a registrable domain share.
type domain struct {
	name          string
	limitedUntil  moment    // until when the domain asked for no requests
	lastUngranted moment    // when this node last polled it without a grant
	stewards      *stewards // nil: this node has not asked for its stewards
	refs          int32     // number of assignments, channels led here and lone polls that refer to it
	privateKnown  bool      // private is known
	private       bool      // the last response came from a private address
}

// limitDomain stops this node's polls of a domain until a time.
func (c *Corona) limitDomain(d *domain, until time.Time) {
	d.limitedUntil, c.anyRateLimited = max(d.limitedUntil, momentOf(until)), true
}

// limitDomainOf stops this node's polls of an assignment's domain until a time.
func (c *Corona) limitDomainOf(d *assignment, until time.Time) {
	if d.domain == nil {
		d.domain = c.domain(d.target.domain, d.target.private)
	}
	c.limitDomain(d.domain, until)
}

// domainOf returns the domain of an assignment; nil if there is nothing to know about it.
func (c *Corona) domainOf(d *assignment) *domain {
	if d.domain == nil && c.anyRateLimited {
		return c.domains[d.target.domain]
	}
	return d.domain
}

// noteAddress notes whether a response came from a private address.
func (d *domain) noteAddress(a env.Answer) {
	if a.Err == "" || a.Private {
		d.privateKnown, d.private = true, a.Private
	}
}

// forgettable says whether a domain without references has no state worth keeping.
func (c *Corona) forgettable(d *domain) bool {
	now := c.clock.Now()
	return d.refs == 0 && !d.limitedUntil.after(now) && !d.lastUngranted.time().Add(c.scaled(ungrantedGap)).After(now)
}

// domain returns the domain with a name and counts the reference. private says that the address
// names a private host.
func (c *Corona) domain(name string, private bool) *domain {
	d := c.domains[name]
	if d == nil {
		d = &domain{name: name, privateKnown: private, private: private}
		c.domains[name] = d
	}
	d.refs++
	return d
}

// releaseDomain drops a reference to a domain. A domain that is rate-limited, or was polled without
// a grant, is remembered until that is over, up to maxIdleDomains domains.
func (c *Corona) releaseDomain(d *domain) {
	if d.refs--; d.refs > 0 {
		return
	}
	if d.stewards != nil {
		d.stewards.epochs.Close()
		d.stewards = nil
	}
	if c.forgettable(d) {
		delete(c.domains, d.name)
		return
	}
	if c.idleDomains++; c.idleDomains < maxIdleDomains {
		return
	}
	c.idleDomains = 0
	for name, d := range c.domains {
		if c.forgettable(d) {
			delete(c.domains, name)
		} else if d.refs == 0 {
			c.idleDomains++
		}
	}
	if c.idleDomains == maxIdleDomains {
		delete(c.domains, d.name)
	}
}
