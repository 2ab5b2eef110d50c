package wire

import (
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519/extra/cache"
)

// zip215 is the condition for a valid signature: 8SB = 8R + 8kA. It gives the same result for one signature and for many at
// once, whereas crypto/ed25519 leaves out the factor 8 and may refuse what a batch accepts. Nodes that verify the same entry
// alone and in a batch have to agree. Only the owner of a key can make a signature of which the two differ.
// See https://zips.z.cash/zip-0215.
var zip215 = &ed25519.Options{Verify: ed25519.VerifyOptionsZIP_215}

// expandedKeys is the number of keys of which multiples are kept, 10 KB each. Batches are of entries and sightings, and the
// owners and publishers who sign them sign again and again. Without the multiples, three signatures take a quarter longer.
const expandedKeys = 256

// expanded has the multiples of the keys of the last batches. They follow from the keys, so that all networks of a process share them.
var expanded = cache.NewVerifier(cache.NewLRUCache(expandedKeys))

// A statement is what a signature is about.
type statement struct {
	key, message, signature []byte
}

// valid verifies one signature.
func (s statement) valid() bool {
	return ed25519.VerifyWithOptions(s.key, s.message, s.signature, zip215)
}

// allValid verifies signatures together. It multiplies the equation of each by a random number of 128 bits and adds them all
// up. Wrong signatures pass only if their errors add up to zero, which has a probability of 2^-128 (go test -bench OpenAll).
func allValid(all []statement) bool {
	batch := ed25519.NewBatchVerifierWithCapacity(len(all))
	for _, s := range all {
		expanded.AddWithOptions(batch, s.key, s.message, s.signature, zip215)
	}
	return batch.VerifyBatchOnly(nil)
}
