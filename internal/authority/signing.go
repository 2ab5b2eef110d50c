package authority

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// signing implements overlay.Authority for the node of an authority.
type signing struct {
	dir    *Dir
	signer *wire.Signer

	list      []byte // the last signed list, and what it was made of
	of        overlay.Revocations
	changedAt time.Time // of the folder of members
	signedAt  time.Time
}

// Signing returns the authority of a node in its network. It admits the node itself.
func (d *Dir) Signing(n wire.Network, hash wire.Hash, node ed25519.PublicKey) (overlay.Authority, error) {
	keys, err := n.AuthorityKeys()
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return bytes.Equal(k, d.Public()) }) {
		return nil, fmt.Errorf("authority %s: it is none of network %q, whose members it cannot admit; leave --authority out", d.path, n.Name)
	}
	if _, err := d.Admit(wire.PeerIDOf(node), "the node of this authority", time.Now()); err != nil {
		return nil, err
	}
	return &signing{dir: d, signer: wire.NewSigner(d.key, hash)}, nil
}

// Certify implements overlay.Authority. Nodes whose files cannot be read are not certified.
func (s *signing) Certify(node env.PeerID, now time.Time) []byte {
	m, err := s.dir.member(node)
	if err != nil || m == nil || !m.Revoked.IsZero() {
		return nil
	}
	raw, err := overlay.Certificate{Peer: node, ID: m.ID, NotBefore: now, NotAfter: now.Add(Lifetime)}.Sign(s.signer)
	if err != nil {
		return nil // the peer id has no key
	}
	return raw
}

// relist is how often the list is signed again although it has not changed, so that those leave it whose certificates have
// expired.
const relist = 24 * time.Hour

// Revocations implements overlay.Authority. The members are read again when their folder has changed, and a list is signed if
// it differs from the last one. The time of signing is its number.
func (s *signing) Revocations(renewer overlay.ID) []byte {
	now := time.Now()
	folder, err := os.Stat(filepath.Join(s.dir.path, membersFolder))
	fresh := s.list != nil && renewer == s.of.Renewers[0] && now.Sub(s.signedAt) < relist
	if err != nil || fresh && folder.ModTime().Equal(s.changedAt) {
		return s.list
	}
	members, err := s.dir.Members()
	if err != nil {
		return s.list
	}
	s.changedAt = folder.ModTime()
	r := overlay.Revocations{Number: uint64(now.UnixMilli()), Renewers: []overlay.ID{renewer}}
	for _, m := range listed(members, now) {
		r.Revoked = append(r.Revoked, m.Peer)
	}
	if fresh && slices.Equal(r.Revoked, s.of.Revoked) {
		return s.list // a member was admitted, which others need not know
	}
	raw, err := r.Sign(s.signer)
	if err != nil {
		return s.list
	}
	s.list, s.of, s.signedAt = raw, r, now
	return raw
}
