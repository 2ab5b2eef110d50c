package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
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

// ensureStewards returns what is known of a domain's stewards, making an empty record if there is
// none. A node with more than one channel of the domain has its stewards verified by a lookup. With
// one channel it takes the word of the root of the domain's key, so that few polls are lost while a
// lookup would cost more messages than the polls.
func (ps *permits) ensureStewards(d *domain) *stewards {
	if d.stewards == nil {
		d.stewards = &stewards{epochs: ps.owners.Track(overlay.StewardKey(ps.cfg.Network, d.name), "",
			func() bool { return d.refs > 1 },
			func(*owner.Epoch) { ps.takeWaitingGrants(d) })}
	}
	return d.stewards
}

// takeWaitingGrants takes the grants that waited for an epoch.
func (ps *permits) takeWaitingGrants(d *domain) {
	now := ps.clock.Now()
	for _, l := range slices.Clone(d.stewards.channels) {
		if g := l.unverified; g != nil {
			ps.takeGrant(l, g, now)
		}
	}
}

// join notes that this node leads a channel of its domain.
func (ps *permits) join(l *channelBudget, now time.Time) {
	if ps.owners == nil {
		return
	}
	s := ps.ensureStewards(l.domain)
	s.channels = append(s.channels, l)
	s.tries = 0
	if soon := now.Add(requestDelay); s.requestAt.Before(now) || s.requestAt.After(soon) {
		ps.scheduleRequest(l.domain, soon)
	}
}

// firstSlot is the reference time of a new channel's slots. It differs between the channels of a
// domain, many of which may be new at once. With few channels slots begin early: fetchNow fetches
// only the first channel of a domain at once, and the others wait for their slots.
func (ps *permits) firstSlot(l *channelBudget, interval time.Duration, now time.Time) time.Time {
	if ps.domains.exempt(l.domain) {
		return now
	}
	after := min(firstGrantDelay, interval)
	room := interval - after
	if s := l.domain.stewards; s != nil {
		few := (len(s.channels) + 1) * ps.members()
		room = min(room, time.Duration(few)*ps.scaled(slotSpread))
	}
	part := float64(env.Mix(tieBreak(l.key))>>11) / (1 << 53)
	return now.Add(after + time.Duration(part*float64(room)) - interval)
}

// inheritGrant takes over the grant of the earlier sequencer. It keeps the wedge as it is until
// this node has its own grant. Pollers verify it.
func (ps *permits) inheritGrant(l *channelBudget, b string, now time.Time) {
	g, err := openGrant([]byte(b))
	if ps.domains.exempt(l.domain) || err != nil || g.key != l.key || !g.expiry.After(now) {
		return
	}
	l.grant = []byte(b)
	l.permit = &permit{portion: g.portion, expiry: now.Add(min(g.expiry.Sub(now), ps.grantLifetime()))}
}

// leave notes that this node no longer leads a channel of its domain.
func (ps *permits) leave(l *channelBudget) {
	if s := l.domain.stewards; s != nil {
		s.channels = slices.DeleteFunc(s.channels, func(o *channelBudget) bool { return o == l })
	}
}

func (ps *permits) scheduleRequest(d *domain, at time.Time) {
	d.stewards.requestAt = at
	ps.calendar.Add(at, d.name)
}

// requestGrants asks a domain's steward for grants for the channels that this node leads.
func (ps *permits) requestGrants(d *domain, now time.Time) {
	s := d.stewards
	var claims []*coronapb.Claim
	size, lacking := 0, false
	send := func() {
		if len(claims) > 0 {
			ps.routePoliteness(overlay.StewardKey(ps.cfg.Network, d.name), d.name, ps.signClaims(claims, now), func(overlay.Receipt, bool) {})
		}
		claims, size = nil, 0
	}
	for _, l := range s.channels {
		readers, interval, bytes, ok := ps.up.demand(l.key)
		if !ok || ps.domains.exempt(l.domain) {
			continue
		}
		if ps.cfg.ExemptPrivate && !l.domain.privateKnown {
			lacking = true // a response will show whether the domain is exempt
			continue
		}
		k := &coronapb.Claim{
			Url: l.url, Readers: uint32(readers), IntervalMs: uint64(max(l.desiredInterval, ps.cfg.PollInterval).Milliseconds()),
			Pollers: uint32(min(withHeadroom(l.desiredPollers), ps.readerLimit(readers, interval), maxPollers)), Size: uint32(bytes),
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
	pause := ps.cfg.MaintenanceInterval*3/4 + time.Duration(ps.rand.Int64N(int64(ps.cfg.MaintenanceInterval)/4+1))
	if lacking {
		pause = min(pause, requestRetry<<min(s.tries, 16))
		s.tries++
	} else {
		s.tries = 0
	}
	if len(s.channels) > 0 {
		ps.scheduleRequest(d, now.Add(pause))
	}
}

// withHeadroom is the number of pollers to claim where some are wanted: a quarter more, so that the
// budget is the bound and not the previous claim.
func withHeadroom(want int) int { return max(want+(want+3)/4, 1) }

// signClaims signs claims. Without a signature, anybody could make small claims for a channel and
// take its budget away.
func (ps *permits) signClaims(claims []*coronapb.Claim, now time.Time) *coronapb.Politeness {
	signed := ps.signer.Sign(wire.DomainRequest, wire.Encode(&coronapb.Claims{Claims: claims, AtMs: millis(now)}))
	return &coronapb.Politeness{Body: &coronapb.Politeness_GrantRequest{GrantRequest: &coronapb.GrantRequest{Record: ps.node.Self().Raw, Claims: signed.Raw}}}
}

// onGrantResponse takes grants for channels of a domain that are led here.
func (ps *permits) onGrantResponse(domain string, m *coronapb.GrantResponse) {
	now := ps.clock.Now()
	for _, b := range m.Grants {
		g, err := openGrant(b)
		if err != nil || g.domain != domain {
			ps.stats.Garbage++
			continue
		}
		if l := ps.domains.channel(domain, g.key); l != nil {
			ps.takeGrant(l, g, now)
		}
	}
}

// takeGrant takes a grant for a channel and tells the pollers. It waits until the epoch that signed
// the grant is known, because pollers reject a wrong grant.
func (ps *permits) takeGrant(l *channelBudget, g *grant, now time.Time) {
	if !ps.acceptGrant(&l.permitState, l.domain, g, now) {
		return
	}
	l.grant = g.append()
	ps.up.granted(l.key, now)
}
