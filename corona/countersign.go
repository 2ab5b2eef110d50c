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

// Signatures of grants. The budget leader requests signatures from the other stewards; when a
// quorum has signed, it sends the grant to the requesters.

// pendingGrant is a grant that lacks signatures.
type pendingGrant struct {
	grant      *grant
	epoch      *owner.Epoch
	readers    float64
	requesters []requester // nodes that wait for it
	tries      int
}

// requestSignatures asks the other stewards to sign.
func (st *steward) requestSignatures(o *stewardState, e *owner.Epoch, of []*pendingGrant, readers float64) {
	self := st.node.Self().Peer.ID
	for i, p := range e.Owners {
		m := &coronapb.Countersign{Epoch: e.Hash[:], ReadersPpm: uint64(readers * 1e6)}
		send := func() {
			if len(m.Statements) > 0 {
				st.sendPoliteness(st.peer(p), o.domain, &coronapb.Politeness{Body: &coronapb.Politeness_Countersign{Countersign: m}})
			}
			m = &coronapb.Countersign{Epoch: m.Epoch, ReadersPpm: m.ReadersPpm}
		}
		for _, s := range of {
			if p == self || slices.ContainsFunc(s.grant.signatures, func(k countersignature) bool { return k.owner == i }) {
				continue
			}
			if len(m.Statements) == maxGrants {
				send()
			}
			m.Statements = append(m.Statements, s.grant.statement)
			m.Readers = append(m.Readers, uint32(s.readers))
		}
		send()
	}
}

// onCountersign signs the budget leader's grants that are within the budget.
func (st *steward) onCountersign(from env.PeerID, domain string, m *coronapb.Countersign, now time.Time) {
	o, v := st.stewardOf(domain)
	if o == nil || v.Epoch.Sequencer != from || v.Leads || owner.Hash(m.Epoch) != v.Epoch.Hash {
		st.stats.Astray++
		return
	}
	st.dropExpired(o, now)
	rates := o.grantedRates()
	answer := &coronapb.Countersigned{}
	var signed []overlay.ID // channels
	for i, b := range m.Statements {
		g, err := openStatement(b)
		if err != nil || g.domain != domain || g.epoch != v.Epoch.Hash {
			st.stats.Garbage++
			continue
		}
		if !st.approves(o, entry{g.portion, g.expiry, g.number, st.plausibleReaders(m.Readers[i])}, g.key, float64(m.ReadersPpm)/1e6, &rates, now) {
			st.stats.Denied++
			continue
		}
		signed = append(signed, g.key)
		answer.Signatures = append(answer.Signatures, &coronapb.Countersigned_Signature{
			Number: g.number, Key: g.key[:], Signature: st.signer.Signature(wire.DomainGrant, b),
		})
	}
	if len(answer.Signatures) > 0 {
		st.saveGrants(o, signed, func() {
			st.sendPoliteness(st.peer(from), domain, &coronapb.Politeness{Body: &coronapb.Politeness_Countersigned{Countersigned: answer}})
		})
	}
}

// approves says whether this steward signs a grant, and notes the grant if so. A grant must be the
// latest of its channel and last no longer than allowed. Together with all known grants in force it
// must be within the budget, or reduce what its channel had before in proportion to the excess. The
// readers' rate is the budget leader's claim.
func (st *steward) approves(o *stewardState, g entry, key overlay.ID, readers float64, rates *grantedRates, now time.Time) bool {
	if !g.expiry.After(now) || g.expiry.After(now.Add(st.grantLifetime()+clockSlack)) || g.interval < st.cfg.PollInterval {
		return false
	}
	a := st.openAccount(o, key)
	if a == nil {
		return false
	}
	last, granted := a.last()
	if granted && g.number < last.number {
		return false
	}
	before, entries := *rates, slices.Clone(a.entries)
	rates.add(a, -1)
	if !a.add(g) {
		*rates = before
		return false
	}
	rates.add(a, 1)
	limit := budget(readers, rates.onePoller, st.cfg.Compression) * (1 + 1e-6)
	reduced := granted && rates.rate <= before.rate*(1+1e-9) && g.rate() <= last.rate()*limit/max(before.last, limit)
	if rates.rate > limit && !reduced {
		*rates, a.entries = before, entries
		return false
	}
	return true
}

// onCountersigned collects signatures.
func (st *steward) onCountersigned(from env.PeerID, domain string, m *coronapb.Countersigned) {
	o, v := st.stewardOf(domain)
	if o == nil || !v.Leads || !o.leads(v.Epoch) {
		return
	}
	by := slices.Index(v.Epoch.Owners, from)
	for _, own := range m.Signatures {
		for _, s := range o.pendingGrants {
			if s.grant.number == own.Number && string(s.grant.key[:]) == string(own.Key) {
				s.grant.sign(st.verifier, s.epoch, by, own.Signature)
			}
		}
	}
	st.sendSignedGrants(o)
}

// sendSignedGrants sends out the grants that a quorum has signed.
func (st *steward) sendSignedGrants(o *stewardState) {
	var ready grantBatches
	o.pendingGrants = slices.DeleteFunc(o.pendingGrants, func(s *pendingGrant) bool {
		if len(s.grant.signatures) < s.epoch.Quorum() {
			return false
		}
		st.stats.Granted++
		b := s.grant.append()
		if a := o.account(s.grant.key); a != nil {
			if last, ok := a.last(); ok && last.number == s.grant.number {
				a.grantBytes, a.epoch = b, s.grant.epoch
			}
		}
		for _, p := range s.requesters {
			ready.add(p.Peer, b)
		}
		return true
	})
	st.sendGrants(o.domain, ready)
}

// grantBatches collects grants by requester, in the order of the first grant.
type grantBatches []grantBatch

type grantBatch struct {
	to     env.Peer
	grants [][]byte
}

func (of *grantBatches) add(to env.Peer, grant []byte) {
	for i := range *of {
		if l := &(*of)[i]; l.to.ID == to.ID && len(l.grants) < maxGrants {
			l.grants = append(l.grants, grant)
			return
		}
	}
	*of = append(*of, grantBatch{to, [][]byte{grant}})
}

// sendGrants sends the batches.
func (st *steward) sendGrants(domain string, of grantBatches) {
	for _, l := range of {
		m := &coronapb.GrantResponse{Grants: l.grants}
		if l.to.ID == st.node.Self().Peer.ID {
			st.permits.onGrantResponse(domain, m)
		} else {
			st.sendPoliteness(l.to, domain, &coronapb.Politeness{Body: &coronapb.Politeness_GrantResponse{GrantResponse: m}})
		}
	}
}
