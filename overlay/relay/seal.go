package relay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/relay/relaypb"
)

// sizes are the sizes in bytes of what is sealed, padding included. A middle sees the size class of a frame and not its
// size, by which it could recognise the entries of a feed.
var sizes = [...]int{256, 1 << 10, 4 << 10, 16 << 10, maxSealed}

const (
	// maxSealed leaves room for a Data message in a frame.
	maxSealed = 63 << 10
	// overhead is what sealing adds to the size of a frame.
	overhead = 16
)

// classOf returns the smallest size class for n bytes, or 0 if there is none.
func classOf(n int) int {
	for _, size := range sizes {
		if n <= size {
			return size
		}
	}
	return 0
}

var (
	errTooLarge = errors.New("the frame is larger than a circuit carries")
	errSealed   = errors.New("the frame was not sealed by the other end of the circuit")
	errReplayed = errors.New("the frame has come before, or too many have overtaken it")
)

// newKey returns an X25519 key from a node's random source.
func newKey(rng *rand.Rand) *ecdh.PrivateKey {
	var seed [keySize]byte
	for i := 0; i < keySize; i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], rng.Uint64())
	}
	key, err := ecdh.X25519().NewPrivateKey(seed[:])
	if err != nil {
		panic(fmt.Sprintf("relay: X25519 key: %v", err)) // any 32 bytes are a key
	}
	return key
}

// A sender is the reader's half of HPKE's key encapsulation. Package hpke draws the ephemeral key of a Sender from the
// system's randomness, which a simulated node does not have. The shared secret is the same from either half, so the
// reader gives its half to a Recipient: the product of its ephemeral key and the exit's public key.
type sender struct {
	ephemeral *ecdh.PrivateKey
	exit      *ecdh.PublicKey
}

func (k sender) PublicKey() *ecdh.PublicKey { return k.exit }

func (k sender) Curve() ecdh.Curve { return ecdh.X25519() }

func (k sender) ECDH(*ecdh.PublicKey) ([]byte, error) { return k.ephemeral.ECDH(k.exit) }

// A sealer seals the frames of one end of a circuit and opens those of the other. Frames carry numbers, because
// they may be lost and overtake each other, which HPKE's own contexts do not allow for.
type sealer struct {
	sealing, opening cipher.AEAD
	circuit          []byte // what vouchers name this circuit by
	sent             uint64
	seen             [replayWindow]uint64 // the highest number opened so far of each remainder
}

// replayWindow is how many frames may overtake one that is still accepted. A frame that comes again is dropped: otherwise
// a middle could repeat it, and find the feed by watching which members are suddenly asked a hundred times.
const replayWindow = 256

// contextInfo separates these keys from all others that HPKE makes of the same secrets.
const contextInfo = "tidings relay 1"

// newSealer returns the sealer of one end, from an encapsulated key and the private half of that end.
func newSealer(encapsulated []byte, own ecdh.KeyExchanger, reader bool) (*sealer, error) {
	key, err := hpke.NewDHKEMPrivateKey(own)
	if err != nil {
		return nil, err
	}
	context, err := hpke.NewRecipient(encapsulated, key, hpke.HKDFSHA256(), hpke.ExportOnly(), []byte(contextInfo))
	if err != nil {
		return nil, err
	}
	circuit, err := context.Export("voucher", 32)
	if err != nil {
		return nil, err
	}
	var aeads [2]cipher.AEAD
	for i, direction := range []string{"to the exit", "to the reader"} {
		secret, err := context.Export(direction, 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(secret)
		if err != nil {
			return nil, err
		}
		if aeads[i], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	if !reader {
		aeads[0], aeads[1] = aeads[1], aeads[0]
	}
	return &sealer{sealing: aeads[0], opening: aeads[1], circuit: circuit}, nil
}

func nonce(number uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), number)
}

// seal seals a passage, padded to its size class.
func (s *sealer) seal(p *relaypb.Passage) (*relaypb.Data, error) {
	n := 4 + proto.Size(p)
	size := classOf(n)
	if size == 0 {
		return nil, errTooLarge
	}
	plain := binary.BigEndian.AppendUint32(make([]byte, 0, size+overhead), uint32(n-4))
	plain = append(plain, wire.Encode(p)...)[:size]
	s.sent++
	return &relaypb.Data{Number: s.sent, Sealed: s.sealing.Seal(plain[:0], nonce(s.sent), plain, nil)}, nil
}

// open returns the passage in a sealed frame.
func (s *sealer) open(d *relaypb.Data) (*relaypb.Passage, error) {
	seen := &s.seen[d.Number%replayWindow]
	if d.Number <= *seen {
		return nil, errReplayed
	}
	plain, err := s.opening.Open(nil, nonce(d.Number), d.Sealed, nil)
	if err != nil {
		return nil, errSealed
	}
	*seen = d.Number
	return unpad(plain)
}

// unpad returns the passage in what was sealed.
func unpad(plain []byte) (*relaypb.Passage, error) {
	if len(plain) < 4 || uint64(binary.BigEndian.Uint32(plain)) > uint64(len(plain)-4) {
		return nil, fmt.Errorf("%w: wrong length", env.ErrFrame)
	}
	return parsePassage(plain[4:][:binary.BigEndian.Uint32(plain)])
}
