// Package signature verifies Ed25519 signatures (RFC 8032, section 5.1.7), many of which are by few keys: those of a node's
// neighbours, and of the owners and publishers of its feeds. It accepts what crypto/ed25519 accepts. The first signatures of a key
// are verified by that library, which multiplies the key by a number of 253 bits each time. From then on, multiples of the key are
// kept, whose sum takes a third of the time (multiples.go).
//
// Everything here takes different times for different numbers, because none of them is a secret. Signing is left to
// crypto/ed25519, and the arithmetic of the field beneath the curve to filippo.io/edwards25519.
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
	// tableAfter is after how many signatures of a key its multiples are calculated, which takes as long as one signature and a half.
	tableAfter = 2
)

type publicKey = [ed25519.PublicKeySize]byte

// tables has the multiples of -A of the keys A that have signed last, and counts has how often other keys have. They follow from the
// keys alone, so that all of a process can share them.
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

// A Statement is what somebody has signed. The caller has made sure that key and signature have the lengths of their kind.
type Statement struct {
	Key                ed25519.PublicKey
	Message, Signature []byte
}

// Verify reports which statements were signed by their keys. The result for one does not depend on the others, but several take
// less time together than one after the other.
func Verify(statements ...Statement) []bool {
	valid := make([]bool, len(statements))
	var of []int // the numbers of statements whose keys have multiples
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

// count counts a valid signature of a key that has no multiples, and calculates them if it signs often.
func count(key publicKey) {
	n, _ := counts.Get(key)
	if n++; n < tableAfter {
		counts.Add(key, n)
		return
	}
	a, err := new(edwards25519.Point).SetBytes(key[:])
	if err != nil {
		panic(err) // it has signed
	}
	tables.Add(key, multiplesOf(a.Negate(a), keyWidth))
	counts.Remove(key)
}
