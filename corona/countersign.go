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

// The way of a grant from the sequencer of a domain's key past its other owners, a quorum of
// whom sign it, to who has asked for it.

// A signing is a grant that lacks signatures.
type signing struct {
	grant   *grant
	epoch   *owner.Epoch
	readers float64
	to      []asking // who are to be told
	tries   int
}

// sendSignings asks the other owners to sign.
func (c *Corona) sendSignings(o *office, e *owner.Epoch, of []*signing, readers float64) {
	self := c.node.Self().Peer.ID
	for i, p := range e.Owners {
		m := &coronapb.Countersign{Epoch: e.Hash[:], ReadersPpm: uint64(readers * 1e6)}
		send := func() {
			if len(m.Statements) > 0 {
				c.sendPoliteness(c.peer(p), o.domain, &coronapb.Politeness{Body: &coronapb.Politeness_Countersign{Countersign: m}})
			}
			m = &coronapb.Countersign{Epoch: m.Epoch, ReadersPpm: m.ReadersPpm}
		}
		for _, s := range of {
			if p == self || slices.ContainsFunc(s.grant.signatures, func(k countersignature) bool { return k.owner == i }) {
				continue
			}
			if len(m.Statements) == maxGranted {
				send()
			}
			m.Statements = append(m.Statements, s.grant.statement)
			m.Readers = append(m.Readers, uint32(s.readers))
		}
		send()
	}
}

// onCountersign signs what the sequencer of a domain's key grants, within the budget.
func (c *Corona) onCountersign(from env.PeerID, domain string, m *coronapb.Countersign, now time.Time) {
	o, v := c.office(domain)
	if o == nil || v.Epoch.Sequencer != from || v.Leads || owner.Hash(m.Epoch) != v.Epoch.Hash {
		c.stats.Astray++
		return
	}
	c.tidy(o, now)
	out := o.out()
	answer := &coronapb.Countersigned{}
	for i, b := range m.Statements {
		g, err := openStatement(b)
		if err != nil || g.domain != domain || g.epoch != v.Epoch.Hash {
			c.stats.Garbage++
			continue
		}
		if !c.bears(o, entry{g.portion, g.expiry, g.number, c.believed(m.Readers[i])}, g.key, float64(m.ReadersPpm)/1e6, &out, now) {
			c.stats.Denied++
			continue
		}
		answer.Signatures = append(answer.Signatures, &coronapb.Countersigned_Own{
			Number: g.number, Key: g.key[:], Signature: c.signer.Signature(wire.DomainGrant, b),
		})
	}
	if len(answer.Signatures) > 0 {
		c.sendPoliteness(c.peer(from), domain, &coronapb.Politeness{Body: &coronapb.Politeness_Countersigned{Countersigned: answer}})
	}
}

// bears says whether this owner signs a grant, and notes that it does: the budget bears it
// beside all that are out, as far as is known here, or it is what its channel had before, less
// its part of what is too much; and it is the latest of its channel, and lasts no longer
// than it may. What the readers would ask is the sequencer's word.
func (c *Corona) bears(o *office, g entry, key overlay.ID, readers float64, out *issue, now time.Time) bool {
	if !g.expiry.After(now) || g.expiry.After(now.Add(c.life()+clockSlack)) || g.interval < c.cfg.PollInterval {
		return false
	}
	a := c.open(o, key)
	if a == nil {
		return false
	}
	last, granted := a.last()
	if granted && g.number < last.number {
		return false
	}
	before, entries := *out, slices.Clone(a.entries)
	out.add(a, -1)
	if !a.add(g) {
		*out = before
		return false
	}
	out.add(a, 1)
	most := budget(readers, out.once, c.cfg.Compression) * (1 + 1e-6)
	again := granted && out.rate <= before.rate*(1+1e-9) && g.rate() <= last.rate()*most/max(before.last, most)
	if out.rate > most && !again {
		*out, a.entries = before, entries
		return false
	}
	return true
}

// onCountersigned counts signatures.
func (c *Corona) onCountersigned(from env.PeerID, domain string, m *coronapb.Countersigned) {
	o, v := c.office(domain)
	if o == nil || !v.Leads || !o.leads(v.Epoch) {
		return
	}
	by := slices.Index(v.Epoch.Owners, from)
	for _, own := range m.Signatures {
		for _, s := range o.signing {
			if s.grant.number == own.Number && string(s.grant.key[:]) == string(own.Key) {
				s.grant.sign(c.verifier, s.epoch, by, own.Signature)
			}
		}
	}
	c.grantSigned(o)
}

// grantSigned tells of grants that a quorum has signed.
func (c *Corona) grantSigned(o *office) {
	var ready letters
	o.signing = slices.DeleteFunc(o.signing, func(s *signing) bool {
		if len(s.grant.signatures) < s.epoch.Quorum() {
			return false
		}
		c.stats.Granted++
		b := s.grant.append()
		if a := o.account(s.grant.key); a != nil {
			if last, ok := a.last(); ok && last.number == s.grant.number {
				a.grant, a.epoch = b, s.grant.epoch
			}
		}
		for _, p := range s.to {
			ready.add(p.Peer, b)
		}
		return true
	})
	c.post(o.domain, ready)
}

// letters are grants for some who have asked for them, in the order in which they came up.
type letters []letter

type letter struct {
	to     env.Peer
	grants [][]byte
}

func (of *letters) add(to env.Peer, grant []byte) {
	for i := range *of {
		if l := &(*of)[i]; l.to.ID == to.ID && len(l.grants) < maxGranted {
			l.grants = append(l.grants, grant)
			return
		}
	}
	*of = append(*of, letter{to, [][]byte{grant}})
}

// post sends letters.
func (c *Corona) post(domain string, of letters) {
	for _, l := range of {
		m := &coronapb.Granted{Grants: l.grants}
		if l.to.ID == c.node.Self().Peer.ID {
			c.onGranted(domain, m)
		} else {
			c.sendPoliteness(l.to, domain, &coronapb.Politeness{Body: &coronapb.Politeness_Granted{Granted: m}})
		}
	}
}
