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
	renewer   overlay.ID
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

// Revocations implements overlay.Authority. The members are read again when their folder has changed. The time of signing is
// the number of the list.
func (s *signing) Revocations(renewer overlay.ID) []byte {
	now := time.Now()
	folder, err := os.Stat(filepath.Join(s.dir.path, membersFolder))
	if err != nil || s.list != nil && folder.ModTime().Equal(s.changedAt) && renewer == s.renewer && now.Sub(s.signedAt) < relist {
		return s.list
	}
	members, err := s.dir.Members()
	if err != nil {
		return s.list
	}
	r := overlay.Revocations{Number: uint64(now.UnixMilli()), Renewers: []overlay.ID{renewer}}
	for _, m := range listed(members, now) {
		r.Revoked = append(r.Revoked, m.Peer)
	}
	raw, err := r.Sign(s.signer)
	if err != nil {
		return s.list
	}
	s.list, s.renewer, s.changedAt, s.signedAt = raw, renewer, folder.ModTime(), now
	return raw
}
