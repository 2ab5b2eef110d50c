// Package signature verifies Ed25519 signatures (RFC 8032, section 5.1.7). Most signatures that a node sees are by few keys: those of its
// neighbours, and of the owners and publishers of its feeds. The package accepts exactly what crypto/ed25519 accepts. That library
// verifies the first signatures of a key. From then on this package keeps multiples of the key, and a signature takes a third of the
// time (multiples.go).
//
// Nothing here runs in constant time, because no number is secret. Signing is left to crypto/ed25519, and the arithmetic of the field
// beneath the curve to filippo.io/edwards25519.
package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"

	"filippo.io/edwards25519"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// tabledKeys is the number of keys of which multiples are kept, 15 KB each. The key that has not been used for the longest time is
	// dropped.
	tabledKeys = 1024
	// countedKeys is the number of keys whose valid signatures are counted. If more keys than that sign in turn, none of them gets
	// multiples: they would be dropped before they are used.
	countedKeys = tabledKeys
	// tableAfter is the number of valid signatures after which the multiples of a key are calculated, which takes as long as two
	// signatures. If several thousand keys sign in random order, it is the least number with which multiples still save time, and so it
	// bounds what a peer with many keys can cost.
	tableAfter = 4
)

type publicKey = [ed25519.PublicKeySize]byte

// tables holds the multiples of -A for the keys A that have signed most recently, and counts how often other keys have signed. Both
// follow from the keys alone, so a whole process can share them.
var (
	tables = newCache[*multiples](tabledKeys)
	counts = newCache[int](countedKeys)
)

func newCache[V any](size int) *lru.Cache[publicKey, V] {
	cache, err := lru.New[publicKey, V](size)
	if err != nil {
		panic(err) // the size is not positive
	}
	return cache
}

// A Statement is what somebody has signed. The caller has made sure that key and signature have the right lengths.
type Statement struct {
	Key                ed25519.PublicKey
	Message, Signature []byte
}

// Verify reports which statements were signed by their keys. The result for one does not depend on the others. Several take less
// time together than one after the other if their keys have multiples.
func Verify(statements ...Statement) []bool {
	valid := make([]bool, len(statements))
	var of []int // the indices of statements whose keys have multiples
	var points []point
	for i, s := range statements {
		negative, ok := tables.Get(publicKey(s.Key))
		if !ok {
			if valid[i] = ed25519.Verify(s.Key, s.Message, s.Signature); valid[i] {
				count(publicKey(s.Key))
			}
			continue
		}
		if r, ok := s.commitment(negative); ok {
			of, points = append(of, i), append(points, r)
		}
	}
	normalise(points)
	for i, r := range points {
		s := statements[of[i]]
		valid[of[i]] = bytes.Equal(r.encoded(), s.Signature[:ed25519.PublicKeySize])
	}
	return valid
}

// commitment returns the point R = sB - kA that the first half of the signature (R, s) has to be, given multiples of -A. It returns
// false if s is not below the order of the group.
func (s *Statement) commitment(negative *multiples) (r point, ok bool) {
	response, err := new(edwards25519.Scalar).SetCanonicalBytes(s.Signature[ed25519.PublicKeySize:])
	if err != nil {
		return r, false
	}
	h := sha512.New()
	h.Write(s.Signature[:ed25519.PublicKeySize])
	h.Write(s.Key)
	h.Write(s.Message)
	challenge, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(nil))
	if err != nil {
		panic(err) // the hash does not have 64 bytes
	}
	return sum(base, response, negative, challenge), true
}

// count counts a valid signature by a key without multiples, and calculates them at the tableAfter-th.
func count(key publicKey) {
	n, _ := counts.Get(key)
	if n++; n < tableAfter {
		counts.Add(key, n)
		return
	}
	a, err := new(edwards25519.Point).SetBytes(key[:])
	if err != nil {
		panic(err) // crypto/ed25519 has decoded the same bytes
	}
	tables.Add(key, multiplesOf(a.Negate(a), keyWidth))
	counts.Remove(key)
}
