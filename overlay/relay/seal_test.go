package relay

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hpke"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/relay/relaypb"
)

// pair returns the sealers of a reader and an exit.
func pair(t testing.TB, rng *rand.Rand) (reader, exit *sealer) {
	own, private := newKey(rng), newKey(rng)
	reader, err := newSealer(own.PublicKey().Bytes(), sender{own, private.PublicKey()}, true)
	if err != nil {
		t.Fatal(err)
	}
	if exit, err = newSealer(own.PublicKey().Bytes(), private, false); err != nil {
		t.Fatal(err)
	}
	return reader, exit
}

// The keys of both ends are those that HPKE's own sender and recipient agree on.
func TestKeysAreThoseOfHPKE(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	opens := func(secret []byte, d *relaypb.Data) {
		t.Helper()
		block, err := aes.NewCipher(secret)
		if err != nil {
			t.Fatal(err)
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gcm.Open(nil, nonce(d.Number), d.Sealed, nil); err != nil {
			t.Error(err)
		}
	}
	seal := func(s *sealer) *relaypb.Data {
		t.Helper()
		d, err := s.seal(&relaypb.Passage{Frame: []byte("frame")})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}

	private := newKey(rng)
	public, err := hpke.NewDHKEMPublicKey(private.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	encapsulated, standard, err := hpke.NewSender(public, hpke.HKDFSHA256(), hpke.ExportOnly(), []byte(contextInfo))
	if err != nil {
		t.Fatal(err)
	}
	exit, err := newSealer(encapsulated, private, false)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := standard.Export("to the reader", 32)
	if err != nil {
		t.Fatal(err)
	}
	opens(secret, seal(exit))

	own := newKey(rng)
	reader, err := newSealer(own.PublicKey().Bytes(), sender{own, private.PublicKey()}, true)
	if err != nil {
		t.Fatal(err)
	}
	key, err := hpke.NewDHKEMPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	recipient, err := hpke.NewRecipient(own.PublicKey().Bytes(), key, hpke.HKDFSHA256(), hpke.ExportOnly(), []byte(contextInfo))
	if err != nil {
		t.Fatal(err)
	}
	if secret, err = recipient.Export("to the exit", 32); err != nil {
		t.Fatal(err)
	}
	opens(secret, seal(reader))
}

// A middle sees a few sizes only, and can neither change a frame nor send it back.
func TestSealedFramesHaveFewSizes(t *testing.T) {
	reader, exit := pair(t, rand.New(rand.NewPCG(3, 4)))
	seen := map[int]bool{}
	for n := 0; n < maxSealed+100; n += 97 {
		p := &relaypb.Passage{Peer: []byte("peer"), Frame: bytes.Repeat([]byte{7}, n)}
		d, err := reader.seal(p)
		if 4+proto.Size(p) > maxSealed {
			if !errors.Is(err, errTooLarge) {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[len(d.Sealed)] = true
		if _, err := parse(wire.Encode(&relaypb.Message{Body: &relaypb.Message_Data{Data: d}})); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		wire.AppendFrame(nil, wire.Relay, &relaypb.Message{Body: &relaypb.Message_Data{Data: d}}) // panics if it is too large
		if _, err := reader.open(d); !errors.Is(err, errSealed) {
			t.Errorf("%d bytes came back: %v", n, err)
		}
		d.Sealed[n%len(d.Sealed)]++
		if _, err := exit.open(d); !errors.Is(err, errSealed) {
			t.Errorf("%d changed bytes: %v", n, err)
		}
		d.Sealed[n%len(d.Sealed)]--
		if got, err := exit.open(d); err != nil || !proto.Equal(got, p) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if len(seen) != len(sizes) {
		t.Errorf("sizes %v, want %d", seen, len(sizes))
	}
}

// Each frame counts once. It may be late, but not very late.
func TestFramesAreNotRepeated(t *testing.T) {
	reader, exit := pair(t, rand.New(rand.NewPCG(11, 12)))
	var frames []*relaypb.Data
	for range replayWindow + 2 {
		d, err := reader.seal(&relaypb.Passage{Frame: []byte("frame")})
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, d)
	}
	for _, i := range []int{1, 0, replayWindow, 2, replayWindow - 1} {
		if _, err := exit.open(frames[i]); err != nil {
			t.Errorf("frame %d: %v", i, err)
		}
		if _, err := exit.open(frames[i]); !errors.Is(err, errReplayed) {
			t.Errorf("frame %d again: %v", i, err)
		}
	}
	late := frames[3]
	if _, err := exit.open(frames[replayWindow+1]); err != nil { // takes the place of frame 1
		t.Error(err)
	}
	if _, err := exit.open(frames[1]); !errors.Is(err, errReplayed) {
		t.Errorf("an old frame after a new one: %v", err)
	}
	if _, err := exit.open(late); err != nil {
		t.Errorf("a late frame: %v", err)
	}
}

func TestMetersMeasureOut(t *testing.T) {
	const rate, burst = 100, 1000
	now, m := time.Unix(1, 0), meter{}
	for i, c := range []struct {
		wait time.Duration
		n    int
		want bool
	}{
		{0, 1000, true}, {0, 1, false}, {time.Second, 101, false}, {0, 100, true}, {time.Hour, 1001, false}, {0, 1000, true},
	} {
		now = now.Add(c.wait)
		if got := m.allow(now, c.n, rate, burst); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}

func TestMessagesHaveBounds(t *testing.T) {
	type body = relaypb.Message
	data := func(d *relaypb.Data) *body { return &body{Body: &relaypb.Message_Data{Data: d}} }
	for _, c := range []struct {
		what   string
		within bool
		m      *body
	}{
		{"nothing", false, &body{}},
		{"open", true, &body{Body: &relaypb.Message_Open{Open: &relaypb.Open{Exit: make([]byte, overlay.MaxRecord)}}}},
		{"long record", false, &body{Body: &relaypb.Message_Open{Open: &relaypb.Open{Exit: make([]byte, overlay.MaxRecord+1)}}}},
		{"opened", true, &body{Body: &relaypb.Message_Opened{Opened: &relaypb.Opened{Key: make([]byte, maxEnvelope)}}}},
		{"long key", false, &body{Body: &relaypb.Message_Opened{Opened: &relaypb.Opened{Key: make([]byte, maxEnvelope+1)}}}},
		{"data", true, data(&relaypb.Data{Encapsulated: make([]byte, keySize), Sealed: make([]byte, sizes[0]+overhead)})},
		{"short encapsulated key", false, data(&relaypb.Data{Encapsulated: make([]byte, 31), Sealed: make([]byte, sizes[0]+overhead)})},
		{"data of another size", false, data(&relaypb.Data{Sealed: make([]byte, sizes[0]+overhead+1)})},
		{"no data", false, data(&relaypb.Data{})},
		{"close", true, &body{Body: &relaypb.Message_Close{Close: &relaypb.Close{}}}},
		{"forward", true, &body{Body: &relaypb.Message_Forward{Forward: &relaypb.Forward{Voucher: make([]byte, maxEnvelope)}}}},
		{"long voucher", false, &body{Body: &relaypb.Message_Forward{Forward: &relaypb.Forward{Voucher: make([]byte, maxEnvelope+1)}}}},
		{"return", true, &body{Body: &relaypb.Message_Return{Return: &relaypb.Return{Guest: make([]byte, maxPeerID)}}}},
		{"long guest", false, &body{Body: &relaypb.Message_Return{Return: &relaypb.Return{Guest: make([]byte, maxPeerID+1)}}}},
	} {
		if _, err := parse(wire.Encode(c.m)); (err == nil) != c.within || err != nil && !errors.Is(err, env.ErrFrame) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	for _, c := range []struct {
		what   string
		within bool
		p      *relaypb.Passage
	}{
		{"passage", true, &relaypb.Passage{Peer: make([]byte, maxPeerID), Addresses: [][]byte{make([]byte, maxAddress)}, Voucher: make([]byte, maxEnvelope)}},
		{"long peer", false, &relaypb.Passage{Peer: make([]byte, maxPeerID+1)}},
		{"long address", false, &relaypb.Passage{Addresses: [][]byte{make([]byte, maxAddress+1)}}},
		{"many addresses", false, &relaypb.Passage{Addresses: make([][]byte, maxAddresses+1)}},
		{"long voucher", false, &relaypb.Passage{Voucher: make([]byte, maxEnvelope+1)}},
	} {
		if _, err := parsePassage(wire.Encode(c.p)); (err == nil) != c.within {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// FuzzMessage parses any bytes as a message: an accepted message is within bounds and survives encoding.
func FuzzMessage(f *testing.F) {
	reader, _ := pair(f, rand.New(rand.NewPCG(5, 6)))
	d, err := reader.seal(&relaypb.Passage{Frame: []byte("frame")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	for _, m := range []*relaypb.Message{
		{Body: &relaypb.Message_Open{Open: &relaypb.Open{Circuit: 1, Exit: []byte("record")}}},
		{Body: &relaypb.Message_Opened{Opened: &relaypb.Opened{Circuit: 1, Key: []byte("key")}}},
		{Body: &relaypb.Message_Data{Data: d}},
		{Body: &relaypb.Message_Forward{Forward: &relaypb.Forward{Voucher: []byte("voucher"), Frame: []byte("frame")}}},
		{Body: &relaypb.Message_Return{Return: &relaypb.Return{Guest: []byte("guest"), Frame: []byte("frame")}}},
	} {
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		back, err := parse(wire.Encode(m))
		if err != nil || !proto.Equal(m, back) {
			t.Errorf("%v came back as %v: %v", m, back, err)
		}
	})
}

// FuzzSealed opens any bytes as what a reader has sealed: an accepted passage is within bounds, and comes out of the
// bytes that sealing it makes.
func FuzzSealed(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 2, 1, 2, 0, 0})
	f.Add(append([]byte{0, 0, 0, 4}, wire.Encode(&relaypb.Passage{Peer: []byte("ab")})...))
	reader, exit := pair(f, rand.New(rand.NewPCG(7, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := unpad(b)
		if err != nil {
			return
		}
		if len(p.Addresses) > maxAddresses || len(p.Voucher) > maxEnvelope {
			t.Errorf("%v is out of bounds", p)
		}
		d, err := reader.seal(p)
		if err != nil {
			return // it is larger than a circuit carries
		}
		if back, err := exit.open(d); err != nil || !proto.Equal(back, p) {
			t.Errorf("%v came back as %v: %v", p, back, err)
		}
	})
}

// FuzzKey takes any bytes as a key that the other end has sent.
func FuzzKey(f *testing.F) {
	f.Add(make([]byte, keySize))
	private := newKey(rand.New(rand.NewPCG(9, 10)))
	f.Add(private.PublicKey().Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := newSealer(b, private, false); err == nil && (s == nil || len(b) != keySize) {
			t.Errorf("a key of %d bytes", len(b))
		}
		if public, err := ecdh.X25519().NewPublicKey(b); err == nil {
			_, _ = newSealer(private.PublicKey().Bytes(), sender{private, public}, true)
		}
	})
}
