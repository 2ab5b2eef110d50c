package overlay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strconv"
	"strings"

	"tidings/internal/env"
)

// Bits is the length of an ID, and Digits the number of its base-16 digits.
const (
	Bits   = 256
	Digits = Bits / 4
)

// An ID is a point of the id space: a node's id or a key.
type ID [Bits / 8]byte

// Key returns the key of a canonical URL, which identifies its channel and its group: the
// SHA-256 hash of the network's name and the URL.
func Key(network, url string) ID { return hash(network, "key", url) }

// StewardURL returns the name of the log of a domain's stewards, who divide the budget of
// requests to the domain. The name is not a web address.
func StewardURL(domain string) string { return stewardScheme + domain }

// StewardKey returns the key of StewardURL.
func StewardKey(network, domain string) ID { return Key(network, StewardURL(domain)) }

// StewardDomain returns the domain that a StewardURL names; ok is false for any other URL.
func StewardDomain(url string) (domain string, ok bool) {
	return strings.CutPrefix(url, stewardScheme)
}

// ShardURL returns the name of a shard of the firehose, whose owners pass on new entries of
// its channels. The name is not a web address.
func ShardURL(shard int) string { return shardScheme + strconv.Itoa(shard) }

// IsShardURL reports whether a URL is the name of a shard.
func IsShardURL(url string) bool { return strings.HasPrefix(url, shardScheme) }

const (
	stewardScheme = "steward:"
	shardScheme   = "shard:"
)

// NodeID returns the id of the node with a peer id: the SHA-256 hash of the network's name and
// the libp2p encoding of the public key, which is the peer id without its multihash header.
func NodeID(network string, peer env.PeerID) ID {
	const header = 2
	return hash(network, "node", string(peer[min(header, len(peer)):]))
}

func hash(network, kind, what string) ID {
	return sha256.Sum256([]byte(network + "\x00" + kind + "\x00" + what))
}

// String returns all digits of the id.
func (a ID) String() string { return hex.EncodeToString(a[:]) }

// Short returns the first eight digits of the id, for logs and pages.
func (a ID) Short() string { return hex.EncodeToString(a[:4]) }

// Digit returns digit i, counted from the front.
func (a ID) Digit(i int) int {
	b := a[i/2]
	if i%2 == 0 {
		return int(b >> 4)
	}
	return int(b & 15)
}

func (a *ID) setDigit(i, digit int) {
	shift := 4 * (1 - i%2)
	a[i/2] = a[i/2]&^(15<<shift) | byte(digit<<shift)
}

// Bit returns bit i, counted from the front.
func (a ID) Bit(i int) int { return int(a[i/8]>>(7-i%8)) & 1 }

// Common returns the number of leading bits that a and b share.
func (a ID) Common(b ID) int {
	for i := 0; i < len(a); i += 8 {
		x := binary.BigEndian.Uint64(a[i:]) ^ binary.BigEndian.Uint64(b[i:])
		if x != 0 {
			return i*8 + bits.LeadingZeros64(x)
		}
	}
	return Bits
}

// Nearer reports whether a is nearer to key than b is.
func Nearer(key, a, b ID) bool {
	for i := 0; i < len(key); i += 8 {
		k := binary.BigEndian.Uint64(key[i:])
		x, y := binary.BigEndian.Uint64(a[i:])^k, binary.BigEndian.Uint64(b[i:])^k
		if x != y {
			return x < y
		}
	}
	return false
}

// compare orders ids as numbers.
func compare(a, b ID) int { return bytes.Compare(a[:], b[:]) }

// prefix64 returns the first eight bytes of an id, which represent it when leaf sets are
// compared.
func (a ID) prefix64() uint64 { return binary.BigEndian.Uint64(a[:]) }
