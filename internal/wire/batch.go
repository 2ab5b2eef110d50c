package wire

import (
	"crypto/sha512"
	"encoding/binary"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
	"golang.org/x/sys/cpu"
)

// zip215 is the condition for a valid signature (R, s) of a message by a key A: 8sB = 8R + 8kA, where k is the challenge. It
// gives the same result for one signature and for many at once, whereas crypto/ed25519 leaves out the cofactor 8 and may refuse
// what a batch accepts. Nodes that verify the same entry alone and in a batch have to agree. Only the owner of a key can make
// a signature of which the two differ. See https://zips.z.cash/zip-0215.
var zip215 = &ed25519.Options{Verify: ed25519.VerifyOptionsZIP_215}

const (
	// tabledKeys is the number of keys of which multiples are kept, 41 KB each: those of the owners, publishers and neighbours
	// whose statements a node verifies again and again. The key that has not been used for the longest time is dropped.
	tabledKeys = 128
	// countedKeys is the number of keys whose valid signatures are counted. If more keys than that sign in turn, none of them gets
	// multiples: they would be dropped before they are used.
	countedKeys = tabledKeys
	// tableAfter is after how many signatures of a key its multiples are calculated, which takes as long as four signatures.
	tableAfter = 4
	// batchFactor is how many signatures a key must have in a batch on average for one equation to take less time than one
	// for each with multiples.
	batchFactor = 2
	// minBatch is the least number of signatures for which one equation takes less time than voi takes for each of them.
	minBatch = 3
)

// multiplesPay says whether multiples of keys are worth their calculation. Without vector instructions of amd64 they take as long
// as twenty signatures, and save a quarter of one each time.
var multiplesPay = cpu.X86.HasAVX2

// tables has the multiples of -A of the keys A that have signed last, and counts has how often other keys have. They follow from
// the keys, so that all networks of a process share them.
var (
	tables = newCache[*curve.EdwardsBasepointTable](tabledKeys)
	counts = newCache[int](countedKeys)
)

func newCache[V any](size int) *lru.Cache[curve.CompressedEdwardsY, V] {
	cache, err := lru.New[curve.CompressedEdwardsY, V](size)
	if err != nil {
		panic(err) // the size is not positive
	}
	return cache
}

// count counts a valid signature of a key, or a batch of them, in which multiples would save little.
func count(key curve.CompressedEdwardsY) {
	n, _ := counts.Get(key)
	if n++; n <= tableAfter || !multiplesPay {
		counts.Add(key, n)
		return
	}
	a, err := new(curve.EdwardsPoint).SetCompressedY(&key)
	if err != nil {
		panic(err) // it has signed
	}
	tables.Add(key, curve.NewEdwardsBasepointTable(a.Neg(a)))
	counts.Remove(key)
}

// A statement is what a signature is about.
type statement struct {
	key, message, signature []byte
}

// valid verifies one signature, with the multiples of its key in two thirds of the time.
func (s statement) valid() bool {
	key := curve.CompressedEdwardsY(s.key)
	if negative, ok := tables.Get(key); ok {
		return s.validBy(negative)
	}
	ok := ed25519.VerifyWithOptions(s.key, s.message, s.signature, zip215)
	if ok {
		count(key)
	}
	return ok
}

// validBy verifies a signature by the multiples of -A: it calculates R from the other numbers.
func (s statement) validBy(negative *curve.EdwardsBasepointTable) bool {
	response, ok := s.response()
	if !ok {
		return false
	}
	var r, ka curve.EdwardsPoint
	r.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, response)
	r.Add(&r, ka.MulBasepoint(negative, s.challenge()))
	if new(curve.CompressedEdwardsY).SetEdwardsPoint(&r).Equal(s.commitment()) == 1 {
		return true
	}
	given, err := new(curve.EdwardsPoint).SetCompressedY(s.commitment())
	return err == nil && r.Sub(&r, given).IsSmallOrder() // ZIP 215 compares the points after multiplying both by the cofactor 8
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

// coefficients returns a number of 128 bits for each signature, given their challenges. They are a hash of all the signatures, so
// that a signer can only try again with another signature, and not choose them.
func coefficients(all []statement, challenges []*scalar.Scalar) []*scalar.Scalar {
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

// validAll verifies signatures, and reports which are valid.
func validAll(all []statement) []bool {
	keys, tabled := map[curve.CompressedEdwardsY]bool{}, true
	for _, s := range all {
		key := curve.CompressedEdwardsY(s.key)
		keys[key], tabled = true, tabled && tables.Contains(key)
	}
	pays := len(all) > 1 && len(all) >= batchFactor*len(keys) || !tabled && len(all) >= minBatch
	together := pays && validTogether(all)
	valid := make([]bool, len(all))
	for i, s := range all {
		valid[i] = together || s.valid()
	}
	return valid
}

// validTogether reports whether signatures are all valid. It multiplies the equation of each by its coefficient and adds them all up, so
// that a key has one term however often it signed. Wrong signatures pass only if their errors add up to zero, which has a probability of 2^-128
// each time (go test -bench OpenAll).
func validTogether(all []statement) bool {
	keys := map[curve.CompressedEdwardsY]*scalar.Scalar{} // A: its coefficient in the sum
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
	z := coefficients(all, challenges)
	var base, product scalar.Scalar
	for i, s := range all {
		base.Add(&base, product.Mul(z[i], responses[i]))
		key := curve.CompressedEdwardsY(s.key)
		if keys[key] == nil {
			keys[key] = scalar.New()
		}
		keys[key].Add(keys[key], product.Mul(z[i], challenges[i]))
	}
	var total, term curve.EdwardsPoint // sB - kA - R of all
	total.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, &base)
	for key, coefficient := range keys {
		if negative, ok := tables.Get(key); ok {
			total.Add(&total, term.MulBasepoint(negative, coefficient))
			continue
		}
		a, err := new(curve.EdwardsPoint).SetCompressedY(&key)
		if err != nil {
			return false
		}
		points, z = append(points, a), append(z, coefficient)
	}
	if total.Sub(&total, term.MultiscalarMulVartime(z, points)); !total.IsSmallOrder() {
		return false
	}
	for key := range keys {
		if !tables.Contains(key) {
			count(key)
		}
	}
	return true
}
