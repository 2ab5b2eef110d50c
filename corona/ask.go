package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/wire"
	"tidings/overlay"
)

// The way of a grant, at the sequencer of a channel: of all channels of one domain that it
// leads it says, each maintenance interval, what they would be polled for; what is
// granted goes to the wedges with their words.

const (
	// askSoon is waited for more channels of one domain, as when this node has just come.
	askSoon = 2 * time.Second
	// askAgain is waited for a grant that is missing, then twice as long each time, a
	// maintenance interval at most.
	askAgain = 10 * time.Second
	// fullGrant is how many maintenance intervals it takes at most until a new channel has one of
	// more than one poller: its domain's stewards may be new, too.
	fullGrant = 2
	// firstGrant is about how long it takes until a new channel has one.
	firstGrant = 20 * time.Second
	// earlySlots is within how long the slots of a domain's few channels begin, for each of
	// them: so that in ten minutes no more are looked at first than two thirds of what any
	// domain bears (budgetFloor), were there as many as fill the interval.
	earlySlots = 30 * time.Second
	// maxClaims bounds an Ask, beside claimBytes; what a domain has more goes in another.
	// maxAsk is more than it can come to with the longest URL, signed.
	maxClaims  = 256
	claimBytes = 32 << 10
	maxAsk     = 64 << 10
	// maxGranted bounds a Granted.
	maxGranted = 64
)

// presides notes that a channel is led here.
func (c *Corona) presides(l *lead, now time.Time) {
	if c.manners == nil {
		return
	}
	s := l.domain.of()
	s.led = append(s.led, l)
	s.tries = 0
	if soon := now.Add(askSoon); s.askAt.Before(now) || s.askAt.After(soon) {
		c.askAt(l.domain, soon)
	}
}

// begins is when the slots of a new channel begin: apart from those of its domain's other
// channels, many of which may be new at once. The fewer there are, the earlier they begin: the
// first that a node leads is looked at at once (look), and others have to wait for that.
func (c *Corona) begins(l *lead, now time.Time) time.Time {
	if c.exempt(l.domain) {
		return now
	}
	after := min(firstGrant, l.interval)
	room := l.interval - after
	if s := l.domain.stewards; s != nil {
		few := (len(s.led) + 1) * c.members()
		room = min(room, time.Duration(few)*c.scaled(earlySlots))
	}
	part := float64(mix(tie(l.key))>>11) / (1 << 53)
	return now.Add(after + time.Duration(part*float64(room)) - l.interval)
}

// takeOver takes the grant that the sequencer before has left. Until this node has one
// itself, it holds, so that the wedge stays as it is: pollers verify it.
func (c *Corona) takeOver(l *lead, b string, now time.Time) {
	g, err := openGrant([]byte(b))
	if c.exempt(l.domain) || err != nil || g.key != l.key || !g.expiry.After(now) {
		return
	}
	l.grant = []byte(b)
	l.permit = &permit{portion: g.portion, expiry: now.Add(min(g.expiry.Sub(now), c.life()))}
}

// resigns notes that it is so no longer.
func (c *Corona) resigns(l *lead) {
	if s := l.domain.stewards; s != nil {
		s.led = slices.DeleteFunc(s.led, func(o *lead) bool { return o == l })
	}
}

func (c *Corona) askAt(d *domain, at time.Time) {
	d.stewards.askAt = at
	c.manners.asks.Add(at, d.name)
}

// ask asks a domain's steward for grants of the channels that this node leads.
func (c *Corona) ask(d *domain, now time.Time) {
	s := d.stewards
	var claims []*coronapb.Claim
	size, lacking := 0, false
	send := func() {
		if len(claims) > 0 {
			c.routePoliteness(d.name, c.claiming(claims, now))
		}
		claims, size = nil, 0
	}
	for _, l := range s.led {
		if c.exempt(l.domain) || l.pollers == 0 {
			continue
		}
		if c.cfg.ExemptPrivate && !l.domain.seen {
			lacking = true // it may be exempt, which is seen when it answers
			continue
		}
		k := &coronapb.Claim{
			Url: l.url, Readers: uint32(c.readers(l)), IntervalMs: uint64(max(l.paced, c.cfg.PollInterval).Milliseconds()),
			Pollers: uint32(min(spare(l.want), c.worth(c.readers(l), l.interval), maxPollers)), Size: uint32(l.bytes()),
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
		pause = min(pause, askAgain<<min(s.tries, 16))
		s.tries++
	} else {
		s.tries = 0
	}
	if len(s.led) > 0 {
		c.askAt(d, now.Add(pause))
	}
}

// spare is how many pollers are asked for where some are wanted: a quarter more, so that it is
// the budgets of domains that bind, and not what was asked for the last time.
func spare(want int) int { return max(want+(want+3)/4, 1) }

// claiming signs claims: else anybody could make them for who leads the channels, and take
// their budgets from them.
func (c *Corona) claiming(claims []*coronapb.Claim, now time.Time) *coronapb.Politeness {
	signed := c.signer.Sign(wire.DomainAsk, marshal(&coronapb.Claims{Claims: claims, AtMs: millis(now)}))
	return &coronapb.Politeness{Body: &coronapb.Politeness_Ask{Ask: &coronapb.Ask{Record: c.node.Self().Raw, Claims: signed.Raw}}}
}

// onGranted takes grants for channels of a domain that are led here.
func (c *Corona) onGranted(domain string, m *coronapb.Granted) {
	now := c.clock.Now()
	for _, b := range m.Grants {
		g, err := openGrant(b)
		if err != nil || g.domain != domain {
			c.stats.Garbage++
			continue
		}
		if l := c.leads[g.key]; l != nil && l.domain.name == domain {
			c.offer(l, g, now)
		}
	}
}

// offer takes a grant for a channel, when the epoch whose owners have signed is known: who
// lets the pollers have a wrong one has none.
func (c *Corona) offer(l *lead, g *grant, now time.Time) {
	if !c.admit(&l.pass, l.domain, g, now) {
		return
	}
	l.grant = g.append()
	c.pace(l, nil)
	if l.pollers > 0 {
		c.enlist(l, l.want, now)
	}
	c.note(l)
}

// routePoliteness sends a message to the root of a domain's key.
func (c *Corona) routePoliteness(domain string, m *coronapb.Politeness) {
	m.Domain = domain
	body := marshal(&coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}})
	c.node.Route(wire.Corona, overlay.StewardKey(c.cfg.Network, domain), body, func(overlay.Receipt, bool) {})
}
