package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// What a new sequencer of a domain's key learns from the others: what they have signed, and
// counts until it expires.

// assume takes up the office, at a new sequencer or with other owners: it learns first what
// was granted.
func (c *Corona) assume(o *office, e *owner.Epoch, now time.Time) {
	if o.leads(e) {
		return
	}
	before := o.epoch
	o.epoch, o.signing, o.urged, o.nonce = e, nil, 0, 0
	o.heard = []env.PeerID{c.node.Self().Peer.ID}
	switch {
	case before != nil && before.Hash == e.Prior:
		// It goes on, with some who may have signed for another sequencer.
		for _, p := range e.Owners {
			if slices.Contains(before.Owners, p) && !slices.Contains(o.heard, p) {
				o.heard = append(o.heard, p)
			}
		}
	case e.Number == 1 && e.Prior == (owner.Hash{}) && e.Time.After(c.manners.since):
		// All channels want something at once: what the first of them wants is not theirs yet.
		o.settled = now.Add(c.cfg.MaintenanceInterval)
	case e.Number == 1:
		// A quorum was lost, and with it perhaps who knows of grants.
		o.settled = now.Add(c.life() + clockSlack)
	case !e.Time.After(c.manners.since):
		// This node has forgotten, and so may all who were started again with it.
		o.settled = c.manners.since.Add(c.life() + clockSlack)
	}
	if len(o.heard) < len(e.Owners) {
		o.nonce = c.rand.Uint64() | 1
		c.owed(o, e, now)
	}
}

// owed asks the other owners what they have signed.
func (c *Corona) owed(o *office, e *owner.Epoch, now time.Time) {
	for _, p := range e.Owners {
		if !slices.Contains(o.heard, p) {
			c.sendPoliteness(c.peer(p), o.domain, &coronapb.Politeness{Body: &coronapb.Politeness_Owed{Owed: &coronapb.Owed{Nonce: o.nonce}}})
		}
	}
	c.urgeSoon(o, now)
}

// onOwed says what this owner has signed.
func (c *Corona) onOwed(from env.PeerID, domain string, m *coronapb.Owed) {
	o, v := c.office(domain)
	if o == nil || v.Epoch.Sequencer != from {
		return
	}
	c.tidy(o, c.clock.Now())
	answer := &coronapb.Ledger{Nonce: m.Nonce}
	send := func() {
		c.sendPoliteness(c.peer(from), domain, &coronapb.Politeness{Body: &coronapb.Politeness_Ledger{Ledger: answer}})
		answer = &coronapb.Ledger{Nonce: m.Nonce}
	}
	for _, a := range o.accounts {
		for _, e := range a.entries {
			if len(answer.Entries) == maxLedger {
				send()
			}
			answer.Entries = append(answer.Entries, &coronapb.Ledger_Entry{
				Key: a.key[:], Pollers: uint32(e.pollers), IntervalMs: uint64(e.interval.Milliseconds()), ExpiryMs: millis(e.expiry), Number: e.number, Readers: uint32(e.readers),
			})
		}
	}
	answer.Last = true
	send()
}

// onLedger takes what another owner has signed.
func (c *Corona) onLedger(from env.PeerID, domain string, m *coronapb.Ledger, now time.Time) {
	o, v := c.office(domain)
	if o == nil || !v.Leads || !o.leads(v.Epoch) || o.nonce == 0 || o.nonce != m.Nonce || !slices.Contains(v.Epoch.Owners, from) {
		return
	}
	for _, e := range m.Entries {
		expiry := timeOf(e.ExpiryMs)
		if expiry.After(now.Add(c.life() + clockSlack)) {
			c.stats.Garbage++ // no owner signs that
			continue
		}
		if a := c.open(o, overlay.ID(e.Key)); a != nil {
			a.add(entry{portion{int(e.Pollers), time.Duration(e.IntervalMs) * time.Millisecond}, expiry, e.Number, c.believed(e.Readers)})
		}
	}
	if !m.Last || slices.Contains(o.heard, from) {
		return
	}
	if o.heard = append(o.heard, from); len(o.heard) >= len(v.Epoch.Owners) {
		o.nonce = 0
		c.deal(o, v.Epoch, now)
	}
}
