package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"errors"
	"math/rand/v2"
	"testing"

	"filippo.io/edwards25519"
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
	for _, batch := range [][][]byte{{odd}, {plain, odd}, {odd, odd, plain}, {odd, wrong}} {
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
		for i, got := range v.OpenAll(DomainEntry, [][]byte{plain, odd}) {
			if got.Err != nil {
				t.Errorf("%s: number %d of two: %v", name, i, got.Err)
			}
		}
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
