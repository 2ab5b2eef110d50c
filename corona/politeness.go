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

// Owners knows the owners of keys. An *owner.Owners implements it.
type Owners interface {
	View(key overlay.ID) (owner.View, bool)
	RequestOwners(key overlay.ID, url string, done func(ok bool))
	Track(key overlay.ID, cfg owner.TrackerConfig) *owner.Tracker
}

// politeness is the state that a Corona needs to keep to budgets.
type politeness struct {
	owners Owners

	startedAt       time.Time                    // when this node started, without knowledge of earlier grants
	stewardStates   map[overlay.ID]*stewardState // of domains whose key this node owns
	accountCount    int                          // accounts of all stewardStates
	rootAskedAt     map[overlay.ID]time.Time     // by domain key: the last grant request that this node got as the key's root
	recentPolls     map[overlay.ID]time.Time     // assignment.extra.allowedAt of channels that this node no longer polls
	requestCalendar env.Calendar[string]         // domains whose steward is to be asked for grants
	stewardCalendar env.Calendar[overlay.ID]     // domain keys with grants to issue or requests to repeat
	sweepAt         time.Time                    // when expired state is removed next
}

// EnablePoliteness makes a Corona keep to the budgets of domains, if Config.Politeness is set. The
// node asks the domains' stewards for grants, and acts as a steward for the domains whose keys it
// owns. Without it, origins have no budgets, as in the paper.
func (c *Corona) EnablePoliteness(owners Owners) {
	if !c.cfg.Politeness {
		return
	}
	now := c.clock.Now()
	c.politeness = &politeness{
		owners: owners, startedAt: now,
		stewardStates: map[overlay.ID]*stewardState{}, rootAskedAt: map[overlay.ID]time.Time{}, recentPolls: map[overlay.ID]time.Time{},
		sweepAt: now.Add(c.cfg.MaintenanceInterval),
	}
}

// runPoliteness does what is due, and returns the time of the next call.
func (c *Corona) runPoliteness(now time.Time) time.Time {
	m := c.politeness
	if m == nil {
		return time.Time{}
	}
	for {
		name, at, ok := m.requestCalendar.Pop(now)
		if !ok {
			break
		}
		if d := c.domains[name]; d != nil && d.stewards != nil && d.stewards.requestAt.Equal(at) {
			c.requestGrants(d, now)
		}
	}
	for {
		key, at, ok := m.stewardCalendar.Pop(now)
		if !ok {
			break
		}
		if o := m.stewardStates[key]; o != nil && o.issueAt.Equal(at) {
			c.issueDue(o, now)
		} else if o != nil && o.retryAt.Equal(at) {
			c.retryRequests(o, now)
		}
	}
	if !now.Before(m.sweepAt) {
		c.sweep(now)
	}
	return env.Sooner(m.sweepAt, env.Sooner(m.requestCalendar.Next(), m.stewardCalendar.Next()))
}

// sweep removes expired state.
func (c *Corona) sweep(now time.Time) {
	m := c.politeness
	m.sweepAt = now.Add(c.cfg.MaintenanceInterval)
	for key, o := range m.stewardStates {
		if c.dropExpired(o, now); len(o.accounts) == 0 && len(o.pendingGrants) == 0 {
			delete(m.stewardStates, key)
		}
	}
	for key := range m.rootAskedAt {
		if !c.StewardKeyInUse(key) {
			delete(m.rootAskedAt, key)
		}
	}
	for key, again := range m.recentPolls {
		if !again.After(now) {
			delete(m.recentPolls, key)
		}
	}
}

// Messages between the sequencers, stewards and pollers of one domain.

// breaksPoliteness returns the bound that a message breaks. Signed parts are decoded where their
// signatures are verified.
func breaksPoliteness(m *coronapb.Politeness) string {
	if len(m.GetDomain()) == 0 || len(m.GetDomain()) > maxDomain {
		return "domain"
	}
	isHash := func(b []byte) bool { return len(b) == len(owner.Hash{}) }
	switch b := m.Body.(type) {
	case *coronapb.Politeness_GrantRequest:
		if len(b.GrantRequest.Record) > maxNodeRecord || len(b.GrantRequest.Claims) > maxGrantRequest {
			return "ask"
		}
	case *coronapb.Politeness_GrantResponse:
		if len(b.GrantResponse.Grants) > maxGrants {
			return "granted"
		}
	case *coronapb.Politeness_Countersign:
		if !isHash(b.Countersign.Epoch) || len(b.Countersign.Statements) > maxGrants || len(b.Countersign.Readers) != len(b.Countersign.Statements) {
			return "countersign"
		}
	case *coronapb.Politeness_Countersigned:
		if len(b.Countersigned.Signatures) > maxGrants {
			return "countersigned"
		}
		for _, s := range b.Countersigned.Signatures {
			if len(s.GetKey()) != len(overlay.ID{}) || len(s.GetSignature()) != ed25519.SignatureSize {
				return "signature"
			}
		}
	case *coronapb.Politeness_LedgerRequest:
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
	default:
		return "politeness"
	}
	return ""
}

// deliverPoliteness takes a message that was routed to a domain's key. This node is the key's root
// or its sequencer. The first grant request for a domain makes the root claim ownership of the key.
func (c *Corona) deliverPoliteness(key overlay.ID, m *coronapb.Politeness) {
	if c.politeness == nil || overlay.StewardKey(c.cfg.Network, m.Domain) != key {
		c.stats.Garbage++
		return
	}
	switch b := m.Body.(type) {
	case *coronapb.Politeness_GrantRequest:
		now := c.clock.Now()
		sender, requests := c.openGrantRequest(m.Domain, b.GrantRequest, now)
		if len(requests) == 0 {
			return
		}
		if len(c.politeness.rootAskedAt) < maxStewardStates {
			c.politeness.rootAskedAt[key] = now
		}
		switch v, _ := c.politeness.owners.View(key); {
		case v.Epoch == nil:
			c.politeness.owners.RequestOwners(key, overlay.StewardURL(m.Domain), func(bool) {}) // the sender repeats its request
		case v.Leads:
			c.onGrantRequest(m.Domain, sender, requests, now)
		case v.Epoch.Sequencer != c.node.Self().Peer.ID:
			c.sendPoliteness(c.peer(v.Epoch.Sequencer), m.Domain, m)
		}
	default:
		c.stats.Garbage++
	}
}

// takePoliteness takes a message that was sent to this node directly.
func (c *Corona) takePoliteness(from env.PeerID, m *coronapb.Politeness) {
	if c.politeness == nil {
		c.stats.Astray++
		return
	}
	now := c.clock.Now()
	switch b := m.Body.(type) {
	case *coronapb.Politeness_GrantRequest:
		if sender, requests := c.openGrantRequest(m.Domain, b.GrantRequest, now); len(requests) > 0 {
			c.onGrantRequest(m.Domain, sender, requests, now)
		}
	case *coronapb.Politeness_GrantResponse:
		c.onGrantResponse(m.Domain, b.GrantResponse)
	case *coronapb.Politeness_Countersign:
		c.onCountersign(from, m.Domain, b.Countersign, now)
	case *coronapb.Politeness_Countersigned:
		c.onCountersigned(from, m.Domain, b.Countersigned)
	case *coronapb.Politeness_LedgerRequest:
		c.onLedgerRequest(from, m.Domain, b.LedgerRequest)
	case *coronapb.Politeness_Ledger:
		c.onLedger(from, m.Domain, b.Ledger, now)
	default:
		c.stats.Garbage++ // such a message has to be routed
	}
}

// sendPoliteness sends a message about a domain.
func (c *Corona) sendPoliteness(to env.Peer, domain string, m *coronapb.Politeness) {
	m.Domain = domain
	c.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Corona, &coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}}))
}

// peer returns a peer with its known addresses.
func (c *Corona) peer(id env.PeerID) env.Peer {
	if known := c.node.Contact(id); known != nil {
		return known.Peer
	}
	if known := c.node.Leaf().Has(overlay.NodeID(c.cfg.Network, id)); known != nil {
		return known.Peer
	}
	return env.Peer{ID: id}
}
