package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Grant requests, at the sequencer of a channel. For all channels of one domain that it leads, the
// sequencer sends claims once in a maintenance interval. It passes the grants on to the wedges in
// the channels' parameters.

const (
	// requestDelay is the delay before the first request, so that more channels of the domain are
	// included.
	requestDelay = 2 * time.Second
	// requestRetry is the delay before a missing grant is requested again. It doubles each time, up
	// to a maintenance interval.
	requestRetry = 10 * time.Second
	// fullGrantIntervals bounds the time, in maintenance intervals, until a new channel has a grant
	// for more than one poller. The domain's stewards may be new as well.
	fullGrantIntervals = 2
	// firstGrantDelay is about how long the first grant of a new channel takes.
	firstGrantDelay = 20 * time.Second
	// slotSpread is the time per channel over which the first slots of a domain's few channels are
	// spread. With so many channels that they fill the interval, first polls take at most two
	// thirds of budgetFloor in ten minutes.
	slotSpread = 30 * time.Second
	// maxClaims bounds the claims of one grant request, and claimBytes their size; further claims
	// go in another request. maxGrantRequest is more than a signed request can reach with the
	// longest URL.
	maxClaims       = 256
	claimBytes      = 32 << 10
	maxGrantRequest = 64 << 10
	// maxGrants bounds the grants in one message.
	maxGrants = 64
)

// stewards is what a node knows of a domain's stewards, and what it asks of them.
type stewards struct {
	epochs *owner.Tracker // epochs of the domain's key; the signatures of grants are verified by them

	leaders   []*leaderState // the domain's channels that are led here
	requestAt time.Time      // time of the next grant request
	tries     int            // grant requests after which a channel still lacked a grant
}

// ensureStewards returns what is known of a domain's stewards, making an empty record if there is
// none. A node with more than one channel of the domain has its stewards verified by a lookup. With
// one channel it takes the word of the root of the domain's key, so that few polls are lost while a
// lookup would cost more messages than the polls.
func (c *Corona) ensureStewards(d *domain) *stewards {
	if d.stewards == nil {
		d.stewards = &stewards{epochs: c.politeness.owners.Track(overlay.StewardKey(c.cfg.Network, d.name), owner.TrackerConfig{
			Verify:  func() bool { return d.refs > 1 },
			Changed: func(*owner.Epoch) { c.takeWaitingGrants(d) },
		})}
	}
	return d.stewards
}

// takeWaitingGrants takes the grants that waited for an epoch.
func (c *Corona) takeWaitingGrants(d *domain) {
	now := c.clock.Now()
	for _, l := range slices.Clone(d.stewards.leaders) {
		if g := l.unverified; g != nil {
			c.takeGrant(l, g, now)
		}
	}
}

// addToDomain notes that this node leads a channel of its domain.
func (c *Corona) addToDomain(l *leaderState, now time.Time) {
	if c.politeness == nil {
		return
	}
	s := c.ensureStewards(l.domain)
	s.leaders = append(s.leaders, l)
	s.tries = 0
	if soon := now.Add(requestDelay); s.requestAt.Before(now) || s.requestAt.After(soon) {
		c.scheduleRequest(l.domain, soon)
	}
}

// firstSlot is the reference time of a new channel's slots. It differs between the channels of a
// domain, many of which may be new at once. With few channels slots begin early: fetchNow fetches
// only the first channel of a domain at once, and the others wait for their slots.
func (c *Corona) firstSlot(l *leaderState, now time.Time) time.Time {
	if c.exempt(l.domain) {
		return now
	}
	after := min(firstGrantDelay, l.interval)
	room := l.interval - after
	if s := l.domain.stewards; s != nil {
		few := (len(s.leaders) + 1) * c.members()
		room = min(room, time.Duration(few)*c.scaled(slotSpread))
	}
	part := float64(mix(tieBreak(l.key))>>11) / (1 << 53)
	return now.Add(after + time.Duration(part*float64(room)) - l.interval)
}

// inheritGrant takes over the grant of the earlier sequencer. It keeps the wedge as it is until
// this node has its own grant. Pollers verify it.
func (c *Corona) inheritGrant(l *leaderState, b string, now time.Time) {
	g, err := openGrant([]byte(b))
	if c.exempt(l.domain) || err != nil || g.key != l.key || !g.expiry.After(now) {
		return
	}
	l.grant = []byte(b)
	l.permit = &permit{portion: g.portion, expiry: now.Add(min(g.expiry.Sub(now), c.grantLifetime()))}
}

// removeFromDomain notes that this node no longer leads a channel of its domain.
func (c *Corona) removeFromDomain(l *leaderState) {
	if s := l.domain.stewards; s != nil {
		s.leaders = slices.DeleteFunc(s.leaders, func(o *leaderState) bool { return o == l })
	}
}

func (c *Corona) scheduleRequest(d *domain, at time.Time) {
	d.stewards.requestAt = at
	c.politeness.requestCalendar.Add(at, d.name)
}

// requestGrants asks a domain's steward for grants for the channels that this node leads.
func (c *Corona) requestGrants(d *domain, now time.Time) {
	s := d.stewards
	var claims []*coronapb.Claim
	size, lacking := 0, false
	send := func() {
		if len(claims) > 0 {
			c.routePoliteness(d.name, c.signClaims(claims, now))
		}
		claims, size = nil, 0
	}
	for _, l := range s.leaders {
		if c.exempt(l.domain) || l.pollers == 0 {
			continue
		}
		if c.cfg.ExemptPrivate && !l.domain.privateKnown {
			lacking = true // a response will show whether the domain is exempt
			continue
		}
		k := &coronapb.Claim{
			Url: l.url, Readers: uint32(c.readers(l)), IntervalMs: uint64(max(l.desiredInterval, c.cfg.PollInterval).Milliseconds()),
			Pollers: uint32(min(withHeadroom(l.desiredPollers), c.readerLimit(c.readers(l), l.interval), maxPollers)), Size: uint32(l.pollBytes()),
		}
		if p := l.permit; p != nil && p.expiry.After(now) {
			k.Number = p.number
		}
		lacking = lacking || k.Number == 0
		if len(claims) == maxClaims || size+len(l.url) > claimBytes {
			send()
		}
		claims = append(claims, k)
		size += len(l.url) + 32
	}
	send()
	pause := c.cfg.MaintenanceInterval*3/4 + time.Duration(c.rand.Int64N(int64(c.cfg.MaintenanceInterval)/4+1))
	if lacking {
		pause = min(pause, requestRetry<<min(s.tries, 16))
		s.tries++
	} else {
		s.tries = 0
	}
	if len(s.leaders) > 0 {
		c.scheduleRequest(d, now.Add(pause))
	}
}

// withHeadroom is the number of pollers to claim where some are wanted: a quarter more, so that the
// budget is the bound and not the previous claim.
func withHeadroom(want int) int { return max(want+(want+3)/4, 1) }

// signClaims signs claims. Without a signature, anybody could make small claims for a channel and
// take its budget away.
func (c *Corona) signClaims(claims []*coronapb.Claim, now time.Time) *coronapb.Politeness {
	signed := c.signer.Sign(wire.DomainAsk, marshal(&coronapb.Claims{Claims: claims, AtMs: millis(now)}))
	return &coronapb.Politeness{Body: &coronapb.Politeness_GrantRequest{GrantRequest: &coronapb.GrantRequest{Record: c.node.Self().Raw, Claims: signed.Raw}}}
}

// onGrantResponse takes grants for channels of a domain that are led here.
func (c *Corona) onGrantResponse(domain string, m *coronapb.GrantResponse) {
	now := c.clock.Now()
	for _, b := range m.Grants {
		g, err := openGrant(b)
		if err != nil || g.domain != domain {
			c.stats.Garbage++
			continue
		}
		if l := c.leaders[g.key]; l != nil && l.domain.name == domain {
			c.takeGrant(l, g, now)
		}
	}
}

// takeGrant takes a grant for a channel and tells the pollers. It waits until the epoch that signed
// the grant is known, because pollers reject a wrong grant.
func (c *Corona) takeGrant(l *leaderState, g *grant, now time.Time) {
	if !c.acceptGrant(&l.permitState, l.domain, g, now) {
		return
	}
	l.grant = g.append()
	c.setInterval(l, nil)
	if l.pollers > 0 {
		c.enlist(l, l.desiredPollers, now)
	}
	c.note(l)
}

// routePoliteness routes a message to the root of a domain's key.
func (c *Corona) routePoliteness(domain string, m *coronapb.Politeness) {
	m.Domain = domain
	body := marshal(&coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}})
	c.node.Route(wire.Corona, overlay.StewardKey(c.cfg.Network, domain), body, func(overlay.Receipt, bool) {})
}
