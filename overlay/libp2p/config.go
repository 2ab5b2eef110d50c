package libp2p

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"tidings/internal/env"
)

// Config says who a host is and where it may look for others.
type Config struct {
	// Key is the node's identity.
	Key ed25519.PrivateKey
	// Listen holds multiaddrs of TCP and QUIC to listen at.
	Listen []string
	// Descriptor is the network's, as wire.Network.Descriptor makes it. Nil:
	// not known yet, Join asks for it.
	Descriptor []byte
	// Name is the name of the network to join if there is no descriptor;
	// empty: whatever network the first peer belongs to.
	Name string
	// Agent is the software and its release, for other operators.
	Agent string
	// Bootstrap holds multiaddrs of peers to begin with, each ending in
	// /p2p/ and a peer id. Their IP addresses may be private in any network,
	// since the operator typed them.
	Bootstrap []string
	// Known are peers of an earlier run.
	Known []env.Peer
	// PrivateAddresses lets the host dial and announce private addresses
	// whatever the network says.
	PrivateAddresses bool
	// Founder makes the host reachable without proof: somebody has to be the
	// first.
	Founder bool
	// RefuseInbound refuses connections from outside, as a strict firewall
	// would. The node then is a client.
	RefuseInbound bool
	// MDNS looks for peers in the local network, and answers them. It implies
	// PrivateAddresses: where else would they be.
	MDNS bool
	// PortMap asks the router for a port by UPnP or NAT-PMP.
	PortMap bool
	// Urgent says which control frames go ahead of the others and are not pushed out by
	// them; nil: none. It is called from many goroutines at once.
	Urgent func(frame []byte) bool
	// Log takes what an operator should know; nil: nothing is logged.
	Log *slog.Logger
}

// DefaultConfig returns the configuration of a node that listens on the default
// port of all interfaces and knows nobody.
func DefaultConfig(key ed25519.PrivateKey) Config {
	return Config{
		Key: key,
		Listen: []string{
			"/ip4/0.0.0.0/udp/4801/quic-v1",
			"/ip4/0.0.0.0/tcp/4801",
			"/ip6/::/udp/4801/quic-v1",
			"/ip6/::/tcp/4801",
		},
		PortMap: true,
	}
}

// Events are what a host reports. They are called from many goroutines at once,
// from Run's start until it returns, and must not block; a world posts them to
// its node's loop. None but Useful may be nil.
type Events struct {
	// Receive takes a frame, which nobody will change. False: there was no
	// room for it; it is dropped and counted.
	Receive func(from env.PeerID, class env.Class, frame []byte) bool
	// Found reports a peer worth an attempt.
	Found func(env.Peer)
	// Reachable reports the addresses, as binary multiaddrs, at which peers
	// have dialled this host lately; none when they no longer can.
	Reachable func(addrs []string)
	// PeerDown hints that a connection ended or could not be made.
	PeerDown func(env.PeerID)
	// Useful asks for which peers the node has use, as members of its tables, clients or neighbours in
	// trees, when there are so many connections that some have to go. The node calls then with an answer for each, from
	// any goroutine and at most once. False: it cannot say now. Nil: it never can.
	Useful func(ids []env.PeerID, then func(useful []bool)) bool
	// Moved reports that the machine has other addresses than before; connections that began at those that
	// are gone are closed. Nil: nobody wants to know.
	AddressesChanged func()
}

// CheckAddresses says what is wrong with how Listen and Bootstrap are written, if
// anything is; not whether anybody can listen or is there.
func (c Config) CheckAddresses() error {
	for _, s := range c.Listen {
		if _, err := ma.NewMultiaddr(s); err != nil {
			return fmt.Errorf("--listen %q is not a multiaddr: give one such as /ip4/0.0.0.0/tcp/4801", s)
		}
	}
	_, err := c.bootstrap("")
	return err
}

const bootstrapHint = `give what the other node prints after "peer", such as /ip4/203.0.113.7/udp/4801/quic-v1/p2p/12D3…`

// bootstrap reads the typed addresses, leaving out self.
func (c Config) bootstrap(self peer.ID) ([]peer.AddrInfo, error) {
	var typed []ma.Multiaddr
	for _, s := range c.Bootstrap {
		a, err := ma.NewMultiaddr(s)
		switch {
		case err != nil || len(a) == 1 && a[0].Code() == ma.P_P2P:
			return nil, fmt.Errorf("--bootstrap %q is not the address of a node: %s", s, bootstrapHint)
		case a[len(a)-1].Code() != ma.P_P2P:
			return nil, fmt.Errorf("--bootstrap %q has no peer id at its end: %s", s, bootstrapHint)
		}
		typed = append(typed, a)
	}
	infos, err := peer.AddrInfosFromP2pAddrs(typed...)
	if err != nil {
		return nil, fmt.Errorf("bootstrap addresses: %w", err)
	}
	return slices.DeleteFunc(infos, func(p peer.AddrInfo) bool { return p.ID == self }), nil
}

// known reads the peers of an earlier run, leaving out self and nonsense.
func (c Config) known(self peer.ID) []peer.AddrInfo {
	var infos []peer.AddrInfo
	for _, p := range c.Known {
		if info, ok := infoOf(p); ok && info.ID != self {
			infos = append(infos, info)
		}
	}
	return infos
}

// infoOf reads a peer; false if its id or all its addresses are none.
func infoOf(p env.Peer) (peer.AddrInfo, bool) {
	info := peer.AddrInfo{ID: peer.ID(p.ID), Addrs: multiaddrs(p.Addrs)}
	return info, info.ID.Validate() == nil && len(info.Addrs) > 0
}

// multiaddrs reads binary multiaddrs and leaves out what are none.
func multiaddrs(binary []string) []ma.Multiaddr {
	var addrs []ma.Multiaddr
	for _, b := range binary {
		if a, err := ma.NewMultiaddrBytes([]byte(b)); err == nil {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// Text writes a peer id as people know it.
func PeerIDString(id env.PeerID) string { return peer.ID(id).String() }

// peerOf is the inverse of infoOf.
func peerOf(info peer.AddrInfo) env.Peer {
	p := env.Peer{ID: env.PeerID(info.ID)}
	for _, a := range info.Addrs {
		p.Addrs = append(p.Addrs, string(a.Bytes()))
	}
	return p
}
