package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"filippo.io/edwards25519"
)

// keyOf returns the private key of a number.
func keyOf(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func sign(key ed25519.PrivateKey, message string) Statement {
	return Statement{public(key), []byte(message), ed25519.Sign(key, []byte(message))}
}

// table makes multiples of a key be used, whoever has signed by it. It returns false if the key is not a point.
func table(key ed25519.PublicKey) bool {
	a, err := new(edwards25519.Point).SetBytes(key)
	if err == nil {
		tables.Add(publicKey(key), multiplesOf(a.Negate(a), keyWidth))
	}
	return err == nil
}

// order is that of the group.
var order = func() *big.Int {
	n, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
	return n.Add(n, new(big.Int).Lsh(big.NewInt(1), 252))
}()

func numberOf(littleEndian []byte) *big.Int {
	b := slices.Clone(littleEndian)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func bytesOf(n *big.Int) []byte {
	b := n.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	return b
}

func scalar(t *testing.T, n *big.Int) *edwards25519.Scalar {
	t.Helper()
	s, err := edwards25519.NewScalar().SetCanonicalBytes(bytesOf(new(big.Int).Mod(n, order)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lowOrder returns the encodings of the eight points of low order, and of some of them with numbers that are not below the
// modulus of the field.
func lowOrder() (all [][]byte) {
	for _, hex := range []string{
		"00", "01", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		b := make([]byte, 32)
		if _, err := fmt.Sscanf(hex, "%x", &b); err != nil {
			panic(err)
		}
		b = append(b, make([]byte, 32-len(b))...)
		minus := slices.Clone(b)
		minus[31] ^= 0x80 // the sign
		all = append(all, b, minus)
	}
	return all
}

// A key that has multiples gives the result of crypto/ed25519 for every signature: valid ones, those with a changed bit, those with an s
// not below the order, and what the owner of a key can make with points of low order, for which other libraries have other rules.
func TestResultsAreThoseOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []Statement
	for i := range byte(40) {
		s := sign(keyOf(i), string(make([]byte, i)))
		all = append(all, s)
		changed := Statement{s.Key, s.Message, slices.Clone(s.Signature)}
		changed.Signature[rng.IntN(64)] ^= 1 << rng.IntN(8)
		high := Statement{s.Key, s.Message, slices.Clone(s.Signature)}
		copy(high.Signature[32:], bytesOf(numberOf(high.Signature[32:]).Add(numberOf(high.Signature[32:]), order)))
		all = append(all, changed, high, Statement{s.Key, []byte("other"), s.Signature})
	}
	points := lowOrder()
	for i, key := range points {
		for _, r := range points {
			all = append(all, Statement{key, []byte{byte(i)}, append(slices.Clone(r), make([]byte, 32)...)},
				Statement{key, []byte{byte(i)}, append(slices.Clone(r), bytesOf(order)...)})
		}
	}
	for _, r := range points {
		all = append(all, withTorsion(t, keyOf(1), r)...)
	}
	valid := 0
	for i, s := range all {
		want := ed25519.Verify(s.Key, s.Message, s.Signature)
		if want {
			valid++
		}
		if !table(s.Key) {
			t.Fatalf("statement %d: the key is not a point", i)
		}
		if got := Verify(s)[0]; got != want {
			t.Errorf("statement %d: %v, and crypto/ed25519 says %v: %x", i, got, want, s)
		}
	}
	if valid < 60 || valid > len(all)/2 {
		t.Errorf("%d of %d signatures are valid", valid, len(all))
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tables.Remove(publicKey(public(keyOf(3))))
	for len(all) > 0 {
		n := min(rng.IntN(8), len(all))
		for i, got := range Verify(all[:n]...) {
			if s := all[i]; got != ed25519.Verify(s.Key, s.Message, s.Signature) {
				t.Errorf("together with %d others: %v: %x", n-1, got, s)
			}
		}
		all = all[n:]
	}
}

// withTorsion returns signatures of which R or the key has a point of low order added.
func withTorsion(t *testing.T, key ed25519.PrivateKey, encoded []byte) []Statement {
	torsion, err := new(edwards25519.Point).SetBytes(encoded)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha512.Sum512(key.Seed())
	secret, err := edwards25519.NewScalar().SetBytesWithClamping(digest[:32])
	if err != nil {
		t.Fatal(err)
	}
	nonce := scalar(t, big.NewInt(7))
	a, r := new(edwards25519.Point).ScalarBaseMult(secret), new(edwards25519.Point).ScalarBaseMult(nonce)
	oddA, oddR := new(edwards25519.Point).Add(a, torsion), new(edwards25519.Point).Add(r, torsion)
	var all []Statement
	for i := range byte(16) { // the challenge decides how much of the torsion counts
		for _, p := range [][2]*edwards25519.Point{{a, oddR}, {oddA, r}, {oddA, oddR}} {
			h := sha512.New()
			h.Write(p[1].Bytes())
			h.Write(p[0].Bytes())
			h.Write([]byte{i})
			k, err := edwards25519.NewScalar().SetUniformBytes(h.Sum(nil))
			if err != nil {
				t.Fatal(err)
			}
			s := edwards25519.NewScalar().MultiplyAdd(k, secret, nonce)
			all = append(all, Statement{p[0].Bytes(), []byte{i}, append(p[1].Bytes(), s.Bytes()...)})
		}
	}
	return all
}

func FuzzVerify(f *testing.F) {
	for i := range byte(3) {
		s := sign(keyOf(i), "a message")
		f.Add([]byte(s.Key), s.Message, s.Signature)
	}
	for _, p := range lowOrder() {
		f.Add(p, []byte("a message"), append(slices.Clone(p), make([]byte, 32)...))
	}
	f.Fuzz(func(t *testing.T, key, message, sig []byte) {
		if len(key) != ed25519.PublicKeySize || len(sig) != ed25519.SignatureSize || !table(key) {
			return
		}
		if got, want := Verify(Statement{key, message, sig})[0], ed25519.Verify(key, message, sig); got != want {
			t.Errorf("%v, and crypto/ed25519 says %v", got, want)
		}
	})
}

// numbers returns numbers below the order: small and large ones, powers of two and their neighbours, and some at random.
func numbers() (all []*big.Int) {
	one := big.NewInt(1)
	for i := range uint(252) {
		power := new(big.Int).Lsh(one, i)
		all = append(all, power, new(big.Int).Sub(power, one), new(big.Int).Sub(order, power))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		n := new(big.Int)
		for range 4 {
			n.Add(n.Lsh(n, 64), new(big.Int).SetUint64(rng.Uint64()))
		}
		all = append(all, n.Mod(n, order))
	}
	return all
}

// Digits are zero or odd, fit into the width, have zeros behind them, and make up the number.
func TestDigits(t *testing.T) {
	for _, width := range []uint{2, keyWidth, baseWidth} {
		for _, n := range numbers() {
			total, last := new(big.Int), -int(width)
			for i, d := range digits(scalar(t, n), width) {
				if d == 0 {
					continue
				}
				if d%2 == 0 || int(d) >= 1<<(width-1) || int(d) <= -1<<(width-1) || i < last+int(width) {
					t.Fatalf("width %d: digit %d at position %d behind one at %d", width, d, i, last)
				}
				total.Add(total, new(big.Int).Lsh(big.NewInt(int64(d)), uint(i)))
				last = i
			}
			if total.Cmp(n) != 0 {
				t.Fatalf("width %d: the digits of %v make up %v", width, n, total)
			}
		}
	}
}

// Sums are those that edwards25519 calculates, also of points of low order and of opposite ones, whose sum is the identity.
func TestSums(t *testing.T) {
	generator := edwards25519.NewGeneratorPoint()
	points := []*edwards25519.Point{generator, new(edwards25519.Point).Negate(generator)}
	for _, b := range append(lowOrder(), public(keyOf(1))) {
		p, err := new(edwards25519.Point).SetBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, p, new(edwards25519.Point).Add(p, generator))
	}
	all := numbers()
	for i, p := range points {
		of := multiplesOf(p, keyWidth)
		for j := range 60 {
			n, m := scalar(t, all[(13*i+7*j)%len(all)]), scalar(t, all[(13*i+7*j*j)%len(all)])
			got := []point{sum(base, n, of, m)}
			normalise(got)
			if want := new(edwards25519.Point).VarTimeDoubleScalarBaseMult(m, p, n); !bytes.Equal(got[0].encoded(), want.Bytes()) {
				t.Fatalf("point %d: %x·B + %x·P is %x, not %x", i, n.Bytes(), m.Bytes(), got[0].encoded(), want.Bytes())
			}
		}
	}
}

// forget empties the caches.
func forget() {
	tables.Purge()
	counts.Purge()
}

// Multiples are calculated for keys that sign often, and used from then on. Wrong signatures do not count, so that nobody has them
// calculated for keys with which they cannot sign.
func TestMultiplesAreForKeysThatSignOften(t *testing.T) {
	forget()
	often, once, never := keyOf(100), keyOf(101), keyOf(102)
	wrong := sign(never, "a message")
	wrong.Message = []byte("another")
	for i := range 2 * tableAfter {
		if got := tables.Contains(publicKey(public(often))); got != (i >= tableAfter) {
			t.Errorf("after %d signatures, a key has multiples: %v", i, got)
		}
		if !Verify(sign(often, fmt.Sprint(i)))[0] || Verify(wrong)[0] {
			t.Fatal("the wrong result")
		}
	}
	Verify(sign(once, "a message"))
	if tables.Len() != 1 || counts.Len() != 1 {
		t.Errorf("%d keys have multiples, and %d are counted", tables.Len(), counts.Len())
	}
	other, _ := tables.Get(publicKey(public(often)))
	tables.Add(publicKey(public(once)), other)
	if Verify(sign(once, "a message"))[0] {
		t.Error("the multiples of a key are not used")
	}
	forget()
}

// keyOfMany returns one of more keys than have multiples.
func keyOfMany(n int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append([]byte{byte(n), byte(n >> 8), 1}, make([]byte, ed25519.SeedSize-3)...))
}

// The key that has not signed for the longest time loses its multiples.
func TestTheLeastRecentKeyLosesItsMultiples(t *testing.T) {
	forget()
	defer forget()
	m := new(multiples)
	for i := range tabledKeys - 1 {
		tables.Add(publicKey{byte(i), byte(i >> 8)}, m)
	}
	key := keyOfMany(0)
	for range tableAfter {
		Verify(sign(key, ""))
	}
	for i := range tabledKeys - 1 {
		tables.Add(publicKey{byte(i), byte(i >> 8), 1}, m)
		Verify(sign(key, ""))
	}
	if tables.Len() != tabledKeys || !tables.Contains(publicKey(public(key))) || tables.Contains(publicKey{}) {
		t.Errorf("%d keys have multiples; the one that signs: %v; the oldest: %v", tables.Len(), tables.Contains(publicKey(public(key))), tables.Contains(publicKey{}))
	}
}

// If more keys sign than can have multiples, in turn or at random, multiples are seldom calculated, so that they do not
// cost more than they save.
func TestTooManyKeysGetFewMultiples(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const keys, signatures = 3 * countedKeys, 12 * countedKeys
	var all []Statement
	for i := range keys {
		all = append(all, sign(keyOfMany(i), ""))
	}
	for name, pick := range map[string]func(i int) int{"in turn": func(i int) int { return i % keys }, "at random": func(int) int { return rng.IntN(keys) }} {
		forget()
		built := 0
		for i := range signatures {
			s := all[pick(i)]
			has := tables.Contains(publicKey(s.Key))
			if !Verify(s)[0] {
				t.Fatal("a valid signature is wrong")
			}
			if !has && tables.Contains(publicKey(s.Key)) {
				built++
			}
		}
		t.Logf("%s: multiples are calculated %d times for %d signatures", name, built, signatures)
		if most := map[string]int{"in turn": 0, "at random": signatures / 20}[name]; built > most {
			t.Errorf("%s: multiples are calculated %d times for %d signatures", name, built, signatures)
		}
	}
	forget()
}

func BenchmarkVerify(b *testing.B) {
	s := sign(keyOf(1), string(make([]byte, 200)))
	b.Run("crypto/ed25519", func(b *testing.B) {
		for b.Loop() {
			ed25519.Verify(s.Key, s.Message, s.Signature)
		}
	})
	a, err := new(edwards25519.Point).SetBytes(s.Key)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("multiples", func(b *testing.B) {
		for b.Loop() {
			multiplesOf(a, keyWidth)
		}
	})
	table(s.Key)
	for _, n := range []int{1, 2, 16} {
		all := slices.Repeat([]Statement{s}, n)
		b.Run(fmt.Sprintf("%d with multiples", n), func(b *testing.B) {
			for b.Loop() {
				if slices.Contains(Verify(all...), false) {
					b.Fatal("a valid signature is wrong")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/signature")
		})
	}
}
