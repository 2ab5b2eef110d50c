package libp2p

import (
	"net/netip"
	"sync/atomic"
	"time"

	"code.dny.dev/ssrf"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// special knows IANA's registries of special-purpose addresses, and besides them a public address that one large cloud
// uses privately.
var special = ssrf.New(ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// isPublic reports whether an address belongs to one host of the public Internet.
func isPublic(ip netip.Addr) bool {
	return ip.IsValid() && special.SafeAddr(ip.Unmap().WithZone("")) == nil
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
