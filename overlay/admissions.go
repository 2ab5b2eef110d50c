package overlay

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// An Authority admits members of a network of certificates. Its node renews certificates, and gives out the
// list of those that were revoked.
type Authority interface {
	// Certify returns a certificate for a node, or nil if the node is not admitted.
	Certify(node env.PeerID, now time.Time) []byte
	// Revocations returns the authority's list, signed, with this node as a renewer.
	Revocations(renewer ID) []byte
}

// keyCertificate is the key of the node's own certificate in the store, and keyRevocations the prefix of the
// keys of the authorities' lists.
const (
	keyCertificate = "overlay/certificate"
	keyRevocations = "overlay/revocations/" // + number of the authority in the descriptor
)

const (
	// askInterval is the time between two requests for a first certificate, and renewInterval that between two
	// requests for a new one. A node asks for a new one when two thirds of the lifetime of its own have passed.
	askInterval   = time.Minute
	renewInterval = time.Hour
	// newsInterval is the time after which a peer that has other lists is sent this node's lists again; all peers
	// without a place share it.
	newsInterval = time.Second
	// listInterval is how often the node of an authority looks for a new list.
	listInterval = 10 * time.Second
)

// admissions knows which members the authorities of a network admit, and gets the node its own certificate. In
// networks without authorities it is idle.
type admissions struct {
	*base
	store     env.Store
	lookups   *lookups
	neighbour *neighbours
	changed   func() // the node's own certificate has changed, or has expired

	own      *Certificate // nil: none
	stepAt   time.Time    // of the next step
	othersAt env.Moment   // when a peer without a place was last sent the lists
}

// revocationLists are the lists that a node has.
type revocationLists struct {
	lists   [wire.MaxAuthorities]*Revocations // by authority; nil: none
	revoked map[env.PeerID]bool
	digest  uint64 // of the lists' numbers; 0: none
}

// add takes a list, and reports whether it is newer than the one of its authority.
func (l *revocationLists) add(r *Revocations) bool {
	if old := l.lists[r.authority]; old != nil && old.Number >= r.Number {
		return false
	}
	l.lists[r.authority] = r
	l.revoked, l.digest = map[env.PeerID]bool{}, 0
	for i, r := range l.lists {
		if r == nil {
			continue
		}
		l.digest ^= env.Mix(r.Number<<2 | uint64(i))
		for _, p := range r.Revoked {
			l.revoked[p] = true
		}
	}
	return true
}

// admitted reports whether a node may be what its record says: a member of a network of certificates needs a
// valid one.
func (b *base) admitted(c *Contact) bool {
	return c.certificate == nil || c.certificate.validAt(b.clock.Now()) && !b.revocations.revoked[c.Peer.ID]
}

// certified reports whether members of this network need certificates.
func (b *base) certified() bool { return b.cfg.Network.IDs == wire.CertificateIDs }

// load reads what an earlier run has stored.
func (ad *admissions) load() {
	if !ad.certified() {
		return
	}
	_ = ad.store.Range([]byte(keyRevocations), func(_, raw []byte) bool {
		if r, err := ad.records.openRevocations(slices.Clone(raw)); err == nil {
			ad.revocations.add(r)
		}
		return true
	})
	if raw, err := ad.store.Get([]byte(keyCertificate)); err == nil && raw != nil {
		ad.take(raw)
	}
	ad.plan(ad.started)
}

// plan sets the time of the next step. Only one is planned at a time.
func (ad *admissions) plan(at time.Time) {
	ad.stepAt = at
	ad.at(at, task{kind: taskCertificate})
}

// take takes a certificate of the node, and reports whether it replaces the node's own.
func (ad *admissions) take(raw []byte) bool {
	cert, err := ad.records.openCertificate(raw)
	if err != nil || cert.Peer != ad.self.Peer.ID || !cert.validAt(ad.clock.Now()) || ad.revocations.revoked[cert.Peer] || ad.own != nil && !cert.NotAfter.After(ad.own.NotAfter) {
		return false
	}
	ad.own, ad.place.certificate = cert, slices.Clone(raw)
	return true
}

// renewAt returns when the node should ask for a new certificate.
func (ad *admissions) renewAt() time.Time {
	if ad.own == nil {
		return time.Time{}
	}
	return ad.own.NotAfter.Add(-ad.own.NotAfter.Sub(ad.own.NotBefore) / 3)
}

// step asks for a certificate if the node needs one, and plans the next step.
func (ad *admissions) step() {
	now := ad.clock.Now()
	if a := ad.cfg.Authority; a != nil {
		ad.issueOwn(a, now)
		ad.plan(now.Add(env.Jitter(ad.rand, listInterval)))
		return
	}
	if ad.own != nil && !ad.own.validAt(now) {
		ad.own, ad.place.certificate = nil, nil
		ad.log.Warn("the certificate of this node has expired, so it is no member until an authority renews it")
		ad.changed()
	}
	interval := askInterval
	if ad.own != nil {
		interval = renewInterval
	}
	next := now.Add(env.Jitter(ad.rand, interval))
	if renew := ad.renewAt(); renew.After(now) {
		next = renew
	} else {
		ad.ask()
	}
	if ad.own != nil && next.After(ad.own.NotAfter) {
		next = ad.own.NotAfter
	}
	ad.plan(next)
}

// issueOwn certifies the authority's own node, and takes the authority's list. A node that its own authority has revoked takes
// the list, too: otherwise it would not learn that it was admitted again.
func (ad *admissions) issueOwn(a Authority, now time.Time) {
	if !ad.renewAt().After(now) {
		if raw := a.Certify(ad.self.Peer.ID, now); raw != nil {
			ad.renewed(raw)
		}
	}
	renewer := ad.self.ID
	if ad.own != nil {
		renewer = ad.own.ID
	}
	if r, err := ad.records.openRevocations(a.Revocations(renewer)); err == nil {
		ad.learn(r)
	}
}

// ask asks a member that renews certificates.
func (ad *admissions) ask() {
	var renewers []ID
	for _, r := range ad.revocations.lists {
		if r != nil {
			renewers = append(renewers, r.Renewers...)
		}
	}
	if len(renewers) == 0 {
		return
	}
	id := renewers[ad.rand.IntN(len(renewers))]
	ad.lookups.Lookup(id, 1, func(found Lookup) {
		if len(found.Nearest) > 0 && found.Nearest[0].ID == id {
			ad.send(ad.neighbour.ensureContact(found.Nearest[0]), &overlaypb.Message{Body: &overlaypb.Message_Renew{Renew: &overlaypb.Renew{}}})
		}
	})
}

// onRenew answers a request, or takes the answer to one.
func (ad *admissions) onRenew(p *peer, m *overlaypb.Renew) {
	switch {
	case m.Reply:
		if len(m.Certificate) > 0 {
			ad.renewed(m.Certificate)
		}
	case ad.cfg.Authority != nil:
		ad.send(p, &overlaypb.Message{Body: &overlaypb.Message_Renew{Renew: &overlaypb.Renew{
			Reply: true, Certificate: ad.cfg.Authority.Certify(p.id, ad.clock.Now()),
		}}})
	}
}

// renewed takes and stores a new certificate.
func (ad *admissions) renewed(raw []byte) {
	had := ad.own != nil
	if !ad.take(raw) {
		return
	}
	ad.commit([]byte(keyCertificate), raw)
	if !had {
		ad.log.Info("an authority has admitted this node", "until", ad.own.NotAfter)
	}
	ad.changed()
	if ad.cfg.Authority == nil {
		ad.plan(ad.renewAt())
	}
}

// compare compares lists with a peer that states the digest of its own.
func (ad *admissions) compare(p *peer, digest uint64) {
	if ad.certified() && digest != ad.revocations.digest {
		ad.sendLists(p, true)
	}
}

// sendLists sends all lists to a peer, unless it got them a moment ago: they are a thousand times as long as the message that
// asks for them.
func (ad *admissions) sendLists(p *peer, wantReply bool) {
	now, sent, last := ad.clock.Now(), false, &p.newsAt
	if !ad.neighbour.hasPlace(p) {
		last = &ad.othersAt
	}
	if *last != env.Never && now.Sub(last.Time()) < newsInterval {
		return
	}
	*last = env.MomentOf(now)
	for _, r := range ad.revocations.lists {
		if r != nil {
			ad.send(p, newsMessage(r.raw, wantReply && !sent))
			sent = true
		}
	}
	if !sent && wantReply {
		ad.send(p, newsMessage(nil, true))
	}
}

func newsMessage(raw []byte, wantReply bool) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_AuthorityNews{AuthorityNews: &overlaypb.AuthorityNews{Revocations: raw, WantReply: wantReply}}}
}

// onNews takes a peer's list, and sends the node's own lists if the peer wants them. It returns false for a list that no
// authority has signed.
func (ad *admissions) onNews(p *peer, m *overlaypb.AuthorityNews) bool {
	if m.WantReply {
		ad.sendLists(p, false)
	}
	if len(m.Revocations) == 0 {
		return true
	}
	r, err := ad.records.openRevocations(m.Revocations)
	if err != nil {
		return false
	}
	ad.learn(r)
	return true
}

// learn takes a list, and passes a new one on to leaf and contacts.
func (ad *admissions) learn(r *Revocations) {
	first := ad.revocations.lists[r.authority] == nil
	if !ad.revocations.add(r) {
		return
	}
	ad.commit(binary.BigEndian.AppendUint16([]byte(keyRevocations), uint16(r.authority)), r.raw)
	for _, p := range ad.neighbour.peers.all {
		if ad.neighbour.hasPlace(p) {
			ad.send(p, newsMessage(r.raw, false))
		}
	}
	if ad.revocations.revoked[ad.self.Peer.ID] && ad.own != nil {
		ad.log.Warn("an authority has revoked the certificate of this node, so it is no member any more")
		ad.own, ad.place.certificate = nil, nil
		ad.plan(ad.clock.Now().Add(askInterval)) // the next step was planned for the renewal; the node may be admitted again
		ad.changed()
	} else if ad.own == nil && first {
		ad.plan(ad.clock.Now()) // the list may name the first renewer
	}
}

func (ad *admissions) commit(key, value []byte) {
	ad.store.Commit([]env.Op{{Key: key, Value: value}}, func(err error) {
		if err != nil {
			ad.log.Warn("certificates could not be saved", "err", err)
		}
	})
}
