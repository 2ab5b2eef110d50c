package libp2p

import (
	"net/netip"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"

	"tidings/internal/env"
)

// A connection whose socket is bound to all addresses is closed if the address from which it sends is lost, and
// stays open if any other address is lost.
func TestOnlyConnectionsFromALostAddressAreClosed(t *testing.T) {
	t.Parallel()
	everywhere := func(c *Config) { c.Listen = []string{"/ip4/0.0.0.0/udp/0/quic-v1"} }
	for _, direction := range []network.Direction{network.DirInbound, network.DirOutbound} {
		t.Run(direction.String(), func(t *testing.T) {
			t.Parallel()
			a, b := startTestHost(t, everywhere), startTestHost(t, func(c *Config) { c.Listen = onQUIC })
			if direction == network.DirOutbound {
				a.Send(b.Peer(), env.Control, []byte("hello"))
				next(t, "a frame", b.frames)
			} else {
				_, port := multiaddr.SplitFirst(a.host.Network().ListenAddresses()[0])
				at := multiaddr.StringCast("/ip4/127.0.0.1").Encapsulate(port)
				b.Send(env.Peer{ID: a.ID(), Addrs: []string{string(at.Bytes())}}, env.Control, []byte("hello"))
				next(t, "a frame", a.frames)
			}
			conns := a.host.Network().Conns()
			if len(conns) != 1 || conns[0].Stat().Direction != direction {
				t.Fatalf("connections: %v", conns)
			}
			if local, ok := ipOf(conns[0].LocalMultiaddr()); !ok || !local.IsUnspecified() {
				t.Fatalf("the connection is bound to %v", local)
			}
			a.onAddressChange([]netip.Addr{netip.MustParseAddr("fe80::1234"), netip.MustParseAddr("10.9.9.9")})
			if conns[0].IsClosed() || a.justLostAddress() {
				t.Error("another address is lost, and the connection is closed")
			}
			a.onAddressChange([]netip.Addr{netip.MustParseAddr("127.0.0.1")})
			if !conns[0].IsClosed() || !a.justLostAddress() {
				t.Error("the connection's address is lost, and it is not closed")
			}
		})
	}
}

// Adding or removing a loopback or link-local address does not count as a change.
func TestLocalAddressesAreNotWatched(t *testing.T) {
	t.Parallel()
	for _, a := range machineAddresses() {
		if a.IsLoopback() || a.IsLinkLocalUnicast() {
			t.Errorf("%v is watched", a)
		}
	}
}
