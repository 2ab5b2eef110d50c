package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"filippo.io/edwards25519"
	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// OpenAll finds the same envelopes valid as Open, wherever the wrong ones stand and whatever is wrong with them.
func TestOpenAllAgreesWithOpen(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	v := NewVerifier(Hash{1})
	signers := make([]*Signer, 4)
	for i := range signers {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i)
		signers[i] = NewSigner(ed25519.NewKeyFromSeed(seed), Hash{1})
	}
	for round := range 200 {
		raws := make([][]byte, rng.IntN(12))
		for i := range raws {
			raws[i] = signers[rng.IntN(len(signers))].Sign(DomainEntry, []byte{byte(round), byte(i)}).Raw
			if rng.IntN(20) == 0 {
				raws[i][rng.IntN(len(raws[i]))] ^= 1 << rng.IntN(8)
			}
		}
		for i, got := range v.OpenAll(DomainEntry, raws) {
			want, err := v.Open(DomainEntry, raws[i])
			if (err == nil) != (got.Err == nil) || err == nil && !bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("round %d, envelope %d of %d: %v, and alone %v", round, i, len(raws), got.Err, err)
			}
		}
	}
}

// The owner of a key can make signatures that are valid by the equation with the factor 8 only. All ways of verifying accept
// them, or else nodes would disagree on which entries a log has.
func TestVerifiersAgreeOnSignaturesWithTorsion(t *testing.T) {
	torsion, err := new(edwards25519.Point).SetBytes([]byte{ // of order 4
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	network, seed := Hash{1}, make([]byte, ed25519.SeedSize)
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	digest := sha512.Sum512(seed)
	secret, err := edwards25519.NewScalar().SetBytesWithClamping(digest[:32])
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte("an entry")
	nonce, err := edwards25519.NewScalar().SetUniformBytes(bytes.Repeat([]byte{7}, 64))
	if err != nil {
		t.Fatal(err)
	}
	r := new(edwards25519.Point).ScalarBaseMult(nonce)
	r.Add(r, torsion)
	h := sha512.New()
	h.Write(r.Bytes())
	h.Write(public)
	h.Write(signedBytes(DomainEntry, network, payload))
	k, err := edwards25519.NewScalar().SetUniformBytes(h.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.Bytes(), edwards25519.NewScalar().MultiplyAdd(k, secret, nonce).Bytes()...)
	if ed25519.Verify(public, signedBytes(DomainEntry, network, payload), signature) {
		t.Fatal("the signature has no torsion")
	}
	odd := Envelope(public, payload, signature)
	v := NewVerifier(network)
	if _, err := v.Open(DomainEntry, odd); err != nil {
		t.Errorf("alone: %v", err)
	}
	plain := NewSigner(key, network).Sign(DomainEntry, payload).Raw
	wrong := NewSigner(key, Hash{2}).Sign(DomainEntry, payload).Raw
	if statements := []statement{v.(verifier).statementOf(t, odd), v.(verifier).statementOf(t, plain)}; !validTogether(statements) {
		t.Error("one equation refuses torsion")
	}
	for _, batch := range slices.Repeat([][][]byte{{odd}, {plain, odd}, {odd, odd, plain}, {odd, wrong}}, 2*tableAfter) { // also with multiples
		for i, got := range v.OpenAll(DomainEntry, batch) {
			if want := bytes.Equal(batch[i], wrong); want != errors.Is(got.Err, ErrSignature) {
				t.Errorf("number %d of %d: %v", i, len(batch), got.Err)
			}
		}
	}
}

// statementOf returns what the signature of an entry is about.
func (v verifier) statementOf(t *testing.T, raw []byte) statement {
	t.Helper()
	signed, signature, err := parseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v.statement(DomainEntry, signed, signature)
}

// Everybody can sign for a key of small order, and all ways of verifying accept that: a node that refused it would disagree, too.
func TestVerifiersAgreeOnKeysOfSmallOrder(t *testing.T) {
	signer := NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), Hash{1})
	v := NewVerifier(Hash{1})
	plain := signer.Sign(DomainEntry, []byte("an entry")).Raw
	for name, point := range map[string][]byte{
		"order 1":                       append([]byte{1}, make([]byte, 31)...),
		"order 4":                       make([]byte, 32),
		"order 1, y not below 2^255-19": append(append([]byte{0xee}, bytes.Repeat([]byte{0xff}, 30)...), 0x7f),
	} {
		odd := Envelope(point, []byte("an entry"), append(bytes.Clone(point), make([]byte, 32)...))
		if _, err := v.Open(DomainEntry, odd); err != nil {
			t.Errorf("%s: alone: %v", name, err)
		}
		for range 2 * tableAfter { // also with multiples
			for i, got := range v.OpenAll(DomainEntry, [][]byte{plain, odd, odd, odd}) {
				if got.Err != nil {
					t.Errorf("%s: number %d of four: %v", name, i, got.Err)
				}
			}
			if _, err := v.Open(DomainEntry, odd); err != nil {
				t.Errorf("%s: alone: %v", name, err)
			}
		}
	}
}

// A key of which there are multiples gives the same results as before, whether it signs alone or with others.
func TestVerifiersAgreeOnKeysThatSignOften(t *testing.T) {
	network := Hash{7}
	v := NewVerifier(network)
	for round := range 3 * tableAfter {
		for _, keys := range []int{1, 2, 5} {
			var raws [][]byte
			for i := range 6 {
				seed := bytes.Repeat([]byte{byte(i % keys)}, ed25519.SeedSize)
				raws = append(raws, NewSigner(ed25519.NewKeyFromSeed(seed), network).Sign(DomainEntry, []byte{byte(round), byte(i)}).Raw)
			}
			valid := 0
			for _, o := range v.OpenAll(DomainEntry, raws) {
				if o.Err == nil {
					valid++
				}
			}
			high := bytes.Clone(raws[3])
			addTo(high[len(high)-32:], order) // many verifiers accept that
			other := bytes.Clone(raws[4])
			other[len(other)-1] ^= 1
			wrong := 0
			for _, o := range v.OpenAll(DomainEntry, [][]byte{raws[0], high, raws[1], other, raws[2]}) {
				if errors.Is(o.Err, ErrSignature) {
					wrong++
				}
			}
			_, alone := v.Open(DomainEntry, high)
			if valid != 6 || wrong != 2 || !errors.Is(alone, ErrSignature) {
				t.Fatalf("round %d with %d keys: %d of 6 are valid, and %d of 2 wrong; alone: %v", round, keys, valid, wrong, alone)
			}
		}
	}
	if _, ok := tables.Peek(curve.CompressedEdwardsY(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey))); ok != multiplesPay {
		t.Errorf("multiples of a key that has signed often: %v", ok)
	}
}

// addTo adds numbers whose lowest byte is the first.
func addTo(sum []byte, n [32]byte) {
	for i, carry := 0, 0; i < len(sum); i++ {
		carry += int(sum[i]) + int(n[i])
		sum[i], carry = byte(carry), carry>>8
	}
}

// order is that of the group, the lowest byte first.
var order = [32]byte{0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 31: 0x10}

// Wrong signatures leave no trace, so that nobody has multiples calculated for keys with which they cannot sign.
func TestOnlyValidSignaturesCountForMultiples(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{99}, ed25519.SeedSize))
	foreign := NewSigner(key, Hash{1}).Sign(DomainEntry, []byte("an entry")).Raw
	v := NewVerifier(Hash{2})
	for range 2 * tableAfter {
		if _, err := v.Open(DomainEntry, foreign); !errors.Is(err, ErrSignature) {
			t.Fatal(err)
		}
		v.OpenAll(DomainEntry, [][]byte{foreign, foreign, foreign})
	}
	if counts.Contains(curve.CompressedEdwardsY(key.Public().(ed25519.PublicKey))) {
		t.Error("the key is known")
	}
}

// One equation accepts all valid signatures and no wrong ones, also those whose errors would cancel each other if all had the same
// coefficient. OpenAll would hide it: what the equation refuses is verified one by one.
func TestOneEquationForManySignatures(t *testing.T) {
	one, minusOne := [32]byte{1}, [32]byte(bytes.Repeat([]byte{0xff}, 32))
	sign := func(key byte, n int) (all []statement) {
		private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{key}, ed25519.SeedSize))
		for i := range n {
			message := []byte{byte(i)}
			all = append(all, statement{private.Public().(ed25519.PublicKey), message, ed25519.Sign(private, message)})
		}
		return all
	}
	for round := range 2 * tableAfter { // also with multiples
		if all := slices.Concat(sign(200, 3), sign(201, 1), sign(202, 2)); !validTogether(all) {
			t.Fatalf("round %d: valid signatures are refused", round)
		}
		for what, changes := range map[string][][32]byte{"one error": {one}, "errors that cancel each other": {one, minusOne}, "a number above the order": {order}} {
			all := sign(200, 4)
			for i, by := range changes {
				addTo(all[i].signature[32:], by)
			}
			if validTogether(all) {
				t.Fatalf("round %d: %s: accepted", round, what)
			}
		}
	}
	all := sign(200, 2)
	var challenges []*scalar.Scalar
	for _, s := range all {
		challenges = append(challenges, s.challenge())
	}
	before := coefficients(all, challenges)
	addTo(all[1].signature[32:], one)
	if after := coefficients(all, challenges); before[0].Equal(after[0]) == 1 || before[1].Equal(after[1]) == 1 || before[0].Equal(before[1]) == 1 {
		t.Error("the coefficients do not depend on all the signatures")
	}
}

func BenchmarkOpenAll(b *testing.B) {
	v := NewVerifier(Hash{1})
	for _, c := range []struct {
		name    string
		n, keys int
	}{{"1", 1, 1}, {"3 of 3 keys", 3, 3}, {"16 of 1 key", 16, 1}, {"100 of 1 key", 100, 1}} {
		var raws [][]byte
		for i := range c.n {
			seed := make([]byte, ed25519.SeedSize)
			seed[0] = byte(i % c.keys)
			raws = append(raws, NewSigner(ed25519.NewKeyFromSeed(seed), Hash{1}).Sign(DomainEntry, make([]byte, 1000+i)).Raw)
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				for _, o := range v.OpenAll(DomainEntry, raws) {
					if o.Err != nil {
						b.Fatal(o.Err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*c.n), "µs/envelope")
		})
	}
}
