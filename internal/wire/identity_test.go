package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"tidings/internal/env"
)

// key returns a private key that depends only on the number.
func key(number byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
}

func public(number byte) ed25519.PublicKey { return key(number).Public().(ed25519.PublicKey) }

func TestPeerIDHoldsItsKey(t *testing.T) {
	want := public(1)
	id := PeerIDOf(want)
	if len(id) != 38 {
		t.Errorf("peer id of %d bytes, want 38", len(id))
	}
	if got, err := PublicKeyOf(id); err != nil || !got.Equal(want) {
		t.Errorf("key %x, %v; want %x", got, err, want)
	}
	if id == PeerIDOf(public(2)) {
		t.Error("two keys, one peer id")
	}
}

func TestPeerIDRefusals(t *testing.T) {
	id := PeerIDOf(public(1))
	for name, bad := range map[string]env.PeerID{
		"empty":         "",
		"header alone":  id[:len(peerHeader)],
		"short":         id[:len(id)-1],
		"long":          id + "x",
		"of an RSA key": env.PeerID("\x00\x24\x08\x00\x12\x20") + id[len(peerHeader):],
		"a SHA-256":     env.PeerID("\x12\x20") + id[len(id)-32:],
	} {
		if key, err := PublicKeyOf(bad); !errors.Is(err, ErrPeerID) {
			t.Errorf("%s: %x, %v", name, key, err)
		}
	}
}
