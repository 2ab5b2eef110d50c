package authority

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
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
	log    *slog.Logger
	logged string // the last error

	list      []byte // the last signed list, and what it was made of
	of        overlay.Revocations
	changedAt time.Time // of the folder of members
	signedAt  time.Time
}

// Signing returns the authority of a node in its network. It admits the node itself.
func (d *Dir) Signing(n wire.Network, hash wire.Hash, node ed25519.PublicKey, log *slog.Logger) (overlay.Authority, error) {
	if err := d.checkMember(n); err != nil {
		return nil, fmt.Errorf("%w; leave --authority out", err)
	}
	peer := wire.PeerIDOf(node)
	if _, err := d.Admit(peer, "the node of this authority", time.Now()); err != nil {
		return nil, err
	}
	if m, err := d.member(peer); err != nil || !m.Signs {
		if err == nil {
			m.Signs = true
			err = d.save(*m)
		}
		if err != nil {
			return nil, err
		}
	}
	return &signing{dir: d, signer: wire.NewSigner(d.key, hash), log: log}, nil
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
	err := s.update(renewer, time.Now())
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != s.logged {
		s.log.Error("the authority cannot tell other nodes which members it has revoked", "err", text)
	}
	s.logged = text
	return s.list
}

// update signs a list if the last one is out of date. Its error says which members could not be read.
func (s *signing) update(renewer overlay.ID, now time.Time) error {
	folder, err := os.Stat(filepath.Join(s.dir.path, membersFolder))
	if err != nil {
		return fmt.Errorf("members: %w", err)
	}
	fresh := s.list != nil && renewer == s.of.Renewers[0] && now.Sub(s.signedAt) < relist
	if fresh && folder.ModTime().Equal(s.changedAt) {
		return nil
	}
	members, err := s.dir.Members()
	if err != nil {
		return err
	}
	damaged := s.dir.damaged(members)
	if damaged == nil { // otherwise its file may be restored in place, without a change of the folder
		s.changedAt = folder.ModTime()
	}
	r := overlay.Revocations{Number: uint64(now.UnixMilli()), Renewers: []overlay.ID{renewer}}
	for _, m := range listed(members, now) {
		r.Revoked = append(r.Revoked, m.Peer)
	}
	if fresh && slices.Equal(r.Revoked, s.of.Revoked) {
		return damaged // a member was admitted, which others need not know
	}
	raw, err := r.Sign(s.signer)
	if err != nil {
		return err
	}
	s.list, s.of, s.signedAt = raw, r, now
	return damaged
}
