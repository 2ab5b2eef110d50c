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
	for _, batch := range slices.Repeat([][][]byte{{odd}, {plain, odd}, {odd, odd, plain}, {odd, wrong}}, 2*tableAfter) { // also with multiples
		for i, got := range v.OpenAll(DomainEntry, batch) {
			if want := bytes.Equal(batch[i], wrong); want != errors.Is(got.Err, ErrSignature) {
				t.Errorf("number %d of %d: %v", i, len(batch), got.Err)
			}
		}
	}
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
			high := bytes.Clone(raws[3]) // its s is as large again as the order of the group, which many verifiers accept
			for i, carry := len(high)-ed25519.SignatureSize/2, 0; i < len(high); i++ {
				carry += int(high[i]) + int(order[i-(len(high)-ed25519.SignatureSize/2)])
				high[i], carry = byte(carry), carry>>8
			}
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
	if multiples(curve.CompressedEdwardsY(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey))) == nil {
		t.Error("a key that has signed often has no multiples")
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
	if _, known := tables.Peek(curve.CompressedEdwardsY(key.Public().(ed25519.PublicKey))); known {
		t.Error("the key is known")
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
