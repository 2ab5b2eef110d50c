package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A new budget leader asks the other stewards for the grants that they have signed and that are
// still in force.

// startEpoch starts to divide the budget in a new epoch, or with other stewards. The budget leader
// first learns which grants are in force.
func (st *steward) startEpoch(o *stewardState, e *owner.Epoch, now time.Time) {
	if o.leads(e) {
		return
	}
	before := o.epoch
	o.epoch, o.pendingGrants, o.ledgerTries, o.ledgerNonce = e, nil, 0, 0
	o.ledgersFrom = []env.PeerID{st.node.Self().Peer.ID}
	switch {
	case before != nil && before.Hash == e.Prior:
		// The same node continues. New stewards may have signed grants for another leader.
		for _, p := range e.Owners {
			if slices.Contains(before.Owners, p) && !slices.Contains(o.ledgersFrom, p) {
				o.ledgersFrom = append(o.ledgersFrom, p)
			}
		}
	case e.Number == 1 && e.Prior == (owner.Hash{}) && e.Time.After(st.startedAt):
		// All channels of a new domain ask at the same time. The first to ask must not get
		// everything.
		o.raiseAfter = now.Add(st.cfg.MaintenanceInterval)
	case e.Number == 1:
		// A quorum was lost, and with it perhaps all knowledge of grants in force.
		o.raiseAfter = now.Add(st.grantLifetime() + clockSlack)
	case st.ledgerLost && !e.Time.After(st.startedAt):
		// This node was restarted and could not read its ledger; other stewards may have been restarted
		// with it.
		o.raiseAfter = st.startedAt.Add(st.grantLifetime() + clockSlack)
	}
	if len(o.ledgersFrom) < len(e.Owners) {
		o.ledgerNonce = st.rand.Uint64() | 1
		st.requestLedgers(o, e, now)
	}
}

// requestLedgers asks the other stewards which grants they have signed.
func (st *steward) requestLedgers(o *stewardState, e *owner.Epoch, now time.Time) {
	for _, p := range e.Owners {
		if !slices.Contains(o.ledgersFrom, p) {
			st.sendPoliteness(st.peer(p), o.domain, &coronapb.Politeness{Body: &coronapb.Politeness_LedgerRequest{LedgerRequest: &coronapb.LedgerRequest{Nonce: o.ledgerNonce}}})
		}
	}
	st.scheduleRetry(o, now)
}

// onLedgerRequest sends the grants that this steward has signed.
func (st *steward) onLedgerRequest(from env.PeerID, domain string, m *coronapb.LedgerRequest) {
	o, v := st.stewardOf(domain)
	if o == nil || v.Epoch.Sequencer != from {
		return
	}
	st.dropExpired(o, st.clock.Now())
	answer := &coronapb.Ledger{Nonce: m.Nonce}
	send := func() {
		st.sendPoliteness(st.peer(from), domain, &coronapb.Politeness{Body: &coronapb.Politeness_Ledger{Ledger: answer}})
		answer = &coronapb.Ledger{Nonce: m.Nonce}
	}
	for _, a := range o.accounts {
		for _, e := range a.ledger() {
			if len(answer.Entries) == maxLedger {
				send()
			}
			answer.Entries = append(answer.Entries, e)
		}
	}
	answer.Last = true
	send()
}

// ledger returns the grants in force of a channel as others get them.
func (a *budgetAccount) ledger() []*coronapb.Ledger_Entry {
	entries := make([]*coronapb.Ledger_Entry, len(a.entries))
	for i, e := range a.entries {
		entries[i] = &coronapb.Ledger_Entry{
			Key: a.key[:], Pollers: uint32(e.pollers), IntervalMs: uint64(e.interval.Milliseconds()), ExpiryMs: millis(e.expiry), Number: e.number, Readers: uint32(e.readers),
		}
	}
	return entries
}

// entryOf returns a grant of a ledger.
func entryOf(e *coronapb.Ledger_Entry, expiry time.Time) entry {
	return entry{portion{int(e.Pollers), time.Duration(e.IntervalMs) * time.Millisecond}, expiry, e.Number, float64(e.Readers)}
}

// onLedger takes the grants that another steward has signed.
func (st *steward) onLedger(from env.PeerID, domain string, m *coronapb.Ledger, now time.Time) {
	o, v := st.stewardOf(domain)
	if o == nil || !v.Leads || !o.leads(v.Epoch) || o.ledgerNonce == 0 || o.ledgerNonce != m.Nonce || !slices.Contains(v.Epoch.Owners, from) {
		return
	}
	for _, e := range m.Entries {
		expiry := timeOf(e.ExpiryMs)
		if expiry.After(now.Add(st.grantLifetime() + clockSlack)) {
			st.stats.Garbage++ // no steward signs such a grant
			continue
		}
		if a := st.openAccount(o, overlay.ID(e.Key)); a != nil {
			g := entryOf(e, expiry)
			g.readers = st.plausibleReaders(e.Readers)
			a.add(g)
		}
	}
	if !m.Last || slices.Contains(o.ledgersFrom, from) {
		return
	}
	if o.ledgersFrom = append(o.ledgersFrom, from); len(o.ledgersFrom) >= len(v.Epoch.Owners) {
		o.ledgerNonce = 0
		st.issueGrants(o, v.Epoch, now)
	}
}
