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

// addressEvery is how often a host looks whether its machine's addresses have changed: a laptop in another
// network, a new lease. The system tells nothing to what only listens, and a connection from an address that is
// gone looks alive until its peer has been silent for long.
const addressCheckInterval = 5 * time.Second

// watchAddresses looks for changes of the machine's addresses until ctx ends.
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

// machineAddresses returns the addresses of the machine's interfaces in order, or nil if they are not known now.
// Loopback and link-local addresses are left out. They lead to no other network, and each start and stop of a
// container or virtual machine brings or takes a link-local one.
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

// moved closes the connections that began at addresses which are gone, so that their links dial anew from where
// the machine is now, and has the host proven reachable at its new addresses.
func (h *Host) onAddressChange(lost []netip.Addr) {
	stale := h.slots.withLocalAddr(h.host.Network().Conns(), lost)
	if len(stale) > 0 {
		h.addressLostAt.Store(time.Now().UnixNano())
		var closing sync.WaitGroup
		for _, c := range stale {
			closing.Go(func() { _ = c.Close() }) // it is dead already
		}
		closing.Wait() // Close ends the socket first and does not wait for the peer
	}
	h.reachability.forgetAddrs(lost)
	h.log.Info("this machine's addresses changed", "lost_addresses", len(lost), "closed_connections", len(stale))
	h.links.wakeAll()
	select {
	case h.addressesChanged <- struct{}{}:
	default: // it is noted already
	}
	if e := h.events.Load(); e != nil && e.AddressesChanged != nil {
		e.AddressesChanged()
	}
}

// hasMoved says whether connections that end now do so because the machine lost the addresses at which they began.
// Their peers are alive.
func (h *Host) justLostAddress() bool {
	return time.Since(time.Unix(0, h.addressLostAt.Load())) < addressCheckInterval
}

// localAddress returns the address of this machine at which a connection begins, or the zero Addr if it is not known.
// The socket of a QUIC connection is usually bound to all addresses, so the kernel is asked which address it sends
// from to the remote.
func localAddress(c network.Conn) netip.Addr {
	local, ok := ipOf(c.LocalMultiaddr())
	if !ok || !local.IsUnspecified() {
		return local
	}
	remote, ok := ipOf(c.RemoteMultiaddr())
	if !ok {
		return netip.Addr{}
	}
	const anyPort = 9 // connecting a UDP socket sends nothing
	u, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, anyPort)))
	if err != nil {
		return netip.Addr{}
	}
	defer u.Close()
	return u.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// leaveBehind closes a connection to a peer that has begun to speak from another address in its place. The older one
// is most likely dead, and takes for long what is sent on it.
func (h *Host) closeReplaced(older, newer network.Conn) {
	oldIP, err := manet.ToIP(older.RemoteMultiaddr())
	if err != nil {
		return
	}
	if newIP, err := manet.ToIP(newer.RemoteMultiaddr()); err == nil && !newIP.Equal(oldIP) {
		h.background(func() { _ = older.Close() }) // it is dead already
	}
}
