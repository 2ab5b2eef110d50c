package overlay

import (
	"crypto/ed25519"
	"net/netip"
	"slices"
	"strconv"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// What the id of a member is made of decides how many places in the network one attacker can have
// (wire.Network.IDs). A client is in no table and owns nothing, so its id is always the hash of its
// key.
const (
	// slots is the number of places of one block of addresses: a few members behind one router, or
	// in one rack. Each more is one more for an attacker.
	slots = 4
	// placeBits is the length of the part of an id that names its place in a network of address
	// ids: 128 bits of the hash of block and slot. The rest is of the key's hash, so that two nodes
	// never have one id. Of several members with one place only the one with the smallest id counts.
	placeBits = Bits / 2
)

// Blocks of addresses: the part of an address that one customer of a provider gets, and the part that
// a provider gets. See ../docs/decisions/026-ids.md.
const (
	blockBits4, blockBits6       = 24, 48
	providerBits4, providerBits6 = 16, 32
)

// BlockOf returns the block of an IP address that an id is made of: /24 for IPv4, /48 for IPv6.
func BlockOf(ip netip.Addr) netip.Prefix { return prefixOf(ip, blockBits4, blockBits6) }

// providerOf returns the larger block of which at most one member owns a key: /16 or /32.
func providerOf(block netip.Prefix) netip.Prefix {
	return prefixOf(block.Addr(), providerBits4, providerBits6)
}

func prefixOf(ip netip.Addr, bits4, bits6 int) netip.Prefix {
	ip = ip.Unmap()
	bits := bits6
	if ip.Is4() {
		bits = bits4
	}
	p, _ := ip.Prefix(bits) // fails only for the zero address, whose prefix is the zero one
	return p
}

// AddressID returns the id of a member of a network of address ids.
func AddressID(network string, block netip.Prefix, slot int, peer env.PeerID) ID {
	place, key := hash(network, "address", block.String()+" "+strconv.Itoa(slot)), NodeID(network, peer)
	copy(key[:placeBits/8], place[:])
	return key
}

// samePlace reports whether two ids of a network of address ids have one place.
func samePlace(a, b ID) bool { return a != b && a.Common(b) >= placeBits }

// addressOf returns the IP address of a multiaddr in binary form, or the zero one if it does not begin
// with an address.
func addressOf(multiaddr string) netip.Addr {
	const ip4, ip6 = 0x04, 0x29 // codes of the table of multicodecs
	switch {
	case len(multiaddr) >= 5 && multiaddr[0] == ip4:
		return netip.AddrFrom4([4]byte([]byte(multiaddr[1:5])))
	case len(multiaddr) >= 17 && multiaddr[0] == ip6:
		return netip.AddrFrom16([16]byte([]byte(multiaddr[1:17]))).Unmap()
	}
	return netip.Addr{}
}

// chooseBlock returns the block for a node with these addresses, and those of them that are in it. The
// present block stays while the node has an address in it. Otherwise public addresses come first, and of
// these IPv4, which more nodes can dial.
func chooseBlock(addrs []string, present netip.Prefix) (block netip.Prefix, within []string) {
	best := 0
	for _, a := range addrs {
		b := BlockOf(addressOf(a))
		if !b.IsValid() {
			continue
		}
		rank := 1
		if ip := b.Addr(); ip.IsGlobalUnicast() && !ip.IsPrivate() {
			rank += 2
		}
		if b.Addr().Is4() {
			rank++
		}
		if b == present {
			rank = 5
		}
		if rank > best {
			best, block = rank, b
		}
	}
	return block, slices.DeleteFunc(slices.Clone(addrs), func(a string) bool {
		return !block.IsValid() || BlockOf(addressOf(a)) != block
	})
}

// identities derive ids from records in one network.
type identities struct {
	network     string
	ids         string // wire.Network.IDs
	authorities []ed25519.PublicKey
	verify      wire.Verifier
}

func newIdentities(n wire.Network, verify wire.Verifier) identities {
	keys, _ := n.AuthorityKeys() // Network.Check has checked them
	return identities{n.Name, n.IDs, keys, verify}
}
