package corona

import (
	"time"

	"tidings/internal/env"
)

// A domain is what the channels of a registrable domain have in common.
type domain struct {
	name     string
	rest     moment    // until when it asked to be left alone
	solo     moment    // when it was asked last without a grant
	stewards *stewards // nil: nobody here has asked for them
	users    int32     // duties and leads that refer to it
	seen     bool      // this node knows whether it is
	private  bool      // on a private address, as far as the last answer said
}

// spare leaves a domain alone until a time.
func (c *Corona) spare(d *domain, until time.Time) {
	d.rest, c.spared = max(d.rest, momentOf(until)), true
}

// spareOf leaves the domain of a duty alone until a time.
func (c *Corona) spareOf(d *duty, until time.Time) {
	if d.domain == nil {
		d.domain = c.domain(d.said.domain, d.said.private)
	}
	c.spare(d.domain, until)
}

// domainOf returns what there is to know of a duty's domain; nil if that is nothing.
func (c *Corona) domainOf(d *duty) *domain {
	if d.domain == nil && c.spared {
		return c.domains[d.said.domain]
	}
	return d.domain
}

// see notes where an answer came from.
func (d *domain) see(a env.Answer) {
	if a.Err == "" || a.Private {
		d.seen, d.private = true, a.Private
	}
}

// idle says that there is nothing to remember of a domain that nobody here has to do with.
func (c *Corona) idle(d *domain) bool {
	now := c.clock.Now()
	return d.users == 0 && !d.rest.after(now) && !d.solo.time().Add(c.scaled(soloGap)).After(now)
}

// domain returns that of a name. private says that the address names a private one.
func (c *Corona) domain(name string, private bool) *domain {
	d := c.domains[name]
	if d == nil {
		d = &domain{name: name, seen: private, private: private}
		c.domains[name] = d
	}
	d.users++
	return d
}

// leave gives a domain back. One that asked for rest, or was asked without a grant, is
// remembered until that is over, up to maxResting of them.
func (c *Corona) leave(d *domain) {
	if d.users--; d.users > 0 {
		return
	}
	if d.stewards = nil; c.idle(d) {
		delete(c.domains, d.name)
		return
	}
	if c.resting++; c.resting < maxResting {
		return
	}
	c.resting = 0
	for name, d := range c.domains {
		if c.idle(d) {
			delete(c.domains, name)
		} else if d.users == 0 {
			c.resting++
		}
	}
	if c.resting == maxResting {
		delete(c.domains, d.name)
	}
}
