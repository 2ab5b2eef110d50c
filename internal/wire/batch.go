package wire

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/binary"

	"filippo.io/edwards25519"
)

// A signature is valid if 8SB = 8R + 8kA, as ZIP 215 has it. This equation gives the same result for one signature and
// for many at once, whereas crypto/ed25519 leaves out the factor 8 and may refuse what a batch accepts. Nodes that
// verify the same entry alone and in a batch have to agree. Only the owner of a key can make a signature of which the two
// differ. See https://zips.z.cash/zip-0215.

// A statement is what a signature is about.
type statement struct {
	key, message, signature []byte
}

// valid verifies one signature.
func (s statement) valid() bool {
	return ed25519.Verify(s.key, s.message, s.signature) || allValid([]statement{s})
}

// allValid verifies signatures together. It multiplies the equation of each by a random number of 128 bits and adds them all
// up. Wrong signatures pass only if their errors add up to zero, which has a probability of 2^-128. The random numbers are
// a hash of all keys, messages and signatures, so nobody can choose a signature to fit its number. Signatures of the same key
// share most of the work: sixteen of them take a third of the time that they take one by one, and three of different keys
// three quarters (go test -bench OpenAll).
func allValid(all []statement) bool {
	digests := make([][sha512.Size]byte, len(all)) // of R, A and the message, as RFC 8032 has it
	transcript := sha512.New()
	for i, s := range all {
		if len(s.key) != ed25519.PublicKeySize || len(s.signature) != ed25519.SignatureSize {
			return false
		}
		h := sha512.New()
		h.Write(s.signature[:32])
		h.Write(s.key)
		h.Write(s.message)
		h.Sum(digests[i][:0])
		transcript.Write(digests[i][:])
		transcript.Write(s.signature[32:])
	}
	seed := transcript.Sum(nil)

	sum := edwards25519.NewScalar() // of zS, times the generator
	scalars := make([]*edwards25519.Scalar, 1, 1+2*len(all))
	points := make([]*edwards25519.Point, 1, 1+2*len(all))
	scalars[0], points[0] = sum, edwards25519.NewGeneratorPoint()
	ofKey := map[string]*edwards25519.Scalar{} // the sum of zk, by key
	for i, s := range all {
		z := randomizer(seed, i)
		response, err := edwards25519.NewScalar().SetCanonicalBytes(s.signature[32:])
		if err != nil {
			return false
		}
		sum.MultiplyAdd(z, response, sum)
		nonce, err := new(edwards25519.Point).SetBytes(s.signature[:32])
		if err != nil {
			return false
		}
		scalars, points = append(scalars, z), append(points, nonce.Negate(nonce))
		challenge, err := edwards25519.NewScalar().SetUniformBytes(digests[i][:])
		if err != nil {
			return false
		}
		if of, known := ofKey[string(s.key)]; known {
			of.MultiplyAdd(z, challenge, of)
			continue
		}
		key, err := new(edwards25519.Point).SetBytes(s.key)
		if err != nil {
			return false
		}
		ofKey[string(s.key)] = challenge.Multiply(z, challenge)
		scalars, points = append(scalars, challenge), append(points, key.Negate(key))
	}
	rest := new(edwards25519.Point).VarTimeMultiScalarMult(scalars, points)
	return rest.MultByCofactor(rest).Equal(edwards25519.NewIdentityPoint()) == 1
}

// randomizer returns the number i of a batch, from 0 to 2^128-1.
func randomizer(seed []byte, i int) *edwards25519.Scalar {
	digest := sha512.Sum512(binary.BigEndian.AppendUint64(append([]byte(nil), seed...), uint64(i)))
	var b [32]byte
	copy(b[:16], digest[:])
	z, err := edwards25519.NewScalar().SetCanonicalBytes(b[:])
	if err != nil {
		panic("wire: " + err.Error()) // 128 bits are always below the order of the group
	}
	return z
}
