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
const addressEvery = 5 * time.Second

// watchAddresses looks for changes of the machine's addresses until ctx ends.
func (h *Host) watchAddresses(ctx context.Context) {
	before := machineAddresses()
	tick := time.NewTicker(addressEvery)
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
		h.moved(lost)
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
	of := []netip.Addr{}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().IsGlobalUnicast() {
			of = append(of, p.Addr().Unmap())
		}
	}
	slices.SortFunc(of, netip.Addr.Compare)
	return slices.Compact(of)
}

// moved closes the connections that began at addresses which are gone, so that their links dial anew from where
// the machine is now, and has the host proven reachable at its new addresses.
func (h *Host) moved(lost []netip.Addr) {
	stranded := h.slots.beganAt(h.host.Network().Conns(), lost)
	if len(stranded) > 0 {
		h.movedAt.Store(time.Now().UnixNano())
		var closing sync.WaitGroup
		for _, c := range stranded {
			closing.Go(func() { _ = c.Close() }) // it is dead already
		}
		closing.Wait() // Close ends the socket first and does not wait for the peer
	}
	h.reach.leave(lost)
	h.log.Info("this machine's addresses changed", "lost_addresses", len(lost), "closed_connections", len(stranded))
	h.links.wakeAll()
	select {
	case h.movedOn <- struct{}{}:
	default: // it is noted already
	}
	if e := h.events.Load(); e != nil && e.AddressesChanged != nil {
		e.AddressesChanged()
	}
}

// hasMoved says whether connections that end now do so because the machine lost the addresses at which they began.
// Their peers are alive.
func (h *Host) hasMoved() bool {
	return time.Since(time.Unix(0, h.movedAt.Load())) < addressEvery
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
func (h *Host) leaveBehind(older, newer network.Conn) {
	was, err := manet.ToIP(older.RemoteMultiaddr())
	if err != nil {
		return
	}
	if is, err := manet.ToIP(newer.RemoteMultiaddr()); err == nil && !is.Equal(was) {
		h.aside(func() { _ = older.Close() }) // it is dead already
	}
}
