package wire

import (
	"crypto/sha512"
	"encoding/binary"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// zip215 is the condition for a valid signature (R, s) of a message by a key A: 8sB = 8R + 8kA, where k is the challenge. It
// gives the same result for one signature and for many at once, whereas crypto/ed25519 leaves out the factor 8 and may refuse
// what a batch accepts. Nodes that verify the same entry alone and in a batch have to agree. Only the owner of a key can make
// a signature of which the two differ. See https://zips.z.cash/zip-0215.
var zip215 = &ed25519.Options{Verify: ed25519.VerifyOptionsZIP_215}

const (
	// tabledKeys is the number of keys of which multiples are kept, 41 KB each. The owners and publishers that sign entries,
	// items and sightings sign again and again. The key that has not been used for the longest time is dropped.
	tabledKeys = 128
	// tableAfter is after how many signatures of a key its multiples are calculated, which takes as long as four signatures.
	// Only valid ones count, so that nobody can cause the work with other people's keys, or for nothing.
	tableAfter = 4
	// batchFactor is how many signatures a key must have in a batch on average for one equation to take less time than one
	// for each.
	batchFactor = 2
)

// A table is what is known of a key.
type table struct {
	signatures int                          // valid ones before there were multiples
	negative   *curve.EdwardsBasepointTable // multiples of -A; nil: not calculated yet
}

// tables has the keys of the last signatures. They follow from the keys, so that all networks of a process share them.
var tables = func() *lru.Cache[curve.CompressedEdwardsY, table] {
	cache, err := lru.New[curve.CompressedEdwardsY, table](tabledKeys)
	if err != nil {
		panic(err) // the size is not positive
	}
	return cache
}()

// multiples returns the multiples of -A, and nil if there are none.
func multiples(key curve.CompressedEdwardsY) *curve.EdwardsBasepointTable {
	known, _ := tables.Get(key)
	return known.negative
}

// signed counts valid signatures of a key that has no multiples.
func signed(key curve.CompressedEdwardsY, n int) {
	known, _ := tables.Peek(key)
	if known.signatures += n; known.signatures > tableAfter {
		a, err := new(curve.EdwardsPoint).SetCompressedY(&key)
		if err != nil {
			panic(err) // it has signed
		}
		known.negative = curve.NewEdwardsBasepointTable(a.Neg(a))
	}
	tables.Add(key, known)
}

// A statement is what a signature is about.
type statement struct {
	key, message, signature []byte
}

// valid verifies one signature. With the multiples of its key, it calculates R from the other numbers, which takes two thirds
// of the time. If that is not the R of the signature, they may still be the same but for the factor 8.
func (s statement) valid() bool {
	key := curve.CompressedEdwardsY(s.key)
	negative := multiples(key)
	if negative != nil && s.gives(negative) {
		return true
	}
	ok := ed25519.VerifyWithOptions(s.key, s.message, s.signature, zip215)
	if ok && negative == nil {
		signed(key, 1)
	}
	return ok
}

// gives reports whether R = sB - kA, by the multiples of -A.
func (s statement) gives(negative *curve.EdwardsBasepointTable) bool {
	response, ok := s.response()
	if !ok {
		return false
	}
	var r, ka curve.EdwardsPoint
	r.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, response)
	r.Add(&r, ka.MulBasepoint(negative, s.challenge()))
	return new(curve.CompressedEdwardsY).SetEdwardsPoint(&r).Equal(s.commitment()) == 1
}

// commitment returns R.
func (s statement) commitment() *curve.CompressedEdwardsY {
	r := curve.CompressedEdwardsY(s.signature)
	return &r
}

// response returns s, and false if it is not below the order of the group.
func (s statement) response() (*scalar.Scalar, bool) {
	n, err := scalar.NewFromCanonicalBytes(s.signature[curve.CompressedPointSize:])
	return n, err == nil
}

// challenge returns k, the hash of everything but s.
func (s statement) challenge() *scalar.Scalar {
	h := sha512.New()
	h.Write(s.signature[:curve.CompressedPointSize])
	h.Write(s.key)
	h.Write(s.message)
	k, err := scalar.NewFromBytesModOrderWide(h.Sum(nil))
	if err != nil {
		panic(err) // the hash does not have 64 bytes
	}
	return k
}

// factors returns a number of 128 bits for each signature, given their challenges. They follow from all the signatures, so that
// nobody who signs can choose them.
func factors(all []statement, challenges []*scalar.Scalar) []*scalar.Scalar {
	transcript := sha512.New()
	for i, s := range all {
		var k [scalar.ScalarSize]byte
		if err := challenges[i].ToBytes(k[:]); err != nil {
			panic(err) // the array is too short
		}
		transcript.Write(k[:])
		transcript.Write(s.signature)
	}
	seed := transcript.Sum(nil)
	z := make([]*scalar.Scalar, len(all))
	for i := range z {
		h := sha512.Sum512(binary.BigEndian.AppendUint64(seed, uint64(i)))
		clear(h[16:])
		var err error
		if z[i], err = scalar.NewFromBytesModOrderWide(h[:]); err != nil {
			panic(err) // the hash does not have 64 bytes
		}
	}
	return z
}

// A sum is what the signatures of one key add to the equation of a batch.
type sum struct {
	signatures int
	factor     scalar.Scalar // of A
}

// allValid verifies signatures together. It multiplies the equation of each by a factor and adds them all up, so that the terms
// of a key become one. Wrong signatures pass only if their errors add up to zero, which has a probability of 2^-128
// (go test -bench OpenAll).
func allValid(all []statement) bool {
	keys := map[curve.CompressedEdwardsY]*sum{}
	for _, s := range all {
		keys[curve.CompressedEdwardsY(s.key)] = &sum{}
	}
	if len(all) < batchFactor*len(keys) {
		return !slices.ContainsFunc(all, func(s statement) bool { return !s.valid() })
	}
	challenges, responses, points := make([]*scalar.Scalar, len(all)), make([]*scalar.Scalar, len(all)), make([]*curve.EdwardsPoint, len(all))
	for i, s := range all {
		var ok bool
		var err error
		if responses[i], ok = s.response(); !ok {
			return false
		}
		if points[i], err = new(curve.EdwardsPoint).SetCompressedY(s.commitment()); err != nil {
			return false
		}
		challenges[i] = s.challenge()
	}
	z := factors(all, challenges)
	var base, product scalar.Scalar
	for i, s := range all {
		base.Add(&base, product.Mul(z[i], responses[i]))
		of := keys[curve.CompressedEdwardsY(s.key)]
		of.signatures++
		of.factor.Add(&of.factor, product.Mul(z[i], challenges[i]))
	}
	var total, term curve.EdwardsPoint // sB - kA - R of all
	total.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, &base)
	for key, of := range keys {
		if negative := multiples(key); negative != nil {
			total.Add(&total, term.MulBasepoint(negative, &of.factor))
			continue
		}
		a, err := new(curve.EdwardsPoint).SetCompressedY(&key)
		if err != nil {
			return false
		}
		points, z = append(points, a), append(z, &of.factor)
	}
	if total.Sub(&total, term.MultiscalarMulVartime(z, points)); !total.IsSmallOrder() {
		return false
	}
	for key, of := range keys {
		if multiples(key) == nil {
			signed(key, of.signatures)
		}
	}
	return true
}
