package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/internal/wire/wirepb"
)

const testDomain Domain = "tidings/test/1"

var home = HashOf(DefaultNetwork("home").Descriptor())

func TestEnvelopeOpensAsItWasSigned(t *testing.T) {
	signer := NewSigner(key(1), home)
	for _, payload := range []string{"", "payload"} {
		s := signer.Sign(testDomain, []byte(payload))
		got, err := NewVerifier(home).Open(testDomain, s.Raw)
		if err != nil || string(got.Payload) != payload || !got.Key.Equal(signer.Public()) || !bytes.Equal(got.Raw, s.Raw) {
			t.Errorf("signed %q, opened %q by %x, %v", payload, got.Payload, got.Key, err)
		}
		if PeerIDOf(got.Key) != signer.PeerID() {
			t.Error("the signer has another peer id")
		}
	}
}

// TestEnvelopeIsTheOneSpecified reads envelopes of other encoders: the fields of wire.proto may
// come in any order, and unknown ones may follow.
func TestEnvelopeIsTheOneSpecified(t *testing.T) {
	s := NewSigner(key(1), home).Sign(testDomain, []byte("payload"))
	var m wirepb.Envelope
	if err := proto.Unmarshal(s.Raw, &m); err != nil {
		t.Fatal(err)
	}
	backwards := field(field(field(nil, 3, m.Signature), 2, m.Payload), 1, m.Key)
	more := protowire.AppendVarint(protowire.AppendTag(slices.Clone(s.Raw), 9, protowire.VarintType), 7)
	for name, raw := range map[string][]byte{
		"marshalled":       Encode(&m),
		"backwards":        backwards,
		"an unknown field": more,
		"an unknown group": append(slices.Clone(s.Raw), 9<<3|3, 9<<3|4),
	} {
		got, err := NewVerifier(home).Open(testDomain, raw)
		if err != nil || string(got.Payload) != "payload" {
			t.Errorf("%s: %q, %v", name, got.Payload, err)
		}
		if !bytes.Equal(got.Raw, raw) {
			t.Errorf("%s: passed on as %x, was %x", name, got.Raw, raw)
		}
	}
}

func field(dst []byte, num protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), b)
}

func TestEnvelopeRefusals(t *testing.T) {
	s := NewSigner(key(1), home).Sign(testDomain, []byte("payload"))
	var m wirepb.Envelope
	if err := proto.Unmarshal(s.Raw, &m); err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*wirepb.Envelope)) []byte {
		c := proto.CloneOf(&m)
		change(c)
		return Encode(c)
	}
	for _, c := range []struct {
		name   string
		domain Domain
		in     Hash
		raw    []byte
		want   error
	}{
		{"another domain", testDomain + "0", home, s.Raw, ErrSignature},
		{"a shorter domain", testDomain[:len(testDomain)-1], home, s.Raw, ErrSignature},
		{"another network", testDomain, HashOf([]byte("away")), s.Raw, ErrSignature},
		{"another payload", testDomain, home, changed(func(e *wirepb.Envelope) { e.Payload[0]++ }), ErrSignature},
		{"a longer payload", testDomain, home, field(slices.Clone(s.Raw), 2, []byte("payload!")), ErrSignature},
		{"another key", testDomain, home, changed(func(e *wirepb.Envelope) { e.Key = public(2) }), ErrSignature},
		{"another signature", testDomain, home, changed(func(e *wirepb.Envelope) { e.Signature[9]++ }), ErrSignature},
		{"a key too short", testDomain, home, changed(func(e *wirepb.Envelope) { e.Key = e.Key[1:] }), ErrEnvelope},
		{"no signature", testDomain, home, changed(func(e *wirepb.Envelope) { e.Signature = nil }), ErrEnvelope},
		{"nothing", testDomain, home, nil, ErrEnvelope},
		{"cut short", testDomain, home, s.Raw[:len(s.Raw)-1], ErrEnvelope},
		{"garbage after", testDomain, home, append(slices.Clone(s.Raw), 0xff), ErrEnvelope},
	} {
		for kind, v := range map[string]Verifier{"real": NewVerifier(c.in), "memo": NewCachingVerifier(NewVerifier(c.in), 8)} {
			if got, err := v.Open(c.domain, c.raw); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %q, %v; want %v", c.name, kind, got.Payload, err, c.want)
			}
		}
	}
}

// counting counts the calls of Open.
type counting struct {
	Verifier
	opened int
}

func (c *counting) Open(domain Domain, raw []byte) (Signed, error) {
	c.opened++
	return c.Verifier.Open(domain, raw)
}

func TestCacheVerifiesOnceAndSharesTheResult(t *testing.T) {
	inner := &counting{Verifier: NewVerifier(home)}
	memo := NewCachingVerifier(inner, 8)
	s := NewSigner(key(1), home).Sign(testDomain, []byte("payload"))
	buffer := slices.Clone(s.Raw)
	first, err := memo.Open(testDomain, buffer)
	if err != nil {
		t.Fatal(err)
	}
	clear(buffer) // the cache has its own copy
	second, err := memo.Open(testDomain, s.Raw)
	if err != nil || inner.opened != 1 {
		t.Errorf("asked %d times, %v", inner.opened, err)
	}
	if string(first.Payload) != "payload" || &first.Payload[0] != &second.Payload[0] || &first.Raw[0] != &second.Raw[0] {
		t.Errorf("%q and %q are not one value", first.Payload, second.Payload)
	}
	if _, err := memo.Open(testDomain+"0", s.Raw); !errors.Is(err, ErrSignature) {
		t.Errorf("remembered in one domain, opened in another: %v", err)
	}
}

// An envelope that was signed here needs no verification, unless it was changed.
func TestCacheKnowsEnvelopesOfItsSigners(t *testing.T) {
	inner := &counting{Verifier: NewVerifier(home)}
	memo := NewCachingVerifier(inner, 8)
	payload := []byte("payload")
	s := memo.Signer(key(1), home).Sign(testDomain, payload)
	clear(payload) // the cache has its own copy
	if got, err := memo.Open(testDomain, s.Raw); err != nil || string(got.Payload) != "payload" || inner.opened != 0 {
		t.Errorf("%q, %v, asked %d times", got.Payload, err, inner.opened)
	}
	other := slices.Clone(s.Raw)
	other[len(other)-1] ^= 1
	if _, err := memo.Open(testDomain, other); !errors.Is(err, ErrSignature) {
		t.Errorf("another signature: %v", err)
	}
	if _, err := memo.Open(testDomain+"0", s.Raw); !errors.Is(err, ErrSignature) {
		t.Errorf("another domain: %v", err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	inner := &counting{Verifier: NewVerifier(home)}
	memo := NewCachingVerifier(inner, 2)
	signer := NewSigner(key(1), home)
	for _, step := range []struct {
		payload string
		asked   int
	}{{"a", 1}, {"b", 2}, {"a", 2}, {"c", 3}, {"a", 4}, {"c", 4}} {
		if _, err := memo.Open(testDomain, signer.Sign(testDomain, []byte(step.payload)).Raw); err != nil {
			t.Fatal(err)
		}
		if inner.opened != step.asked {
			t.Errorf("after %s: asked %d times, want %d", step.payload, inner.opened, step.asked)
		}
	}
}

// Signers that share a locked cache may run in parallel, and each finds the envelopes of the
// others.
func TestLockedCacheIsSafeForConcurrentUse(t *testing.T) {
	memo := NewCachingVerifier(NewVerifier(home), 8).WithLock(new(sync.Mutex))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			signer := memo.Signer(key(byte(1+i%2)), home)
			for n := range 20 {
				payload := strconv.Itoa(n)
				if s, err := memo.Open(testDomain, signer.Sign(testDomain, []byte(payload)).Raw); err != nil || string(s.Payload) != payload {
					t.Errorf("%q, %v", s.Payload, err)
				}
			}
		})
	}
	all.Wait()
}

// No domain is a prefix of another, or of what libp2p signs with the same key. The domains are read
// from the source, so that a new one cannot be forgotten here.
func TestNoDomainIsAPrefixOfAnother(t *testing.T) {
	var domains []string
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Domain") {
				return true
			}
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s: write the domain out", spec.Names[0].Name)
			}
			domain, err := strconv.Unquote(lit.Value)
			if typ, _ := spec.Type.(*ast.Ident); err != nil || typ == nil || typ.Name != "Domain" {
				t.Fatalf("%s: give it the type Domain", spec.Names[0].Name)
			}
			domains = append(domains, domain)
			return true
		})
	}
	if !slices.Contains(domains, string(DomainRecord)) {
		t.Fatalf("found only %q", domains)
	}
	form := regexp.MustCompile(`^tidings/[a-z-]+/[0-9]+$`)
	for i, d := range domains {
		if !form.MatchString(d) {
			t.Errorf("domain %q is not of the form tidings/name/version", d)
		}
		for j, e := range domains {
			if i != j && strings.HasPrefix(d+"\x00", e+"\x00") {
				t.Errorf("domain %q begins with %q", d, e)
			}
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	signer := NewSigner(key(1), home)
	s := signer.Sign(testDomain, []byte("payload"))
	f.Add(s.Raw)
	f.Add(field(slices.Clone(s.Raw), 2, []byte("other")))
	f.Add(append(slices.Clone(s.Raw), 9<<3|3, 9<<3|4))
	v := NewVerifier(home)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m wirepb.Envelope
		right := proto.Unmarshal(raw, &m) == nil && len(m.Key) == ed25519.PublicKeySize &&
			ed25519.Verify(m.Key, signedBytes(testDomain, home, m.Payload), m.Signature)
		got, err := v.Open(testDomain, raw)
		switch {
		case right != (err == nil):
			t.Fatalf("right by the specification: %v; opened: %v", right, err)
		case err != nil && !errors.Is(err, ErrEnvelope) && !errors.Is(err, ErrSignature):
			t.Fatalf("error of no kind: %v", err)
		case err == nil && (!bytes.Equal(m.Key, got.Key) || !bytes.Equal(m.Payload, got.Payload)):
			t.Fatalf("opened %x by %x, by the specification %x by %x", got.Payload, got.Key, m.Payload, m.Key)
		case err == nil && got.Key.Equal(s.Key) && !bytes.Equal(got.Payload, s.Payload):
			t.Fatalf("forged: %q", got.Payload)
		}
	})
}

// OpenAll finds the envelopes valid that crypto/ed25519 finds valid, wherever the wrong ones stand and whatever is wrong with them. So does
// a caching verifier, whether it remembers none of them, some or all. Nothing is returned of an envelope that is wrong.
func TestOpenAllAgreesWithTheSpecification(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	caching := NewCachingVerifier(NewVerifier(home), 1000)
	kinds := map[error]int{}
	for round := range 200 {
		raws := make([][]byte, rng.IntN(12))
		for i := range raws {
			raws[i] = NewSigner(key(byte(rng.IntN(4))), home).Sign(testDomain, []byte{byte(round), byte(i)}).Raw
			if rng.IntN(10) == 0 {
				raws[i][rng.IntN(len(raws[i]))] ^= 1 << rng.IntN(8)
			}
		}
		for i := range len(raws) / 3 {
			_, _ = caching.Open(testDomain, raws[3*i])
		}
		for name, v := range map[string]Verifier{"plain": NewVerifier(home), "caching": caching, "caching again": caching} {
			for i, got := range v.OpenAll(testDomain, raws) {
				var m wirepb.Envelope
				parsed := proto.Unmarshal(raws[i], &m) == nil && len(m.Key) == ed25519.PublicKeySize && len(m.Signature) == ed25519.SignatureSize
				var want error
				switch {
				case !parsed:
					want = ErrEnvelope
				case !ed25519.Verify(m.Key, signedBytes(testDomain, home, m.Payload), m.Signature):
					want = ErrSignature
				}
				kinds[want]++
				if !errors.Is(got.Err, want) || (got.Err == nil) != (want == nil) {
					t.Fatalf("%s, round %d, envelope %d of %d: %v, not %v", name, round, i, len(raws), got.Err, want)
				}
				if want == nil && (!bytes.Equal(got.Payload, m.Payload) || !bytes.Equal(got.Key, m.Key) || !bytes.Equal(got.Raw, raws[i])) {
					t.Fatalf("%s, round %d, envelope %d of %d has another content", name, round, i, len(raws))
				}
				if want != nil && (got.Payload != nil || got.Key != nil || got.Raw != nil) {
					t.Fatalf("%s, round %d, envelope %d of %d is wrong and has a content", name, round, i, len(raws))
				}
			}
		}
	}
	if len(kinds) != 3 {
		t.Errorf("not all kinds of envelopes were tried: %v", kinds)
	}
}
