package wire

import (
	"crypto/ed25519"
	"errors"

	"tidings/internal/env"
)

// A peer id is the identity multihash (code 0, length 36) of libp2p's encoding of an Ed25519 public key
// (type 1, then 32 bytes); see libp2p's peer-ids.md.
const (
	keyHeader  = "\x08\x01\x12\x20"
	peerHeader = "\x00\x24" + keyHeader
)

// ErrPeerID says that the bytes are not the peer id of an Ed25519 key.
var ErrPeerID = errors.New("not the peer id of an Ed25519 key")

// PeerIDOf returns the peer id of a public key.
func PeerIDOf(key ed25519.PublicKey) env.PeerID {
	return env.PeerID(peerHeader + string(key))
}

// PublicKeyOf returns the key that a peer id contains.
func PublicKeyOf(id env.PeerID) (ed25519.PublicKey, error) {
	if len(id) != len(peerHeader)+ed25519.PublicKeySize || id[:len(peerHeader)] != peerHeader {
		return nil, ErrPeerID
	}
	return ed25519.PublicKey(id[len(peerHeader):]), nil
}
