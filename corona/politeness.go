package corona

import (
	"crypto/ed25519"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Owners say who owns a key, and whether others do: an *owner.Owners.
type Owners interface {
	View(key overlay.ID) (owner.View, bool)
	RequestOwners(key overlay.ID, url string, done func(ok bool))
	OpenEpoch(b []byte) (*owner.Epoch, error)
	VerifyOwners(e *owner.Epoch, then func(ok bool))
}

// manners are what a Corona needs to be polite.
type manners struct {
	owners Owners

	since   time.Time                // when this node began, and knew of no grants
	offices map[overlay.ID]*office   // of domains whose key this node owns
	held    int                      // accounts of all offices
	calls   map[overlay.ID]time.Time // domains' keys by when this node, as their root, was asked last
	lately  map[overlay.ID]time.Time // duty.again of channels that this node polls no longer
	asks    env.Calendar[string]     // domains whose steward is to be asked
	works   env.Calendar[overlay.ID] // offices where grants are due, or answers
	sweep   time.Time                // when what is over is forgotten
}

// BePolite makes a Corona keep to the budgets of domains, if Config.Politeness is set: it asks
// their stewards, and is one for the domains whose keys it owns. Without it no origin has a
// budget, as in the paper.
func (c *Corona) BePolite(owners Owners) {
	if !c.cfg.Politeness {
		return
	}
	now := c.clock.Now()
	c.manners = &manners{
		owners: owners, since: now,
		offices: map[overlay.ID]*office{}, calls: map[overlay.ID]time.Time{}, lately: map[overlay.ID]time.Time{},
		sweep: now.Add(c.cfg.MaintenanceInterval),
	}
}

// runManners does what is due of politeness.
func (c *Corona) runManners(now time.Time) time.Time {
	m := c.manners
	if m == nil {
		return time.Time{}
	}
	for {
		name, at, ok := m.asks.Pop(now)
		if !ok {
			break
		}
		if d := c.domains[name]; d != nil && d.stewards != nil && d.stewards.askAt.Equal(at) {
			c.ask(d, now)
		}
	}
	for {
		key, at, ok := m.works.Pop(now)
		if !ok {
			break
		}
		if o := m.offices[key]; o != nil && o.dealAt.Equal(at) {
			c.dealDue(o, now)
		} else if o != nil && o.urgeAt.Equal(at) {
			c.urge(o, now)
		}
	}
	if !now.Before(m.sweep) {
		c.sweep(now)
	}
	return env.Sooner(m.sweep, env.Sooner(m.asks.Next(), m.works.Next()))
}

// sweep forgets what is over.
func (c *Corona) sweep(now time.Time) {
	m := c.manners
	m.sweep = now.Add(c.cfg.MaintenanceInterval)
	for key, o := range m.offices {
		if c.tidy(o, now); len(o.accounts) == 0 && len(o.signing) == 0 {
			delete(m.offices, key)
		}
	}
	for key := range m.calls {
		if !c.Stewards(key) {
			delete(m.calls, key)
		}
	}
	for key, again := range m.lately {
		if !again.After(now) {
			delete(m.lately, key)
		}
	}
}

// What sequencers, stewards and pollers of one domain have to say to each other.

// breaksPoliteness says which bound a message breaks. What is signed is read where it is
// verified.
func breaksPoliteness(m *coronapb.Politeness) string {
	if len(m.GetDomain()) == 0 || len(m.GetDomain()) > maxDomain {
		return "domain"
	}
	isHash := func(b []byte) bool { return len(b) == len(owner.Hash{}) }
	switch b := m.Body.(type) {
	case *coronapb.Politeness_Ask:
		if len(b.Ask.Record) > maxRecord || len(b.Ask.Claims) > maxAsk {
			return "ask"
		}
	case *coronapb.Politeness_Granted:
		if len(b.Granted.Grants) > maxGranted {
			return "granted"
		}
	case *coronapb.Politeness_Countersign:
		if !isHash(b.Countersign.Epoch) || len(b.Countersign.Statements) > maxGranted || len(b.Countersign.Readers) != len(b.Countersign.Statements) {
			return "countersign"
		}
	case *coronapb.Politeness_Countersigned:
		if len(b.Countersigned.Signatures) > maxGranted {
			return "countersigned"
		}
		for _, s := range b.Countersigned.Signatures {
			if len(s.GetKey()) != len(overlay.ID{}) || len(s.GetSignature()) != ed25519.SignatureSize {
				return "signature"
			}
		}
	case *coronapb.Politeness_Owed:
	case *coronapb.Politeness_Ledger:
		if len(b.Ledger.Entries) > maxLedger {
			return "ledger"
		}
		for _, e := range b.Ledger.Entries {
			if len(e.GetKey()) != len(overlay.ID{}) || e.GetPollers() == 0 || e.GetPollers() > maxPollers ||
				e.GetIntervalMs() == 0 || e.GetIntervalMs() > uint64(maxStretch.Milliseconds()) || e.GetExpiryMs() > maxMillis || e.GetNumber() > e.GetExpiryMs() {
				return "entry"
			}
		}
	case *coronapb.Politeness_WhoGrants:
		if len(b.WhoGrants.Record) > maxRecord {
			return "record"
		}
	case *coronapb.Politeness_Charter:
		if len(b.Charter.Epoch) > maxCharter {
			return "charter"
		}
	default:
		return "politeness"
	}
	return ""
}

// deliverPoliteness takes a message that was routed to a domain's key: it is for the key's
// sequencer, and this node is the root, or the sequencer itself. The first who asks makes
// the key owned.
func (c *Corona) deliverPoliteness(key overlay.ID, m *coronapb.Politeness) {
	if c.manners == nil || overlay.StewardKey(c.cfg.Network, m.Domain) != key {
		c.stats.Garbage++
		return
	}
	switch b := m.Body.(type) {
	case *coronapb.Politeness_WhoGrants:
		c.onWhoGrants(m.Domain, b.WhoGrants)
	case *coronapb.Politeness_Ask:
		now := c.clock.Now()
		asker, bids := c.openAsk(m.Domain, b.Ask, now)
		if len(bids) == 0 {
			return
		}
		if len(c.manners.calls) < maxOffices {
			c.manners.calls[key] = now
		}
		switch v, _ := c.manners.owners.View(key); {
		case v.Epoch == nil:
			c.manners.owners.RequestOwners(key, overlay.StewardURL(m.Domain), func(bool) {}) // who asks, asks again
		case v.Leads:
			c.onAsk(m.Domain, asker, bids, now)
		case v.Epoch.Sequencer != c.node.Self().Peer.ID:
			c.sendPoliteness(c.peer(v.Epoch.Sequencer), m.Domain, m)
		}
	default:
		c.stats.Garbage++
	}
}

// takePoliteness takes one that was sent to this node.
func (c *Corona) takePoliteness(from env.PeerID, m *coronapb.Politeness) {
	if c.manners == nil {
		c.stats.Astray++
		return
	}
	now := c.clock.Now()
	switch b := m.Body.(type) {
	case *coronapb.Politeness_Ask:
		if asker, bids := c.openAsk(m.Domain, b.Ask, now); len(bids) > 0 {
			c.onAsk(m.Domain, asker, bids, now)
		}
	case *coronapb.Politeness_Granted:
		c.onGranted(m.Domain, b.Granted)
	case *coronapb.Politeness_Countersign:
		c.onCountersign(from, m.Domain, b.Countersign, now)
	case *coronapb.Politeness_Countersigned:
		c.onCountersigned(from, m.Domain, b.Countersigned)
	case *coronapb.Politeness_Owed:
		c.onOwed(from, m.Domain, b.Owed)
	case *coronapb.Politeness_Ledger:
		c.onLedger(from, m.Domain, b.Ledger, now)
	case *coronapb.Politeness_Charter:
		c.onCharter(m.Domain, b.Charter)
	default:
		c.stats.Garbage++ // it is routed
	}
}

// sendPoliteness sends a message about a domain.
func (c *Corona) sendPoliteness(to env.Peer, domain string, m *coronapb.Politeness) {
	m.Domain = domain
	c.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Corona, &coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}}))
}

// peer returns a peer with the addresses that are known of it.
func (c *Corona) peer(id env.PeerID) env.Peer {
	if known := c.node.Contact(id); known != nil {
		return known.Peer
	}
	if known := c.node.Leaf().Has(overlay.NodeID(c.cfg.Network, id)); known != nil {
		return known.Peer
	}
	return env.Peer{ID: id}
}
