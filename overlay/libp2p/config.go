package libp2p

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// Config holds a host's identity, its network, and where to find other hosts. A zero field means its default.
type Config struct {
	// Key is the node's identity, an ed25519 private key. It has no default.
	Key ed25519.PrivateKey
	// Listen holds the TCP and QUIC multiaddrs to listen at. Default none: the host only dials.
	Listen []string
	// Descriptor is the network's descriptor, from wire.Network.Descriptor. Default nil: Join asks a peer for it.
	Descriptor []byte
	// Name is the name of the network to join if Descriptor is nil. Default empty: Join takes the network of the
	// first peer that answers.
	Name string
	// Agent is the name and release of the software, shown to operators of other nodes. Default empty.
	Agent string
	// Bootstrap holds multiaddrs of peers to start with, each ending in /p2p/ and a peer id. Their IP addresses may
	// be private in any network, because the operator chose them. Default none.
	Bootstrap []string
	// Known holds peers of an earlier run; those with an invalid id or address are left out. Default none.
	Known []env.Peer
	// PrivateAddresses lets the host dial and announce private addresses even if the network's descriptor forbids
	// it. Default false: strangers could otherwise make the host dial devices in the operator's own network.
	PrivateAddresses bool
	// Founder makes the host count as reachable without proof, because the first node of a network has no peer to
	// test it. Default false.
	Founder bool
	// RefuseInbound refuses inbound connections, as a strict firewall would. The node is then a client. Default
	// false.
	RefuseInbound bool
	// MDNS looks for peers in the local network and answers them. It implies PrivateAddresses, because these peers
	// have private addresses. Default false.
	MDNS bool
	// PortMap asks the router to forward a port, by UPnP or NAT-PMP. Default false.
	PortMap bool
	// Urgent reports whether a control frame is sent before the others and is not dropped in favour of them. It is
	// called from many goroutines at once. Default nil: no frame is urgent.
	Urgent func(frame []byte) bool
	// Log receives messages for the operator. Default nil: nothing is logged.
	Log *slog.Logger
}

// DefaultConfig returns the configuration of a node that listens at the default port of all interfaces and has no
// bootstrap peers.
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

// Events holds the callbacks by which a host reports events. They are called from many goroutines at once while Run
// runs, and must not block; a real node posts them to its event loop. Only Useful and AddressesChanged may be nil.
type Events struct {
	// Receive takes a frame, which is never changed afterwards. It returns false if it has no room; the frame is
	// then dropped and counted.
	Receive func(from env.PeerID, class env.Class, frame []byte) bool
	// Found reports a peer that may be worth dialling.
	Found func(env.Peer)
	// Reachable reports the addresses, as binary multiaddrs, at which peers have recently dialled this host. The
	// list is empty when they no longer can.
	Reachable func(addrs []string)
	// PeerDown hints that a connection ended or could not be made.
	PeerDown func(env.PeerID)
	// Useful asks which peers are useful to the node, as members of its tables, as clients or as tree neighbours,
	// when there are so many connections that some must be closed. The node calls then with an answer for each
	// peer, from any goroutine and at most once. Useful returns false if the node cannot answer now. It may be nil.
	Useful func(ids []env.PeerID, then func(useful []bool)) bool
	// AddressesChanged reports that the machine's addresses have changed, and that connections from lost addresses
	// were closed. It may be nil.
	AddressesChanged func()
}

// Validate returns an error that names the first wrong field. It does not try the addresses.
func (c Config) Validate() error {
	if len(c.Key) != ed25519.PrivateKeySize {
		return fmt.Errorf("libp2p: Key has %d bytes; it must have %d", len(c.Key), ed25519.PrivateKeySize)
	}
	if c.Descriptor != nil {
		if _, err := wire.ParseDescriptor(c.Descriptor); err != nil {
			return fmt.Errorf("libp2p: Descriptor: %w", err)
		}
	}
	return c.CheckAddresses()
}

// CheckAddresses returns an error if Listen or Bootstrap is malformed. It does not try the addresses.
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

// bootstrap parses the bootstrap addresses, and leaves out self.
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

// known returns the peers of an earlier run without self and without invalid ones.
func (c Config) known(self peer.ID) []peer.AddrInfo {
	var infos []peer.AddrInfo
	for _, p := range c.Known {
		if info, ok := infoOf(p); ok && info.ID != self {
			infos = append(infos, info)
		}
	}
	return infos
}

// infoOf converts a peer. It returns false if the id or all addresses are invalid.
func infoOf(p env.Peer) (peer.AddrInfo, bool) {
	info := peer.AddrInfo{ID: peer.ID(p.ID), Addrs: multiaddrs(p.Addrs)}
	return info, info.ID.Validate() == nil && len(info.Addrs) > 0
}

// multiaddrs parses binary multiaddrs, and leaves out invalid ones.
func multiaddrs(binary []string) []ma.Multiaddr {
	var addrs []ma.Multiaddr
	for _, b := range binary {
		if a, err := ma.NewMultiaddrBytes([]byte(b)); err == nil {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// ParsePeer reads the address of a node, a multiaddr that ends in /p2p/ and a peer id.
func ParsePeer(text string) (env.Peer, error) {
	info, err := peer.AddrInfoFromString(text)
	if err != nil || len(info.Addrs) == 0 {
		return env.Peer{}, fmt.Errorf("%q is not the address of a node: %s", text, bootstrapHint)
	}
	return peerOf(*info), nil
}

// ParsePeerID reads the usual text form of the peer id of a node.
func ParsePeerID(text string) (env.PeerID, error) {
	id, err := peer.Decode(text)
	if err == nil {
		_, err = wire.PublicKeyOf(env.PeerID(id))
	}
	if err != nil {
		return "", fmt.Errorf("%q: %w", text, wire.ErrPeerID)
	}
	return env.PeerID(id), nil
}

// PeerIDString returns a peer id in its usual text form.
func PeerIDString(id env.PeerID) string { return peer.ID(id).String() }

// peerOf is the inverse of infoOf.
func peerOf(info peer.AddrInfo) env.Peer {
	p := env.Peer{ID: env.PeerID(info.ID)}
	for _, a := range info.Addrs {
		p.Addrs = append(p.Addrs, string(a.Bytes()))
	}
	return p
}
