package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// stewards are what a node knows of those of a domain.
type stewards struct {
	epochs  []*owner.Epoch // of the domain's key, believed; the latest last
	doubted *owner.Epoch   // the root has named it, and a look-up is under way
	vouched bool           // a look-up has found the owners of the first of them; the others go on from it
	nonce   uint64         // of the question for another one
	asked   time.Time
	asks    int // that were not answered

	led   []*lead   // the domain's channels that are led here
	askAt time.Time // when grants for them are asked for next
	tries int       // that brought no grant for one of them
}

const (
	// maxEpochs bounds the epochs of one key that are known: grants of the one before last
	// until they are renewed.
	maxEpochs = 3
	// charterAgain is waited before an epoch is asked for again, then twice as long each time.
	charterAgain = 10 * time.Second
	// maxCharter bounds an epoch in bytes.
	maxCharter = 12 << 10
)

// of returns what is known of a domain's stewards.
func (d *domain) of() *stewards {
	if d.stewards == nil {
		d.stewards = &stewards{}
	}
	return d.stewards
}

// epoch returns an epoch of a domain's key by its hash, nil if it is not known: then it is
// asked for. The root of the key names it, so that who gave an order to poll has no part
// in it. It is one member's word, though; a node that has to do with more than one
// channel of the domain looks for itself who lives there.
func (c *Corona) epoch(d *domain, hash owner.Hash, now time.Time) *owner.Epoch {
	s := d.of()
	for _, e := range s.epochs {
		if e.Hash == hash && (s.vouched || d.users < 2) {
			return e
		}
	}
	if v, ok := c.manners.owners.View(overlay.StewardKey(c.cfg.Network, d.name)); ok && v.Owns && v.Epoch.Hash == hash {
		return v.Epoch
	}
	if s.doubted == nil && now.Sub(s.asked) >= min(charterAgain<<min(s.asks, 16), c.cfg.MaintenanceInterval) {
		s.asked, s.nonce = now, c.rand.Uint64()
		s.asks++
		c.routePoliteness(d.name, &coronapb.Politeness{Body: &coronapb.Politeness_WhoGrants{
			WhoGrants: &coronapb.WhoGrants{Record: c.node.Self().Raw, Nonce: s.nonce},
		}})
	}
	return nil
}

// onWhoGrants names the epoch of a domain's key, as its root or an owner.
func (c *Corona) onWhoGrants(domain string, m *coronapb.WhoGrants) {
	asker, err := c.node.OpenRecord(m.Record)
	if err != nil {
		c.stats.Garbage++
		return
	}
	v, ok := c.manners.owners.View(overlay.StewardKey(c.cfg.Network, domain))
	if !ok || v.Epoch == nil {
		return // nobody has asked for a grant yet, or this node was told of a key by mistake
	}
	c.sendPoliteness(asker.Peer, domain, &coronapb.Politeness{Body: &coronapb.Politeness_Charter{
		Charter: &coronapb.Charter{Nonce: m.Nonce, Epoch: v.Epoch.Bytes()},
	}})
}

// onCharter takes the answer. Who answers has got the question: it stands on the way to the
// root.
func (c *Corona) onCharter(domain string, m *coronapb.Charter) {
	d := c.domains[domain]
	if d == nil || d.stewards == nil || d.stewards.nonce != m.Nonce || m.Nonce == 0 {
		return
	}
	s := d.stewards
	s.nonce = 0
	e, err := c.manners.owners.OpenEpoch(m.Epoch)
	if err != nil || e.URL != overlay.StewardURL(domain) {
		c.stats.Garbage++
		return
	}
	alone := d.users < 2
	if n := len(s.epochs); n > 0 && (s.vouched || alone) && (e.Hash == s.epochs[n-1].Hash || e.Succeeds(s.epochs[n-1])) {
		c.believe(d, e)
		return
	}
	if alone {
		s.epochs, s.vouched = nil, false
		c.believe(d, e)
		return
	}
	s.doubted = e
	c.manners.owners.VerifyOwners(e, func(ok bool) {
		if c.domains[domain] != d || d.stewards != s || s.doubted != e {
			return // nobody here has to do with the domain any more
		}
		s.doubted = nil
		if !ok {
			c.stats.Forged++
			return
		}
		s.epochs, s.vouched = nil, true
		c.believe(d, e)
	})
}

// believe notes an epoch, and takes the grants that have waited for it.
func (c *Corona) believe(d *domain, e *owner.Epoch) {
	s := d.stewards
	s.asks = 0
	if !slices.ContainsFunc(s.epochs, func(old *owner.Epoch) bool { return old.Hash == e.Hash }) {
		if s.epochs = append(s.epochs, e); len(s.epochs) > maxEpochs {
			s.epochs = slices.Clone(s.epochs[1:])
		}
	}
	now := c.clock.Now()
	for _, l := range slices.Clone(s.led) {
		if g := l.offered; g != nil {
			c.offer(l, g, now)
		}
	}
}
