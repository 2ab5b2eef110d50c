package tree

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"tidings/internal/wire"
)

// sampleEnvelopes is the number of envelopes that are opened in turn, each with its own key.
const sampleEnvelopes = 64

// A Speed is how fast one core opens envelopes.
type Speed struct {
	ItemBytes int     `json:"item_bytes"`
	PerSecond float64 `json:"envelopes_s"`
}

// Verify opens envelopes with items of a size, one after the other, for some time.
func Verify(itemBytes int, d time.Duration, seed uint64) (Speed, error) {
	rng, network := rand.New(rand.NewPCG(seed, 3)), wire.Hash(sha256.Sum256([]byte(networkName)))
	p := newPlan(minFollowers, 1, 0, seed)
	var raws [][]byte
	for i := range sampleEnvelopes {
		signer := wire.NewSigner(newKey(rng), network)
		raws = append(raws, signer.Sign(wire.DomainEntry, p.item(i, itemBytes, rng)).Raw)
	}
	verify, opened, began := wire.NewVerifier(network), 0, time.Now()
	for time.Since(began) < d || opened == 0 {
		for _, raw := range raws {
			if _, err := verify.Open(wire.DomainEntry, raw); err != nil {
				return Speed{}, fmt.Errorf("open an envelope: %w", err)
			}
		}
		opened += len(raws)
	}
	return Speed{itemBytes, float64(opened) / time.Since(began).Seconds()}, nil
}
