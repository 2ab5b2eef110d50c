package corona

import (
	"crypto/ed25519"

	"tidings/corona/coronapb"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Owners knows the owners of keys. An *owner.Owners implements it.
type Owners interface {
	View(key overlay.ID) (owner.View, bool)
	RequestOwners(key overlay.ID, url string, done func(ok bool))
	Track(key overlay.ID, cfg owner.TrackerConfig) *owner.Tracker
}

// EnablePoliteness makes a Corona keep to the budgets of domains, if Config.Politeness is set. The
// node asks the domains' stewards for grants, and acts as a steward for the domains whose keys it
// owns. Without it, origins have no budgets, as in the paper.
func (c *Corona) EnablePoliteness(owners Owners) {
	if c.cfg.Politeness {
		c.domains.budgeted = true
		c.permits.enable(owners)
		c.steward.enable(owners)
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
