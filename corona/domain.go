package corona

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// domain is the state that all channels of a registrable domain share.
type domain struct {
	name         string
	limitedUntil env.Moment // until when the domain asked for no requests
	turns
	lastUngranted env.Moment // when this node last polled it without a grant
	stewards      *stewards  // nil: this node has not asked for its stewards
	refs          int32      // number of assignments, channels led here and lone polls that refer to it
	privateKnown  bool       // private is known
	private       bool       // the last response came from a private address
}

// stewards is what a node knows of a domain's stewards, and what it asks of them.
type stewards struct {
	epochs *owner.Tracker // epochs of the domain's key; the signatures of grants are verified by them

	channels  []*channelBudget // the domain's channels that are led here
	requestAt time.Time        // time of the next grant request
	tries     int              // grant requests after which a channel still lacked a grant
}

// channelBudget is the part of a domain's budget that a channel has which this node leads.
type channelBudget struct {
	key    overlay.ID
	url    string
	domain *domain
	since  env.Moment // when this node became the sequencer

	desiredPollers  int           // number of pollers without a budget
	desiredInterval time.Duration // interval without a budget; 0: no poll yet
	permitState
	grant []byte // the grant of permit as pollers get it; nil: there is none
}

// domains knows the registrable domains of all channels that this node polls or leads.
type domains struct {
	*base
	budgeted   bool // domains have budgets
	byName     map[string]*domain
	anyLimited bool // since this node started, at least one domain has asked for fewer requests
	idle       int  // rate-limited domains that no channel here refers to
}

// limit stops this node's polls of a domain until a time.
func (ds *domains) limit(d *domain, until time.Time) {
	d.limitedUntil, ds.anyLimited = max(d.limitedUntil, env.MomentOf(until)), true
}

// noteAddress notes whether a response came from a private address.
func (d *domain) noteAddress(a env.Answer) {
	if a.Err == "" || a.Private {
		d.privateKnown, d.private = true, a.Private
	}
}

// forgettable says whether a domain without references has no state worth keeping.
func (ds *domains) forgettable(d *domain) bool {
	now := ds.clock.Now()
	return d.refs == 0 && !d.limitedUntil.After(now) && !d.lastUngranted.Time().Add(ds.scaled(ungrantedGap)).After(now)
}

// refer returns the domain with a name and counts the reference. private says that the address
// names a private host.
func (ds *domains) refer(name string, private bool) *domain {
	d := ds.byName[name]
	if d == nil {
		d = &domain{name: name, privateKnown: private, private: private}
		ds.byName[name] = d
	}
	d.refs++
	return d
}

// release drops a reference to a domain. A domain that is rate-limited, or was polled without
// a grant, is remembered until that is over, up to maxIdleDomains domains.
func (ds *domains) release(d *domain) {
	if d.refs--; d.refs > 0 {
		return
	}
	if d.stewards != nil {
		d.stewards.epochs.Close()
		d.stewards = nil
	}
	if ds.forgettable(d) {
		delete(ds.byName, d.name)
		return
	}
	if ds.idle++; ds.idle < maxIdleDomains {
		return
	}
	ds.idle = 0
	for name, d := range ds.byName {
		if ds.forgettable(d) {
			delete(ds.byName, name)
		} else if d.refs == 0 {
			ds.idle++
		}
	}
	if ds.idle == maxIdleDomains {
		delete(ds.byName, d.name)
	}
}

// takeUngranted says whether a domain may be polled now without a grant, and notes that it is.
func (ds *domains) takeUngranted(d *domain, now time.Time) bool {
	if now.Before(d.lastUngranted.Time().Add(ds.scaled(ungrantedGap))) {
		return false
	}
	d.lastUngranted = env.MomentOf(now)
	ds.stats.Solo++
	return true
}

// exempt says whether a domain has no budget.
func (ds *domains) exempt(d *domain) bool {
	return !ds.budgeted || ds.cfg.ExemptPrivate && d.private
}

// channel returns the budget of a channel that this node leads; nil if it leads none with this key
// in the domain.
func (ds *domains) channel(domain string, key overlay.ID) *channelBudget {
	if d := ds.byName[domain]; d != nil && d.stewards != nil {
		for _, l := range d.stewards.channels {
			if l.key == key {
				return l
			}
		}
	}
	return nil
}
