package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// stewardCache is what a node knows of a domain's stewards.
type stewardCache struct {
	epochs     []*owner.Epoch // epochs of the domain's key that this node accepts, the latest last
	unverified *owner.Epoch   // an epoch that the root named and a lookup is checking
	verified   bool           // a lookup has found the owners of the first epoch; the others succeed it
	nonce      uint64         // of the current epoch request; 0: none
	askedAt    time.Time
	failedAsks int // requests without an answer

	leaders   []*leaderState // the domain's channels that are led here
	requestAt time.Time      // time of the next grant request
	tries     int            // grant requests after which a channel still lacked a grant
}

const (
	// maxEpochs bounds the remembered epochs of one key. Grants of earlier epochs are used until
	// they are renewed.
	maxEpochs = 3
	// epochRetry is the delay before an epoch is requested again. It doubles each time.
	epochRetry = 10 * time.Second
	// maxEpoch bounds an encoded epoch, in bytes.
	maxEpoch = 12 << 10
)

// stewardCache returns a domain's cache, making one if there is none.
func (d *domain) stewardCache() *stewardCache {
	if d.stewards == nil {
		d.stewards = &stewardCache{}
	}
	return d.stewards
}

// cachedEpoch returns an epoch of a domain's key by its hash. If the epoch is not known,
// cachedEpoch requests it and returns nil. The request goes to the root of the key, so the node
// that sent the order to poll has no influence on the answer. The answer is one member's word,
// though, so a node with more than one channel of the domain verifies the owners by a lookup.
func (c *Corona) cachedEpoch(d *domain, hash owner.Hash, now time.Time) *owner.Epoch {
	s := d.stewardCache()
	for _, e := range s.epochs {
		if e.Hash == hash && (s.verified || d.refs < 2) {
			return e
		}
	}
	if v, ok := c.politeness.owners.View(overlay.StewardKey(c.cfg.Network, d.name)); ok && v.Owns && v.Epoch.Hash == hash {
		return v.Epoch
	}
	if s.unverified == nil && now.Sub(s.askedAt) >= min(epochRetry<<min(s.failedAsks, 16), c.cfg.MaintenanceInterval) {
		s.askedAt, s.nonce = now, c.rand.Uint64()
		s.failedAsks++
		c.routePoliteness(d.name, &coronapb.Politeness{Body: &coronapb.Politeness_EpochRequest{
			EpochRequest: &coronapb.EpochRequest{Record: c.node.Self().Raw, Nonce: s.nonce},
		}})
	}
	return nil
}

// onEpochRequest answers with the epoch of a domain's key, as the key's root or one of its owners.
func (c *Corona) onEpochRequest(domain string, m *coronapb.EpochRequest) {
	sender, err := c.node.OpenRecord(m.Record)
	if err != nil {
		c.stats.Garbage++
		return
	}
	v, ok := c.politeness.owners.View(overlay.StewardKey(c.cfg.Network, domain))
	if !ok || v.Epoch == nil {
		return // no grant was requested yet, or the request was misrouted
	}
	c.sendPoliteness(sender.Peer, domain, &coronapb.Politeness{Body: &coronapb.Politeness_EpochResponse{
		EpochResponse: &coronapb.EpochResponse{Nonce: m.Nonce, Epoch: v.Epoch.Bytes()},
	}})
}

// onEpochResponse takes the answer. Only a node on the route to the root knows the nonce.
func (c *Corona) onEpochResponse(domain string, m *coronapb.EpochResponse) {
	d := c.domains[domain]
	if d == nil || d.stewards == nil || d.stewards.nonce != m.Nonce || m.Nonce == 0 {
		return
	}
	s := d.stewards
	s.nonce = 0
	e, err := c.politeness.owners.OpenEpoch(m.Epoch)
	if err != nil || e.URL != overlay.StewardURL(domain) {
		c.stats.Garbage++
		return
	}
	alone := d.refs < 2
	if n := len(s.epochs); n > 0 && (s.verified || alone) && (e.Hash == s.epochs[n-1].Hash || e.Succeeds(s.epochs[n-1])) {
		c.addEpoch(d, e)
		return
	}
	if alone {
		s.epochs, s.verified = nil, false
		c.addEpoch(d, e)
		return
	}
	s.unverified = e
	c.politeness.owners.VerifyOwners(e, func(ok bool) {
		if c.domains[domain] != d || d.stewards != s || s.unverified != e {
			return // this node no longer uses the domain
		}
		s.unverified = nil
		if !ok {
			c.stats.Forged++
			return
		}
		s.epochs, s.verified = nil, true
		c.addEpoch(d, e)
	})
}

// addEpoch remembers an epoch, and takes the grants that waited for it.
func (c *Corona) addEpoch(d *domain, e *owner.Epoch) {
	s := d.stewards
	s.failedAsks = 0
	if !slices.ContainsFunc(s.epochs, func(old *owner.Epoch) bool { return old.Hash == e.Hash }) {
		if s.epochs = append(s.epochs, e); len(s.epochs) > maxEpochs {
			s.epochs = slices.Clone(s.epochs[1:])
		}
	}
	now := c.clock.Now()
	for _, l := range slices.Clone(s.leaders) {
		if g := l.unverified; g != nil {
			c.takeGrant(l, g, now)
		}
	}
}
