package corona

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// keyGrants is the prefix of a steward's grants in the store: + the domain's key + the channel's key, the grants that it has
// signed and that are in force. A grant is durable before its signature leaves the node. So the stewards of a domain know
// what is granted even if all of them are restarted at once.
const keyGrants = "corona/grants/"

func grantsKey(domain, channel overlay.ID) []byte {
	return slices.Concat([]byte(keyGrants), domain[:], channel[:])
}

// saveGrants stores the grants of some channels of a domain, and then calls then. Signatures that cannot be stored are not
// sent.
func (st *steward) saveGrants(o *stewardState, channels []overlay.ID, then func()) {
	var ops []env.Op
	for _, key := range channels {
		if a := o.account(key); a != nil {
			ops = append(ops, env.Op{Key: grantsKey(o.key, key), Value: wire.Encode(&coronapb.Politeness{
				Domain: o.domain, Body: &coronapb.Politeness_Ledger{Ledger: &coronapb.Ledger{Entries: a.ledger()}},
			})})
		}
	}
	st.store.Commit(ops, func(err error) {
		if err != nil {
			st.stats.Unstored++
			return
		}
		then()
	})
}

// forgetGrants deletes the grants of channels whose accounts are closed.
func (st *steward) forgetGrants(o *stewardState, closed []overlay.ID) {
	if len(closed) == 0 {
		return
	}
	ops := make([]env.Op, len(closed))
	for i, key := range closed {
		ops[i].Key = grantsKey(o.key, key)
	}
	st.store.Commit(ops, func(error) {}) // what stays is expired, and is deleted after the next start
}

// loadGrants reads the grants of earlier runs. Those that cannot be read are treated like expired ones.
func (st *steward) loadGrants() {
	now := st.clock.Now()
	var expired []env.Op
	err := st.store.Range([]byte(keyGrants), func(key, value []byte) bool {
		if !st.loadGrant(key, value) {
			expired = append(expired, env.Op{Key: slices.Clone(key)})
		}
		return true
	})
	if err != nil {
		st.log.Warn("grants of earlier runs could not be read", "err", err)
		st.ledgerLost = true
	}
	for _, o := range st.states {
		st.dropExpired(o, now)
	}
	if len(expired) > 0 {
		st.store.Commit(expired, func(error) {}) // they are read again after the next start
	}
}

// loadGrant takes the stored grants of one channel, and reports whether any is in force.
func (st *steward) loadGrant(key, value []byte) bool {
	var m coronapb.Politeness
	var channel overlay.ID
	if len(key) != len(keyGrants)+2*len(channel) || proto.Unmarshal(value, &m) != nil || m.GetLedger() == nil {
		return false
	}
	domain := overlay.StewardKey(st.cfg.Network, m.Domain)
	copy(channel[:], key[len(keyGrants)+len(channel):])
	if string(key[len(keyGrants):][:len(domain)]) != string(domain[:]) {
		return false
	}
	o := st.states[domain]
	if o == nil && len(st.states) < maxStewardStates {
		o = &stewardState{domain: m.Domain, key: domain}
		st.states[domain] = o
	}
	inForce := false
	for _, e := range m.GetLedger().Entries {
		if expiry := timeOf(e.ExpiryMs); o != nil && expiry.Add(clockSlack).After(st.clock.Now()) {
			if a := st.openAccount(o, channel); a != nil {
				inForce = a.add(entryOf(e, expiry)) || inForce
			}
		}
	}
	return inForce
}
