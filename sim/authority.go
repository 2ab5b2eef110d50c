package sim

import (
	"crypto/ed25519"
	"crypto/sha256"
	"maps"
	"net/netip"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// An Authority is the authority of a simulated network of certificates. Its node is host 0. It admits every node that is not
// in Refused, under an id that no node can choose.
type Authority struct {
	key      ed25519.PrivateKey
	signer   *wire.Signer  // in the network of its swarm
	Lifetime time.Duration // of a certificate
	// Refused are the nodes that are not admitted. Number must grow with each change.
	Refused map[env.PeerID]bool
	Number  uint64
}

// Certify makes the network one of certificates, with one authority.
func (c *SwarmConfig) Certify(lifetime time.Duration) {
	seed := sha256.Sum256([]byte("authority"))
	key := ed25519.NewKeyFromSeed(seed[:])
	c.Network.IDs, c.Network.Authorities = wire.CertificateIDs, wire.JoinAuthorities(key.Public().(ed25519.PublicKey))
	c.Authority = &Authority{key: key, Lifetime: lifetime, Refused: map[env.PeerID]bool{}, Number: 1}
}

// ID returns the id that the authority draws for a node.
func (a *Authority) ID(peer env.PeerID) overlay.ID {
	return sha256.Sum256(append(a.key.Seed(), peer...))
}

// Certify implements overlay.Authority.
func (a *Authority) Certify(peer env.PeerID, now time.Time) []byte {
	if a.Refused[peer] {
		return nil
	}
	raw, err := overlay.Certificate{Peer: peer, ID: a.ID(peer), NotBefore: now, NotAfter: now.Add(a.Lifetime)}.Sign(a.signer)
	if err != nil {
		panic(err) // all peers of the simulator have keys
	}
	return raw
}

// Revocations implements overlay.Authority.
func (a *Authority) Revocations(renewer overlay.ID) []byte {
	r := overlay.Revocations{Number: a.Number, Renewers: []overlay.ID{renewer}}
	r.Revoked = slices.Sorted(maps.Keys(a.Refused))
	raw, err := r.Sign(a.signer)
	if err != nil {
		panic(err)
	}
	return raw
}

// move gives a peer of a network of address ids another address, and so another id.
func (s *Swarm) move(p *Peer, to netip.Addr) {
	delete(s.byID, p.id)
	s.sortedByID = slices.DeleteFunc(s.sortedByID, func(o *Peer) bool { return o == p })
	p.Move(to)
	p.id = s.idOf(p)
	s.byID[p.id] = p
	s.insertByID(p)
}
