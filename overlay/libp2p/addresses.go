package libp2p

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"
)

// addressCheckInterval is how often a host checks whether its machine's addresses have changed, as when a laptop
// joins another network. The system does not tell a listening socket, and a connection from a lost address looks
// alive until the peer has been silent for long.
const addressCheckInterval = 5 * time.Second

// watchAddresses checks the machine's addresses until ctx ends.
func (h *Host) watchAddresses(ctx context.Context) {
	before := machineAddresses()
	tick := time.NewTicker(addressCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := machineAddresses()
		if now == nil || slices.Equal(before, now) {
			continue
		}
		var lost []netip.Addr
		for _, a := range before {
			if !slices.Contains(now, a) {
				lost = append(lost, a)
			}
		}
		before = now
		h.onAddressChange(lost)
	}
}

// machineAddresses returns the sorted addresses of the machine's interfaces, or nil if they cannot be read now.
// Loopback and link-local addresses are left out. They lead to no other network, and each start and stop of a
// container or virtual machine adds or removes a link-local one.
func machineAddresses() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	addrs := []netip.Addr{}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().IsGlobalUnicast() {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

// onAddressChange closes the connections from lost addresses, so that their links dial again from the new ones, and
// starts a new test of whether the host is reachable.
func (h *Host) onAddressChange(lost []netip.Addr) {
	stale := h.slots.withLocalAddr(h.host.Network().Conns(), lost)
	if len(stale) > 0 {
		h.addressLostAt.Store(time.Now().UnixNano())
		var closing sync.WaitGroup
		for _, c := range stale {
			closing.Go(func() { _ = c.Close() }) // the connection is dead
		}
		closing.Wait() // Close closes the socket first and does not wait for the peer
	}
	h.reachability.forgetAddrs(lost)
	h.log.Info("this machine's addresses changed", "lost_addresses", len(lost), "closed_connections", len(stale))
	h.links.wakeAll()
	signal(h.addressesChanged)
	if e := h.events.Load(); e != nil && e.AddressesChanged != nil {
		e.AddressesChanged()
	}
}

// justLostAddress reports whether connections that end now do so because the machine lost their local address.
// Their peers are then alive.
func (h *Host) justLostAddress() bool {
	return time.Since(time.Unix(0, h.addressLostAt.Load())) < addressCheckInterval
}

// localAddress returns the local IP address of a connection, or the zero Addr if it is unknown. The socket of a
// QUIC connection is usually bound to all addresses, so the kernel is asked from which address it sends to the
// remote.
func localAddress(c network.Conn) netip.Addr {
	local, ok := ipOf(c.LocalMultiaddr())
	if !ok || !local.IsUnspecified() {
		return local
	}
	remote, ok := ipOf(c.RemoteMultiaddr())
	if !ok {
		return netip.Addr{}
	}
	const anyPort = 9 // connecting a UDP socket sends no packet
	u, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, anyPort)))
	if err != nil {
		return netip.Addr{}
	}
	defer u.Close()
	return u.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// closeReplaced closes a connection to a peer that now uses another address. The older connection is most likely
// dead, and would still accept data for a long time.
func (h *Host) closeReplaced(older, newer network.Conn) {
	oldIP, err := manet.ToIP(older.RemoteMultiaddr())
	if err != nil {
		return
	}
	if newIP, err := manet.ToIP(newer.RemoteMultiaddr()); err == nil && !newIP.Equal(oldIP) {
		h.background(func() { _ = older.Close() }) // the connection is dead
	}
}
