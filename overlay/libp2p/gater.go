package libp2p

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// privateRanges holds the addresses that do not belong to one host of the public Internet: IANA's special-purpose
// registries, and the ranges that embed another address.
var privateRanges = mustParsePrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"::/8",             // unspecified, loopback, IPv4-compatible
	"64:ff9b::/96",     // NAT64
	"64:ff9b:1::/48",   // NAT64, local
	"100::/64",         // discard
	"2001::/23",        // Teredo, benchmarks, ORCHID
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4
	"3fff::/20",        // documentation
	"5f00::/16",        // segment routing
	"fc00::/7",         // unique local
	"fe80::/9",         // link-local, site-local
	"ff00::/8",         // multicast
	"168.63.129.16/32", // a public address that one large cloud uses privately
)

func mustParsePrefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// isPublic reports whether an address belongs to the public Internet.
func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, p := range privateRanges {
		if p.Contains(ip) {
			return false
		}
	}
	return ip.IsValid()
}

// ipOf returns the IP address at the start of a multiaddr.
func ipOf(a ma.Multiaddr) (netip.Addr, bool) {
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(ip)
	return addr.Unmap(), ok
}

// A gater decides which connections are allowed. It prevents strangers from making a node dial private addresses.
// Connections from private addresses are allowed, because they do no harm: they come from a proxy or the router.
type gater struct {
	reputations    *reputations
	refuseInbound  bool
	bootstrapIPs   map[netip.Addr]bool // IP addresses in Config.Bootstrap
	bootstrapPeers map[peer.ID]bool    // peers in Config.Bootstrap
	allowPrivate   atomic.Bool         // private addresses may be dialled and announced
	pending        pendingHandshakes
}

func newGater(c Config, ledger *reputations, bootstrap []peer.AddrInfo) *gater {
	g := &gater{reputations: ledger, refuseInbound: c.RefuseInbound, bootstrapIPs: map[netip.Addr]bool{}, bootstrapPeers: map[peer.ID]bool{}}
	g.allowPrivate.Store(c.PrivateAddresses || c.MDNS)
	for _, info := range bootstrap {
		g.bootstrapPeers[info.ID] = true
		for _, a := range info.Addrs {
			if ip, ok := ipOf(a); ok {
				g.bootstrapIPs[ip] = true
			}
		}
	}
	return g
}

// allowed reports whether an address may be dialled, or given to other nodes.
func (g *gater) allowed(ip netip.Addr) bool {
	return g.allowPrivate.Load() && !ip.IsMulticast() && !ip.IsUnspecified() || isPublic(ip)
}

// filter returns the addresses that may be dialled, or given to other nodes. DNS names pass, because the addresses
// that they resolve to are checked again.
func (g *gater) filter(addrs []ma.Multiaddr) []ma.Multiaddr {
	var out []ma.Multiaddr
	for _, a := range addrs {
		if ip, ok := ipOf(a); !ok || g.allowed(ip) {
			out = append(out, a)
		}
	}
	return out
}

func (g *gater) InterceptPeerDial(p peer.ID) bool { return !g.reputations.isBlocked(p, time.Now()) }

func (g *gater) InterceptAddrDial(_ peer.ID, a ma.Multiaddr) bool {
	ip, ok := ipOf(a)
	return ok && (g.allowed(ip) || g.bootstrapIPs[ip])
}

// InterceptAccept bounds the handshakes that an address block has in progress, so that others have room.
func (g *gater) InterceptAccept(c network.ConnMultiaddrs) bool {
	return !g.refuseInbound && g.pending.begin(c.RemoteMultiaddr(), time.Now())
}

// InterceptSecured refuses blocked peers, and peers whose identity is not an Ed25519 key, because their signatures
// could not be verified.
func (g *gater) InterceptSecured(_ network.Direction, p peer.ID, _ network.ConnMultiaddrs) bool {
	_, err := wire.PublicKeyOf(env.PeerID(p))
	return err == nil && !g.reputations.isBlocked(p, time.Now())
}

func (g *gater) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }
